//! What the operator says about the gateway: who may come in, and where it listens.

use std::{net::SocketAddr, time::Duration};

use crate::{
    error::ConfigError,
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
};

/// Who may come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewayAccess {
    /// Whoever brings a key.
    #[default]
    Keys,
    /// Everybody on this machine.
    Open,
}

/// From which level on a client that says none hears what servers log in the middle of its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsualLogs {
    /// It hears nothing.
    Off,
    /// Everything.
    Debug,
    /// What happens.
    #[default]
    Info,
    /// What is worth a look.
    Notice,
    /// What to keep an eye on.
    Warning,
    /// What failed.
    Error,
    /// Where a part of the whole failed.
    Critical,
    /// Where somebody has to act now.
    Alert,
    /// Where nothing works.
    Emergency,
}

/// What holds for the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewaySettings {
    /// Who may come in.
    pub access: Setting<GatewayAccess>,
    /// Where it listens; a port of this machine where nothing is said.
    pub listen: Setting<Option<SocketAddr>>,
    /// Names under which it is reached, beside those of this machine.
    pub hosts: Setting<Vec<String>>,
    /// Whether the oldest clients may come in too, over HTTP+SSE of 2024-11-05.
    pub sse: Setting<bool>,
    /// How many calls of one client may be under way at once; the host's own bound where nothing is said.
    pub calls_per_client: Setting<Option<u32>>,
    /// How long a question in the middle of a call waits for its answer; the wire's own time where nothing is said.
    pub answer_within: Setting<Option<Duration>>,
    /// Which logs a client hears that keeps a session and never said, of servers that log only when told to.
    pub log_level: Setting<UsualLogs>,
}

const ACCESS: &[(&str, GatewayAccess)] = &[("keys", GatewayAccess::Keys), ("open", GatewayAccess::Open)];
const ACCESS_WORDS: &[&str] = &["keys", "open"];

const LOGS: &[(&str, UsualLogs)] = &[
    ("off", UsualLogs::Off),
    ("debug", UsualLogs::Debug),
    ("info", UsualLogs::Info),
    ("notice", UsualLogs::Notice),
    ("warning", UsualLogs::Warning),
    ("error", UsualLogs::Error),
    ("critical", UsualLogs::Critical),
    ("alert", UsualLogs::Alert),
    ("emergency", UsualLogs::Emergency),
];
const LOG_WORDS: &[&str] = &["off", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// What stands under `gateway`.
const MEMBERS: &[(&str, Shape)] = &[
    ("access", Shape::Word(ACCESS_WORDS)),
    ("listen", Shape::Text),
    ("hosts", Shape::Texts),
    ("sse", Shape::Flag),
    ("callsPerClient", Shape::Count),
    ("answerWithin", Shape::Time),
    ("logLevel", Shape::Word(LOG_WORDS)),
];

/// The key of the document.
pub(crate) const GATEWAY: Key<Settings> = Key {
    name: "gateway",
    shape: Shape::Members(MEMBERS),
    doc: "For `toolway serve`: `access` is `keys` unless said, or `open` for everybody on this machine; `listen` is the \
          address, `127.0.0.1:7717` unless said; `hosts` are names under which it is reached beside those of this \
          machine; with `sse` the oldest clients come in too, over HTTP+SSE at `/sse`, which they may not unless said; `callsPerClient` \
          is how many calls of one client may be under way at once, 256 unless said; `answerWithin` is how long a question of \
          a server in the middle of a call waits for its answer, `10m` unless said; `logLevel` is from which level on a client of \
          2025 or older that never said hears what servers of 2026 log in the middle of its calls, `info` unless said, `off` \
          for nothing.",
    example: r#"{"access": "keys", "listen": "127.0.0.1:7717"}"#,
    set: read,
};

fn read(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    let gateway = &mut settings.gateway;
    for (key, field) in field.members()? {
        match key {
            "access" => {
                let access = field.word(ACCESS, Shape::Word(ACCESS_WORDS))?;
                put(&mut gateway.access, field.setting(access))?;
            }
            "listen" => {
                let address =
                    field.text()?.parse().map_err(|_| field.expected("an address such as `127.0.0.1:7717`"))?;
                put(&mut gateway.listen, field.setting(Some(address)))?;
            }
            "hosts" => put(&mut gateway.hosts, field.setting(field.texts()?))?,
            "sse" => put(&mut gateway.sse, field.setting(field.flag()?))?,
            "callsPerClient" => {
                let calls = Some(field.count()?).filter(|calls| 0 < *calls);
                let calls = calls.ok_or_else(|| field.expected("a whole number from one"))?;
                put(&mut gateway.calls_per_client, field.setting(Some(calls)))?;
            }
            "answerWithin" => {
                let time = Some(field.time()?).filter(|time| !time.is_zero());
                let time = time.ok_or_else(|| field.expected("a time such as `10m`, not none at all"))?;
                put(&mut gateway.answer_within, field.setting(Some(time)))?;
            }
            "logLevel" => {
                let level = field.word(LOGS, Shape::Word(LOG_WORDS))?;
                put(&mut gateway.log_level, field.setting(level))?;
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(())
}

impl GatewaySettings {
    /// These, with what was said nearer put over them.
    #[must_use]
    pub(crate) fn under(self, nearer: Self) -> Self {
        Self {
            access: self.access.or_nearer(nearer.access),
            listen: self.listen.or_nearer(nearer.listen),
            hosts: self.hosts.or_nearer(nearer.hosts),
            sse: self.sse.or_nearer(nearer.sse),
            calls_per_client: self.calls_per_client.or_nearer(nearer.calls_per_client),
            answer_within: self.answer_within.or_nearer(nearer.answer_within),
            log_level: self.log_level.or_nearer(nearer.log_level),
        }
    }
}

impl UsualLogs {
    /// As it is written.
    pub fn word(self) -> &'static str {
        LOGS.iter().find(|(_, level)| *level == self).map_or("info", |(word, _)| word)
    }
}

impl GatewayAccess {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Open => "open",
        }
    }
}
