//! The wanted state of one server: how it is reached, when it is started, what it offers. Made from an entry of the
//! configuration, or by the embedding program.

use std::{
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use toolway_config::{
    Config, LimitLevel, Pattern, RootSetting, SamplingSettings, ServerConfig, ServerName, TaskTerms, Trust, TrustLists,
    is_secret_name,
    server::{
        Era, Http, HttpKind, Need, Offered, Reconnect, SessionEnd, Sharing, Standing, Start, Transport, Withheld,
        auth::Auth,
    },
};
use toolway_wire::{
    down::Service,
    exchange::ExchangeTimeouts,
    seal::fingerprint,
    up::{EraChoice, HttpTransportChoice, Timeouts, transport},
};

use super::{
    address::ServerAddress,
    environment::Environment,
    installer::{INSTALL, installer_of},
};
use crate::{
    catalog::{Filter, ItemKind, filter::Switch},
    policy::baseline::EntryPart,
};

/// The wanted state of one server.
#[derive(Clone, Debug)]
pub struct WantedServer {
    /// Name of the server.
    pub name: ServerName,
    /// The name as written in the configuration.
    pub label: String,
    /// Description from the configuration.
    pub description: Option<String>,
    /// Where it is configured: file and line, or the program.
    pub source: String,
    /// Whether it is enabled.
    pub standing: Standing,
    /// When it is connected: at start, or on first use.
    pub start: Start,
    /// Whether the host is ready without it.
    pub need: Need,
    /// Idle time after which it is stopped until the next use.
    pub idle_stop: Option<Duration>,
    /// Which callers share a connection, if the server has sessions.
    pub sharing: Sharing,
    /// Whether its sessions outlive a clean shutdown.
    pub sessions: SessionEnd,
    /// How its tasks are treated.
    pub tasks: TaskTerms,
    /// How far policy trusts it.
    pub trust: Trust,
    /// What policy is told about single tools.
    pub trust_lists: Arc<TrustLists>,
    /// Limits on its calls.
    pub limits: LimitLevel,
    /// How it is connected again after a failure.
    pub reconnect: Reconnect,
    /// Server requests that it is not offered.
    pub withheld: Withheld,
    /// Whether our models answer its sampling requests, as far as its entry says.
    pub sampling: SamplingSettings,
    /// Folders that only this server is told of.
    pub roots: Vec<RootSetting>,
    /// Protocol era to use.
    pub era: EraChoice,
    /// Connect timeout: from the start to the end of the handshake.
    pub connect: Duration,
    /// All other timeouts.
    pub clocks: Timeouts,
    /// Which of its items are offered.
    pub filter: Arc<Filter>,
    /// Whether its lists are requested and followed.
    pub lists: Lists,
    /// How it is reached.
    pub way: Way,
}

/// Whether the lists of a server are requested and followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lists {
    /// Requested on connect, and after each change.
    #[default]
    Followed,
    /// Requested on connect only.
    Once,
    /// Only this list is requested, on connect only.
    Only(ItemKind),
    /// Not requested.
    Ignored,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Way {
    /// By an entry of the configuration, whose references are resolved on each dial.
    Configured(Arc<ServerConfig>),
    /// A program or a URL.
    Address(ServerAddress),
    /// A service in this process.
    InProcess(Arc<dyn Service>),
    /// A transport of the embedding program.
    Custom(Arc<dyn transport::Transport>),
}

/// The difference between two entries of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The changed keys, as spelled in the configuration.
    pub(crate) keys: Vec<&'static str>,
    /// Whether the server has to be reconnected.
    pub(crate) restart: bool,
}

/// Default connect timeout: from the start to the end of the handshake.
pub const CONNECT: Duration = Duration::from_secs(30);

// === impl WantedServer ===

