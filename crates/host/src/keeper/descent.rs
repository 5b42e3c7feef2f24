//! Whether a process is a server, or was started by one.

use super::system;

/// Origin of a process, as far as the system shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// Neither a keeper nor this process is known among its ancestors.
    Independent,
    /// It has the hard limit on file locks that descendants of a keeper inherit and cannot raise.
    Marked,
    /// A keeper, or this process, is one of its ancestors.
    Ancestor {
        /// Process id of that ancestor.
        pid: u32,
    },
    /// It has ended, or the system does not show it.
    Unknown,
}

impl Descent {
    /// Origin of another process, at this moment. A process that this one has started counts as a server: without a keeper,
    /// servers are children of their host. The id must not be reused meanwhile; hold a pidfd where that matters.
    ///
    /// Only Linux supports it; elsewhere every process is [`Descent::Independent`].
    pub fn of(process: u32) -> Self {
        system::descent(process)
    }

    /// Origin of this process.
    pub fn own() -> Self {
        system::own_descent()
    }

    /// Whether the process is a server, was started by one, or cannot be shown not to be.
    pub fn is_of_server(self) -> bool {
        self != Self::Independent
    }
}
