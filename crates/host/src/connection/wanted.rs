//! One server as it is wanted: how it is reached, when it is started, what of it is offered. Made from an entry of
//! the configuration, or by the embedding program.

use std::{fmt, sync::Arc, time::Duration};

use toolway_config::{
    Config, ServerConfig, ServerName, names_secret,
    server::{Era, Http, HttpKind, Need, Offered, Sharing, Standing, Start, Transport, auth::Auth},
};
use toolway_wire::{
    down::Service,
    exchange::Terms,
    seal::fingerprint,
    up::{EraChoice, HttpWay, Timeouts, transport},
};

use super::address::ServerAddress;
use crate::catalog::{
    Filter, ItemKind,
    filter::{Pattern, Switch},
};

/// One server as it is wanted.
#[derive(Clone, Debug)]
pub struct WantedServer {
    /// Its id.
    pub name: ServerName,
    /// As people wrote it.
    pub label: String,
    /// What it is for, in the operator's words.
    pub description: Option<String>,
    /// Where this is written: file and line, or the program.
    pub source: String,
    /// Whether it may be used.
    pub standing: Standing,
    /// When it is started.
    pub start: Start,
    /// Whether the host is of use without it.
    pub need: Need,
    /// After how long without a call it is stopped, until the next one.
    pub idle_stop: Option<Duration>,
    /// Who shares a connection to it, where it keeps a session.
    pub sharing: Sharing,
    /// How often a failed start is tried again; for ever where nothing is said.
    pub retries: Option<u32>,
    /// Which era to speak.
    pub era: EraChoice,
    /// From the start to the end of the handshake.
    pub connect: Duration,
    /// The other clocks.
    pub clocks: Timeouts,
    /// What of it is offered.
    pub filter: Arc<Filter>,
    /// What becomes of its lists.
    pub lists: Lists,
    /// How it is reached.
    pub way: Way,
}

/// What becomes of a server's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lists {
    /// They are asked for when it is connected, and whenever they change.
    #[default]
    Followed,
    /// They are asked for when it is connected; nobody will be there when they change.
    Once,
    /// Only this one is asked for, when it is connected.
    Only(ItemKind),
    /// They are not asked for.
    Ignored,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Way {
    /// As an entry says; references in it are put in when it is dialled.
    Configured(Arc<ServerConfig>),
    /// A program or an address.
    Address(ServerAddress),
    /// It lives in this process.
    InProcess(Arc<dyn Service>),
    /// By a transport of the embedding program's.
    Custom(Arc<dyn transport::Transport>),
}

/// What a change of a server means for a connection that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The keys that changed, as the configuration spells them.
    pub(crate) keys: Vec<&'static str>,
    /// Whether it has to be dialled again.
    pub(crate) restart: bool,
}

/// From the start to the end of the handshake, where nothing is said.
pub const CONNECT: Duration = Duration::from_secs(30);

// === impl WantedServer ===

impl WantedServer {
    /// A server with everything but its name and its way as usual.
    pub fn new(name: ServerName, way: Way) -> Self {
        Self {
            label: name.to_string(),
            name,
            description: None,
            source: "the program".to_owned(),
            standing: Standing::Enabled,
            start: Start::AtOnce,
            need: Need::Optional,
            idle_stop: None,
            sharing: Sharing::default(),
            retries: None,
            era: EraChoice::Auto,
            connect: CONNECT,
            clocks: Timeouts::default(),
            filter: Arc::default(),
            lists: Lists::default(),
            way,
        }
    }

    /// The header in which it is sent a credential, as it is configured; none where none is.
    pub fn credential(&self) -> Option<String> {
        let is_one = |name: &&str| names_secret(name);
        match &self.way {
            Way::Configured(server) => match &server.transport {
                Transport::Http(http) => {
                    let by_entry = http.auth.as_deref().and_then(Auth::fixed_header);
                    let by_header = || http.headers.iter().map(|(name, _)| name.as_str()).find(is_one);
                    by_entry.or_else(by_header).map(str::to_owned)
                }
                Transport::Process(_) => None,
            },
            Way::Address(ServerAddress::Http { headers, .. }) => {
                headers.keys().map(http::HeaderName::as_str).find(is_one).map(str::to_owned)
            }
            Way::Address(ServerAddress::Process(_)) | Way::InProcess(_) | Way::Custom(_) => None,
        }
    }

    /// Whether tokens are asked for without anybody.
    pub(crate) fn asks_for_itself(&self) -> bool {
        let Way::Configured(server) = &self.way else { return false };
        let Transport::Http(http) = &server.transport else { return false };
        matches!(http.auth.as_deref(), Some(Auth::Grant { .. }))
    }

    /// A server as its entry says, with what the document says for all.
    pub fn configured(config: &Config, server: &ServerConfig) -> Self {
        let clocks = config.clocks(server);
        Self {
            label: server.label.clone(),
            description: server.description.clone(),
            source: server.source.place.to_string(),
            standing: server.standing,
            start: config.start(server),
            need: server.need,
            idle_stop: server.idle_stop,
            sharing: server.sharing,
            retries: server.retries,
            era: match server.era {
                Era::Auto => EraChoice::Auto,
                Era::Legacy => EraChoice::Legacy,
                Era::Modern => EraChoice::Modern,
            },
            connect: clocks.connect,
            clocks: Timeouts {
                probe: clocks.probe,
                handshake: clocks.list,
                list: Terms { idle: Some(clocks.list), ..Terms::list() },
                call: Terms { idle: clocks.idle, total: Some(clocks.total) },
            },
            filter: Arc::new(filter(server)),
            ..Self::new(server.name.clone(), Way::Configured(Arc::new(server.clone())))
        }
    }