impl WantedServer {
    /// A server with default settings.
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
            sessions: SessionEnd::default(),
            tasks: TaskTerms::default(),
            trust: Trust::default(),
            trust_lists: Arc::default(),
            reconnect: Reconnect::default(),
            withheld: Withheld::default(),
            sampling: SamplingSettings::default(),
            roots: Vec::new(),
            limits: LimitLevel::default(),
            era: EraChoice::Auto,
            connect: CONNECT,
            clocks: Timeouts::default(),
            filter: Arc::default(),
            lists: Lists::default(),
            way,
        }
    }

    /// Name of the configured header that carries a credential; `None` without one.
    pub fn credential(&self) -> Option<String> {
        let is_one = |name: &&str| is_secret_name(name);
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

    /// Whether access tokens are obtained without a user (client credentials and similar grants).
    pub(crate) fn is_unattended(&self) -> bool {
        let Way::Configured(server) = &self.way else { return false };
        let Transport::Http(http) = &server.transport else { return false };
        matches!(http.auth.as_deref(), Some(Auth::Grant { .. }))
    }

    /// A server as its entry and the common settings of the configuration say.
    pub fn configured(config: &Config, server: &ServerConfig) -> Self {
        let clocks = config.timeouts(server);
        let installs = server.timeouts.connect.is_none() && installer_of_entry(server).is_some();
        Self {
            label: server.label.clone(),
            description: server.description.clone(),
            source: server.source.place.to_string(),
            standing: server.standing,
            start: config.start(server),
            need: server.need,
            idle_stop: server.idle_stop,
            sharing: server.sharing,
            sessions: config.sessions(server),
            tasks: config.tasks(server),
            trust: server.trust(),
            trust_lists: Arc::new(server.trust_lists.clone()),
            reconnect: server.reconnect,
            withheld: Withheld {
                sampling: server.withheld.sampling || config.settings.sampling.value.is_forbidden(),
                ..server.withheld
            },
            sampling: server.sampling.clone(),
            roots: server.roots.clone(),
            limits: server.limits.clone(),
            era: match server.era {
                Era::Auto => EraChoice::Auto,
                Era::Legacy => EraChoice::Legacy,
                Era::Modern => EraChoice::Modern,
            },
            connect: if installs { INSTALL } else { clocks.connect },
            clocks: Timeouts {
                probe: clocks.probe,
                handshake: if installs { INSTALL } else { clocks.list },
                list: ExchangeTimeouts { idle: Some(clocks.list), ..ExchangeTimeouts::list() },
                call: ExchangeTimeouts { idle: clocks.idle, total: Some(clocks.total) },
            },
            filter: Arc::new(filter(server)),
            ..Self::new(server.name.clone(), Way::Configured(Arc::new(server.clone())))
        }
    }

    /// The installer that starts it, such as `npx`; `None` if its command is the server itself.
    pub fn installer(&self) -> Option<&'static str> {
        match &self.way {
            Way::Configured(server) => installer_of_entry(server),
            Way::Address(ServerAddress::Process(program)) => {
                installer_of(&program.command, program.arguments.iter().map(String::as_str))
            }
            Way::Address(_) | Way::InProcess(_) | Way::Custom(_) => None,
        }
    }

    /// Timeouts of a call.
    pub(crate) fn terms(&self) -> ExchangeTimeouts {
        self.clocks.call
    }

    /// A digest of how it is reached, with unresolved references; `None` if it cannot be compared after a restart. A stored
    /// listing is offered only under the same digest.
    pub fn definition(&self) -> Option<String> {
        match &self.way {
            Way::Configured(server) => {
                let texts = server.transport.texts();
                let parts = texts.iter().flat_map(|(key, text)| [key.as_bytes(), text.written().expose().as_bytes()]);
                Some(fingerprint(parts))
            }
            Way::Address(address) => Some(address.era_key()),
            Way::InProcess(_) | Way::Custom(_) => None,
        }
    }

    /// A digest of the entry after expansion, by which saved approvals recognise the server. Secrets are not part of it.
    pub fn entry_digest(&self, environment: &Environment) -> String {
        let texts = match &self.way {
            Way::Configured(server) => server.expanded_texts(environment),
            Way::Address(address) => address.texts(),
            Way::InProcess(_) | Way::Custom(_) => vec![("program".to_owned(), self.name.to_string())],
        };
        fingerprint(texts.iter().flat_map(|(key, text)| [key.as_bytes(), text.as_bytes()]))
    }

    /// The texts of its entry as they may be shown, with secrets masked.
    pub(crate) fn shown_entry(&self) -> Vec<EntryPart> {
        let part = |key: &str, shown: String| EntryPart { key: key.to_owned(), shown };
        match &self.way {
            Way::Configured(server) => {
                let texts = server.transport.texts();
                let mut parts: Vec<_> =
                    texts.iter().zip(server.masked_texts()).map(|((key, _), shown)| part(key, shown)).collect();
                parts.extend(server.source.folder.iter().map(|folder| part("folder", folder.display().to_string())));
                parts.push(part("base", server.source.base.display().to_string()));
                parts
            }
            Way::Address(address) => {
                let texts = address.texts();
                let commands = texts.into_iter().filter(|(key, _)| key == "command" || key == "url" || key == "cwd");
                commands.map(|(key, text)| part(&key, text)).collect()
            }
            Way::InProcess(_) | Way::Custom(_) => vec![part("program", self.name.to_string())],
        }
    }

    /// The paths that the command and the arguments may name: as they are and after `=` of an option, relative to the working
    /// directory and to each folder that an argument names (`uv --directory DIR run server.py`). Files that a server writes
    /// by their nature are left out, since they differ after each use.
    pub(crate) fn named_paths(&self, environment: &Environment) -> Vec<PathBuf> {
        let Way::Configured(server) = &self.way else { return Vec::new() };
        let texts = server.expanded_texts(environment);
        let directory = texts.iter().find(|(key, _)| key == "cwd").map(|(_, text)| PathBuf::from(text));
        let base = directory.or_else(|| server.source.folder.clone()).unwrap_or_else(|| server.source.base.clone());
        // A command without a slash is looked up in `PATH`.
        let command = texts.iter().find(|(key, text)| key == "command" && text.contains('/'));
        let mut paths: Vec<PathBuf> = command.map(|(_, text)| base.join(text)).into_iter().collect();
        let arguments = texts.iter().filter(|(key, _)| key == "args").filter_map(|(_, text)| path_in_argument(text));
        let named: Vec<&str> = arguments.take(MAX_NAMED).collect();
        let folders = named.iter().map(|text| base.join(text)).filter(|path| path.is_dir());
        let folders: Vec<PathBuf> = [base.clone()].into_iter().chain(folders.take(MAX_FOLDERS)).collect();
        for text in named {
            // What is absolute is the same below each folder.
            let below =
                folders.iter().map(|folder| folder.join(text)).filter(|path| !is_written(path) && !path.is_dir());
            paths.extend(below);
        }
        let mut seen = HashSet::new();
        paths.retain(|path| seen.insert(path.clone()));
        paths
    }

    /// The difference to `other`; `None` if both are equal.
    pub(crate) fn difference(&self, other: &Self) -> Option<Difference> {
        let mut keys = self.way.difference(&other.way);
        if self.era != other.era {
            keys.push("era");
        }
        // What a server was told of sampling holds for its connection.
        if self.withheld.sampling != other.withheld.sampling || self.sampling.allow != other.sampling.allow {
            keys.push("sampling");
        }
        if self.withheld.elicitation != other.withheld.elicitation {
            keys.push("elicitation");
        }
        // A client may own the process that was started for the lists: one that others share has to be started.
        if self.sharing != other.sharing {
            keys.push("sharing");
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
            ("sessions", self.sessions == other.sessions),
            ("tasks", self.tasks == other.tasks),
            ("trust", self.trust == other.trust && self.trust_lists == other.trust_lists),
            ("limits", self.limits == other.limits),
            ("sampling", self.sampling == other.sampling || self.sampling.allow != other.sampling.allow),
            ("roots", self.roots == other.roots),
            ("reconnect", self.reconnect == other.reconnect),
        ];
        keys.extend(adjusted.into_iter().filter(|(_, same)| !same).map(|(key, _)| key));
        (!keys.is_empty()).then_some(Difference { keys, restart })
    }
}

