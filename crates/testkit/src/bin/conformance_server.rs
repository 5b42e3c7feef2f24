//! Server for the official conformance suite, in one revision, on a port or over stdio.
//!
//! `conformance-server --era 2025-11-25|2026-07-28 (--listen <address> | --stdio)`. On a port it serves `/mcp` and
//! prints the URL to standard output.

use std::{
    env,
    io::{self, Write},
    sync::Arc,
};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolway_testkit::conformance_server::ConformanceServer;
use toolway_wire::{
    down::{
        self,
        http::{HttpDownstream, HttpDownstreamOptions},
    },
    revision::Revision,
};

const USAGE: &str = "usage: conformance-server --era 2025-11-25|2026-07-28 (--listen <address> | --stdio)";

/// Transport of the server.
enum Transport {
    Port(String),
    Stdio,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let (revision, transport) = read(env::args().skip(1)).ok_or_else(|| io::Error::other(USAGE))?;
    match transport {
        Transport::Port(address) => listen(revision, &address).await,
        Transport::Stdio => stdio(revision).await,
    }
}

fn read(mut arguments: impl Iterator<Item = String>) -> Option<(Revision, Transport)> {
    let (mut revision, mut transport) = (None, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--era" => revision = Some(arguments.next()?.parse().ok()?),
            "--listen" => transport = Some(Transport::Port(arguments.next()?)),
            "--stdio" => transport = Some(Transport::Stdio),
            _ => return None,
        }
    }
    Some((revision?, transport?))
}

async fn listen(revision: Revision, address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let options = HttpDownstreamOptions {
        downstream: ConformanceServer::downstream_options(revision),
        ..HttpDownstreamOptions::default()
    };
    let url = format!("http://{}{}", listener.local_addr()?, options.path.as_deref().unwrap_or_default());
    let downstream = HttpDownstream::new(Arc::new(ConformanceServer::new()), options).map_err(io::Error::other)?;
    writeln!(io::stdout(), "{url}")?;
    down::http::serve(listener, downstream, CancellationToken::new()).await
}

async fn stdio(revision: Revision) -> io::Result<()> {
    let (read, write) = (tokio::io::stdin(), tokio::io::stdout());
    let (server, options) = (Arc::new(ConformanceServer::new()), ConformanceServer::downstream_options(revision));
    down::stdio::serve(read, write, server, options, CancellationToken::new()).await.map_err(io::Error::other)
}
