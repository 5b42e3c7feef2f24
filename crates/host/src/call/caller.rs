//! On whose behalf a call is made.

use std::{collections::BTreeSet, fmt, sync::Arc};

use toolway_config::ServerName;
use toolway_wire::message::ClientCapabilities;

/// Whoever asked. A name is what the surface that let it in knows; it is never taken from the request itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The person at the terminal, or their script.
    Terminal,
    /// The program that embeds the host.
    Program,
    /// A model that works for somebody, by the name of its run.
    Agent(Arc<str>),
    /// Somebody who came in through the gateway, by principal.
    Client(Arc<str>),
    /// The operator at the console.
    Console,
}

/// The servers a caller sees. To it there are no others: what is at one of those is answered as what is nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Visible {
    /// All there are.
    #[default]
    All,
    /// These.
    Only(Arc<BTreeSet<ServerName>>),
}

/// A caller, what it sees, and what matters of it to a server that keeps a session.
#[derive(Clone, Debug)]
pub struct OnBehalf {
    /// Who.
    pub caller: Caller,
    /// What its side can be asked; none: what the host's ports can answer.
    pub capabilities: Option<ClientCapabilities>,
    /// Its session, where servers are shared by session.
    pub session: Option<Arc<str>>,
    /// The servers it sees.
    pub visible: Visible,
}

impl From<&Caller> for OnBehalf {
    fn from(caller: &Caller) -> Self {
        Self { caller: caller.clone(), capabilities: None, session: None, visible: Visible::All }
    }
}

impl Visible {
    /// Whether this server is one of them.
    pub fn covers(&self, server: &ServerName) -> bool {
        match self {
            Self::All => true,
            Self::Only(servers) => servers.contains(server),
        }
    }
}

impl FromIterator<ServerName> for Visible {
    fn from_iter<T: IntoIterator<Item = ServerName>>(servers: T) -> Self {
        Self::Only(Arc::new(servers.into_iter().collect()))
    }
}

impl Caller {
    /// The principal of a client of the gateway; none of anybody else.
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Client(principal) => Some(principal),
            _ => None,
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("terminal"),
            Self::Program => f.write_str("program"),
            Self::Agent(run) => write!(f, "agent {run}"),
            Self::Client(principal) => write!(f, "client {principal}"),
            Self::Console => f.write_str("console"),
        }
    }
}