    /// The clocks of a call.
    pub(crate) fn terms(&self) -> Terms {
        self.clocks.call
    }

    /// A digest of how it is reached, references as they are written; none where there is nothing to compare the
    /// next start with. What is listed is offered again only under the same one.
    pub fn definition(&self) -> Option<String> {
        match &self.way {
            Way::Configured(server) => {
                let texts = server.transport.texts();
                let parts = texts.iter().flat_map(|(key, text)| [key.as_bytes(), text.written().expose().as_bytes()]);
                Some(fingerprint(parts))
            }
            Way::Address(address) => Some(address.key()),
            Way::InProcess(_) | Way::Custom(_) => None,
        }
    }

    /// What is different in `other`; none where both are the same.
    pub(crate) fn difference(&self, other: &Self) -> Option<Difference> {
        let mut keys = self.way.difference(&other.way);
        if self.era != other.era {
            keys.push("era");
        }
        let restart = !keys.is_empty();
        let adjusted = [
            ("enabled", self.standing == other.standing),
            ("description", self.description == other.description && self.label == other.label),
            ("timeouts", self.clocks == other.clocks && self.connect == other.connect),
            ("filters", self.filter == other.filter),
            ("lazy", self.start == other.start),
            ("required", self.need == other.need),
            ("idleStop", self.idle_stop == other.idle_stop),
            ("sharing", self.sharing == other.sharing),
            ("retries", self.retries == other.retries),
        ];
        keys.extend(adjusted.into_iter().filter(|(_, same)| !same).map(|(key, _)| key));
        (!keys.is_empty()).then_some(Difference { keys, restart })
    }
}

// === impl Lists ===

impl Lists {
    /// Whether this one is asked for.
    pub(crate) fn want(self, kind: ItemKind) -> bool {
        match self {
            Self::Followed | Self::Once => true,
            Self::Only(only) => only == kind,
            Self::Ignored => false,
        }
    }
}

// === impl Way ===

impl Way {
    /// Which of the transports over HTTP may be tried.
    pub(super) fn http(&self) -> HttpWay {
        let Self::Configured(server) = self else { return HttpWay::Any };
        match &server.transport {
            Transport::Http(Http { kind: HttpKind::Http, .. }) => HttpWay::Streamable,
            Transport::Http(Http { kind: HttpKind::Sse, .. }) => HttpWay::EventStream,
            Transport::Http(_) | Transport::Process(_) => HttpWay::Any,
        }
    }

    fn difference(&self, other: &Self) -> Vec<&'static str> {
        match (self, other) {
            (Self::Configured(one), Self::Configured(other)) => configured_difference(one, other),
            (Self::Address(one), Self::Address(other)) => {
                if one == other {
                    vec![]
                } else {
                    vec!["address"]
                }
            }
            (Self::InProcess(one), Self::InProcess(other)) if Arc::ptr_eq(one, other) => vec![],
            (Self::Custom(one), Self::Custom(other)) if Arc::ptr_eq(one, other) => vec![],
            _ => vec!["transport"],
        }
    }
}

/// Which part of an entry's way changed.
fn configured_difference(one: &ServerConfig, other: &ServerConfig) -> Vec<&'static str> {
    if one.same_connection(other) || one.transport == other.transport && one.source.folder == other.source.folder {
        // The era is compared by whoever asks.
        return Vec::new();
    }
    match (&one.transport, &other.transport) {
        (Transport::Process(one), Transport::Process(other)) => {
            let parts = [
                ("command", one.command == other.command),
                ("args", one.arguments == other.arguments),
                ("env", one.variables == other.variables),
                ("envFile", one.variables_file == other.variables_file),
                ("cwd", one.directory == other.directory),
            ];
            named_or(parts, "cwd")
        }
        (Transport::Http(one), Transport::Http(other)) => {
            let parts = [
                ("url", one.url == other.url),
                ("headers", one.headers == other.headers),
                ("type", one.kind == other.kind),
                ("allowInsecureHttp", one.plain == other.plain),
                ("auth", one.auth == other.auth),
                ("oauth", one.oauth == other.oauth),
            ];
            named_or(parts, "url")
        }
        _ => vec!["type"],
    }
}

/// The keys whose values differ; where none does, the folder the entry is read in does.
fn named_or<const N: usize>(parts: [(&'static str, bool); N], otherwise: &'static str) -> Vec<&'static str> {
    let different: Vec<_> = parts.into_iter().filter(|(_, same)| !same).map(|(key, _)| key).collect();
    if different.is_empty() { vec![otherwise] } else { different }
}

/// What an entry leaves out, as the catalog and policy read it.
fn filter(server: &ServerConfig) -> Filter {
    let filters = &server.filters;
    let patterns = |names: &[String]| names.iter().map(|name| Pattern::new(name.clone())).collect();
    let switch = |offered| if offered == Offered::Yes { Switch::On } else { Switch::Off };
    Filter {
        include_tools: filters.tool_names.include.as_deref().map(patterns),
        exclude_tools: patterns(&filters.tool_names.exclude),
        include_prompts: filters.prompt_names.include.as_deref().map(patterns),
        exclude_prompts: patterns(&filters.prompt_names.exclude),
        tools: switch(filters.tools),
        resources: switch(filters.resources),
        prompts: switch(filters.prompts),
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured(server) => write!(f, "Configured({})", server.name),
            Self::Address(address) => address.fmt(f),
            Self::InProcess(_) => f.write_str("InProcess"),
            Self::Custom(transport) => transport.fmt(f),
        }
    }
}
