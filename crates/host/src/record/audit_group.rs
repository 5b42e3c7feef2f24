//! Groups of audit entries, under the names that other gateways and their dashboards use.

use serde_json::Value;

use super::{AuditEntry, kind};

/// A group of audit entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditGroup {
    /// Connections to servers.
    Connection,
    /// Ends of calls of tools.
    ToolCall,
    /// Ends of calls of prompts.
    PromptInvocation,
    /// Ends of reads of resources.
    ResourceAccess,
    /// Requests of servers for a model's answer.
    SamplingRequest,
    /// Sign-ins at servers, and keys of clients.
    AuthEvent,
}

/// Entries of these kinds, all or those whose details have a certain member.
#[derive(Clone, Copy, Debug)]
pub struct GroupPart {
    /// Each one of [`kind`].
    pub kinds: &'static [&'static str],
    /// A member of `details`, and its text.
    pub detail: Option<Detail>,
}

/// A member of an entry's details.
#[derive(Clone, Copy, Debug)]
pub struct Detail {
    /// Its name.
    pub member: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// A call ends by itself, or is closed after its process ended.
const ENDS: &[&str] = &[kind::CALL, kind::RECOVERY];

impl AuditGroup {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Connection,
        Self::ToolCall,
        Self::PromptInvocation,
        Self::ResourceAccess,
        Self::SamplingRequest,
        Self::AuthEvent,
    ];

    /// Its name in commands and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::ToolCall => "tool_call",
            Self::PromptInvocation => "prompt_invocation",
            Self::ResourceAccess => "resource_access",
            Self::SamplingRequest => "sampling_request",
            Self::AuthEvent => "auth_event",
        }
    }

    /// The group with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.as_str() == name)
    }

    /// The group of an entry.
    pub fn of(entry: &AuditEntry) -> Option<Self> {
        let details: Value = serde_json::from_str(&entry.details).unwrap_or_default();
        let is_part = |part: &GroupPart| {
            let has_detail = |detail: Detail| details.get(detail.member).and_then(Value::as_str) == Some(detail.text);
            part.kinds.contains(&entry.kind.as_str()) && part.detail.is_none_or(has_detail)
        };
        Self::ALL.into_iter().find(|group| group.parts().iter().any(is_part))
    }

    /// What belongs to the group: the entries of any of these.
    pub fn parts(self) -> &'static [GroupPart] {
        match self {
            Self::Connection => &[GroupPart { kinds: &[kind::CONNECTION], detail: None }],
            Self::ToolCall => &[GroupPart { kinds: ENDS, detail: Some(Detail { member: "kind", text: "tool" }) }],
            Self::PromptInvocation => {
                &[GroupPart { kinds: ENDS, detail: Some(Detail { member: "kind", text: "prompt" }) }]
            }
            Self::ResourceAccess => {
                &[GroupPart { kinds: ENDS, detail: Some(Detail { member: "kind", text: "resource" }) }]
            }
            Self::SamplingRequest => &[
                GroupPart { kinds: &[kind::SAMPLING], detail: None },
                // Answered by a client.
                GroupPart {
                    kinds: &[kind::SERVER_REQUEST],
                    detail: Some(Detail { member: "method", text: "sampling/createMessage" }),
                },
            ],
            Self::AuthEvent => &[GroupPart { kinds: &[kind::SIGN_IN, kind::KEY], detail: None }],
        }
    }
}
