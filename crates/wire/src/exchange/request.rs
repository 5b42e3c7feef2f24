//! What is asked of a server, without a word about how it travels.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use crate::{
    json::Raw,
    message::{
        ClientCapabilities, RequestProblem, Seen, meta, refuse_ambiguity,
        splice::{self, Edit},
    },
};

/// One request. Its params hold nothing that belongs to a hop: no token, no version, no capability.
#[derive(Clone, Debug)]
pub struct Request {
    method: Cow<'static, str>,
    params: Option<Raw>,
    seen: Seen,
    /// Whether its caller wants to hear of progress.
    pub progress: Progress,
    /// From which level on its caller wants to hear logs; `None`: what the connection was set to.
    pub log_level: Option<LogLevel>,
    /// From which level on where nobody says one, for servers that log only when told to; `None`: nothing.
    pub usual_log_level: Option<LogLevel>,
    /// What its caller's side can be asked; `None`: what the connection declares.
    pub capabilities: Option<ClientCapabilities>,
    /// Answers its caller brings along although nothing was asked, by the keys it expects; an object of objects.
    pub answers: Option<Raw>,
    /// Whether a task may stand for the answer.
    pub handover: Handover,
}

/// Whether a task may stand for the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// Its caller waits for the answer.
    Never,
    /// Its caller takes a task where the answering side prefers one.
    Allowed,
    /// Its caller would rather have a task than wait, kept this long if it says.
    Wanted(Option<Duration>),
}

/// Whether progress is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The caller looks at it.
    Wanted,
    /// Nobody does.
    Unwanted,
}

/// The eight severities of RFC 5424.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Details for whoever looks for a fault.
    Debug,
    /// What happens.
    Info,
    /// Normal, but worth a look.
    Notice,
    /// Something to keep an eye on.
    Warning,
    /// Something failed.
    Error,
    /// A part of the whole failed.
    Critical,
    /// Act now.
    Alert,
    /// Nothing works.
    Emergency,
}

/// Not one of the eight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown log level `{0}`")]
pub struct UnknownLogLevel(pub String);

impl Request {
    /// A request of this program's own making.
    pub fn new(method: impl Into<Cow<'static, str>>, params: Option<Raw>) -> Result<Self, RequestProblem> {
        let seen = params.as_ref().map(refuse_ambiguity).transpose()?.unwrap_or_default();
        Ok(Self::seen(method, params, seen))
    }

    /// A request whose params were looked at when they came, and this was seen of them.
    pub(crate) fn seen(method: impl Into<Cow<'static, str>>, params: Option<Raw>, seen: Seen) -> Self {
        Self { seen, ..Self::trusted(method, params) }
    }

    /// A request whose params were made here, with neither a task nor a `_meta` in them.
    pub(crate) fn trusted(method: impl Into<Cow<'static, str>>, params: Option<Raw>) -> Self {
        let (seen, progress, handover) = (Seen::default(), Progress::Unwanted, Handover::Never);
        Self {
            method: method.into(),
            params,
            seen,
            progress,
            log_level: None,
            usual_log_level: None,
            capabilities: None,
            answers: None,
            handover,
        }
    }

    /// The same, with its caller looking at progress.
    #[must_use]
    pub fn with_progress(mut self) -> Self {
        self.progress = Progress::Wanted;
        self
    }

    /// The same with other params, made from its own.
    #[must_use]
    pub(crate) fn with_params(mut self, params: Option<Raw>) -> Self {
        self.params = params;
        self
    }

    /// The same without what its `_meta` says about the hop it came over.
    #[must_use]
    pub(crate) fn without_hop_keys(mut self, kinds: meta::Kinds, meta: &Raw) -> Self {
        self.params = self.params.map(|params| kinds.without_hop_keys(&params, meta));
        self.seen.meta &= kinds.cross();
        self
    }

    /// The same with this member of its params set to `value`; every other byte stays as it is.
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

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The params.
    pub fn params(&self) -> Option<&Raw> {
        self.params.as_ref()
    }

    /// One member of the params.
    pub fn param(&self, key: &str) -> Option<Raw> {
        self.params.as_ref().and_then(|params| params.get(key))
    }

    /// Whether its params bring answers, or a handle that they belong to.
    pub(crate) fn brings_answers(&self) -> bool {
        self.seen.answers
    }

    /// What its params say beside the point, if they say anything.
    pub(crate) fn meta(&self) -> Option<Raw> {
        if self.seen.meta { self.param("_meta") } else { None }
    }

    /// The edit that makes this its `_meta`.
    pub(crate) fn edit_meta(&self, meta: Raw) -> Edit<'static> {
        if self.seen.meta { Edit::Set("_meta", meta) } else { Edit::Add("_meta", meta) }
    }

    /// Whether its caller would rather have a task than wait.
    pub(crate) fn asks_for_task(&self) -> bool {
        self.method == "tools/call" && (self.seen.task || matches!(self.handover, Handover::Wanted(_)))
    }

    /// The edit that says so in a session, where its params do not say it already.
    pub(crate) fn edit_task(&self) -> Option<Edit<'static>> {
        let Handover::Wanted(keeps) = self.handover else { return None };
        let keeps = keeps.and_then(|keeps| u64::try_from(keeps.as_millis()).ok());
        let task = keeps.map_or_else(Raw::empty_object, |keeps| Raw::of(&serde_json::json!({ "ttl": keeps })));
        (self.method == "tools/call" && !self.seen.task).then_some(Edit::Set("task", task))
    }

    /// The same without the wish for a task in its params; gives what that was.
    pub(crate) fn take_task(&mut self) -> Option<Raw> {
        let task = if self.seen.task { self.param("task")? } else { return None };
        self.params = self.params.as_ref().map(|params| splice::edited(params, &[Edit::Remove("task")]));
        self.seen.task = false;
        Some(task)
    }

    /// Whether a server may ask something before it answers this.
    pub fn is_interactive(&self) -> bool {
        matches!(&*self.method, "tools/call" | "prompts/get" | "resources/read")
    }
}

impl LogLevel {
    /// All of them, least severe first.
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

    /// As the wire spells it.
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

    /// The level of a log message's params; the least severe where it says none we know.
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
