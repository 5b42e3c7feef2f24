//! What policy says to one request: yes as a value, a question for a person, or a refusal with its sentence.
//!
//! A [`Grant`] can be made in this room only, cannot be copied, and is spent to get a
//! [`Permit`](super::limit::Permit). There is no other way to a server.

use std::{fmt, time::Duration};

use toolway_config::ServerName;

use crate::call::{CallKind, Caller};

/// What policy decided.
#[must_use]
#[derive(Debug)]
pub enum Decision {
    /// It may go on.
    Allow(Grant),
    /// A person is asked first.
    Ask(Question),
    /// It may not, and why.
    Deny(Refusal),
}

/// Policy's yes to one request. Only `policy` can make one.
///
/// ```compile_fail
/// # use toolway_host::policy::{Grant, RuleId, Subject};
/// fn forge(subject: Subject) -> Grant {
///     Grant { subject, rule: RuleId::CONFIGURED } // the fields are private
/// }
/// ```
#[must_use]
#[derive(Debug)]
pub struct Grant {
    subject: Subject,
    rule: RuleId,
}

/// What is asked for, as far as a rule looks at it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Whose it is.
    pub server: ServerName,
    /// A call, a read, a prompt …
    pub kind: CallKind,
    /// The server's own name for it: a tool, a prompt, a URI, a method.
    pub raw_name: String,
}

/// The rule that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(&'static str);

/// Put to a person before a call goes out. Unanswered, or answered with no, it is a refusal.
#[derive(Debug)]
pub struct Question {
    grant: Grant,
    caller: Caller,
}

/// Why a call does not go out. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No server offers this.
    #[error("there is no {kind} `{name}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// What was looked for.
        kind: CallKind,
        /// As it was asked for.
        name: String,
        /// The nearest name there is.
        near: Option<String>,
    },
    /// No server of this name is configured.
    #[error("there is no server `{0}`")]
    UnknownServer(String),
    /// The operator has switched the server off.
    #[error("the server `{0}` is disabled")]
    Disabled(ServerName),
    /// The server's entry leaves it out.
    #[error("{} `{}` of `{}` is left out by `{key}` of its entry", subject.kind, subject.raw_name, subject.server)]
    FilteredOut {
        /// What was asked for.
        subject: Subject,
        /// What of the entry leaves it out: `includeTools`, `excludePrompts`, `resources: false` …
        key: &'static str,
    },
    /// A rule says no.
    #[error("refused by the rule `{rule}`")]
    Denied {
        /// Which.
        rule: RuleId,
    },
    /// A person said no.
    #[error("declined{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Declined {
        /// In their words.
        why: Option<String>,
    },
    /// A person would have to say yes, and there is none.
    #[error("`{0}` wants a person's yes, and nobody is there to ask")]
    NobodyToAsk(String),
    /// Too many calls are under way, for too long.
    #[error("no free slot within {waited:?}: {limit} calls {whose} are under way")]
    Busy {
        /// How many may be.
        limit: usize,
        /// `to this server`, `in all` …
        whose: &'static str,
        /// How long it waited.
        waited: Duration,
    },
    /// This client has as many calls on the way as it may.
    #[error("{limit} calls of this client are under way, as many as one may have; wait until some of them have ended")]
    TooMany {
        /// How many may be.
        limit: usize,
    },
    /// The definition is not the one the caller chose.
    #[error("`{0}` has changed since it was listed; list again and look at it")]
    Changed(String),
    /// The request itself cannot be sent.
    #[error("{0}")]
    Malformed(String),
    /// The host is being shut down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

// === impl Grant ===

impl Grant {
    pub(super) fn new(subject: Subject, rule: RuleId) -> Self {
        Self { subject, rule }
    }

    /// What was granted.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// By which rule.
    pub fn rule(&self) -> RuleId {
        self.rule
    }
}

// === impl Question ===

impl Question {
    pub(super) fn new(grant: Grant, caller: Caller) -> Self {
        Self { grant, caller }
    }

    /// What would be done.
    pub fn subject(&self) -> &Subject {
        self.grant.subject()
    }

    /// On whose behalf.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The grant a yes turns it into; only `policy` spends it.
    pub(super) fn into_grant(self) -> Grant {
        self.grant
    }
}

/// One sentence for a person.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject { server, kind, raw_name } = self.subject();
        write!(f, "may {} use the {kind} `{raw_name}` of `{server}`?", self.caller)
    }
}

// === impl RuleId ===

impl RuleId {
    /// The operator has configured the server, and its filters let this through.
    pub const CONFIGURED: Self = Self("configured");
    /// A person is asked each time.
    pub const ASK: Self = Self("ask");
    /// Nothing may be called.
    pub const DENY: Self = Self("deny");

    /// Its word.
    pub fn word(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

// === impl Refusal ===

impl Refusal {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_name",
            Self::UnknownServer(_) => "unknown_server",
            Self::Disabled(_) => "disabled",
            Self::FilteredOut { .. } => "filtered_out",
            Self::Denied { .. } => "denied",
            Self::Declined { .. } => "declined",
            Self::NobodyToAsk(_) => "nobody_to_ask",
            Self::Busy { .. } => "busy",
            Self::TooMany { .. } => "too_many_calls",
            Self::Changed(_) => "changed",
            Self::Malformed(_) => "malformed",
            Self::ShuttingDown => "shutting_down",
        }
    }
}
