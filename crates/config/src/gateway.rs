//! Settings of the gateway: access, listen address, limits.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use crate::{
    clients::{self, ClientSettings},
    error::ConfigError,
    public_address::{self, PublicUrl, TlsFiles},
    roots,
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
};

/// Which clients may connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewayAccess {
    /// Clients with a valid key.
    #[default]
    Keys,
    /// All clients on this machine, without a key.
    Open,
}

/// Log level forwarded to clients that never set one. Applies to log messages that a server sends during a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultLogLevel {
    /// No log messages are forwarded.
    Off,
    /// `debug` and above: everything.
    Debug,
    /// `info` and above.
    #[default]
    Info,
    /// `notice` and above.
    Notice,
    /// `warning` and above.
    Warning,
    /// `error` and above.
    Error,
    /// `critical` and above.
    Critical,
    /// `alert` and above.
    Alert,
    /// `emergency` only.
    Emergency,
}

/// Settings of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Which clients may connect.
    pub access: Setting<GatewayAccess>,
    /// Listen address; `None` means the default loopback address.
    pub listen: Setting<Option<SocketAddr>>,
    /// Host names accepted in requests, in addition to those of this machine.
    pub hosts: Setting<Vec<String>>,
    /// URL under which clients reach the gateway; `None`: the listen address.
    pub public_url: Setting<Option<PublicUrl>>,
    /// Certificate and key; `None`: plain HTTP.
    pub tls: Setting<Option<TlsFiles>>,
    /// Whether clients may connect over HTTP+SSE (2024-11-05).
    pub sse: Setting<bool>,
    /// Maximum number of concurrent calls of one client; `None` means the default of the host.
    pub calls_per_client: Setting<Option<u32>>,
    /// Timeout for the answer to a server request during a call; `None` means the default of `wire`.
    pub answer_within: Setting<Option<Duration>>,
    /// Default log level for session clients that never set one.
    pub log_level: Setting<DefaultLogLevel>,
    /// Maximum number of items in one page of a list; `None` means the default of the gateway.
    pub page_size: Setting<Option<u32>>,
    /// Folders that the roots of clients must lie in, as written; `None`: not set.
    pub roots_within: Setting<Option<Vec<String>>>,
    /// Settings of single clients, by name.
    pub clients: Setting<BTreeMap<String, ClientSettings>>,
}

const ACCESS: &[(&str, GatewayAccess)] = &[("keys", GatewayAccess::Keys), ("open", GatewayAccess::Open)];
const ACCESS_VALUES: &[&str] = &["keys", "open"];

