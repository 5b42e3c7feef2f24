//! Connects to odd servers without a host, with timeouts of the test.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tempfile::TempDir;
use toolway_host::connection::{Program, ServerAddress};
use toolway_testkit::{
    direct_peer::{self, DirectOptions},
    odd::http::OddHttp,
};
use toolway_wire::{
    error::WireError,
    exchange::ExchangeTimeouts,
    up::{ConnectOptions, EraMemory, Peer, Timeouts},
};

/// Longer than any step takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// For timeouts that are meant to expire.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// Log file of an odd process.
pub(crate) struct Record {
    folder: TempDir,
}

/// Timeouts that do not expire.
pub(crate) fn patient() -> ConnectOptions {
    let terms = ExchangeTimeouts { idle: Some(LONG), total: Some(LONG) };
    let timeouts = Timeouts { probe: LONG, handshake: LONG, list: terms, call: terms };
    ConnectOptions { timeouts, ..ConnectOptions::default() }
}

/// Starts and dials `odd-server` with this oddity.
pub(crate) async fn process(
    what: &str,
    record: &Record,
    connect: ConnectOptions,
    memory: Option<Arc<dyn EraMemory>>,
) -> Result<Peer, WireError> {
    let mut program = Program::new(env!("CARGO_BIN_EXE_odd-server"));
    program.arguments = vec![what.to_owned(), record.path().to_string_lossy().into_owned()];
    direct_peer::connect(
        &ServerAddress::Process(program),
        DirectOptions { connect, memory, ..DirectOptions::default() },
    )
    .await
}

/// Dials a server over HTTP.
pub(crate) async fn address(
    odd: &OddHttp,
    connect: ConnectOptions,
    memory: Option<Arc<dyn EraMemory>>,
) -> Result<Peer, WireError> {
    let address = ServerAddress::http(odd.url().parse().unwrap());
    direct_peer::connect(&address, DirectOptions { connect, memory, ..DirectOptions::default() }).await
}

impl Record {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("heard")
    }

    /// Every start and every message so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
