//! The request for a call: one tool, prompt, resource or method, with arguments and options.

use std::{
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use toolway_config::{PolicyMode, ServerName};
use toolway_wire::{
    exchange::{ExchangeTimeouts, LogLevel, Progress, Request},
    json::Raw,
    message::ClientCapabilities,
};

use uuid::Uuid;

use super::caller::{Caller, CallerContext, VisibleServers};
use crate::{
    catalog::{Fingerprint, Origin, PublicName},
    policy::{AssistantPolicy, Attendance, SeenUrls, Surface},
    record::{IdempotencyKey, InvalidKey, RecordedArguments},
};

/// A request on behalf of one caller.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// Identity on whose behalf the call is made.
    pub caller: Caller,
    /// The requested item.
    pub target: Target,
    /// Arguments of a tool or prompt, or params of a method; sent unchanged.
    pub arguments: Option<Raw>,
    /// Whether the caller wants progress events. Progress resets the idle timeout in both cases.
    pub progress: Progress,
    /// Minimum level of log messages of this call; `None`: the level of the connection.
    pub log_level: Option<LogLevel>,
    /// Session of the caller, for servers with one connection per session.
    pub session: Option<Arc<str>>,
    /// Servers visible to the caller.
    pub visible: VisibleServers,
    /// Client capabilities of the caller; `None`: those of the host's ports.
    pub capabilities: Option<ClientCapabilities>,
    /// Fingerprint of the definition that the caller chose. The call is refused if it has changed.
    pub chosen: Option<Fingerprint>,
    /// Timeouts of this call; `None`: those of the server.
    pub terms: Option<ExchangeTimeouts>,
    /// The original request of a relayed call. It is sent with the raw name in place of the public name.
    pub whole: Option<Request>,
    /// Surface that the call comes from.
    pub surface: Surface,
    /// Conversation that the call belongs to.
    pub conversation: Option<Arc<str>>,
    /// Mode of policy for this call; `None`: the configured one. Rules hold in every mode.
    pub mode: Option<PolicyMode>,
    /// Assistant of the conversation. It only makes mode and rules stricter.
    pub assistant: Option<Arc<AssistantPolicy>>,
    /// URLs of the user and of earlier results of the conversation.
    pub seen: Option<Arc<SeenUrls>>,
    /// Names the call, so that its repetition is recognised. An invalid one refuses it, with a record.
    pub idempotency_key: Option<Result<IdempotencyKey, InvalidKey>>,
    /// Whether a person is present. `run` is unattended, whatever stands here.
    pub attendance: Attendance,
    /// What becomes of the call if policy asks about it.
    pub approval: ApprovalHandling,
    /// What becomes of the call if its server continues it as a task.
    pub task: TaskHandling,
    /// Time between two polls of a task whose server suggests none; `None`: that of the server's entry.
    pub poll_interval: Option<Duration>,
    /// How long the server is asked to keep a task; `None`: as it likes.
    pub task_ttl: Option<Duration>,
    /// Identity of the client for which the gateway hosts the call as a task.
    pub hosted_for: Option<Arc<str>>,
    /// How old an earlier result of the same resource for the same caller may be that answers the call; zero: none does.
    pub max_age: Duration,
}

/// What becomes of a call that policy asks about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalHandling {
    /// A person is asked.
    #[default]
    Ask,
    /// It is refused: it was not wanted by a person, who would not know what it is about.
    Refuse,
}

/// What becomes of a call that its server continues as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskHandling {
    /// The call waits for the task: the outcome is that of the task.
    #[default]
    Await,
    /// The call ends with the task ([`CallOutcome::HandedOff`](super::CallOutcome::HandedOff)). The host follows it, and its ports answer the
    /// requests of the server. A tool that can run as a task does.
    Background,
    /// The call waits for the task, and is itself one for its caller: it has a row from the moment it is sent.
    Hosted,
    /// The call ends with the task, which the caller uses itself. The host only reads its status.
    HandOver,
}

/// The requested item, and how it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A tool by its public name.
    Tool(PublicName),
    /// A prompt by its public name.
    Prompt(PublicName),
    /// A resource by its public URI.
    Resource(String),
    /// A tool by its name at the server.
    ToolOf(Origin),
    /// A prompt by its name at the server.
    PromptOf(Origin),
    /// A resource by its URI at the server.
    ResourceOf(Origin),
    /// Any method of one server, with unchanged params.
    Method {
        /// Server name.
        server: ServerName,
        /// Method name.
        method: String,
    },
}

/// Kind of the requested item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// `tools/call`
    Tool,
    /// `prompts/get`
    Prompt,
    /// `resources/read`
    Resource,
    /// Any other method.
    Method,
}

/// Id of a call: unique within a host, and with high probability among all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(Uuid);

// === impl CallRequest ===

