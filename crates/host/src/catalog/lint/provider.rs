//! What each model vendor accepts in a tool definition, as a table.
//!
//! Vendors change this without notice and reject a whole request because of one tool. The rules are based on observed
//! rejections, not on documentation.

use std::{fmt, str::FromStr};

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
    pub(super) name: NameRule,
    /// Maximum length of a description in characters.
    pub(super) description: Option<usize>,
    /// Maximum number of tools in one request.
    pub(super) tools: Option<usize>,
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
    /// Rule for parameter names.
    pub(super) parameter: Option<NameRule>,
    /// Severity of required parameters that are not in `properties`.
    pub(super) undescribed_required: Option<Severity>,
}

/// Rule for names.
#[derive(Debug)]
pub(super) struct NameRule {
    longest: usize,
    /// Allowed characters besides ASCII letters and digits.
    marks: &'static [u8],
    begins_with_letter: bool,
}

const ANTHROPIC: Rules = Rules {
    provider: Provider::Anthropic,
    name: NameRule { longest: 64, marks: b"_-", begins_with_letter: false },
    description: None,
    tools: None,
    not_at_the_top: &["anyOf", "oneOf", "allOf"],
    nowhere: &[],
    type_lists: None,
    boolean_schemas: None,
    arrays_without_items: None,
    other_enums: None,
    formats: None,
    parameter: Some(NameRule { longest: 64, marks: b"_.-", begins_with_letter: false }),
    undescribed_required: None,
};

const OPENAI: Rules = Rules {
    provider: Provider::OpenAi,
    name: NameRule { longest: 64, marks: b"_-", begins_with_letter: false },
    description: Some(1_024),
    tools: Some(128),
    not_at_the_top: &["anyOf", "oneOf", "allOf", "enum", "not"],
    nowhere: &[],
    type_lists: None,
    boolean_schemas: None,
    arrays_without_items: Some(Severity::Error),
    other_enums: None,
    formats: None,
    parameter: None,
    undescribed_required: None,
};

const GEMINI: Rules = Rules {
    provider: Provider::Gemini,
    name: NameRule { longest: 64, marks: b"_-.:", begins_with_letter: true },
    description: None,
    tools: Some(512),
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
    parameter: None,
    undescribed_required: Some(Severity::Error),
};

// === impl Provider ===

impl Provider {
    /// All vendors.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Gemini];

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

// === impl NameRule ===

impl NameRule {
    /// Returns what is wrong with a name, as a phrase that follows "its name".
    pub(super) fn problem(&self, name: &str) -> Option<String> {
        let wrong = |letter: &char| !letter.is_ascii_alphanumeric() && !self.has_mark(*letter);
        let first = name.chars().next()?;
        if self.longest < name.len() {
            return Some(format!("has {} characters instead of at most {}", name.len(), self.longest));
        }
        if let Some(letter) = name.chars().find(wrong) {
            return Some(format!("contains `{}`", letter.escape_debug()));
        }
        let begins_badly = self.begins_with_letter && !first.is_ascii_alphabetic() && first != '_';
        begins_badly.then(|| format!("begins with `{first}`"))
    }

    fn has_mark(&self, letter: char) -> bool {
        letter.is_ascii() && self.marks.contains(&(letter as u8))
    }
}
