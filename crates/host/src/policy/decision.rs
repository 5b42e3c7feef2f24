//! Policy decisions: a grant, an approval request, or a refusal with its reason.
//!
//! Only this module creates a [`Grant`]. It cannot be copied, and is consumed to get a
//! [`Permit`](super::limit::Permit), which sending a request requires.

use std::{fmt, sync::Arc, time::Duration};

use toolway_config::{Place, PolicyMode, RuleEffect, ServerName, Trust};
use toolway_wire::{exchange::Request, json::Raw};

use super::{Annotations, ApprovalKey, AskedCall, Lift, PolicyInput, Reached, Surface};
use crate::{
    call::{CallKind, Caller},
    catalog::Fingerprint,
    record::Repeated,
};

/// Decision of the policy about one request.
#[must_use]
#[derive(Debug)]
pub enum Decision {
    /// The request is allowed.
    Allow(Grant),
    /// The request requires an approval.
    Ask(ApprovalRequest),
    /// The request is refused.
    Deny(Refusal),
}

/// Permission for one request. Only `policy` can create one.
///
/// ```compile_fail
/// # use toolway_host::policy::{Grant, RuleId, Subject};
/// fn forge(subject: Subject, rule: RuleId) -> Grant {
///     Grant { subject, rule, request: None, approved_by: None, definition: None } // the fields are private
/// }
/// ```
#[must_use]
#[derive(Debug)]
pub struct Grant {
    subject: Subject,
    rule: RuleId,
    /// The request that was decided on; `None` for requests that `host` composes later from the subject alone.
    request: Option<Request>,
    approved_by: Option<Arc<str>>,
    /// What was approved; `None` if no approval was required.
    definition: Option<Box<Definition>>,
}

/// The server and the item of a call that requires approval, as they were when it was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Digest of the server's entry.
    pub(crate) entry: String,
    /// Digest of the tool's definition.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) annotations: Annotations,
    pub(crate) trust: Trust,
    /// Hosts that the call reaches and that were not known.
    pub(crate) new_hosts: Vec<String>,
}

/// What a request is about, as far as rules consider it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Server that owns the item.
    pub server: ServerName,
    /// Kind of the item.
    pub kind: CallKind,
    /// Name of the item at its server: a tool, a prompt, a URI or a method.
    pub raw_name: String,
}

/// Identifier of the rule that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleId {
    /// The default of a surface.
    Default(Surface, RuleEffect),
    /// The configured mode.
    Mode(PolicyMode),
    /// The mode of this client of the gateway.
    ClientMode(Arc<str>, PolicyMode),
    /// The default of the embedding program.
    Stance(RuleEffect),
    /// A rule, by file and line.
    Rule(Place),
    /// A saved approval, by id.
    Saved(String),
}

