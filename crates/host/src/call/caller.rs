//! The identity on whose behalf a call is made.

use std::{collections::BTreeSet, fmt, sync::Arc};

use toolway_config::{ServerName, ToolPattern};
use toolway_wire::message::ClientCapabilities;

use super::CallKind;
use crate::catalog::Origin;

/// The identity on whose behalf a call is made. The surface determines it; it is never taken from the request itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The servers visible to a caller, and the tools of them. Requests for others are answered as if those did not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VisibleServers {
    /// All servers.
    #[default]
    All,
    /// Only some servers or tools.
    Only(Arc<Selection>),
    /// Only what both select.
    Both(Arc<Selection>, Arc<Selection>),
}

/// Selected servers and tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Servers; `None`: all.
    pub servers: Option<BTreeSet<ServerName>>,
    /// Tools of these servers; `None`: all. Prompts and resources are not concerned.
    pub tools: Option<Vec<ToolPattern>>,
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
    /// What this and the other selection both have.
    #[must_use]
    pub fn within(self, bound: Selection) -> Self {
        match (self, Self::from(bound)) {
            (Self::Only(one), Self::Only(other)) => Self::Both(one, other),
            (Self::All, bound) => bound,
            (this, _) => this,
        }
    }

    /// Whether this server is visible.
    pub fn covers(&self, server: &ServerName) -> bool {
        match self {
            Self::All => true,
            Self::Only(selected) => selected.covers(server),
            Self::Both(one, other) => one.covers(server) && other.covers(server),
        }
    }

    /// Whether this item of a server is visible.
    pub fn covers_item(&self, kind: CallKind, origin: &Origin) -> bool {
        match self {
            Self::All => true,
            Self::Only(selected) => selected.covers_item(kind, origin),
            Self::Both(one, other) => one.covers_item(kind, origin) && other.covers_item(kind, origin),
        }
    }
}

impl Selection {
    fn covers(&self, server: &ServerName) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }

    fn covers_item(&self, kind: CallKind, origin: &Origin) -> bool {
        let matches = |pattern: &ToolPattern| pattern.matches(origin.server.as_str(), &origin.raw_name);
        self.covers(&origin.server)
            && (kind != CallKind::Tool || self.tools.as_ref().is_none_or(|tools| tools.iter().any(matches)))
    }
}

impl From<Selection> for VisibleServers {
    fn from(selected: Selection) -> Self {
        if selected == Selection::default() { Self::All } else { Self::Only(Arc::new(selected)) }
    }
}

impl FromIterator<ServerName> for VisibleServers {
    fn from_iter<T: IntoIterator<Item = ServerName>>(servers: T) -> Self {
        Self::Only(Arc::new(Selection { servers: Some(servers.into_iter().collect()), tools: None }))
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