const LOGS: &[(&str, DefaultLogLevel)] = &[
    ("off", DefaultLogLevel::Off),
    ("debug", DefaultLogLevel::Debug),
    ("info", DefaultLogLevel::Info),
    ("notice", DefaultLogLevel::Notice),
    ("warning", DefaultLogLevel::Warning),
    ("error", DefaultLogLevel::Error),
    ("critical", DefaultLogLevel::Critical),
    ("alert", DefaultLogLevel::Alert),
    ("emergency", DefaultLogLevel::Emergency),
];
const LOG_VALUES: &[&str] = &["off", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// Keys of `gateway`.
const MEMBERS: &[(&str, Shape)] = &[
    ("access", Shape::OneOf(ACCESS_VALUES)),
    ("listen", Shape::Text),
    ("hosts", Shape::Texts),
    ("publicUrl", Shape::Text),
    ("tls", Shape::Members(public_address::TLS)),
    ("sse", Shape::Flag),
    ("callsPerClient", Shape::Count),
    ("answerWithin", Shape::Time),
    ("logLevel", Shape::OneOf(LOG_VALUES)),
    ("pageSize", Shape::Count),
    ("rootsWithin", Shape::Texts),
    ("clients", Shape::NamedMembers(clients::MEMBERS)),
];

/// The top-level key `gateway`.
pub(crate) const GATEWAY: Key<Settings> = Key {
    name: "gateway",
    shape: Shape::Members(MEMBERS),
    doc: "Settings of `toolway serve`. `access`: `keys` (default, every client needs a key) or `open` (all clients on \
          this machine, without a key). `listen`: listen address, default `127.0.0.1:7717`. `hosts`: host names accepted \
          in requests, in addition to those of this machine. `publicUrl`: the URL under which clients reach the gateway, in \
          all client snippets; its host is accepted in requests. `tls`: `cert` and `key`, paths of a certificate chain and \
          its private key (PEM), to serve HTTPS; read again when they change. `sse`: also accept HTTP+SSE clients at `/sse`, default \
          `false`. `callsPerClient`: maximum number of concurrent calls of one client, default 256. `answerWithin`: \
          timeout for the answer to a server request during a call, default `10m`. `logLevel`: default log level \
          forwarded to clients (2025-11-25 or older) that never set one, for servers of revision 2026-07-28; default \
          `info`, `off` forwards nothing. `pageSize`: maximum number of items in one page of a list, default 10000; a page \
          is never larger than 8 MiB. Some clients read only the first page. `rootsWithin`: folders (absolute, or from `~/` on) \
          that every root of a client must lie in; others are dropped. If it is not set and other machines can reach the \
          gateway, all `file:` roots of clients are dropped; on this machine alone they are passed on. `clients`: settings of single clients, by the \
          name of their key. `servers` and `tools` (`SERVER.TOOL`, both with `*`) of a client: what it may see, besides what its \
          key allows: both must allow it. `mode` of a client: `ask`, `writes` or `allow`, as in `policy`; the stricter of the two counts, \
          and rules can be stricter still. `approver`: where questions about its calls go: `client` (default: to the client if it \
          supports forms, and to the inbox of the operator) or `inbox` (only there). `sampling`: as the top-level \
          key, for the calls of this client; `never` also keeps a client from getting requests that it could answer itself. \
          `roots` and `inbox`: as the top-level keys, for the calls of this client. `limits`: as `limits` of a server, for all \
          calls of this client; the patterns of its `tools` are `SERVER.TOOL`.",
    example: r#"{"access": "keys", "listen": "127.0.0.1:7717"}"#,
    set: read,
};

fn read(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    let gateway = &mut settings.gateway;
    for (key, field) in field.members()? {
        match key {
            "access" => {
                let access = field.choice(ACCESS, Shape::OneOf(ACCESS_VALUES))?;
                put(&mut gateway.access, field.setting(access))?;
            }
            "listen" => {
                let address = field
                    .text()?
                    .parse()
                    .map_err(|_| field.expected("an IP address and port, such as `127.0.0.1:7717`"))?;
                put(&mut gateway.listen, field.setting(Some(address)))?;
            }
            "hosts" => put(&mut gateway.hosts, field.setting(field.texts()?))?,
            "publicUrl" => put(&mut gateway.public_url, field.setting(Some(public_address::read_url(&field)?)))?,
            "tls" => put(&mut gateway.tls, field.setting(Some(public_address::read_tls(&field)?)))?,
            "sse" => put(&mut gateway.sse, field.setting(field.flag()?))?,
            "callsPerClient" => put(&mut gateway.calls_per_client, field.setting(Some(positive(&field)?)))?,
            "pageSize" => put(&mut gateway.page_size, field.setting(Some(positive(&field)?)))?,
            "answerWithin" => {
                let time = Some(field.time()?).filter(|time| !time.is_zero());
                let time = time.ok_or_else(|| field.expected("a duration greater than zero, such as `10m`"))?;
                put(&mut gateway.answer_within, field.setting(Some(time)))?;
            }
            "rootsWithin" => put(&mut gateway.roots_within, field.setting(Some(roots::read_folders(&field)?)))?,
            "clients" => put(&mut gateway.clients, field.setting(clients::read(&field)?))?,
            "logLevel" => {
                let level = field.choice(LOGS, Shape::OneOf(LOG_VALUES))?;
                put(&mut gateway.log_level, field.setting(level))?;
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(())
}

fn positive(field: &Field<'_>) -> Result<u32, ConfigError> {
    let count = Some(field.count()?).filter(|count| 0 < *count);
    count.ok_or_else(|| field.expected("a whole number greater than zero"))
}

impl GatewaySettings {
    /// These settings, overridden by those that the nearer layer sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            access: self.access.overridden_by(nearer.access),
            listen: self.listen.overridden_by(nearer.listen),
            hosts: self.hosts.overridden_by(nearer.hosts),
            public_url: self.public_url.overridden_by(nearer.public_url),
            tls: self.tls.overridden_by(nearer.tls),
            sse: self.sse.overridden_by(nearer.sse),
            calls_per_client: self.calls_per_client.overridden_by(nearer.calls_per_client),
            answer_within: self.answer_within.overridden_by(nearer.answer_within),
            log_level: self.log_level.overridden_by(nearer.log_level),
            page_size: self.page_size.overridden_by(nearer.page_size),
            roots_within: self.roots_within.overridden_by(nearer.roots_within),
            clients: self.clients.overridden_by(nearer.clients),
        }
    }
}

impl DefaultLogLevel {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        LOGS.iter().find(|(_, level)| *level == self).map_or("info", |(name, _)| name)
    }
}

impl GatewayAccess {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Open => "open",
        }
    }
}
