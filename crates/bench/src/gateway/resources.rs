//! Resource use and startup of the gateway: a long list, memory, idle sessions, hanging servers.

use std::{
    fs, io,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use super::{FEW_TOOLS, GatewayProcess, PeerProcess, TOOLS, Table, TableRow, Way, processes};
use crate::{measure::quartiles, peer::Era};

const MEGABYTE: f64 = 1024.0 * 1024.0;

/// Rounds of the comparison.
const LIST_ROUNDS: usize = 40;

/// Whole lists, over all pages, against what answers from memory: the server itself, whose response is prepared.
pub(super) async fn whole_lists(program: &Path, table: &mut Table) -> io::Result<()> {
    for tools in [1_000, TOOLS] {
        for (era, way) in [(Era::Legacy, Way::HttpLegacy), (Era::Modern, Way::HttpModern)] {
            let server = PeerProcess::with_tools(way, tools).await?;
            let entries = json!({ "many": processes::entry(way, Some(&server), tools)? });
            let gateway = GatewayProcess::start(program, entries).await?;
            gateway.wait_for_tools(&["many__small".to_owned()]).await?;
            let (mut ours, mut theirs) = (gateway.load(era, "many").await?, server.load().await?);
            let (mut waits, mut prepared, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..LIST_ROUNDS {
                let ((wait, listed), (baseline, expected)) = (ours.list_all().await?, theirs.list_all().await?);
                if listed != expected {
                    return Err(io::Error::other(format!("{listed} of {expected} tools were listed")));
                }
                waits.push(wait * 1e3);
                prepared.push(baseline * 1e3);
                ratios.push(wait / baseline);
            }
            let name = |what: &str| format!("{what} {tools} tools, all pages, {} client", era.word());
            table.add(TableRow::without_budget(&name("from memory:"), quartiles(prepared)[1], "ms"));
            table.add(TableRow::without_budget(&name("gateway:"), quartiles(waits)[1], "ms"));
            table.add(TableRow::at_most(&name("gateway against memory:"), quartiles(ratios)[1], 1.5, "times"));
        }
    }
    Ok(())
}

/// A list of 10,000 tools while their server is suspended.
pub(super) async fn list(program: &Path, table: &mut Table) -> io::Result<()> {
    let server = PeerProcess::with_tools(Way::HttpModern, TOOLS).await?;
    let entries = json!({ "many": processes::entry(Way::HttpModern, Some(&server), TOOLS)? });
    let gateway = GatewayProcess::start(program, entries).await?;
    gateway.wait_for_tools(&["many__small".to_owned()]).await?;
    server.suspend()?;
    for era in [Era::Legacy, Era::Modern] {
        let mut load = gateway.load(era, "many").await?;
        let mut waits = Vec::new();
        for _ in 0..50 {
            waits.push(load.first_byte("list").await?.0 * 1e3);
        }
        let name = format!("first byte of a list of {TOOLS} tools, {} client, server asleep", era.word());
        table.add(TableRow::at_most(&name, quartiles(waits)[1], 3.0, "ms"));
    }
    Ok(())
}

/// Memory, idle and with idle sessions.
pub(super) async fn memory(program: &Path, table: &mut Table) -> io::Result<()> {
    let mut servers = Vec::new();
    for _ in 0..10 {
        servers.push(PeerProcess::with_tools(Way::HttpModern, FEW_TOOLS).await?);
    }
    let entry =
        |(number, server)| Ok((format!("s{number}"), processes::entry(Way::HttpModern, Some(server), FEW_TOOLS)?));
    let entries = servers.iter().enumerate().map(entry).collect::<io::Result<Map<String, Value>>>()?;
    let gateway = GatewayProcess::start(program, entries.into()).await?;
    gateway.wait_for_tools(&names(10)).await?;
    table.add(TableRow::at_most(
        "memory idle, 10 HTTP servers",
        settled_memory(&gateway).await? / MEGABYTE,
        25.0,
        "MB",
    ));
    sessions(&gateway, table).await?;
    drop(gateway);

    let entry = |number| Ok((format!("s{number}"), processes::entry(Way::StdioModern, None, FEW_TOOLS)?));
    let entries = (0..100).map(entry).collect::<io::Result<Map<String, Value>>>()?;
    let gateway = GatewayProcess::start(program, entries.into()).await?;
    gateway.wait_for_tools(&names(100)).await?;
    table.add(TableRow::at_most(
        "memory idle, 100 stdio servers",
        settled_memory(&gateway).await? / MEGABYTE,
        60.0,
        "MB",
    ));
    Ok(())
}

async fn sessions(gateway: &GatewayProcess, table: &mut Table) -> io::Result<()> {
    const SESSIONS: u32 = 1_000;
    let before = settled_memory(gateway).await?;
    let mut load = gateway.load(Era::Legacy, "s0").await?;
    for _ in 1..SESSIONS {
        if load.begin_session().await?.is_none() {
            return Err(io::Error::other("the gateway returned no session id"));
        }
    }
    let with = settled_memory(gateway).await?;
    table.add(TableRow::without_budget("memory with 1,000 idle sessions", with / MEGABYTE, "MB"));
    table.add(TableRow::without_budget(
        "memory of an idle session",
        (with - before) / f64::from(SESSIONS) / 1024.0,
        "KB",
    ));
    Ok(())
}

/// Memory in bytes once nothing is in flight.
async fn settled_memory(gateway: &GatewayProcess) -> io::Result<f64> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(gateway.memory()? as f64)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("s{number}__small")).collect()
}

