//! What is known about each vendor, as one table: where it is reached, where its key is found, and what it accepts in a
//! tool definition. [`crate::schema`] adapts tools to it, and [`crate::lint`] reports what breaks it.
//!
//! Vendors change this without notice and reject a whole request because of one tool. The rules are based on observed
//! rejections, not on documentation.

use serde_json::Value;
use toolway_config::Vendor;

/// One vendor of the table.
#[derive(Debug)]
pub struct VendorEntry {
    /// The vendor.
    pub vendor: Vendor,
    /// Its name in messages.
    pub title: &'static str,
    /// Environment variable that holds the key, as in the vendor's own SDK.
    pub key_variable: Option<&'static str>,
    /// The vendor's own base URL.
    pub base_url: Option<&'static str>,
    /// What it accepts in a tool definition; `None` for a script, which accepts everything.
    pub tools: Option<ToolRules>,
}

/// What a vendor accepts in a tool definition.
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
    pub count: Option<usize>,
    /// Keywords that are rejected at the top level of an input schema.
    pub not_at_the_top: &'static [&'static str],
    /// Keywords that are accepted in a schema, without those that say nothing about values; `None`: all.
    pub keywords: Option<&'static [&'static str]>,
    /// String formats that are accepted; `None`: all.
    pub formats: Option<&'static [&'static str]>,
    /// What else is rejected in a schema.
    pub rejected: &'static [SchemaTrait],
}

/// Rule for names.
#[derive(Debug)]
pub struct NameRule {
    longest: usize,
    /// Allowed characters besides ASCII letters and digits.
    marks: &'static [u8],
    begins_with_letter: bool,
}

/// Something in a schema that some vendors reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaTrait {
    /// `true` or `false` instead of a schema.
    BooleanSchema,
    /// An array without `items`.
    ArrayWithoutItems,
    /// A list of several types besides `null`.
    TypeList,
    /// Values of `enum` that are neither all numbers nor all strings with a character.
    MixedEnum,
    /// A required parameter that is not in `properties`.
    UndescribedRequired,
}

/// All vendors.
pub const VENDORS: [&VendorEntry; 5] = [&ANTHROPIC, &OPENAI, &OPENAI_CHAT, &GEMINI, &SCRIPTED];

const ANTHROPIC: VendorEntry = VendorEntry {
    vendor: Vendor::Anthropic,
    title: "Anthropic",
    key_variable: Some("ANTHROPIC_API_KEY"),
    base_url: Some("https://api.anthropic.com"),
    tools: Some(ToolRules {
        name: NameRule { longest: 64, marks: b"_-", begins_with_letter: false },
        // "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
        parameter: Some(NameRule { longest: 64, marks: b"_.-", begins_with_letter: false }),
        description: None,
        count: None,
        not_at_the_top: &["anyOf", "oneOf", "allOf"],
        keywords: None,
        formats: None,
        rejected: &[],
    }),
};

const OPENAI: VendorEntry = VendorEntry {
    vendor: Vendor::Openai,
    title: "OpenAI",
    key_variable: Some("OPENAI_API_KEY"),
    base_url: Some("https://api.openai.com/v1"),
    tools: Some(OPENAI_TOOLS),
};

const OPENAI_CHAT: VendorEntry = VendorEntry {
    vendor: Vendor::OpenaiChat,
    title: "Chat Completions",
    key_variable: None,
    base_url: Some("http://127.0.0.1:11434/v1"),
    tools: Some(OPENAI_TOOLS),
};

const GEMINI: VendorEntry = VendorEntry {
    vendor: Vendor::Gemini,
    title: "Gemini",
    key_variable: Some("GEMINI_API_KEY"),
    base_url: Some("https://generativelanguage.googleapis.com"),
    tools: Some(ToolRules {
        name: NameRule { longest: 64, marks: b"_-.:", begins_with_letter: true },
        parameter: None,
        description: None,
        count: Some(512),
        not_at_the_top: &[],
        keywords: Some(GEMINI_KEYWORDS),
        formats: Some(GEMINI_FORMATS),
        rejected: &[
            SchemaTrait::BooleanSchema,
            SchemaTrait::ArrayWithoutItems,
            SchemaTrait::TypeList,
            SchemaTrait::MixedEnum,
            SchemaTrait::UndescribedRequired,
        ],
    }),
};

/// Keywords of `parametersJsonSchema`, which is a subset of JSON Schema.
pub(crate) const GEMINI_KEYWORDS: &[&str] = &[
    "$defs",
    "$ref",
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "oneOf",
    "properties",
    "additionalProperties",
    "required",
];
/// Formats that are known to be accepted.
pub(crate) const GEMINI_FORMATS: &[&str] = &["date-time", "date", "time", "int32", "int64", "float", "double"];

const OPENAI_TOOLS: ToolRules = ToolRules {
    name: NameRule { longest: 64, marks: b"_-", begins_with_letter: false },
    parameter: None,
    description: Some(1_024),
    count: Some(128),
    not_at_the_top: &["anyOf", "oneOf", "allOf", "enum", "not"],
    keywords: None,
    formats: None,
    rejected: &[SchemaTrait::ArrayWithoutItems],
};

const SCRIPTED: VendorEntry =
    VendorEntry { vendor: Vendor::Scripted, title: "a script", key_variable: None, base_url: None, tools: None };

/// The entry of a vendor.
pub fn entry(vendor: Vendor) -> &'static VendorEntry {
    match vendor {
        Vendor::Anthropic => &ANTHROPIC,
        Vendor::Openai => &OPENAI,
        Vendor::OpenaiChat => &OPENAI_CHAT,
        Vendor::Gemini => &GEMINI,
        Vendor::Scripted => &SCRIPTED,
    }
}

/// What is wrong with the name of a tool for at least one vendor, as a phrase that follows "its name". A conversation can
/// change its model, so names are valid for all.
pub fn name_problem(name: &str) -> Option<String> {
    VENDORS.iter().filter_map(|entry| entry.tools.as_ref()).find_map(|rules| rules.name.problem(name))
}

/// Whether the values of an `enum` are all numbers, or all strings that are not empty.
pub(crate) fn is_plain_enum(values: &[Value]) -> bool {
    values.iter().all(|value| value.as_str().is_some_and(|text| !text.is_empty()))
        || values.iter().all(Value::is_number)
}

// === impl ToolRules ===

impl ToolRules {
    /// Whether the vendor rejects a schema for this.
    pub fn rejects(&self, found: SchemaTrait) -> bool {
        self.rejected.contains(&found)
    }
}

// === impl NameRule ===

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
