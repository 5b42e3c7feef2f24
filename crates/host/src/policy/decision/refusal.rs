//! Why a call was refused before anything was sent.

use std::{sync::Arc, time::Duration};

use toolway_config::ServerName;

use super::{RuleId, Subject};
use crate::{
    call::CallKind,
    catalog::{HiddenItem, ItemKind, Origin},
    policy::LimitReached,
    record::Repeated,
};

/// Why a call was refused before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No server offers an item of this name.
    #[error("unknown {kind} `{name}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// Kind of the requested item.
        kind: CallKind,
        /// Name as requested.
        name: String,
        /// Most similar name, if there is one.
        near: Option<String>,
    },
    /// No server of this name is configured.
    #[error("unknown server `{0}`")]
    UnknownServer(String),
    /// The server is disabled.
    #[error("server `{0}` is disabled")]
    Disabled(ServerName),
    /// A filter of the server's entry excludes the item.
    #[error("{} `{}` of `{}` is excluded by `{key}` of its entry", subject.kind, subject.raw_name, subject.server)]
    FilteredOut {
        /// The requested item.
        subject: Subject,
        /// Key of the entry that excludes it: `includeTools`, `excludePrompts`, `resources: false` …
        key: &'static str,
    },
    /// A rule denies the request.
    #[error("denied by policy ({rule}){}{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default(), rule.removal())]
    Denied {
        /// Rule that decided.
        rule: RuleId,
        /// Reason in the rule.
        reason: Option<String>,
    },
    /// The definition is not what was seen first, and policy hides what differs.
    #[error("{} `{}` of `{}` is hidden, because it is not what was seen first: {why}", subject.kind, subject.raw_name, subject.server)]
    Hidden {
        /// The requested item.
        subject: Subject,
        /// Name as requested.
        name: String,
        /// How it differs. It may name files of this machine.
        why: String,
    },
    /// The arguments do not match the input schema of the tool.
    #[error("invalid arguments of `{name}`: {}", problems.join("; "))]
    InvalidArguments {
        /// The server's name of the tool.
        name: String,
        /// What does not match.
        problems: Vec<String>,
    },
    /// A user declined the approval request.
    #[error("approval declined{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Declined {
        /// Reason given by the user.
        why: Option<String>,
        /// Who declined: the surface, and the client or the session of the console.
        by: Arc<str>,
    },
    /// The call requires approval, and no approver answered.
    #[error(
        "`{name}` requires approval ({rule}{}), and no approver is available{}{}",
        changes.as_ref().map(|changes| format!(": {changes}")).unwrap_or_default(),
        host_hint(new_hosts),
        remedy_hint(remedies)
    )]
    ApproverUnavailable {
        /// Name of the item.
        name: String,
        /// Rule that asks.
        rule: RuleId,
        /// How the definition differs from what was seen, if that is why. It may name files of this machine.
        changes: Option<Box<str>>,
        /// Commands of which each would allow the call: one that writes a rule, one that lets a saved approval hold for
        /// unattended use. Empty if none does, or if a name cannot be written.
        remedies: Vec<String>,
        /// Hosts that the call reaches and that are new, if they are why it requires approval.
        new_hosts: Box<[String]>,
    },
    /// The call cannot be recorded, and recording is required.
    #[error("the call was not sent because it cannot be recorded: {0}")]
    NotRecorded(String),
    /// No slot became free in time.
    #[error("no free call slot within {waited:?}: {limit} calls {whose} are in flight; try again later")]
    Busy {
        /// Maximum number of calls in flight.
        limit: usize,
        /// Scope of the limit: `to this server`, `in total` …
        whose: &'static str,
        /// Time spent waiting for a slot.
        waited: Duration,
    },
    /// The client has reached its maximum number of calls.
    #[error(
        "this client already has {limit} calls running or queued, which is the maximum; wait until some have ended"
    )]
    TooMany {
        /// Maximum number of calls of one client.
        limit: usize,
    },
    /// A limit of the server or the client has no room for the call.
    #[error("{0}")]
    Limit(Box<LimitReached>),
    /// Whether a limit has room cannot be found out.
    #[error("the call was not sent because its limit of calls per day cannot be checked: {0}")]
    LimitUnknown(String),
    /// Server, definition or policy changed each time the call was approved.
    #[error("`{0}` was not sent: its server, its definition or the policy changed each time it was approved")]
    KeepsChanging(String),
    /// The definition is not the one the caller chose.
    #[error("`{0}` has changed since it was listed; list it again and review the new definition")]
    Changed(String),
    /// Another call holds its idempotency key.
    #[error("{0}")]
    Repeated(Repeated),
    /// The request is invalid.
    #[error("{0}")]
    Malformed(String),
    /// The host is being shut down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

impl Refusal {
    /// The refusal of an item that is hidden.
    pub(crate) fn hidden(item: &HiddenItem, name: String) -> Self {
        let kind = if item.kind == ItemKind::Prompt { CallKind::Prompt } else { CallKind::Tool };
        let Origin { server, raw_name } = item.origin.clone();
        Self::Hidden { subject: Subject { server, kind, raw_name }, name, why: item.reason.clone() }
    }

    /// Stable error code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_name",
            Self::UnknownServer(_) => "unknown_server",
            Self::Disabled(_) => "disabled",
            Self::FilteredOut { .. } => "filtered_out",
            Self::Denied { .. } => "denied",
            Self::Hidden { .. } => "hidden",
            Self::InvalidArguments { .. } => "invalid_arguments",
            Self::Declined { .. } => "declined",
            Self::ApproverUnavailable { .. } => "no_approver",
            Self::NotRecorded(_) => "not_recorded",
            Self::Busy { .. } => "busy",
            Self::TooMany { .. } => "too_many_calls",
            Self::Limit(_) => LimitReached::CODE,
            Self::LimitUnknown(_) => "limit_unknown",
            Self::Changed(_) | Self::KeepsChanging(_) => "changed",
            Self::Repeated(_) => "repeated",
            Self::Malformed(_) => "malformed",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

impl From<LimitReached> for Refusal {
    fn from(reached: LimitReached) -> Self {
        Self::Limit(Box::new(reached))
    }
}

/// What lets a call reach new hosts.
fn host_hint(hosts: &[String]) -> String {
    let options: Vec<String> = hosts.iter().map(|host| format!("--allow-host {host}")).collect();
    match options.as_slice() {
        [] => String::new(),
        options => format!("; it reaches a new host, which `{}` or `policy.hosts` would allow", options.join(" ")),
    }
}

/// The commands that would allow a call.
fn remedy_hint(remedies: &[String]) -> String {
    let commands: Vec<String> = remedies.iter().map(|remedy| format!("`{remedy}`")).collect();
    if commands.is_empty() { String::new() } else { format!("; allow it with {}", commands.join(" or ")) }
}
