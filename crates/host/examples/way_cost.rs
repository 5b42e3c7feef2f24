//! Benchmark of calls through a host against calls of a bare peer, and of connecting many servers against one.
//!
//! `way_cost calls <number>` prints microseconds per call: bare, and through a host with policy, limits and log.
//! `way_cost connect <number> <program>` prints the time to connect one server, `<number>` servers through a host, and
//! the ratio (`stdio_fixture s --slow 250` starts slowly). `way_cost memory <number> <program or address>` prints the
//! memory of an idle host with this number of servers, and of its keeper (`toolway sample --http` prints an address).
//! Build with `--release`, and compare only figures of the same run.

use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use toolway_config::Config;
use toolway_host::{
    Host, HostOptions, HostPorts,
    call::{CallRequest, Caller},
    connection::{Program, ServerAddress, WantedServer, Way},
    keeper,
    record::CallState,
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    process_memory::{self, kilobytes},
};
use toolway_wire::{
    down::DownstreamOptions,
    exchange::Outcome,
    json::Raw,
    up::{ConnectOptions, Peer, in_process},
};

type Problem = Box<dyn std::error::Error>;

/// Time limit of each measurement.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time until the host is idle.
const SETTLED: Duration = Duration::from_secs(3);
/// Number of alternating rounds.
const ROUNDS: usize = 5;

fn main() -> Result<(), Problem> {
    keeper::run_if_keeper();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["calls", number] => runtime.block_on(calls(number.parse()?)),
        ["connect", number, program] => runtime.block_on(connect(number.parse()?, program)),
        ["memory", number, place] => runtime.block_on(memory(number.parse()?, place)),
        _ => Err("usage: way_cost calls <number> | connect <number> <program> | memory <number> <place>".into()),
    }
}

async fn calls(number: usize) -> Result<(), Problem> {
    let server = FixtureServer::new("files").tool("read", "Read");
    let arguments = Raw::of(&json!({ "path": "/tmp/x" }));
    let transport = Arc::new(in_process::transport(server.service(), DownstreamOptions::default()));
    let peer = Peer::connect(transport, ConnectOptions::default()).await?;
    let wanted = WantedServer::new("files".parse()?, Way::InProcess(server.service()));
    let host = start(vec![wanted]).await?;
    let name: toolway_host::catalog::PublicName = "files__read".parse()?;
    let (mut bare, mut through) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..number {
            let outcome = peer.call_tool("read", Some(arguments.clone()))?.outcome().await;
            assert!(matches!(outcome, Outcome::Answered(_)), "{outcome:?}");
        }
        bare = bare.min(began.elapsed());
        let began = Instant::now();
        for _ in 0..number {
            let request = CallRequest::tool(Caller::Program, name.clone(), Some(arguments.clone()));
            let outcome = host.call(request).await;
            assert_eq!(outcome.state(), CallState::Succeeded, "{outcome}");
        }
        through = through.min(began.elapsed());
    }
    let each = |took: Duration| took.as_secs_f64() * 1e6 / f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    say(&format!(
        "bare {:.2} µs, through the host {:.2} µs, added {:.2} µs per call",
        each(bare),
        each(through),
        each(through) - each(bare)
    ))?;
    host.shutdown().await;
    Ok(())
}

/// Returns `number` servers of one place: a program with arguments, or a URL.
fn wanted(number: usize, place: &str) -> Result<Vec<WantedServer>, Problem> {
    let address = |index: usize| -> Result<ServerAddress, Problem> {
        if place.starts_with("http") {
            return Ok(ServerAddress::http(place.parse()?));
        }
        let mut words = place.split(' ').map(str::to_owned);
        let program = Program::new(words.next().unwrap_or_default());
        // The first argument of the fixture is its name.
        let arguments = words.collect::<Vec<_>>();
        let arguments = if arguments.is_empty() { vec![format!("s{index}")] } else { arguments };
        Ok(ServerAddress::Process(Program { arguments, ..program }))
    };
    let server = |index: usize| -> Result<WantedServer, Problem> {
        Ok(WantedServer::new(format!("s{index}").parse()?, Way::Address(address(index)?)))
    };
    (0..number).map(server).collect()
}

async fn memory(number: usize, place: &str) -> Result<(), Problem> {
    let host = start(wanted(number, place)?).await?;
    tokio::time::sleep(SETTLED).await;
    let pss = |pid: &str| kilobytes(pid, "Pss").unwrap_or_default();
    let (ours, keepers) = (pss("self"), process_memory::keeper().map_or(0, |keeper| pss(&keeper)));
    say(&format!("{number} servers: ourselves {ours} kB, the keeper {keepers} kB (Pss)"))?;
    host.shutdown().await;
    Ok(())
}

async fn connect(number: usize, program: &str) -> Result<(), Problem> {
    let alone = connected(wanted(1, program)?).await?;
    let all = connected(wanted(number, program)?).await?;
    let ratio = all.as_secs_f64() / alone.as_secs_f64();
    say(&format!("one alone {alone:?}, {number} of them {all:?}, which is {ratio:.2} times as long"))?;
    Ok(())
}

/// Time until all servers are listed.
async fn connected(servers: Vec<WantedServer>) -> Result<Duration, Problem> {
    let began = Instant::now();
    let host = start(servers).await?;
    let took = began.elapsed();
    host.shutdown().await;
    Ok(took)
}

async fn start(servers: Vec<WantedServer>) -> Result<Host, Problem> {
    let options = HostOptions { servers, environment: std::env::vars_os().collect(), ..HostOptions::default() };
    let host = Host::start(&Config::default(), HostPorts::default(), options).await?;
    let missing = host.wait_until_listed(PATIENCE).await;
    if missing.is_empty() { Ok(host) } else { Err(format!("{} servers are missing", missing.len()).into()) }
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
