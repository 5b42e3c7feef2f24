//! What each model vendor accepts in the schema of a tool, as a table. The limits that the agent keeps as well are in
//! `toolway_config::tool_rules`.
//!
//! Vendors change this without notice and reject a whole request because of one tool. The rules are based on observed
//! rejections, not on documentation.

use std::{fmt, str::FromStr};

use toolway_config::{Vendor, tool_rules::ToolRules};

use super::Severity;

/// A model vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Anthropic (Claude).
    Anthropic,
    /// OpenAI (GPT).
    OpenAi,
    /// Google (Gemini).
    Gemini,
}

/// An unknown vendor name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider `{0}`; use `anthropic`, `openai` or `gemini`")]
pub struct UnknownProvider(pub String);

/// Rules of one vendor.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) provider: Provider,
    /// Keywords that are rejected at the top level of a schema.
    pub(super) not_at_the_top: &'static [&'static str],
    /// Keywords that are unsupported at any level, with their severity.
    pub(super) nowhere: &'static [(&'static str, Severity)],
    /// Severity of type lists such as `"type": ["object", "null"]`.
    pub(super) type_lists: Option<Severity>,
    /// Severity of `true` and `false` as schemas.
    pub(super) boolean_schemas: Option<Severity>,
    /// Severity of arrays without `items`.
    pub(super) arrays_without_items: Option<Severity>,
    /// Severity of `enum` values that are not strings.
    pub(super) other_enums: Option<Severity>,
    /// Supported string formats; `None`: all.
    pub(super) formats: Option<&'static [&'static str]>,
    /// Severity of required parameters that are not in `properties`.
    pub(super) undescribed_required: Option<Severity>,
}

const ANTHROPIC: Rules = Rules {
    provider: Provider::Anthropic,
    not_at_the_top: &["anyOf", "oneOf", "allOf"],
    nowhere: &[],
    type_lists: None,
    boolean_schemas: None,
    arrays_without_items: None,
    other_enums: None,
    formats: None,
    undescribed_required: None,
};

const OPENAI: Rules = Rules {
    provider: Provider::OpenAi,
    not_at_the_top: &["anyOf", "oneOf", "allOf", "enum", "not"],
    nowhere: &[],
    type_lists: None,
    boolean_schemas: None,
    arrays_without_items: Some(Severity::Error),
    other_enums: None,
    formats: None,
    undescribed_required: None,
};

const GEMINI: Rules = Rules {
    provider: Provider::Gemini,
    not_at_the_top: &[],
    nowhere: &[
        ("$schema", Severity::Note),
        ("$ref", Severity::Warning),
        ("$defs", Severity::Warning),
        ("definitions", Severity::Warning),
        ("additionalProperties", Severity::Warning),
        ("patternProperties", Severity::Warning),
        ("oneOf", Severity::Warning),
        ("allOf", Severity::Warning),
        ("not", Severity::Warning),
        ("if", Severity::Warning),
        ("const", Severity::Warning),
        ("exclusiveMinimum", Severity::Warning),
        ("exclusiveMaximum", Severity::Warning),
    ],
    type_lists: Some(Severity::Error),
    boolean_schemas: Some(Severity::Error),
    arrays_without_items: Some(Severity::Error),
    other_enums: Some(Severity::Error),
    formats: Some(&["enum", "date-time"]),
    undescribed_required: Some(Severity::Error),
};

// === impl Provider ===

impl Provider {
    /// All vendors.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Gemini];

    /// The limits for tools, which the agent keeps as well.
    pub(super) fn tool_rules(self) -> Option<&'static ToolRules> {
        let vendor = match self {
            Self::Anthropic => Vendor::Anthropic,
            Self::OpenAi => Vendor::Openai,
            Self::Gemini => Vendor::Gemini,
        };
        vendor.tool_rules()
    }

    pub(super) fn rules(self) -> &'static Rules {
        match self {
            Self::Anthropic => &ANTHROPIC,
            Self::OpenAi => &OPENAI,
            Self::Gemini => &GEMINI,
        }
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "anthropic" => Ok(Self::Anthropic),
            "openai" => Ok(Self::OpenAi),
            "gemini" => Ok(Self::Gemini),
            other => Err(UnknownProvider(other.to_owned())),
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anthropic => "Anthropic",
            Self::OpenAi => "OpenAI",
            Self::Gemini => "Gemini",
        })
    }
}
