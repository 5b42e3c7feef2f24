//! What each model vendor takes of a tool's definition, as a table.
//!
//! Vendors change this without notice and refuse a whole request for one bad tool, so a line here is what has been
//! seen to be refused, not what a page promises.

use std::{fmt, str::FromStr};

use super::Severity;

/// A vendor of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Claude.
    Anthropic,
    /// GPT.
    OpenAi,
    /// Gemini.
    Gemini,
}

/// A word that names no vendor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no provider; there are `anthropic`, `openai` and `gemini`")]
pub struct UnknownProvider(pub String);

/// What one vendor takes.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) provider: Provider,
    pub(super) name: NameRule,
    /// Letters of a description.
    pub(super) description: Option<usize>,
    /// Tools in one request.
    pub(super) tools: Option<usize>,
    /// Keywords that may not stand at the top of a schema.
    pub(super) not_at_the_top: &'static [&'static str],
    /// Keywords that may stand nowhere, each with how bad it is.
    pub(super) nowhere: &'static [(&'static str, Severity)],
    /// `"type": ["object", "null"]`
    pub(super) type_lists: Option<Severity>,
    /// `true` and `false` in the place of a schema.
    pub(super) boolean_schemas: Option<Severity>,
    /// An array that does not say of what.
    pub(super) arrays_without_items: Option<Severity>,
    /// A list of values that are no strings.
    pub(super) other_enums: Option<Severity>,
    /// The only formats of strings.
    pub(super) formats: Option<&'static [&'static str]>,
    /// What the names of parameters may look like.
    pub(super) parameter: Option<NameRule>,
    /// Something required that is not described.
    pub(super) undescribed_required: Option<Severity>,
}

/// What a name may look like.
#[derive(Debug)]
pub(super) struct NameRule {
    longest: usize,
    /// Besides letters and digits.
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
    /// All of them.
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
    /// What is wrong with a name, to be read after "its name".
    pub(super) fn problem(&self, name: &str) -> Option<String> {
        let wrong = |letter: &char| !letter.is_ascii_alphanumeric() && !self.has_mark(*letter);
        let first = name.chars().next()?;
        if self.longest < name.len() {
            return Some(format!("has {} letters and not at most {}", name.len(), self.longest));
        }
        if let Some(letter) = name.chars().find(wrong) {
            return Some(format!("holds `{}`", letter.escape_debug()));
        }
        let begins_badly = self.begins_with_letter && !first.is_ascii_alphabetic() && first != '_';
        begins_badly.then(|| format!("begins with `{first}`"))
    }

    fn has_mark(&self, letter: char) -> bool {
        letter.is_ascii() && self.marks.contains(&(letter as u8))
    }
}
