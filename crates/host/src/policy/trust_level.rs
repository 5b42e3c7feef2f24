//! Trust level and risk of a call, in one word each: for rules, and for `policy explain`.

use toolway_config::Trust;

use super::PolicyInput;
use crate::call::CallKind;

/// Why a call is trusted, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustLevel {
    /// The server's annotations are not believed.
    Untrusted,
    /// The user trusts the server.
    ServerTrusted,
    /// The tool is one of `trustedTools`.
    ToolAllowlisted,
    /// The server is trusted by the folder of its project.
    TrustedFolder,
}

/// What a call can do at worst, as far as its annotations are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Reads a resource or a prompt.
    Low,
    /// Calls a tool that only reads.
    Medium,
    /// Calls any other tool.
    High,
    /// Calls a tool that says that it destroys data or reaches other systems.
    Critical,
}

impl TrustLevel {
    /// The level of a request.
    pub fn of(input: &PolicyInput<'_>) -> Self {
        if input.is_trusted_tool() {
            return Self::ToolAllowlisted;
        }
        match (input.trust, input.lists.folder) {
            (Trust::Untrusted, _) => Self::Untrusted,
            (_, Some(_)) => Self::TrustedFolder,
            (_, None) => Self::ServerTrusted,
        }
    }

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::ServerTrusted => "server-trusted",
            Self::ToolAllowlisted => "tool-allowlisted",
            Self::TrustedFolder => "trusted-folder",
        }
    }
}

impl Risk {
    /// The risk of a request. What a server says against its tool counts even if the server is not trusted.
    pub fn of(input: &PolicyInput<'_>) -> Self {
        let says = input.annotations;
        let believed = input.believed_annotations();
        match input.subject.kind {
            CallKind::Prompt | CallKind::Resource => Self::Low,
            CallKind::Method if believed.read_only => Self::Low,
            CallKind::Tool | CallKind::Method if says.says_destructive || says.says_open_world => Self::Critical,
            CallKind::Tool if believed.read_only => Self::Medium,
            CallKind::Tool | CallKind::Method => Self::High,
        }
    }

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}
