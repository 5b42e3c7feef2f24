//! A program of somebody else's that embeds the host: it lends its executable with the first statement of `main`.
//!
//! Each line of its input is a program as JSON (`{"command": …, "arguments": […], "variables": {…}}`), which is started
//! and shaken hands with. Its output says, line by line, what became of each. It leaves when its input ends, without
//! closing anything: the keeper sees to that. With the argument `--without-keeper` there is none.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::task::JoinSet;
use toolway_host::{
    connection::{DialOptions, Program, ServerAddress, dial},
    keeper::{self, Custodian, Custody},
};
use toolway_wire::up::Peer;

/// A line of the input.
#[derive(Deserialize)]
struct Wanted {
    command: String,
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
}

fn main() -> io::Result<()> {
    keeper::lend();
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(run())
}

async fn run() -> io::Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let (mut ends, mut peers) = (JoinSet::new(), Vec::new());
    while let Some(wanted) = next(&mut lines, &mut ends).await? {
        match dial(&ServerAddress::Process(wanted.program()), options()).await {
            Ok(peer) => {
                say(&json!({ "ready": peers.len(), "custody": custody() }))?;
                ends.spawn(end_of(peer.clone(), peers.len()));
                peers.push(peer);
            }
            Err(error) => say(&json!({ "failed": error.to_string(), "custody": custody() }))?,
        }
    }
    Ok(())
}

/// The next program to start; meanwhile, what becomes of the others is said.
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

fn options() -> DialOptions {
    DialOptions { environment: std::env::vars_os().collect(), custodian: custodian(), ..DialOptions::default() }
}

fn custodian() -> Custodian {
    if std::env::args().any(|argument| argument == "--without-keeper") {
        Custodian::nobody()
    } else {
        Custodian::default()
    }
}

fn custody() -> String {
    match custodian().custody() {
        Custody::Kept => "kept".to_owned(),
        Custody::Weaker { why } => why,
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
