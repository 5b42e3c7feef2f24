//! One server as written: validated values, references not yet resolved.

pub mod auth;
mod draft;
mod expanded;
mod filters;
mod foreign_keys;
mod held;
pub(crate) mod keys;
mod name;
mod read;
pub mod reconnect;
mod source;
pub mod timeouts;
mod transport;
mod variables;

use std::{collections::BTreeMap, time::Duration};

pub use filters::{Filters, NameFilter, Offered};
pub use name::{InvalidServerName, ServerName};
pub use reconnect::Reconnect;
pub use source::{DefinedBy, Format, Source};
pub use timeouts::{EffectiveTimeouts, Timeouts};
pub use transport::{Http, HttpKind, PlainHttp, Process, Transport};
pub use variables::{VariablesFile, VariablesSnapshot};

pub(crate) use draft::{Draft, Kind, all_but, only};
pub(crate) use foreign_keys::{ALIASES, FOREIGN_KEYS};
pub(crate) use keys::{KEYS, kind};
pub(crate) use read::{read, server_name};

use crate::{
    call_limits::LimitLevel,
    cluster::Replicas,
    error::Place,
    interpolate::Template,
    roots::RootSetting,
    sampling::SamplingSettings,
    tasks::TaskSettings,
    trust::{Trust, TrustLists},
};

/// One server. [`endpoint`](Self::endpoint) resolves the references when it is started or connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Server name, derived from the label.
    pub name: ServerName,
    /// Key of the entry as written.
    pub label: String,
    /// File, line, format and origin of the entry.
    pub source: Source,
    /// Program or URL.
    pub transport: Transport,
    /// Whether the server is enabled.
    pub standing: Standing,
    /// Whether the server is required.
    pub need: Need,
    /// Protocol revisions to use.
    pub era: Era,
    /// Timeouts that the entry sets; [`Config::timeouts`](crate::Config::timeouts) applies the defaults.
    pub timeouts: Timeouts,
    /// Which tools, prompts and resources are offered.
    pub filters: Filters,
    /// How it is connected again after a failure.
    pub reconnect: Reconnect,
    /// Server requests that are not offered to the server and not answered.
    pub withheld: Withheld,
    /// Whether it may ask a model, as far as its entry says.
    pub sampling: SamplingSettings,
    /// Folders that only this server is told of.
    pub roots: Vec<RootSetting>,
    /// When the server is connected; `None` means the default of [`Config::start`](crate::Config::start).
    pub start: Option<Start>,
    /// Time without use after which the server is disconnected; `None` means never.
    pub idle_stop: Option<Duration>,
    /// Which callers share a connection.
    pub sharing: Sharing,
    /// How many connections the gateways of a cluster have to it; `None`: as its transport requires.
    pub replicas: Option<Replicas>,
    /// Whether its sessions outlive a clean shutdown; `None`: as set for all servers.
    pub sessions: Option<SessionEnd>,
    /// How its tasks are treated; what is not set is as set for all servers.
    pub tasks: TaskSettings,
    /// Patterns of methods outside the protocol that clients of the gateway may call at `/servers/<id>/mcp`.
    pub extra_methods: Vec<String>,
    /// Trust that the user set; [`ServerConfig::trust`] applies the default.
    pub trust: Option<Trust>,
    /// Trust of single tools, and by the folder of its project.
    pub trust_lists: TrustLists,
    /// Limits on its calls.
    pub limits: LimitLevel,
    /// Whether resources that it annotates for the assistant are attached where `agent.autoContext` is on.
    pub auto_context: bool,
    /// Human-readable description.
    pub description: Option<String>,
    /// Place of each key that is set, by Toolway's name of the key.
    pub origins: BTreeMap<&'static str, Place>,
}

/// Whether a server is enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// The server is used.
    #[default]
    Enabled,
    /// `"disabled": true`, or `"enabled": false`.
    Disabled,
}

/// Whether a server is required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Need {
    /// The other servers work without it.
    #[default]
    Optional,
    /// Listing all servers fails without it.
    Required,
}

/// Protocol revisions used with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Era {
    /// Detected on first connection and remembered.
    #[default]
    Auto,
    /// 2025-11-25 and older.
    Legacy,
    /// 2026-07-28.
    Modern,
}

/// Which callers share a connection to a server that keeps sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// One connection per caller.
    #[default]
    Caller,
    /// One connection for all callers that cannot answer server requests.
    Shared,
    /// One connection per session of each caller.
    Session,
}

