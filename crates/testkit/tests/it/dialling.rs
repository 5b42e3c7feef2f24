//! The way to an odd server: the one every surface takes, with clocks of the test's own.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tempfile::TempDir;
use toolway_host::connection::{DialOptions, Program, ServerAddress, dial};
use toolway_testkit::odd::http::OddHttp;
use toolway_wire::{
    error::WireError,
    exchange::Terms,
    up::{ConnectOptions, EraMemory, Peer, Timeouts},
};

/// Longer than anything takes, on a machine that has other things to do.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// For clocks that are meant to run out.
pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// What an odd process notes of its starts and of what it hears.
pub(crate) struct Record {
    folder: TempDir,
}

/// Clocks that do not run out.
pub(crate) fn patient() -> ConnectOptions {
    let terms = Terms { idle: Some(LONG), total: Some(LONG) };
    let timeouts = Timeouts { probe: LONG, handshake: LONG, list: terms, call: terms };
    ConnectOptions { timeouts, ..ConnectOptions::default() }
}

/// The process `odd-server` in this mood, dialled.
pub(crate) async fn process(
    what: &str,
    record: &Record,
    connect: ConnectOptions,
    memory: Option<Arc<dyn EraMemory>>,
) -> Result<Peer, WireError> {
    let mut program = Program::new(env!("CARGO_BIN_EXE_odd-server"));
    program.arguments = vec![what.to_owned(), record.path().to_string_lossy().into_owned()];
    dial(&ServerAddress::Process(program), DialOptions { connect, memory, ..DialOptions::default() }).await
}

/// A server over HTTP, dialled.
pub(crate) async fn address(
    odd: &OddHttp,
    connect: ConnectOptions,
    memory: Option<Arc<dyn EraMemory>>,
) -> Result<Peer, WireError> {
    let address = ServerAddress::http(odd.url().parse().unwrap());
    dial(&address, DialOptions { connect, memory, ..DialOptions::default() }).await
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
