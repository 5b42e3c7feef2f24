//! Benchmark of the keeper: start times with and without it in the same run, and its memory.
//!
//! `cargo run --release -p toolway-host --example keeper_cost`; the figures are in `docs/decisions/0005-keeper.md`.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use tokio::io::AsyncReadExt;
use toolway_host::{
    connection::{Program, StderrTail, environment::Environment, stdio::Launcher},
    keeper::{KeeperHandle, ShutdownTimeouts, run_if_keeper},
};
use toolway_testkit::process_memory::{keeper, kilobytes};
use toolway_wire::{
    error::WireError,
    up::stdio::{ServerStreams, StreamOpener},
};

/// Number of measured starts with and without the keeper.
const STARTS: usize = 300;
/// Number of servers running while memory is measured.
const SERVERS: [usize; 3] = [1, 10, 100];

fn main() -> io::Result<()> {
    run_if_keeper();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run()).map_err(io::Error::other)
}

async fn run() -> Result<(), WireError> {
    let began = Instant::now();
    drop(open(&launcher("true", KeeperHandle::default())).await?);
    say(&format!("the first start, keeper included: {:?}", began.elapsed()));

    let (mut plain, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        plain.push(start(KeeperHandle::disabled()).await?);
        kept.push(start(KeeperHandle::default()).await?);
    }
    say(&format!("a plain start, to the end of its output: {:?}", median(&mut plain)));
    say(&format!("a kept start, to the end of its output: {:?}", median(&mut kept)));

    let launcher = launcher("cat", KeeperHandle::default());
    let mut servers: Vec<ServerStreams> = Vec::new();
    for count in SERVERS {
        while servers.len() < count {
            servers.push(open(&launcher).await?);
        }
        say(&format!(
            "the keeper of {count}: {}; ourselves: {}",
            memory(&keeper().unwrap_or_default()),
            memory("self")
        ));
    }
    Ok(())
}

async fn start(keeper: KeeperHandle) -> Result<Duration, WireError> {
    let launcher = launcher("true", keeper);
    let began = Instant::now();
    let mut streams = open(&launcher).await?;
    drop(streams.read.read(&mut [0]).await);
    let took = began.elapsed();
    if let Some(keeper) = streams.process {
        keeper.close().await;
    }
    Ok(took)
}

async fn open(launcher: &Launcher) -> Result<ServerStreams, WireError> {
    launcher.open().await
}

fn launcher(command: &str, keeper: KeeperHandle) -> Launcher {
    let environment: Environment = std::env::vars_os().collect();
    Launcher::new(Program::new(command), &environment, StderrTail::default())
        .with_keeper(keeper, ShutdownTimeouts::AT_EXIT)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn memory(pid: &str) -> String {
    let of = |name| kilobytes(pid, name).unwrap_or_default();
    format!("Rss: {} kB, Pss: {} kB", of("Rss"), of("Pss"))
}

fn say(line: &str) {
    drop(writeln!(io::stdout(), "{line}"));
}
