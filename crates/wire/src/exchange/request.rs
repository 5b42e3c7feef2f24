//! A request to a server, independent of revision and transport.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc, time::Duration};

use crate::{
    budget::MemoryBudget,
    json::Raw,
    message::{
        ClientCapabilities, ParamsSummary, RequestProblem, meta, refuse_ambiguity,
        splice::{self, Edit},
    },
};

/// One request. Its params contain nothing specific to a hop: no progress token, no version, no capability.
#[derive(Clone, Debug)]
pub struct Request {
    method: Cow<'static, str>,
    params: Option<Raw>,
    seen: ParamsSummary,
    /// Whether the caller wants progress events.
    pub progress: Progress,
    /// Lowest level of log events for the caller; `None`: the level of the connection.
    pub log_level: Option<LogLevel>,
    /// Level to request if neither caller nor connection sets one, for servers that log only on request; `None`: no logs.
    pub default_log_level: Option<LogLevel>,
    /// Capabilities of the caller; `None`: those of the connection.
    pub capabilities: Option<ClientCapabilities>,
    /// Answers that the caller supplies in advance, by the server's keys; an object of objects.
    pub answers: Option<Raw>,
    /// Whether the server may answer with a task.
    pub handover: Handover,
    /// The caller's name for this request, as it was sent outside its params; recognised by a service above the wire.
    pub idempotency_key: Option<Arc<str>>,
    /// Budget of the caller, charged for unread events and the result in addition to that of the connection.
    pub memory: MemoryBudget,
}

/// Whether a request may be answered with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// The caller waits for the result.
    Never,
    /// The caller accepts a task if the server prefers one.
    Allowed,
    /// The caller requests a task, with this time to live if given.
    Wanted(Option<Duration>),
}

/// Whether progress is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The caller reads progress events.
    Wanted,
    /// The caller ignores progress.
    Unwanted,
}

/// The eight severities of RFC 5424.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but significant.
    Notice,
    /// Possible problem.
    Warning,
    /// An operation failed.
    Error,
    /// A component failed.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// A log level this crate does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown log level `{0}`")]
pub struct UnknownLogLevel(pub String);

impl Request {
    /// Creates a request; fails if `params` has ambiguous keys.
    pub fn new(method: impl Into<Cow<'static, str>>, params: Option<Raw>) -> Result<Self, RequestProblem> {
        let seen = params.as_ref().map(refuse_ambiguity).transpose()?.unwrap_or_default();
        Ok(Self::with_summary(method, params, seen))
    }

    /// Creates a request whose params were already scanned, with the result of the scan.
    pub(crate) fn with_summary(method: impl Into<Cow<'static, str>>, params: Option<Raw>, seen: ParamsSummary) -> Self {
        Self { seen, ..Self::trusted(method, params) }
    }

    /// Creates a request with params made by this crate, which contain neither `task` nor `_meta`.
    pub(crate) fn trusted(method: impl Into<Cow<'static, str>>, params: Option<Raw>) -> Self {
        let (seen, progress, handover) = (ParamsSummary::default(), Progress::Unwanted, Handover::Never);
        Self {
            method: method.into(),
            params,
            seen,
            progress,
            log_level: None,
            default_log_level: None,
            capabilities: None,
            answers: None,
            handover,
            idempotency_key: None,
            memory: MemoryBudget::default(),
        }
    }

    /// Requests progress events.
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        self.progress = Progress::Wanted;
        self
    }

    /// Replaces the params by an edited version.
    #[must_use]
    pub(crate) fn with_params(mut self, params: Option<Raw>) -> Self {
        self.params = params;
        self
    }

    /// Removes the `_meta` keys that belong to the incoming hop.
    #[must_use]
    pub(crate) fn without_hop_keys(mut self, kinds: meta::MetaKeyKinds, meta: &Raw) -> Self {
        self.params = self.params.map(|params| kinds.without_hop_keys(&params, meta));
        self.seen.meta &= kinds.cross();
        self
    }

    /// Sets one member of the params; every other byte is unchanged.
    #[must_use]
    pub fn with_param(mut self, key: &'static str, value: Raw) -> Self {
        let params = self.params.take().unwrap_or_else(Raw::empty_object);
        self.params = Some(match params.get(key) {
            Some(now) if now.as_bytes() == value.as_bytes() => params,
            Some(now) => splice::replaced(&params, &now, &value),
            None => splice::edited(&params, &[Edit::Set(key, value)]),
        });
        self
    }

    /// Method name.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Members of params with which a stateless request continues an earlier one.
    pub const CONTINUATION: [&str; 2] = ["inputResponses", "requestState"];

    /// Params, if any.
    pub fn params(&self) -> Option<&Raw> {
        self.params.as_ref()
    }

    /// One member of the params.
    pub fn param(&self, key: &str) -> Option<Raw> {
        self.params.as_ref().and_then(|params| params.get(key))
    }

    /// Whether the params contain `inputResponses` or `requestState`.
    pub(crate) fn brings_answers(&self) -> bool {
        self.seen.answers
    }

    /// The `_meta` member of the params, if any.
    pub fn meta(&self) -> Option<Raw> {
        if self.seen.meta { self.param("_meta") } else { None }
    }

    /// The edit that sets `_meta`.
    pub(crate) fn edit_meta(&self, meta: Raw) -> Edit<'static> {
        if self.seen.meta { Edit::Set("_meta", meta) } else { Edit::Add("_meta", meta) }
    }

    /// Whether the caller requests a task.
    pub(crate) fn asks_for_task(&self) -> bool {
        self.method == "tools/call" && (self.seen.task || matches!(self.handover, Handover::Wanted(_)))
    }

    /// The edit that requests a task from a stateful server, unless the params already do.
    pub(crate) fn edit_task(&self) -> Option<Edit<'static>> {
        let Handover::Wanted(keeps) = self.handover else { return None };
        let keeps = keeps.and_then(|keeps| u64::try_from(keeps.as_millis()).ok());
        let task = keeps.map_or_else(Raw::empty_object, |keeps| Raw::of(&serde_json::json!({ "ttl": keeps })));
        (self.method == "tools/call" && !self.seen.task).then_some(Edit::Set("task", task))
    }

    /// Removes the `task` member from the params and returns it.
    pub(crate) fn take_task(&mut self) -> Option<Raw> {
        let task = if self.seen.task { self.param("task")? } else { return None };
        self.params = self.params.as_ref().map(|params| splice::edited(params, &[Edit::Remove("task")]));
        self.seen.task = false;
        Some(task)
    }

    /// Whether a server may send server requests before it answers this method.
    pub fn is_interactive(&self) -> bool {
        matches!(&*self.method, "tools/call" | "prompts/get" | "resources/read")
    }
}

impl LogLevel {
    /// All levels, least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Name of the level in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The `level` of a log message; `Debug` if missing or unknown.
    pub fn of(params: &Raw) -> Self {
        params.get("level").as_ref().and_then(Raw::as_str).and_then(|level| level.parse().ok()).unwrap_or(Self::Debug)
    }
}

impl FromStr for LogLevel {
    type Err = UnknownLogLevel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|level| level.as_str() == text).ok_or_else(|| UnknownLogLevel(text.to_owned()))
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
