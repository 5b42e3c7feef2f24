//! What model vendors accept in a tool definition, as one table: the agent withholds what breaks it, and `tools lint`
//! reports the same.
//!
//! Vendors change this without notice and reject a whole request because of one tool. The rules are based on observed
//! rejections, not on documentation.

use crate::models::Vendor;

/// Limits of one vendor for tools.
#[derive(Debug)]
pub struct ToolRules {
    /// Rule for names of tools.
    pub name: NameRule,
    /// Rule for names of parameters: the top-level properties of an input schema. Names further inside were observed to be
    /// accepted. `None` if the vendor accepts every name.
    pub parameter: Option<NameRule>,
    /// Maximum length of a description in characters.
    pub description: Option<usize>,
    /// Maximum number of tools in one request.
    pub tools: Option<usize>,
}

/// Rule for names.
#[derive(Debug)]
pub struct NameRule {
    longest: usize,
    /// Allowed characters besides ASCII letters and digits.
    marks: &'static [u8],
    begins_with_letter: bool,
}

const ANTHROPIC: ToolRules = ToolRules {
    name: NameRule { longest: 64, marks: b"_-", begins_with_letter: false },
    // "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
    parameter: Some(NameRule { longest: 64, marks: b"_.-", begins_with_letter: false }),
    description: None,
    tools: None,
};

const OPENAI: ToolRules = ToolRules {
    name: NameRule { longest: 64, marks: b"_-", begins_with_letter: false },
    parameter: None,
    description: Some(1_024),
    tools: Some(128),
};

const GEMINI: ToolRules = ToolRules {
    name: NameRule { longest: 64, marks: b"_-.:", begins_with_letter: true },
    parameter: None,
    description: None,
    tools: Some(512),
};

impl Vendor {
    /// What the vendor accepts in a tool definition; `None` for a script, which accepts everything.
    pub fn tool_rules(self) -> Option<&'static ToolRules> {
        match self {
            Self::Anthropic => Some(&ANTHROPIC),
            Self::Openai | Self::OpenaiChat => Some(&OPENAI),
            Self::Gemini => Some(&GEMINI),
            Self::Scripted => None,
        }
    }
}

impl NameRule {
    /// Returns what is wrong with a name, as a phrase that follows "its name".
    pub fn problem(&self, name: &str) -> Option<String> {
        let wrong = |letter: &char| !letter.is_ascii_alphanumeric() && !self.has_mark(*letter);
        let Some(first) = name.chars().next() else { return Some("is empty".to_owned()) };
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
