//! What is asked for: one tool, prompt, resource or method, and everything that goes with it.

use std::{fmt, sync::Arc};

use toolway_config::ServerName;
use toolway_wire::{
    exchange::{LogLevel, Progress, Request, Terms},
    json::Raw,
    message::ClientCapabilities,
};

use super::caller::{Caller, Visible};
use crate::catalog::{Fingerprint, Origin, PublicName};

/// One request on behalf of one caller.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// On whose behalf.
    pub caller: Caller,
    /// What is asked for.
    pub target: Target,
    /// Arguments of a tool or prompt, params of a method; as they are.
    pub arguments: Option<Raw>,
    /// Whether the caller looks at progress. The idle clock is wound up by it either way.
    pub progress: Progress,
    /// From which level on the caller wants logs of this call; none: what the connection is set to.
    pub log_level: Option<LogLevel>,
    /// The caller's session, where servers are shared by session.
    pub session: Option<Arc<str>>,
    /// The servers the caller sees.
    pub visible: Visible,
    /// What the caller's side can be asked; none: what the host's ports can answer.
    pub capabilities: Option<ClientCapabilities>,
    /// The definition the caller chose; where it has changed since, the call is refused.
    pub chosen: Option<Fingerprint>,
    /// Other clocks than the server's.
    pub terms: Option<Terms>,
    /// The request as a caller sent it; then only the name in it is put back to the server's own.
    pub whole: Option<Request>,
}

/// What is asked for, and how it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A tool by its public name.
    Tool(PublicName),
    /// A prompt by its public name.
    Prompt(PublicName),
    /// A resource by its public URI.
    Resource(String),
    /// A tool by the server's own name for it.
    ToolOf(Origin),
    /// A prompt by the server's own name for it.
    PromptOf(Origin),
    /// A resource by the server's own URI.
    ResourceOf(Origin),
    /// Any method of one server, with its params as they are.
    Method {
        /// Which server.
        server: ServerName,
        /// The method.
        method: String,
    },
}

/// What kind of thing is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// `tools/call`
    Tool,
    /// `prompts/get`
    Prompt,
    /// `resources/read`
    Resource,
    /// Anything else, by its method.
    Method,
}

/// A call's number: unique within this host, and very likely among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    pub(crate) run: u64,
    pub(crate) number: u64,
}

// === impl CallRequest ===

impl CallRequest {
    /// Asks for `target` without arguments.
    pub fn new(caller: Caller, target: Target) -> Self {
        Self {
            caller,
            target,
            arguments: None,
            progress: Progress::Wanted,
            log_level: None,
            session: None,
            visible: Visible::All,
            capabilities: None,
            chosen: None,
            terms: None,
            whole: None,
        }
    }

    /// Hands on a request that came in over a wire, with everything that is in it.
    pub fn relayed(caller: Caller, target: Target, request: Request) -> Self {
        Self {
            progress: request.progress,
            log_level: request.log_level,
            capabilities: request.capabilities.clone(),
            whole: Some(request),
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

    /// What goes with it: the arguments, or the params of a method.
    pub(crate) fn content(&self) -> Option<&Raw> {
        self.arguments.as_ref().or_else(|| self.whole.as_ref().and_then(Request::params))
    }
}

// === impl Target ===

impl Target {
    /// What kind of thing it is.
    pub fn kind(&self) -> CallKind {
        match self {
            Self::Tool(_) | Self::ToolOf(_) => CallKind::Tool,
            Self::Prompt(_) | Self::PromptOf(_) => CallKind::Prompt,
            Self::Resource(_) | Self::ResourceOf(_) => CallKind::Resource,
            Self::Method { .. } => CallKind::Method,
        }
    }

    /// As it was named.
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
    /// Its word.
    pub fn word(self) -> &'static str {
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
        f.write_str(self.word())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.run, self.number)
    }
}
