//! A program that embeds the host: it reads a configuration file, edits it while running, and prints the effects. It
//! adds an in-process server and one over a custom transport.
//!
//! `embed <folder> <program>`: the file is written into the folder, and `<program>` is the server its entries start.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use toolway_config::{Config, ServerName};
use toolway_host::{
    Host, HostOptions, HostPorts,
    call::{CallRequest, Caller},
    connection::{WantedServer, Way},
    event::{CallStage, CallStageEvent, EventListener, StateEvent},
    keeper,
};
use toolway_testkit::fixture_server::FixtureServer;
use toolway_wire::{
    error::WireError,
    json::Raw,
    limit::Limits,
    up::{
        stdio::{ServerStreams, StdioTransport, StreamOpener},
        transport::Transport,
    },
};

/// A custom transport: a pair of in-memory pipes.
#[derive(Debug)]
struct Tunnel {
    server: FixtureServer,
}

type Problem = Box<dyn std::error::Error>;

fn main() -> Result<(), Problem> {
    // Must come first: ends all server processes when this program ends.
    keeper::run_if_keeper();
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(run())
}

async fn run() -> Result<(), Problem> {
    let mut words = std::env::args().skip(1);
    let (Some(folder), Some(program)) = (words.next(), words.next()) else {
        return Err("usage: embed <folder> <program>".into());
    };
    let file = PathBuf::from(folder).join("toolway.json");
    write(&file, &[("notes", json!({ "command": program, "args": ["notes"] }))])?;

    let host = Host::start(&read(&file)?, HostPorts::default(), options()?).await?;
    let mut events = (host.listen_states(), host.listen_calls());
    let missing = host.wait_until_listed(Duration::from_secs(20)).await;
    say(&format!("missing: {}", missing.len()))?;
    for status in host.servers() {
        say(&format!("{}: {} ({})", status.server, status.phase.for_operator().as_str(), status.transport.word()))?;
    }
    say(&format!("tools: {}", host.catalog().tools().len()))?;
    host.reconnect(&"here".parse()?).await?;
    for tool in ["notes__echo", "here__read", "tunnel__read"] {
        let arguments = Raw::of(&json!({ "text": "hello" }));
        let outcome = host.call(CallRequest::tool(Caller::Program, tool.parse()?, Some(arguments))).await;
        say(&format!("{tool}: {outcome}"))?;
    }
    tell(&mut events)?;

    // Edit the file: one entry changes, one is new.
    let edited = [
        ("notes", json!({ "command": program, "args": ["notes"], "excludeTools": ["crash"] })),
        ("tasks", json!({ "command": program, "args": ["tasks"], "lazy": true })),
    ];
    write(&file, &edited)?;
    let config = read(&file)?;
    say(&format!("plan:\n{}", host.plan(&config)?.to_string().trim_end()))?;
    for (server, happened) in &host.reload(&config)?.results {
        say(&format!("{server}: {happened}"))?;
    }

    // An invalid edit changes nothing and gives an error.
    std::fs::write(&file, r#"{ "mcpServers": { "notes": { "command": 7 } } }"#)?;
    match read(&file) {
        Ok(_) => say("the invalid file was accepted")?,
        Err(error) => {
            say(&format!("not applied: {}", error.to_string().replace(&*file.to_string_lossy(), "toolway.json")))?
        }
    }
    say(&format!("servers: {}", host.servers().len()))?;
    tell(&mut events)?;
    host.shutdown().await;
    Ok(tell(&mut events)?)
}

/// The servers that this program adds.
fn options() -> Result<HostOptions, Problem> {
    let here = FixtureServer::new("here").tool("read", "Read something of this program's");
    let tunnel = Tunnel { server: FixtureServer::new("tunnel").tool("read", "Read through the tunnel") };
    let transport: Arc<dyn Transport> = Arc::new(StdioTransport::new(Arc::new(tunnel), Limits::default()));
    let name = |text: &str| text.parse::<ServerName>();
    Ok(HostOptions {
        servers: vec![
            WantedServer::new(name("here")?, Way::InProcess(here.service())),
            WantedServer::new(name("tunnel")?, Way::Custom(transport)),
        ],
        environment: std::env::vars_os().collect(),
        ..HostOptions::default()
    })
}

impl StreamOpener for Tunnel {
    fn target(&self) -> String {
        "the tunnel".to_owned()
    }

    fn open(&self) -> BoxFuture<'_, Result<ServerStreams, WireError>> {
        // Any byte streams will do; here they are in memory.
        Box::pin(async {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let (read, write) = tokio::io::split(ours);
            let (their_read, their_write) = tokio::io::split(theirs);
            let serving = toolway_wire::down::stdio::serve(
                their_read,
                their_write,
                self.server.service(),
                toolway_wire::down::DownstreamOptions::default(),
                tokio_util::sync::CancellationToken::new(),
            );
            // The server ends when its streams close.
            drop(tokio::runtime::Handle::current().spawn(serving));
            Ok(ServerStreams { read: Box::new(read), write: Box::new(write), process: None })
        })
    }
}

/// Prints the events since the last call: states of servers, then stages of calls.
fn tell((states, calls): &mut (EventListener<StateEvent>, EventListener<CallStageEvent>)) -> io::Result<()> {
    while let Some(event) = states.try_next() {
        match event {
            StateEvent::Server(status) => say(&format!("event: {} is {}", status.server, status.phase.word()))?,
            StateEvent::ServerGone(server) => say(&format!("event: {server} is gone"))?,
            StateEvent::Applied(applied) => say(&format!("event: applied to {} servers", applied.results.len()))?,
            StateEvent::Catalog { diff, .. } => say(&format!("event: {} changes in the catalog", diff.changes.len()))?,
            StateEvent::Missed(count) => say(&format!("event: {count} missed"))?,
        }
    }
    while let Some(event) = calls.try_next() {
        match event {
            CallStageEvent::Stage { stage: CallStage::Started { name, .. }, .. } => {
                say(&format!("event: {name} started"))?
            }
            CallStageEvent::Stage { stage: CallStage::Sent { server }, .. } => {
                say(&format!("event: sent to {server}"))?
            }
            CallStageEvent::Stage { stage: CallStage::Ended, record, .. } => {
                say(&format!("event: {} {}", record.name, record.state))?;
            }
            CallStageEvent::Stage { .. } => {}
            CallStageEvent::Missed(count) => say(&format!("event: {count} missed"))?,
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Config, toolway_config::ConfigError> {
    Config::read(file, None)
}

fn write(file: &Path, entries: &[(&str, serde_json::Value)]) -> io::Result<()> {
    let servers: serde_json::Map<_, _> =
        entries.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
    std::fs::write(file, json!({ "mcpServers": servers }).to_string())
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