/// Asks a user to approve a call before it is sent. Without an approval the call is refused.
#[derive(Debug)]
pub struct ApprovalRequest {
    grant: Grant,
    caller: Caller,
    surface: Surface,
    trust: Trust,
    annotations: Annotations,
    arguments: Option<Raw>,
    reason: Option<String>,
    lift: Lift,
    reached: Reached,
    /// Id of a saved approval that covers the call where a person is present.
    saved: Option<String>,
}

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
        "`{name}` requires approval ({rule}), and no approver is available{}{}",
        host_hint(new_hosts),
        remedy_hint(remedies)
    )]
    ApproverUnavailable {
        /// Name of the item.
        name: String,
        /// Rule that asks.
        rule: RuleId,
        /// Commands of which each would allow the call: one that writes a rule, one that lets a saved approval hold for
        /// unattended use. Empty if none does, or if a name cannot be written.
        remedies: Vec<String>,
        /// Hosts that the call reaches and that are new, if they are why it requires approval.
        new_hosts: Vec<String>,
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

// === impl Grant ===

impl Grant {
    pub(super) fn new(subject: Subject, rule: RuleId, request: Option<Request>) -> Self {
        Self { subject, rule, request, approved_by: None, definition: None }
    }

    /// The request that was decided on.
    pub(crate) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// This grant for a repetition of the same request.
    pub(crate) fn with_request(self, request: Option<Request>) -> Self {
        Self { request, ..self }
    }

    /// Takes the request that was decided on. It is sent once.
    pub(crate) fn take_request(&mut self) -> Option<Request> {
        self.request.take()
    }

    /// Who approved it, where policy asked.
    pub fn approved_by(&self) -> Option<&Arc<str>> {
        self.approved_by.as_ref()
    }

    /// The granted item.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Rule that granted it.
    pub fn rule(&self) -> &RuleId {
        &self.rule
    }
}

// === impl Definition ===

impl Definition {
    /// The key of answers about it.
    pub(crate) fn key(&self, caller: &Caller, subject: &Subject, method: Option<&str>) -> ApprovalKey {
        ApprovalKey::new(caller, subject, self.entry.clone(), method, self.fingerprint)
    }
}

// === impl ApprovalRequest ===

impl ApprovalRequest {
    pub(super) fn new(grant: Grant, input: &PolicyInput<'_>, reason: Option<String>, lift: Lift) -> Self {
        let PolicyInput { surface, trust, annotations, .. } = *input;
        let (caller, arguments) = (input.caller.clone(), input.arguments.cloned());
        let reached = Reached::default();
        Self { grant, caller, surface, trust, annotations, arguments, reason, lift, reached, saved: None }
    }

    /// This request with a further reason, which stands first.
    #[must_use]
    pub(crate) fn because(self, why: &str) -> Self {
        let reason = self.reason.map_or_else(|| why.to_owned(), |reason| format!("{why}; {reason}"));
        Self { reason: Some(reason), ..self }
    }

    /// This request, which a saved approval would cover if a person were present.
    #[must_use]
    pub(crate) fn saved_for_attended_use(self, id: String) -> Self {
        Self { saved: Some(id), ..self }
    }

    /// This request, about a server and an item as they are now.
    #[must_use]
    pub(crate) fn defined_as(mut self, definition: Definition) -> Self {
        self.grant.definition = Some(Box::new(definition));
        self
    }

    /// What has changed since an earlier grant for the same call; `None` if a person approved just this. The person who
    /// approved has not seen it.
    pub(crate) fn changes_since(&self, earlier: &Grant) -> Option<&'static str> {
        // No person has approved this call: the saved answer covers it now, or it is asked about.
        if matches!(earlier.rule, RuleId::Saved(_)) {
            return Some("the answer that covered the call no longer does");
        }
        let (Some(now), Some(then)) = (&self.grant.definition, &earlier.definition) else {
            return Some("the policy has changed since the call was made");
        };
        if earlier.subject != *self.subject() || now.entry != then.entry {
            return Some("the server has changed since the call was approved");
        }
        if now.fingerprint != then.fingerprint || now.annotations != then.annotations {
            return Some("the definition has changed since the call was approved");
        }
        (now != then).then_some("the policy has changed since the call was approved")
    }

    /// The call, as saved approvals are compared with it.
    pub(crate) fn asked_call(&self) -> AskedCall<'_> {
        AskedCall { arguments: self.arguments.as_ref(), reached: &self.reached }
    }

    /// The annotations as far as the server is trusted.
    pub(crate) fn believed_annotations(&self) -> Annotations {
        self.annotations.believed(self.trust, self.subject().kind)
    }

    /// This request, which reaches this.
    pub(super) fn reaching(self, reached: Reached) -> Self {
        Self { reached, ..self }
    }

    /// What the request reaches, if that is why it is asked about.
    pub fn reached(&self) -> &Reached {
        &self.reached
    }

    /// Surface that the call comes from.
    pub fn surface(&self) -> Surface {
        self.surface
    }

    /// Trust of the server.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// Annotations of the tool.
    pub fn annotations(&self) -> Annotations {
        self.annotations
    }

    /// Arguments as they will be sent.
    pub fn arguments(&self) -> Option<&Raw> {
        self.arguments.as_ref()
    }

    /// Method that is to be sent; `None` if the request is composed later.
    pub(crate) fn method(&self) -> Option<&str> {
        self.grant.request().map(Request::method)
    }

    /// Whether a saved approval answers it.
    pub fn lift(&self) -> Lift {
        self.lift
    }

    /// Rule that asks.
    pub fn rule(&self) -> &RuleId {
        self.grant.rule()
    }

    /// Reason in the rule.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The command that writes the rule that would allow this call without asking. `None` in mode `ask`, which no rule
    /// lifts, and for names that cannot be pasted safely into a shell.
    pub fn remedy(&self) -> Option<String> {
        let Subject { server, kind, raw_name } = self.subject();
        let label = self.caller.label();
        let caller = label.split(':').next().unwrap_or_default();
        let caller = if caller == "client" { label.as_str() } else { caller };
        let item = format!("{server}.{raw_name}");
        let mut words = vec!["toolway", "policy", "allow", &item, "--caller", caller];
        if *kind != CallKind::Tool {
            words.extend(["--kind", kind.as_str()]);
        }
        // A name with `*` would be a pattern.
        let is_plain = |word: &&str| {
            word.chars().all(|letter| letter.is_ascii_graphic() || letter.is_alphanumeric() || letter == ' ')
        };
        let is_writable = self.lift == Lift::BySaved && words.iter().all(is_plain) && !item.contains('*');
        is_writable.then(|| shlex::try_join(words).ok())?
    }

    /// The refusal of a call that no user was asked about.
    pub(crate) fn unavailable(&self) -> Refusal {
        let (name, rule) = (self.subject().raw_name.clone(), self.rule().clone());
        let new = self.reached.new_hosts().filter(|found| found.is_plain());
        let new_hosts = new.map(|found| found.host.clone()).collect();
        let extended = self.saved.as_ref().map(|id| format!("toolway trust allow {id} --unattended"));
        let remedies = self.remedy().into_iter().chain(extended).collect();
        Refusal::ApproverUnavailable { name, rule, remedies, new_hosts }
    }

    /// The item to be used.
    pub fn subject(&self) -> &Subject {
        self.grant.subject()
    }

    /// Identity on whose behalf the call is made.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The request that approval was asked for.
    pub(crate) fn into_request(self) -> Option<Request> {
        self.grant.request
    }

    /// Turns an approved request into its grant.
    pub(super) fn into_grant(self, approved_by: Arc<str>) -> Grant {
        Grant { approved_by: Some(approved_by), ..self.grant }
    }

    /// Turns a request that a saved approval covers into its grant.
    pub(crate) fn into_saved_grant(self, saved: String) -> Grant {
        let approved_by = Some(format!("saved approval {saved}").into());
        Grant { rule: RuleId::Saved(saved), approved_by, ..self.grant }
    }
}

