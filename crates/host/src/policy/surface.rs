//! Where a call comes from, which decides the default of policy and where an approval request goes.

use std::fmt;

use crate::call::Caller;

/// The surfaces of Toolway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Surface {
    /// A user's own command.
    Call,
    /// An agent that talks to a user.
    Chat,
    /// An agent without a user.
    Run,
    /// A client of the gateway.
    Gateway,
    /// The web console.
    Console,
    /// An embedding program.
    Library,
}

impl Surface {
    /// All surfaces.
    pub const ALL: [Self; 6] = [Self::Call, Self::Chat, Self::Run, Self::Gateway, Self::Console, Self::Library];

    /// The word in rules, records and scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Chat => "chat",
            Self::Run => "run",
            Self::Gateway => "gateway",
            Self::Console => "console",
            Self::Library => "library",
        }
    }

    /// The word for the sessions of servers that callers of this surface share: `serve` and commands have their own.
    pub fn shared_sessions(self) -> &'static str {
        match self {
            Self::Call | Self::Chat | Self::Run => "terminal",
            Self::Gateway | Self::Console => "gateway",
            Self::Library => "shared",
        }
    }

    /// Parses the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|surface| surface.as_str() == word)
    }

    /// The usual surface of a caller.
    pub fn of(caller: &Caller) -> Self {
        match caller {
            Caller::Terminal => Self::Call,
            Caller::Agent(_) => Self::Chat,
            Caller::Client(_) => Self::Gateway,
            Caller::Console => Self::Console,
            Caller::Program => Self::Library,
        }
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
