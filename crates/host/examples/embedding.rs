//! A program that embeds the host and provides the keeper process with the first statement of `main`.
//!
//! Each input line is a program as JSON (`{"command": …, "arguments": […], "variables": {…}}`), which is started as a
//! server. For each, a line of output tells the result. The program exits when its input ends, without closing
//! anything; the keeper ends the servers. With the argument `--without-keeper` there is no keeper.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::task::JoinSet;
use toolway_host::{
    connection::{Program, ServerAddress},
    keeper::{self, CleanupGuarantee, KeeperHandle},
};
use toolway_testkit::direct_peer::{self, DirectOptions};
use toolway_wire::up::Peer;

/// An input line.
#[derive(Deserialize)]
struct Wanted {
    command: String,
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
}

fn main() -> io::Result<()> {
    keeper::run_if_keeper();
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(run())
}

async fn run() -> io::Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let (mut ends, mut peers) = (JoinSet::new(), Vec::new());
    while let Some(wanted) = next(&mut lines, &mut ends).await? {
        match direct_peer::connect(&ServerAddress::Process(wanted.program()), options()).await {
            Ok(peer) => {
                say(&json!({ "ready": peers.len(), "cleanup": cleanup() }))?;
                ends.spawn(end_of(peer.clone(), peers.len()));
                peers.push(peer);
            }
            Err(error) => say(&json!({ "failed": error.to_string(), "cleanup": cleanup() }))?,
        }
    }
    Ok(())
}

/// Waits for the next program to start, and meanwhile prints which servers end.
async fn next(lines: &mut Lines<BufReader<Stdin>>, ends: &mut JoinSet<Value>) -> io::Result<Option<Wanted>> {
    loop {
        tokio::select! {
            line = lines.next_line() => return Ok(line?.map(|line| serde_json::from_str(&line)).transpose()?),
            Some(Ok(end)) = ends.join_next() => say(&end)?,
        }
    }
}

async fn end_of(peer: Peer, number: usize) -> Value {
    json!({ "ended": number, "why": peer.closed().await.to_string() })
}

fn options() -> DirectOptions {
    DirectOptions { environment: std::env::vars_os().collect(), keeper: keeper(), ..DirectOptions::default() }
}

fn keeper() -> KeeperHandle {
    if std::env::args().any(|argument| argument == "--without-keeper") {
        KeeperHandle::disabled()
    } else {
        KeeperHandle::default()
    }
}

fn cleanup() -> String {
    match keeper().cleanup() {
        CleanupGuarantee::Full => "full".to_owned(),
        CleanupGuarantee::BestEffort { reason } => reason,
    }
}

fn say(what: &Value) -> io::Result<()> {
    writeln!(io::stdout(), "{what}")
}

// === impl Wanted ===

impl Wanted {
    fn program(self) -> Program {
        let variables = self.variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Program { arguments: self.arguments, variables: variables.collect(), ..Program::new(self.command) }
    }
}