/// Endings of databases, logs and files of a running process.
const WRITTEN: &[&str] = &["db", "db3", "duckdb", "jsonl", "lock", "log", "pid", "sock", "sqlite", "sqlite3", "wal"];

/// Arguments of an entry that are looked at as paths.
const MAX_NAMED: usize = 64;
/// Folders among them to which others may be relative.
const MAX_FOLDERS: usize = 4;

/// What an argument may name: itself, or the value of an option (`--import=./a.mjs`).
fn path_in_argument(text: &str) -> Option<&str> {
    let value = match text.strip_prefix('-') {
        Some(option) => option.split_once('=')?.1,
        None => text,
    };
    (!value.is_empty() && !value.contains("://")).then_some(value)
}

/// Whether a file of this name is one that a server writes.
fn is_written(path: &Path) -> bool {
    path.extension().is_some_and(|ending| WRITTEN.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

// === impl Lists ===

impl Lists {
    /// Whether this list is requested.
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
    /// Which HTTP transports may be tried.
    pub(super) fn http(&self) -> HttpTransportChoice {
        let Self::Configured(server) = self else { return HttpTransportChoice::Any };
        match &server.transport {
            Transport::Http(Http { kind: HttpKind::Http, .. }) => HttpTransportChoice::Streamable,
            Transport::Http(Http { kind: HttpKind::Sse, .. }) => HttpTransportChoice::EventStream,
            Transport::Http(_) | Transport::Process(_) => HttpTransportChoice::Any,
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

/// The changed keys of the transport of an entry.
fn configured_difference(one: &ServerConfig, other: &ServerConfig) -> Vec<&'static str> {
    if one.same_connection(other) || one.transport == other.transport && one.source.folder == other.source.folder {
        // The caller compares the era.
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

/// The keys whose values differ, or `otherwise` if none does: then the folder of the entry differs.
fn named_or<const N: usize>(parts: [(&'static str, bool); N], otherwise: &'static str) -> Vec<&'static str> {
    let different: Vec<_> = parts.into_iter().filter(|(_, same)| !same).map(|(key, _)| key).collect();
    if different.is_empty() { vec![otherwise] } else { different }
}

/// The installer that starts the program of an entry.
fn installer_of_entry(server: &ServerConfig) -> Option<&'static str> {
    let Transport::Process(process) = &server.transport else { return None };
    installer_of(process.command.written().expose(), process.arguments.iter().map(|word| word.written().expose()))
}

/// The filter of an entry.
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
        extra_methods: patterns(&server.extra_methods),
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