impl CallRequest {
    /// Creates a request for `target` without arguments.
    pub fn new(caller: Caller, target: Target) -> Self {
        Self {
            surface: Surface::of(&caller),
            conversation: None,
            mode: None,
            assistant: None,
            poll_interval: None,
            seen: None,
            attendance: Attendance::Attended,
            approval: ApprovalHandling::Ask,
            task: TaskHandling::Await,
            task_ttl: None,
            hosted_for: None,
            max_age: Duration::ZERO,
            idempotency_key: None,
            caller,
            target,
            arguments: None,
            progress: Progress::Wanted,
            log_level: None,
            session: None,
            visible: VisibleServers::All,
            capabilities: None,
            chosen: None,
            terms: None,
            whole: None,
        }
    }

    /// Creates a request that relays one received from a client, with all of its parameters.
    pub fn relayed(caller: Caller, target: Target, request: Request) -> Self {
        Self {
            progress: request.progress,
            log_level: request.log_level,
            capabilities: request.capabilities.clone(),
            whole: Some(request),
            task: TaskHandling::HandOver,
            ..Self::new(caller, target)
        }
    }

    /// Calls a tool by its public name.
    pub fn tool(caller: Caller, name: PublicName, arguments: Option<Raw>) -> Self {
        Self { arguments, ..Self::new(caller, Target::Tool(name)) }
    }

    /// Gets a prompt by its public name.
    pub fn prompt(caller: Caller, name: PublicName, arguments: Option<Raw>) -> Self {
        Self { arguments, ..Self::new(caller, Target::Prompt(name)) }
    }

    /// Reads a resource.
    pub fn read(caller: Caller, uri: impl Into<String>) -> Self {
        Self::new(caller, Target::Resource(uri.into()))
    }

    /// The context of the caller.
    pub(crate) fn caller_context(&self) -> CallerContext {
        CallerContext {
            caller: self.caller.clone(),
            capabilities: self.capabilities.clone(),
            session: self.session.clone(),
            visible: self.visible.clone(),
        }
    }

    /// The arguments as a record shows them: of a relayed tool or prompt call only these, not its other params.
    pub(crate) fn recorded_arguments(&self) -> RecordedArguments {
        let recorded = match (&self.whole, self.target.kind()) {
            (Some(whole), CallKind::Tool | CallKind::Prompt) => whole.params().cloned().map(RecordedArguments::In),
            _ => self.content().cloned().map(RecordedArguments::Whole),
        };
        recorded.unwrap_or_default()
    }

    /// Returns the arguments, or the params of a method.
    pub(crate) fn content(&self) -> Option<&Raw> {
        self.arguments.as_ref().or_else(|| self.whole.as_ref().and_then(Request::params))
    }
}

// === impl Target ===

impl Target {
    /// Kind of the item.
    pub fn kind(&self) -> CallKind {
        match self {
            Self::Tool(_) | Self::ToolOf(_) => CallKind::Tool,
            Self::Prompt(_) | Self::PromptOf(_) => CallKind::Prompt,
            Self::Resource(_) | Self::ResourceOf(_) => CallKind::Resource,
            Self::Method { .. } => CallKind::Method,
        }
    }

    /// The name or URI as requested.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(name) | Self::Prompt(name) => name.as_str(),
            Self::Resource(uri) => uri,
            Self::ToolOf(origin) | Self::PromptOf(origin) | Self::ResourceOf(origin) => &origin.raw_name,
            Self::Method { method, .. } => method,
        }
    }
}

// === impl CallKind ===

impl CallKind {
    /// Stable identifier, as used in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
            Self::Method => "method",
        }
    }
}

impl fmt::Display for CallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl CallId {
    /// A new id. Ids of one run sort by the time of their calls; `run` is random, `number` counts the calls. The last eight
    /// digits, by which people tell calls apart, differ within a run.
    pub(crate) fn new(run: u64, number: u64) -> Self {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let mut rest = [0; 10];
        let [.., a, b, c, d] = number.to_be_bytes();
        rest[..4].copy_from_slice(&[a & 0x0f, b, c & 0x3f, d]);
        // An odd factor: no two numbers have the same product.
        let spread = u32::from_be_bytes([a, b, c, d]).wrapping_mul(0x9e37_79b1);
        rest[4..].copy_from_slice(&(run ^ u64::from(spread)).to_be_bytes()[2..]);
        Self(uuid::Builder::from_unix_timestamp_millis(u64::try_from(millis).unwrap_or_default(), &rest).into_uuid())
    }

    /// The id of a number, for tests.
    pub const fn from_u128(number: u128) -> Self {
        Self(Uuid::from_u128(number))
    }

    /// The id as a number.
    pub const fn as_u128(self) -> u128 {
        self.0.as_u128()
    }

    /// The id as a UUIDv7.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl FromStr for CallId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
