//! The identity on whose behalf a call is made.

use std::{collections::BTreeSet, fmt, sync::Arc};

use toolway_config::ServerName;
use toolway_wire::message::ClientCapabilities;

/// The identity on whose behalf a call is made. The surface determines it; it is never taken from the request itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The user at the terminal, or a script of theirs.
    Terminal,
    /// The program that embeds the host.
    Program,
    /// An agent, by the name of its run.
    Agent(Arc<str>),
    /// A client of the gateway, by principal.
    Client(Arc<str>),
    /// The operator at the web console.
    Console,
}

/// The servers visible to a caller. Requests for other servers are answered as if those did not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VisibleServers {
    /// All servers.
    #[default]
    All,
    /// Only these servers.
    Only(Arc<BTreeSet<ServerName>>),
}

/// A caller with its visible servers and the properties that select its connection to a server.
#[derive(Clone, Debug)]
pub struct CallerContext {
    /// Identity of the caller.
    pub caller: Caller,
    /// Client capabilities of the caller; `None`: those of the host's ports.
    pub capabilities: Option<ClientCapabilities>,
    /// Session of the caller, for servers with one connection per session.
    pub session: Option<Arc<str>>,
    /// Servers visible to the caller.
    pub visible: VisibleServers,
}

impl From<&Caller> for CallerContext {
    fn from(caller: &Caller) -> Self {
        Self { caller: caller.clone(), capabilities: None, session: None, visible: VisibleServers::All }
    }
}

impl VisibleServers {
    /// Whether this server is visible.
    pub fn covers(&self, server: &ServerName) -> bool {
        match self {
            Self::All => true,
            Self::Only(servers) => servers.contains(server),
        }
    }
}

impl FromIterator<ServerName> for VisibleServers {
    fn from_iter<T: IntoIterator<Item = ServerName>>(servers: T) -> Self {
        Self::Only(Arc::new(servers.into_iter().collect()))
    }
}

impl Caller {
    /// Returns the principal of a gateway client; `None` for other callers.
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Client(principal) => Some(principal),
            _ => None,
        }
    }
}

impl Caller {
    /// `kind[:name]`, as rules, records and scripts write it.
    pub fn label(&self) -> String {
        match self {
            Self::Terminal => "terminal".to_owned(),
            Self::Program => "program".to_owned(),
            Self::Agent(_) => "agent".to_owned(),
            Self::Client(principal) => ["client:", &**principal].concat(),
            Self::Console => "console".to_owned(),
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
