//! Server for the official conformance suite, in one revision, on a port or over stdio.
//!
//! `conformance-server --era 2025-11-25|2026-07-28 [--effects <file>] (--listen <address> | --stdio)`. On a port it serves
//! `/mcp` and prints the URL to standard output. The tool `long_job` appends its start and its end to the file.

use std::{
    env,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolway_testkit::{conformance_server::ConformanceServer, effects::EffectsFile};
use toolway_wire::{
    down::{
        self,
        http::{HttpDownstream, HttpDownstreamOptions},
    },
    revision::Revision,
};

const USAGE: &str =
    "usage: conformance-server --era 2025-11-25|2026-07-28 [--effects <file>] (--listen <address> | --stdio)";

/// What the arguments say.
struct Options {
    revision: Revision,
    effects: Option<PathBuf>,
    transport: Transport,
}

/// Transport of the server.
enum Transport {
    Port(String),
    Stdio,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let Options { revision, effects, transport } = read(env::args().skip(1)).ok_or_else(|| io::Error::other(USAGE))?;
    let server = match effects {
        Some(path) => ConformanceServer::with_effects(EffectsFile::open(&path)?),
        None => ConformanceServer::new(),
    };
    match transport {
        Transport::Port(address) => listen(server, revision, &address).await,
        Transport::Stdio => stdio(server, revision).await,
    }
}

fn read(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut revision = None;
    let mut effects = None;
    let mut transport = None;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--era" => revision = Some(arguments.next()?.parse().ok()?),
            "--effects" => effects = Some(PathBuf::from(arguments.next()?)),
            "--listen" => transport = Some(Transport::Port(arguments.next()?)),
            "--stdio" => transport = Some(Transport::Stdio),
            _ => return None,
        }
    }
    Some(Options { revision: revision?, effects, transport: transport? })
}

async fn listen(server: ConformanceServer, revision: Revision, address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let options = HttpDownstreamOptions {
        downstream: ConformanceServer::downstream_options(revision),
        ..HttpDownstreamOptions::default()
    };
    let url = format!("http://{}{}", listener.local_addr()?, options.path.as_deref().unwrap_or_default());
    let downstream = HttpDownstream::new(Arc::new(server), options).map_err(io::Error::other)?;
    writeln!(io::stdout(), "{url}")?;
    down::http::serve(listener, downstream, CancellationToken::new()).await
}

async fn stdio(server: ConformanceServer, revision: Revision) -> io::Result<()> {
    let (read, write) = (tokio::io::stdin(), tokio::io::stdout());
    let options = ConformanceServer::downstream_options(revision);
    down::stdio::serve(read, write, Arc::new(server), options, CancellationToken::new()).await.map_err(io::Error::other)
}
