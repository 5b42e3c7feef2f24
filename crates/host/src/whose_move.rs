//! Who can act on a failure. Errors are defined in their own modules; each surface turns this value into a hint.

use std::fmt;

use toolway_wire::error::WireError;

/// The party that can act on a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhoseMove {
    /// The author of the configuration, for example for a missing command or an unset variable.
    Operator,
    /// The owner of the account, who has to sign in.
    User,
    /// The supervisor of the connection, which retries on its own.
    Supervisor,
    /// The caller, who can use another name or other arguments.
    Caller,
    /// The developers of the server, which violates the protocol.
    Server,
}

impl WhoseMove {
    /// The party that can act on a transport or protocol error.
    pub fn after(error: &WireError) -> Self {
        match error {
            WireError::Unauthorized { .. } => Self::User,
            WireError::Redirect { .. } | WireError::Vault(_) => Self::Operator,
            WireError::Unreachable { .. }
            | WireError::NoToken(_)
            | WireError::TimedOut { .. }
            | WireError::Ended(_)
            | WireError::Status { .. }
            | WireError::Overloaded { .. }
            | WireError::OverBudget(_) => Self::Supervisor,
            WireError::Refused(_) | WireError::Unsupported(_) => Self::Caller,
            WireError::TooLarge { .. }
            | WireError::Protocol(_)
            | WireError::NoCommonRevision { .. }
            | WireError::Handshake(_) => Self::Server,
        }
    }

    /// Stable identifier, as used in JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::User => "user",
            Self::Supervisor => "supervisor",
            Self::Caller => "caller",
            Self::Server => "server",
        }
    }
}

impl fmt::Display for WhoseMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