/// A question for the user, in one sentence.
impl fmt::Display for ApprovalRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject { server, kind, raw_name } = self.subject();
        write!(f, "may {} use the {kind} `{raw_name}` of `{server}`?", self.caller)
    }
}

// === impl RuleId ===

impl RuleId {
    /// File and line of the rule; `None` for defaults and saved approvals.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Rule(place) => Some(place),
            _ => None,
        }
    }

    /// What removes a saved refusal, which no file shows; empty for rules.
    fn removal(&self) -> String {
        match self {
            Self::Saved(id) => format!("; `toolway trust remove {id}` removes it"),
            _ => String::new(),
        }
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(surface, effect) => write!(f, "default of `{surface}`: {}", effect.as_str()),
            Self::Mode(mode) => write!(f, "mode `{}`", mode.as_str()),
            Self::ClientMode(client, mode) => write!(f, "mode `{}` of client `{client}`", mode.as_str()),
            Self::Stance(effect) => write!(f, "default of the program: {}", effect.as_str()),
            Self::Rule(place) => write!(f, "rule at {place}"),
            Self::Saved(id) => write!(f, "saved approval {id}"),
        }
    }
}

impl RuleId {
    /// The same text as `Display`, which every record has: the usual one is composed without formatting.
    pub fn label(&self) -> String {
        match self {
            Self::Default(surface, effect) => ["default of `", surface.as_str(), "`: ", effect.as_str()].concat(),
            other => other.to_string(),
        }
    }
}

// === impl Refusal ===

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

impl Refusal {
    /// Stable error code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_name",
            Self::UnknownServer(_) => "unknown_server",
            Self::Disabled(_) => "disabled",
            Self::FilteredOut { .. } => "filtered_out",
            Self::Denied { .. } => "denied",
            Self::InvalidArguments { .. } => "invalid_arguments",
            Self::Declined { .. } => "declined",
            Self::ApproverUnavailable { .. } => "no_approver",
            Self::NotRecorded(_) => "not_recorded",
            Self::Busy { .. } => "busy",
            Self::TooMany { .. } => "too_many_calls",
            Self::Changed(_) | Self::KeepsChanging(_) => "changed",
            Self::Repeated(_) => "repeated",
            Self::Malformed(_) => "malformed",
            Self::ShuttingDown => "shutting_down",
        }
    }
}
