//! Whose orphan is this? A mark that every descendant of a server carries.
//!
//! An orphan's parent is the keeper, whoever it was before; its group, session, environment and streams are its own
//! to change. The soft limit on file locks is inherited by every process and has had no effect in any kernel since
//! 2.4, so a number in it costs a server nothing. Custody does not rest on it: what carries no mark is ended with the
//! last server.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::order::ServerNumber;

/// A server of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    pub(super) fn new(keeper: i32, server: ServerNumber) -> Self {
        Self(u64::from(keeper.unsigned_abs()) << 32 | u64::from(server))
    }

    /// Which server, if it is one of this keeper's.
    pub(super) fn server_of(self, keeper: i32) -> Option<ServerNumber> {
        (self.keeper() == keeper.unsigned_abs()).then_some(self.0 as ServerNumber)
    }

    /// Which keeper.
    pub(super) fn keeper(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Our own, where we are somebody's server.
    pub(super) fn own() -> Option<Self> {
        getrlimit(Resource::Locks).current.and_then(Self::read)
    }

    /// What a process carries.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let locks = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
        Self::read(locks.split_ascii_whitespace().next()?.parse().ok()?)
    }

    /// Does something whose children carry this mark. Nothing else may be started meanwhile.
    pub(super) fn worn_during<T>(self, start: impl FnOnce() -> T) -> T {
        let before = getrlimit(Resource::Locks);
        if let Err(error) = setrlimit(Resource::Locks, Rlimit { current: Some(self.0), ..before }) {
            tracing::debug!(%error, "a server goes without its mark");
        }
        let started = start();
        if let Err(error) = setrlimit(Resource::Locks, before) {
            tracing::debug!(%error, "the mark stays");
        }
        started
    }

    /// A limit that somebody set for other reasons is no mark.
    fn read(limit: u64) -> Option<Self> {
        (limit >> 32 != 0).then_some(Self(limit))
    }
}
