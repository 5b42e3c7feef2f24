//! Quotas of sampling, and the port that counts against them.
//!
//! A request reserves its own tokens, as they are estimated, and the most that its answer may have; when the model has
//! answered, what was used counts. A reservation that was never settled, because the process was killed, counts in full until its time has passed. All
//! processes that use one ledger have one count.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use toolway_config::{SamplingLevels, SamplingSettings, ServerName};
use toolway_wire::time;
use uuid::Uuid;

use crate::{call::CallId, record::RecordsError};

/// Time in which requests are counted.
pub const HOUR: Duration = Duration::from_secs(60 * 60);
/// Time in which tokens are counted.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Counts answers of models against quotas.
pub trait SamplingLedger: Send + Sync {
    /// Reserves the tokens of a request if every quota has room for it, else nothing.
    fn reserve(
        &self,
        wanted: SamplingUse,
        quotas: SamplingQuotas,
    ) -> BoxFuture<'static, Result<Reservation, RecordsError>>;

    /// Ends a reservation. Submits its write before it returns.
    fn settle(&self, id: Uuid, end: SamplingEnd);
}

/// A request that is about to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingUse {
    /// Id of the request, a UUIDv7.
    pub id: Uuid,
    /// When it was asked.
    pub at: SystemTime,
    /// The call that it belongs to.
    pub call: Option<CallId>,
    /// The server that asks.
    pub server: ServerName,
    /// `kind[:name]` of the caller of the call.
    pub caller: String,
    /// Name of the model.
    pub model: String,
    /// Why this model was chosen.
    pub reason: String,
    /// Tokens to reserve: those of the request, estimated, and the most that the answer may have.
    pub tokens: u64,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SamplingEnd {
    /// Nothing was sent to the model: it counts as if it had never been asked.
    NotSent,
    /// The model answered or failed.
    Sent {
        /// Tokens as the vendor counts them; `None` if it did not say, and the reservation stays.
        tokens: Option<SampledTokens>,
        /// `answered`, `failed` or `withheld` (a person did not let the answer pass).
        outcome: &'static str,
    },
}

/// Tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampledTokens {
    /// Tokens of the request.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
}

/// Level of a quota: what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaLevel {
    /// All requests.
    Top,
    /// The requests of the server.
    Server,
    /// The requests in calls of the client.
    Client,
}

/// Quotas of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelQuota {
    /// Requests within an hour.
    pub requests_per_hour: Option<u32>,
    /// Tokens within a day.
    pub tokens_per_day: Option<u32>,
}

/// The quotas that concern one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplingQuotas {
    /// Of all requests.
    pub top: LevelQuota,
    /// Of the requests of the server.
    pub server: LevelQuota,
    /// Of the requests in calls of the client.
    pub client: LevelQuota,
}

/// Whether a request has a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// It has one; this is left after it.
    Granted(Vec<QuotaLeft>),
    /// It has none.
    Exceeded(QuotaExceeded),
}

/// What is left of the quotas of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLeft {
    /// The level.
    pub level: QuotaLevel,
    /// Requests in this hour, if they are limited.
    pub requests: Option<u64>,
    /// Tokens of this day, if they are limited.
    pub tokens: Option<u64>,
}

/// A quota without room for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// The level.
    pub level: QuotaLevel,
    /// The quota.
    pub limit: QuotaLimit,
    /// When it has room for the request; `None` if it never has.
    pub ends_at: Option<SystemTime>,
}

/// One quota with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaLimit {
    /// `requestsPerHour`
    RequestsPerHour(u32),
    /// `tokensPerDay`
    TokensPerDay(u32),
}

/// Counts nothing: a request with a quota is refused. The safe default.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSamplingLedger;

// === impl NoSamplingLedger ===

impl SamplingLedger for NoSamplingLedger {
    fn reserve(
        &self,
        _wanted: SamplingUse,
        quotas: SamplingQuotas,
    ) -> BoxFuture<'static, Result<Reservation, RecordsError>> {
        let reserved = match quotas.is_empty() {
            true => Ok(Reservation::Granted(Vec::new())),
            false => Err(RecordsError::Invalid("quotas of sampling need the store, which is not available")),
        };
        Box::pin(async move { reserved })
    }

    fn settle(&self, _id: Uuid, _end: SamplingEnd) {}
}

// === impl SamplingQuotas ===

impl SamplingQuotas {
    /// The quotas of these levels.
    pub fn of(levels: &SamplingLevels) -> Self {
        let quota = |level: &SamplingSettings| LevelQuota {
            requests_per_hour: level.requests_per_hour,
            tokens_per_day: level.tokens_per_day,
        };
        Self { top: quota(&levels.top), server: quota(&levels.server), client: quota(&levels.client) }
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Each level with its quotas.
    pub fn levels(&self) -> [(QuotaLevel, LevelQuota); 3] {
        [(QuotaLevel::Top, self.top), (QuotaLevel::Server, self.server), (QuotaLevel::Client, self.client)]
    }
}

impl QuotaLevel {
    /// The key of its settings.
    fn key(self, server: &str, caller: &str) -> String {
        match self {
            Self::Top => "sampling".to_owned(),
            Self::Server => format!("mcpServers.{server}.sampling"),
            Self::Client => {
                let name = caller.strip_prefix("client:").unwrap_or(caller);
                format!("gateway.clients.{name}.sampling")
            }
        }
    }

    /// The word for scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Top => "top",
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// What it counts, in words.
    fn counted(self) -> &'static str {
        match self {
            Self::Top => "in all",
            Self::Server => "for this server",
            Self::Client => "for this client",
        }
    }
}

impl QuotaExceeded {
    /// Why a request is refused: the limit, and when it ends.
    pub fn reason(&self, server: &str, caller: &str) -> String {
        let key = self.level.key(server, caller);
        let limit = match self.limit {
            QuotaLimit::RequestsPerHour(most) => format!("`{key}.requestsPerHour` is {most}"),
            QuotaLimit::TokensPerDay(most) => format!("`{key}.tokensPerDay` is {most}"),
        };
        match self.ends_at {
            Some(at) => format!("{limit}, and there is room for this request from {}", time::rfc3339(time::micros(at))),
            None => format!("{limit}, which is less than this request may use"),
        }
    }
}

impl fmt::Display for QuotaLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.requests.map(|left| format!("{left} requests this hour"));
        let tokens = self.tokens.map(|left| format!("{left} tokens today"));
        let left: Vec<_> = requests.into_iter().chain(tokens).collect();
        write!(f, "{} {}", left.join(" and "), self.level.counted())
    }
}
