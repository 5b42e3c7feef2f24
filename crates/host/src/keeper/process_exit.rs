//! How a process ended.

use std::fmt;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ProcessExit {
    /// Exited with this status.
    Exited(i32),
    /// Killed by this signal.
    Signalled(i32),
    /// Not reported by the system.
    Unknown,
}

impl ProcessExit {
    /// From the exit status or the signal reported by the system.
    pub(crate) fn new(status: Option<i32>, signal: Option<i32>) -> Self {
        match (status, signal) {
            (Some(status), _) => Self::Exited(status),
            (None, Some(signal)) => Self::Signalled(signal),
            (None, None) => Self::Unknown,
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "the server exited with status {status}"),
            Self::Signalled(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "the server was killed by signal {signal} ({name})"),
                None => write!(f, "the server was killed by signal {signal}"),
            },
            Self::Unknown => f.write_str("the server ended"),
        }
    }
}

/// Names of common signals; their numbers are the same on every Unix.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}
