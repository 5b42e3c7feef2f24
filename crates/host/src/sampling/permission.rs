//! Whether our model answers a sampling request: one pure function of configuration, mode, presence, quota and answers that
//! were saved.

use toolway_config::{PolicyMode, SamplingLevels, SamplingPermission};

use super::quota::QuotaExceeded;
use crate::policy::{Attendance, Surface};

/// What is known about a request before it is answered.
#[derive(Clone, Copy, Debug)]
pub struct PermissionInput<'a> {
    /// The levels of configuration that concern it.
    pub levels: &'a SamplingLevels,
    /// Mode of policy in effect for its call.
    pub mode: Option<PolicyMode>,
    /// Whether a person can be asked.
    pub presence: Presence,
    /// The quota without room for it.
    pub exceeded: Option<&'a QuotaExceeded>,
    /// Whether "always for this server" was answered before.
    pub saved: SavedAnswer,
}

/// Whether a person can be asked where a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// At the surface of the call, or in the inbox.
    Person,
    /// `run`, scripts, a program without an answerer.
    Unattended,
}

/// An answer "always for this server", for the server as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedAnswer {
    /// None was saved.
    Nothing,
    /// It holds where a person is present.
    Attended,
    /// It was allowed for unattended use, too.
    Everywhere,
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The model answers.
    Allowed(AllowedBy),
    /// A person decides.
    Ask,
    /// It is refused.
    Refused(RefusedBy),
}

/// Why a request is answered without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedBy {
    /// The strictest level says `always`.
    Configuration,
    /// The mode is `allow`.
    Mode,
    /// A saved answer.
    Saved,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusedBy {
    /// A level says `never`, or none says anything.
    Never,
    /// A quota has no room.
    Quota(QuotaExceeded),
    /// It would be asked about, and no person is present.
    Unattended,
    /// Its answer has to be shown, and no person is present.
    Review,
}

/// Decides on a request.
pub fn decide(input: PermissionInput<'_>) -> Permission {
    let permission = input.levels.permission();
    if permission == SamplingPermission::Never {
        return Permission::Refused(RefusedBy::Never);
    }
    if input.levels.has_review() && input.presence == Presence::Unattended {
        return Permission::Refused(RefusedBy::Review);
    }
    if let Some(exceeded) = input.exceeded {
        return Permission::Refused(RefusedBy::Quota(exceeded.clone()));
    }
    if permission == SamplingPermission::Always {
        return Permission::Allowed(AllowedBy::Configuration);
    }
    if input.mode == Some(PolicyMode::Allow) {
        return Permission::Allowed(AllowedBy::Mode);
    }
    let holds = match (input.saved, input.presence) {
        (SavedAnswer::Nothing, _) | (SavedAnswer::Attended, Presence::Unattended) => false,
        (SavedAnswer::Attended, Presence::Person) | (SavedAnswer::Everywhere, _) => true,
    };
    // Mode `ask` asks every time.
    if holds && input.mode != Some(PolicyMode::Ask) {
        return Permission::Allowed(AllowedBy::Saved);
    }
    match input.presence {
        Presence::Person => Permission::Ask,
        Presence::Unattended => Permission::Refused(RefusedBy::Unattended),
    }
}

impl Presence {
    /// Whether a call of this surface has a person. `run` never has.
    pub fn of(surface: Surface, attendance: Attendance) -> Self {
        match (surface, attendance) {
            (Surface::Run, _) | (_, Attendance::Unattended) => Self::Unattended,
            (_, Attendance::Attended) => Self::Person,
        }
    }
}

impl AllowedBy {
    /// The word in audit events and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Mode => "mode",
            Self::Saved => "saved",
        }
    }
}

impl RefusedBy {
    /// The word in audit events and records.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Quota(_) => "quota",
            Self::Unattended => "unattended",
            Self::Review => "review",
        }
    }
}

#[cfg(test)]
#[path = "permission/tests.rs"]
mod tests;
