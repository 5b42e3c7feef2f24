//! Marks that every descendant of a server inherits: one to find the server of an orphan, one to recognise a server.
//!
//! The parent of an orphan is the keeper, and a process can change its group, session, environment and streams. The
//! limits on file locks are inherited by every process and have no effect since Linux 2.4, so they can carry a number. The
//! soft limit names the server. Cleanup does not depend on it: processes without mark are ended with the last server.
//!
//! The hard limit, which is infinite elsewhere, shows that a process descends from a keeper. Only a privileged process can
//! raise it again: it remains when the keeper was killed, and in namespaces that show no ancestors.

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::protocol::ServerNumber;

/// Hard limit on file locks of a keeper and its descendants. Greater than every mark, so that keepers can be nested.
const HARD_LIMIT: u64 = 1 << 62;
/// Greatest process id of Linux (`PID_MAX_LIMIT`).
const MAX_PID: u64 = 1 << 22;

/// Lowers the hard limit of this process, and so that of all its descendants, for good.
pub(super) fn mark_descendants() -> io::Result<()> {
    let before = getrlimit(Resource::Locks);
    let lowered = |limit: Option<u64>| Some(limit.unwrap_or(HARD_LIMIT).min(HARD_LIMIT));
    Ok(setrlimit(Resource::Locks, Rlimit { current: lowered(before.current), maximum: lowered(before.maximum) })?)
}

/// Whether this process has the hard limit of a keeper's descendant, or a lower one.
pub(super) fn is_marked() -> bool {
    getrlimit(Resource::Locks).maximum.is_some()
}

/// Like [`is_marked`], for another process; `None` if it has ended or is hidden.
pub(super) fn is_process_marked(pid: i32) -> Option<bool> {
    LockLimits::of(pid).map(|limits| limits.hard.is_some())
}

/// The limits of a process on file locks; `None` is infinite.
struct LockLimits {
    soft: Option<u64>,
    hard: Option<u64>,
}

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
        Self::read(LockLimits::of(pid)?.soft?)
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

    /// Parses a limit; one without a process id was set for other reasons.
    fn read(limit: u64) -> Option<Self> {
        (1..=MAX_PID).contains(&(limit >> 32)).then_some(Self(limit))
    }
}

// === impl LockLimits ===

impl LockLimits {
    fn of(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
    }

    fn parse(limits: &str) -> Option<Self> {
        let locks = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
        let mut words = locks.split_ascii_whitespace();
        let mut next = || match words.next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some(Self { soft: next()?, hard: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::{HARD_LIMIT, LockLimits, Mark};

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let text =
            |limits: &str| format!("Max file size  unlimited  unlimited  bytes\nMax file locks   {limits}  locks\n");
        let read = |limits: &str| LockLimits::parse(&text(limits)).map(|limits| (limits.soft, limits.hard));
        assert_eq!(read("unlimited            unlimited"), Some((None, None)));
        assert_eq!(read("17                   4611686018427387904"), Some((Some(17), Some(HARD_LIMIT))));
        assert_eq!(read("what"), None);
        assert!(LockLimits::parse("").is_none());
    }

    #[test]
    fn the_hard_limit_of_a_keeper_is_no_mark_of_a_server() {
        assert_eq!(Mark::read(HARD_LIMIT), None);
        assert_eq!(Mark::read(17), None);
        assert_eq!(Mark::read(Mark::new(4_194_304, 7).0).and_then(|mark| mark.server_of(4_194_304)), Some(7));
        assert!(Mark::new(4_194_304, u32::MAX).0 < HARD_LIMIT);
    }
}
