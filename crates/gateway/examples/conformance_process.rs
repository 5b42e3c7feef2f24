//! testkit's conformance server as a real process, for the tests: `conformance_process 2025-11-25|2026-07-28`.

use std::{io, sync::Arc};

use tokio_util::sync::CancellationToken;
use toolway_testkit::conformance_server::ConformanceServer;
use toolway_wire::{down, revision::Revision};

fn main() -> io::Result<()> {
    let revision: Option<Revision> = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let revision = revision.ok_or_else(|| io::Error::other("usage: conformance_process <revision>"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (server, options) = (Arc::new(ConformanceServer::new()), ConformanceServer::downstream_options(revision));
    let (read, write) = (tokio::io::stdin(), tokio::io::stdout());
    let serving = down::stdio::serve(read, write, server, options, CancellationToken::new());
    runtime.block_on(serving).map_err(io::Error::other)
}
