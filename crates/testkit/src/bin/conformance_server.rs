//! The server that the official suite puts to the test, in one revision, on a port or as a process.
//!
//! `conformance-server --era 2025-11-25|2026-07-28 (--listen <address> | --stdio)`. On a port it serves at `/mcp` and
//! says where that is on its standard output.

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
        http::{HttpFace, HttpFaceOptions},
    },
    revision::Revision,
};

const USAGE: &str = "usage: conformance-server --era 2025-11-25|2026-07-28 (--listen <address> | --stdio)";

/// Where the caller comes in.
enum Door {
    Port(String),
    Stdio,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let (revision, door) = read(env::args().skip(1)).ok_or_else(|| io::Error::other(USAGE))?;
    match door {
        Door::Port(address) => listen(revision, &address).await,
        Door::Stdio => stdio(revision).await,
    }
}

fn read(mut words: impl Iterator<Item = String>) -> Option<(Revision, Door)> {
    let (mut revision, mut door) = (None, None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--era" => revision = Some(words.next()?.parse().ok()?),
            "--listen" => door = Some(Door::Port(words.next()?)),
            "--stdio" => door = Some(Door::Stdio),
            _ => return None,
        }
    }
    Some((revision?, door?))
}

async fn listen(revision: Revision, address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let options = HttpFaceOptions { face: ConformanceServer::face(revision), ..HttpFaceOptions::default() };
    let url = format!("http://{}{}", listener.local_addr()?, options.path.as_deref().unwrap_or_default());
    let face = HttpFace::new(Arc::new(ConformanceServer::new()), options).map_err(io::Error::other)?;
    writeln!(io::stdout(), "{url}")?;
    down::http::serve(listener, face, CancellationToken::new()).await
}

async fn stdio(revision: Revision) -> io::Result<()> {
    let (read, write) = (tokio::io::stdin(), tokio::io::stdout());
    let (server, options) = (Arc::new(ConformanceServer::new()), ConformanceServer::face(revision));
    down::stdio::serve(read, write, server, options, CancellationToken::new()).await.map_err(io::Error::other)
}
