//! How long a program is given to leave.

use std::time::Duration;

/// The time between closing a program's input, asking it to leave, and making it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Patience {
    /// From the end of its input to SIGTERM.
    pub to_leave: Duration,
    /// From SIGTERM to SIGKILL.
    pub when_asked: Duration,
}

impl Patience {
    /// Of a command that has its answer, and of a keeper whose host is gone.
    pub const AT_EXIT: Self = Self { to_leave: Duration::from_millis(500), when_asked: Duration::from_millis(500) };

    /// Of a host that runs on and lets go of one server.
    pub const LONG_LIVED: Self = Self { to_leave: Duration::from_secs(5), when_asked: Duration::from_secs(2) };
}

impl Default for Patience {
    fn default() -> Self {
        Self::AT_EXIT
    }
}
