//! How long a program may take to exit.

use std::time::Duration;

/// The times between closing stdin, SIGTERM and SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ShutdownTimeouts {
    /// From closing stdin to SIGTERM.
    pub after_close: Duration,
    /// From SIGTERM to SIGKILL.
    pub after_sigterm: Duration,
}

impl ShutdownTimeouts {
    /// For a command that has its result, and for a keeper whose host is gone.
    pub const AT_EXIT: Self =
        Self { after_close: Duration::from_millis(500), after_sigterm: Duration::from_millis(500) };

    /// For a host that closes one server and continues.
    pub const LONG_LIVED: Self = Self { after_close: Duration::from_secs(5), after_sigterm: Duration::from_secs(2) };
}

impl Default for ShutdownTimeouts {
    fn default() -> Self {
        Self::AT_EXIT
    }
}