/// What becomes of the sessions of HTTP servers when Toolway shuts down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SessionEnd {
    /// They are deleted at the server.
    #[default]
    End,
    /// They stay at the server, and the next start resumes them.
    Keep,
}

impl SessionEnd {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Keep => "keep",
        }
    }
}

/// Server requests that are withheld from one server: it is not told that they can be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Withheld {
    /// `"sampling": false`, or `allow` is `never`.
    pub sampling: bool,
    /// `"elicitation": false`
    pub elicitation: bool,
}

/// When a server is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// When the host starts.
    #[default]
    AtOnce,
    /// On first use.
    WhenNeeded,
}

impl ServerConfig {
    /// A server program, added by an embedding program.
    pub fn process(name: ServerName, command: impl Into<String>, arguments: &[&str]) -> Self {
        Self::of(
            name,
            Transport::Process(Process {
                command: Template::literal(command),
                arguments: arguments.iter().map(|argument| Template::literal(*argument)).collect(),
                variables: Vec::new(),
                variables_file: None,
                directory: None,
            }),
        )
    }

    /// A server at a URL, added by an embedding program.
    pub fn http(name: ServerName, url: impl Into<String>) -> Self {
        let url = Template::literal(url);
        let (kind, plain) = (HttpKind::default(), PlainHttp::default());
        Self::of(
            name,
            Transport::Http(Http { url, headers: Vec::new(), kind, plain, auth: None, oauth: Box::default() }),
        )
    }

    /// A server with this transport and defaults for everything else.
    pub fn of(name: ServerName, transport: Transport) -> Self {
        Self {
            label: name.to_string(),
            name,
            source: Source::program(),
            transport,
            standing: Standing::default(),
            need: Need::default(),
            era: Era::default(),
            timeouts: Timeouts::default(),
            filters: Filters::default(),
            reconnect: Reconnect::default(),
            withheld: Withheld::default(),
            sampling: SamplingSettings::default(),
            roots: Vec::new(),
            start: None,
            idle_stop: None,
            sharing: Sharing::default(),
            replicas: None,
            sessions: None,
            tasks: TaskSettings::default(),
            extra_methods: Vec::new(),
            trust: None,
            trust_lists: TrustLists::default(),
            limits: LimitLevel::default(),
            auto_context: false,
            description: None,
            origins: BTreeMap::new(),
        }
    }

    /// How far the server is trusted: as the user set it, else by the folder of its project, else `read`, and `untrusted`
    /// for servers of a project.
    pub fn trust(&self) -> Trust {
        let default = if self.source.defined_by == DefinedBy::Project { Trust::Untrusted } else { Trust::Read };
        self.trust.or(self.trust_lists.folder).unwrap_or(default)
    }

    /// Whether a running connection can be kept: same program or URL, variables, headers, directory and era. All other
    /// changes take effect without a new connection.
    ///
    /// References are compared as written; a changed environment variable is not detected.
    pub fn same_connection(&self, other: &Self) -> bool {
        self.transport == other.transport
            && self.era == other.era
            && self.withheld == other.withheld
            && self.source.folder == other.source.folder
            && self.source.base == other.source.base
    }

    /// Whether the server is enabled.
    pub fn is_enabled(&self) -> bool {
        self.standing == Standing::Enabled
    }
}

impl Start {
    /// Converts `autoConnect`.
    pub(crate) fn from_auto_connect(on: bool) -> Self {
        if on { Self::AtOnce } else { Self::WhenNeeded }
    }
}

impl Standing {
    /// Converts `enabled`.
    pub fn when(enabled: bool) -> Self {
        if enabled { Self::Enabled } else { Self::Disabled }
    }
}

#[cfg(test)]
mod tests {
    use super::{Era, ServerConfig, ServerName, Standing};

    fn server() -> ServerConfig {
        ServerConfig::process(ServerName::from_label("files").unwrap(), "files", &["--all"])
    }

    #[test]
    fn only_changes_of_transport_and_era_need_a_new_connection() {
        let (mut moved, mut other_era) = (server(), server());
        moved.source.place.line = 7;
        moved.description = Some("x".to_owned());
        moved.standing = Standing::Disabled;
        assert_ne!(moved, server());
        assert!(moved.same_connection(&server()));

        other_era.era = Era::Legacy;
        assert!(!other_era.same_connection(&server()));
        let other = ServerConfig::process(server().name, "files", &["--some"]);
        assert!(!other.same_connection(&server()));
    }
}
