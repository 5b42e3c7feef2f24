//! What the gateway holds and how it begins: a long list, memory, sessions that do nothing, servers that hang.

use std::{
    fs, io,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use super::{FEW, Line, Served, Started, TOOLS, Table, Way, served};
use crate::{measure::quartiles, peer::Era};

const MEGABYTE: f64 = 1024.0 * 1024.0;

/// A list of ten thousand tools, while the server they belong to is asleep.
pub(super) async fn list(program: &Path, table: &mut Table) -> io::Result<()> {
    let server = Started::with_tools(Way::HttpModern, TOOLS).await?;
    let entries = json!({ "many": served::entry(Way::HttpModern, Some(&server), TOOLS)? });
    let gateway = Served::start(program, entries).await?;
    gateway.offers(&["many__small".to_owned()]).await?;
    server.sleep()?;
    for era in [Era::Legacy, Era::Modern] {
        let mut load = gateway.load(era, "many").await?;
        let (mut waits, mut page) = (Vec::new(), 0);
        for _ in 0..50 {
            let (wait, reply) = load.first_byte("list").await?;
            waits.push(wait * 1e3);
            page = memchr::memmem::find_iter(&reply, b"\"inputSchema\"").count();
        }
        let name = format!("first byte of a list of {TOOLS} tools, {} client, server asleep", era.word());
        table.add(Line::at_most(&name, quartiles(waits)[1], 3.0, "ms"));
        table.add(Line::at_most(&format!("tools in a page, {} client", era.word()), page as f64, 500.0, "tools"));
    }
    Ok(())
}

/// Memory: idle, and with sessions that do nothing.
pub(super) async fn memory(program: &Path, table: &mut Table) -> io::Result<()> {
    let mut servers = Vec::new();
    for _ in 0..10 {
        servers.push(Started::with_tools(Way::HttpModern, FEW).await?);
    }
    let entry = |(number, server)| Ok((format!("s{number}"), served::entry(Way::HttpModern, Some(server), FEW)?));
    let entries = servers.iter().enumerate().map(entry).collect::<io::Result<Map<String, Value>>>()?;
    let gateway = Served::start(program, entries.into()).await?;
    gateway.offers(&names(10)).await?;
    table.add(Line::at_most("memory idle, 10 HTTP servers", settled(&gateway).await? / MEGABYTE, 25.0, "MB"));
    sessions(&gateway, table).await?;
    drop(gateway);

    let entry = |number| Ok((format!("s{number}"), served::entry(Way::StdioModern, None, FEW)?));
    let entries = (0..100).map(entry).collect::<io::Result<Map<String, Value>>>()?;
    let gateway = Served::start(program, entries.into()).await?;
    gateway.offers(&names(100)).await?;
    table.add(Line::at_most("memory idle, 100 stdio servers", settled(&gateway).await? / MEGABYTE, 60.0, "MB"));
    Ok(())
}

async fn sessions(gateway: &Served, table: &mut Table) -> io::Result<()> {
    const SESSIONS: u32 = 1_000;
    let before = settled(gateway).await?;
    let mut load = gateway.load(Era::Legacy, "s0").await?;
    for _ in 1..SESSIONS {
        if load.begin_session().await?.is_none() {
            return Err(io::Error::other("the gateway gave no session"));
        }
    }
    let with = settled(gateway).await?;
    table.add(Line::told("memory with 1,000 idle sessions", with / MEGABYTE, "MB"));
    table.add(Line::told("memory of an idle session", (with - before) / f64::from(SESSIONS) / 1024.0, "KB"));
    Ok(())
}

/// Bytes held once nothing is under way any more.
async fn settled(gateway: &Served) -> io::Result<f64> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(gateway.memory()? as f64)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("s{number}__small")).collect()
}

/// How it begins: a cold call, fifty servers, three that hang.
pub(super) async fn beginnings(program: &Path, table: &mut Table) -> io::Result<()> {
    let (mut alone, mut called) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        alone.push(server_alone().await? * 1e3);
        called.push(cold_call(program).await? * 1e3);
    }
    let more = quartiles(called)[1] - quartiles(alone)[1];
    table.add(Line::at_most("cold `toolway call` on a stdio server, over the server's own time", more, 30.0, "ms"));

    many_at_once(program, table).await?;

    let hanging = json!({ "command": "sleep", "args": ["600"] });
    let servers =
        json!({ "a": hanging, "b": hanging, "c": hanging, "s0": served::entry(Way::StdioModern, None, FEW)? });
    let begun = Instant::now();
    let gateway = Served::start(program, servers).await?;
    gateway.load(Era::Modern, "").await?.first_byte("list").await?;
    let first = begun.elapsed().as_secs_f64() * 1e3;
    table.add(Line::at_most("first answer of `serve` with three servers that hang", first, 200.0, "ms"));
    Ok(())
}

/// Fifty servers, each of which takes its time, against one of them alone.
async fn many_at_once(program: &Path, table: &mut Table) -> io::Result<()> {
    const MANY: usize = 50;
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        one.push(until_listed(program, 1).await?);
        many.push(until_listed(program, MANY).await?);
    }
    let ratio = quartiles(many)[1] / quartiles(one)[1];
    table.add(Line::at_most("connecting 50 stdio servers, against the slowest of them", ratio, 1.5, "times"));
    Ok(())
}

/// Seconds until so many servers are listed that take a quarter of a second to begin.
async fn until_listed(program: &Path, count: usize) -> io::Result<f64> {
    let entry = json!({ "command": std::env::current_exe()?, "args": ["peer", "late", "250"] });
    let entries: Map<String, Value> = (0..count).map(|number| (format!("s{number}"), entry.clone())).collect();
    let begun = Instant::now();
    let gateway = Served::start(program, entries.into()).await?;
    gateway.offers(&names(count)).await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Seconds the server takes to start and to answer once, without us.
#[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
async fn server_alone() -> io::Result<f64> {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let begun = Instant::now();
    let mut child = tokio::process::Command::new(std::env::current_exe()?)
        .args(Way::StdioModern.role(FEW))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let request = crate::raw::message(Era::Modern, "small") + "\n";
    input.write_all(request.as_bytes()).await?;
    BufReader::new(output).read_line(&mut String::new()).await?;
    Ok(begun.elapsed().as_secs_f64())
}

async fn cold_call(program: &Path) -> io::Result<f64> {
    let home = tempfile::tempdir()?;
    let config = home.path().join("toolway.json");
    fs::write(&config, json!({ "mcpServers": { "s0": served::entry(Way::StdioModern, None, FEW)? } }).to_string())?;
    let begun = Instant::now();
    let mut command = served::command(program, home.path());
    let called = command
        .arg("--config")
        .arg(&config)
        .args(["call", "s0__small", "path=/srv/demo"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .await?;
    if !called.success() {
        return Err(io::Error::other(format!("`toolway call` ended with {called}")));
    }
    Ok(begun.elapsed().as_secs_f64())
}
