//! A limit that has no room for a call: which one, whose it is, and when it ends.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use toolway_config::ServerName;
use toolway_wire::{message::RpcError, time};

/// Key of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// `callsPerMinute`
    CallsPerMinute,
    /// `callsPerDay`
    CallsPerDay,
    /// `concurrent`
    Concurrent,
    /// `bytesPerCall`, of the arguments.
    ArgumentBytes,
    /// `bytesPerCall`, of the result.
    ResultBytes,
}

/// Whose calls a limit counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitOwner {
    /// Those of a server, by all callers.
    Server(ServerName),
    /// Those of a client of the gateway.
    Client(Arc<str>),
}

/// What a limit counts: the calls of its owner, or those of some tools among them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitScope {
    /// Whose calls.
    pub owner: LimitOwner,
    /// Pattern of the tools as written; `None`: all calls.
    pub tools: Option<Arc<str>>,
}

/// When a limit has room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitEnd {
    /// After this time.
    In(Duration),
    /// When one of the calls has ended.
    WithACall,
    /// Never for this call.
    Never,
}

/// A limit without room for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// The limit.
    pub key: LimitKey,
    /// Whose it is.
    pub scope: LimitScope,
    /// Its number.
    pub most: u64,
    /// Bytes of the call, if these are limited.
    pub bytes: u64,
    /// When it was reached.
    pub at: SystemTime,
    /// When it has room.
    pub end: LimitEnd,
}

// === impl LimitKey ===

impl LimitKey {
    /// The key in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CallsPerMinute => "callsPerMinute",
            Self::CallsPerDay => "callsPerDay",
            Self::Concurrent => "concurrent",
            Self::ArgumentBytes | Self::ResultBytes => "bytesPerCall",
        }
    }
}

// === impl LimitScope ===

impl LimitScope {
    /// The key under which the calls of a day are counted.
    pub fn count_key(&self) -> String {
        let owner = match &self.owner {
            LimitOwner::Server(server) => format!("server:{server}"),
            LimitOwner::Client(client) => format!("client:{client}"),
        };
        match &self.tools {
            Some(tools) => format!("{owner}\n{tools}"),
            None => owner,
        }
    }
}

impl fmt::Display for LimitScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tools) = &self.tools {
            write!(f, "tools `{tools}` of ")?;
        }
        match &self.owner {
            LimitOwner::Server(server) => write!(f, "server `{server}`"),
            LimitOwner::Client(client) => write!(f, "client `{client}`"),
        }
    }
}

// === impl LimitReached ===

impl LimitReached {
    /// Stable code of the error.
    pub const CODE: &'static str = "limit_exceeded";

    /// How long until there is room; `None` if no time is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.end {
            LimitEnd::In(wait) => Some(wait),
            LimitEnd::WithACall | LimitEnd::Never => None,
        }
    }

    /// When there is room; `None` if no time is known.
    pub fn ends_at(&self) -> Option<SystemTime> {
        self.at.checked_add(self.retry_after()?)
    }

    /// What a client is told besides the message: the limit, whose it is, and when to try again.
    pub fn data(&self) -> Value {
        let (server, client) = match &self.scope.owner {
            LimitOwner::Server(server) => (Some(server.as_str()), None),
            LimitOwner::Client(client) => (None, Some(&**client)),
        };
        let wait = self.retry_after().map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1));
        json!({
            "code": Self::CODE,
            "limit": self.key.as_str(),
            "max": self.most,
            "server": server,
            "client": client,
            "tools": self.scope.tools.as_deref(),
            RpcError::RETRY_AFTER: wait,
            "retryAt": self.ends_at().map(time::rfc3339_of),
        })
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, scope, most, bytes, .. } = self;
        write!(f, "limit `{}` of {scope}: ", key.as_str())?;
        match (key, *most) {
            (LimitKey::CallsPerMinute, 1) => f.write_str("its call per minute is used")?,
            (LimitKey::CallsPerMinute, most) => write!(f, "its {most} calls per minute are used")?,
            (LimitKey::CallsPerDay, 1) => f.write_str("its call per day (UTC) is used")?,
            (LimitKey::CallsPerDay, most) => write!(f, "its {most} calls per day (UTC) are used")?,
            (LimitKey::Concurrent, 1) => f.write_str("1 call is running")?,
            (LimitKey::Concurrent, most) => write!(f, "{most} calls are running at the same time")?,
            (LimitKey::ArgumentBytes, most) => write!(f, "the arguments have {bytes} bytes, and {most} are allowed")?,
            (LimitKey::ResultBytes, most) => {
                write!(
                    f,
                    "the call was made, and its result is withheld: it has {bytes} bytes, and {most} are allowed"
                )?;
            }
        }
        match (self.end, self.ends_at()) {
            (LimitEnd::In(wait), Some(at)) if key == &LimitKey::CallsPerDay => {
                write!(f, "; try again at {} (in {})", time::rfc3339_of(at), shown(wait))
            }
            (LimitEnd::In(wait), _) => write!(f, "; try again in {}", shown(wait)),
            (LimitEnd::WithACall, _) => f.write_str("; try again when one has ended"),
            (LimitEnd::Never, _) => Ok(()),
        }
    }
}

/// A time in its largest units, rounded up.
fn shown(wait: Duration) -> String {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() != 0);
    match seconds {
        0..=119 => format!("{} s", seconds.max(1)),
        120..=7_199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3_600)),
    }
}