/// Startup: a cold call, 50 servers, three hanging servers.
pub(super) async fn startup(program: &Path, table: &mut Table) -> io::Result<()> {
    let (mut alone, mut called) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        alone.push(time_server_start().await? * 1e3);
        called.push(time_cold_call(program).await? * 1e3);
    }
    let more = quartiles(called)[1] - quartiles(alone)[1];
    table.add(TableRow::at_most("cold `toolway call` on a stdio server, over the server's own time", more, 30.0, "ms"));

    measure_parallel_start(program, table).await?;

    let hanging = json!({ "command": "sleep", "args": ["600"] });
    let servers =
        json!({ "a": hanging, "b": hanging, "c": hanging, "s0": processes::entry(Way::StdioModern, None, FEW_TOOLS)? });
    let begun = Instant::now();
    let gateway = GatewayProcess::start(program, servers).await?;
    gateway.load(Era::Modern, "").await?.first_byte("list").await?;
    let first = begun.elapsed().as_secs_f64() * 1e3;
    table.add(TableRow::at_most("first answer of `serve` with three servers that hang", first, 200.0, "ms"));
    Ok(())
}

/// 50 slow servers against one of them.
async fn measure_parallel_start(program: &Path, table: &mut Table) -> io::Result<()> {
    const MANY: usize = 50;
    let (mut one, mut many) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        one.push(time_until_listed(program, 1).await?);
        many.push(time_until_listed(program, MANY).await?);
    }
    let ratio = quartiles(many)[1] / quartiles(one)[1];
    table.add(TableRow::at_most("connecting 50 stdio servers, against the slowest of them", ratio, 1.5, "times"));
    Ok(())
}

/// Seconds until `count` servers are listed that take 250 ms to start.
async fn time_until_listed(program: &Path, count: usize) -> io::Result<f64> {
    let entry = json!({ "command": std::env::current_exe()?, "args": ["peer", "late", "250"] });
    let entries: Map<String, Value> = (0..count).map(|number| (format!("s{number}"), entry.clone())).collect();
    let begun = Instant::now();
    let gateway = GatewayProcess::start(program, entries.into()).await?;
    gateway.wait_for_tools(&names(count)).await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Seconds that the server itself takes to start and to answer once.
#[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
async fn time_server_start() -> io::Result<f64> {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let begun = Instant::now();
    let mut child = tokio::process::Command::new(std::env::current_exe()?)
        .args(Way::StdioModern.role(FEW_TOOLS))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let request = crate::raw_client::message(Era::Modern, "small") + "\n";
    input.write_all(request.as_bytes()).await?;
    BufReader::new(output).read_line(&mut String::new()).await?;
    Ok(begun.elapsed().as_secs_f64())
}

async fn time_cold_call(program: &Path) -> io::Result<f64> {
    let home = tempfile::tempdir()?;
    let config = home.path().join("toolway.json");
    fs::write(
        &config,
        json!({ "mcpServers": { "s0": processes::entry(Way::StdioModern, None, FEW_TOOLS)? } }).to_string(),
    )?;
    let begun = Instant::now();
    let mut command = processes::command(program, home.path());
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
