//! A mark that every descendant of a server inherits, to find the server of an orphan.
//!
//! The parent of an orphan is the keeper, and a process can change its group, session, environment and streams. The soft
//! limit on file locks is inherited by every process and has no effect since Linux 2.4, so it can carry a number. Cleanup
//! does not depend on it: processes without mark are ended with the last server.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::protocol::ServerNumber;

/// Identifies a server of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    pub(super) fn new(keeper: i32, server: ServerNumber) -> Self {
        Self(u64::from(keeper.unsigned_abs()) << 32 | u64::from(server))
    }

    /// The server, if it belongs to this keeper.
    pub(super) fn server_of(self, keeper: i32) -> Option<ServerNumber> {
        (self.keeper() == keeper.unsigned_abs()).then_some(self.0 as ServerNumber)
    }

    /// Process id of the keeper.
    pub(super) fn keeper(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The mark of this process, if it is itself a server of a keeper.
    pub(super) fn own() -> Option<Self> {
        getrlimit(Resource::Locks).current.and_then(Self::read)
    }

    /// The mark of a process.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let locks = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
        Self::read(locks.split_ascii_whitespace().next()?.parse().ok()?)
    }

    /// Runs `start`, whose children inherit this mark. No other process may be started meanwhile.
    pub(super) fn apply_during<T>(self, start: impl FnOnce() -> T) -> T {
        let before = getrlimit(Resource::Locks);
        if let Err(error) = setrlimit(Resource::Locks, Rlimit { current: Some(self.0), ..before }) {
            tracing::debug!(%error, "cannot set the mark of a server");
        }
        let started = start();
        if let Err(error) = setrlimit(Resource::Locks, before) {
            tracing::debug!(%error, "cannot reset the mark");
        }
        started
    }

    /// Parses a limit; a small value was set for other reasons.
    fn read(limit: u64) -> Option<Self> {
        (limit >> 32 != 0).then_some(Self(limit))
    }
}
