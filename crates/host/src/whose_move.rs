//! Who can act on a failure. The errors themselves live where they arise; surfaces turn this into a hint, once.

use std::fmt;

use toolway_wire::error::WireError;

/// Whose move it is after something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhoseMove {
    /// Whoever wrote the configuration: a command that is not there, a variable that is not set.
    Operator,
    /// The person whose account it is: a sign-in.
    User,
    /// Ours: it is tried again without anybody doing anything.
    Supervisor,
    /// Whoever made the call: another name, other arguments.
    Caller,
    /// The people behind the server: it breaks the protocol.
    Server,
}

impl WhoseMove {
    /// Who can do something about an error on the wire.
    pub fn after(error: &WireError) -> Self {
        match error {
            WireError::Unauthorized { .. } => Self::User,
            WireError::Redirect { .. } | WireError::Vault(_) => Self::Operator,
            WireError::Unreachable { .. }
            | WireError::NoToken(_)
            | WireError::TimedOut { .. }
            | WireError::Ended(_)
            | WireError::Status { .. }
            | WireError::Overloaded { .. } => Self::Supervisor,
            WireError::Refused(_) | WireError::Unsupported(_) => Self::Caller,
            WireError::TooLarge { .. }
            | WireError::Protocol(_)
            | WireError::NoCommonRevision { .. }
            | WireError::Handshake(_) => Self::Server,
        }
    }

    /// A stable word for programs.
    pub fn word(self) -> &'static str {
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
        f.write_str(self.word())
    }
}
