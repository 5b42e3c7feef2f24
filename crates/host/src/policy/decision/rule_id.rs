//! Identifiers of what decided about a call, as records and messages name them.

use std::{fmt, sync::Arc};

use toolway_config::{Approval, Place, PolicyMode, RuleEffect, ServerName};

use crate::policy::Surface;

/// Identifier of the rule that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleId {
    /// The default of a surface.
    Default(Surface, RuleEffect),
    /// The configured mode.
    Mode(PolicyMode),
    /// The mode of this client of the gateway.
    ClientMode(Arc<str>, PolicyMode),
    /// The approval of this assistant.
    Assistant(Arc<str>, Approval),
    /// The default of the embedding program.
    Stance(RuleEffect),
    /// A rule, by file and line.
    Rule(Place),
    /// A key of the server's entry.
    Entry(ServerName, &'static str),
    /// The tool or its server is not what was seen first.
    Drift,
    /// A saved approval, by id.
    Saved(String),
}

impl RuleId {
    /// File and line of the rule; `None` for defaults and saved approvals.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Rule(place) => Some(place),
            _ => None,
        }
    }

    /// What removes a saved refusal, which no file shows; empty for rules.
    pub(super) fn removal(&self) -> String {
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
            Self::Assistant(name, approval) => write!(f, "approval `{}` of assistant `{name}`", approval.as_str()),
            Self::Stance(effect) => write!(f, "default of the program: {}", effect.as_str()),
            Self::Rule(place) => write!(f, "rule at {place}"),
            Self::Entry(server, key) => write!(f, "`{key}` of server `{server}`"),
            Self::Drift => f.write_str("the definition has changed"),
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
