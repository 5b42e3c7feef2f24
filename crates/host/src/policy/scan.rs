//! Findings in the definitions and instructions of servers: what a model might follow and a person might not see.
//!
//! A model reads the whole definition of a tool, not only its description: titles, names, descriptions and values of
//! parameters are searched too. A finding is a hint for the person who is asked, not a proof; a text without one can still
//! mislead.

use std::collections::{HashMap, HashSet};

use toolway_config::{ServerName, visible};
use toolway_wire::json::{JsonKind, Raw};

use crate::catalog::{Catalog, entry::ToolEntry};

/// Something unusual in a text of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFinding {
    /// Characters that are not seen, as they are made visible.
    HiddenCharacters(String),
    /// A phrase that gives the model an instruction.
    Instruction(&'static str),
    /// The name of a tool of another server.
    OtherTool {
        /// The server that has the tool.
        server: ServerName,
        /// Its name.
        tool: String,
    },
}

/// Phrases that tell a model what to do, in lower case.
const PHRASES: &[&str] = &[
    "ignore all previous",
    "ignore previous",
    "ignore the previous",
    "disregard previous",
    "disregard all",
    "forget your instructions",
    "system prompt",
    "do not tell the user",
    "don't tell the user",
    "do not mention",
    "don't mention",
    "without telling the user",
    "without informing the user",
    "without asking the user",
    "hide this from",
    "<important>",
    "<system>",
    "[system]",
    "you must always",
    "always call this tool",
    "before using any other tool",
    "instead of using",
    "send the contents of",
    "read the file ~/",
    "~/.ssh",
    "id_rsa",
];

/// Bytes of a text that are searched.
const MAX_TEXT: usize = 256 * 1024;
/// Shortest name of a tool that is searched for: shorter ones are words.
const MIN_NAME: usize = 6;
/// Findings of one kind that are reported.
const MAX_FINDINGS: usize = 5;

/// Searches texts of servers.
#[derive(Debug)]
pub struct Scanner<'a> {
    /// Tools by their public name, and by their own one where that is no usual word.
    tools: HashMap<&'a str, Vec<&'a ToolEntry>>,
}

/// What is unusual in one part of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartFindings {
    /// The part, such as `description`.
    pub part: &'static str,
    /// At least one.
    pub findings: Vec<TextFinding>,
}

/// The parts of the definition of a tool or prompt, and their members.
const PARTS: [(&str, &str); 6] = [
    ("description", "description"),
    ("title", "title"),
    ("input schema", "inputSchema"),
    ("output schema", "outputSchema"),
    ("list of arguments", "arguments"),
    ("list of annotations", "annotations"),
];

// === impl Scanner ===

impl<'a> Scanner<'a> {
    /// A scanner that knows the names of these tools.
    pub fn new(catalog: &'a Catalog) -> Self {
        let mut tools: HashMap<&str, Vec<&ToolEntry>> = HashMap::new();
        for tool in catalog.tools() {
            let name = tool.item.name.as_str();
            let own = Some(name).filter(|name| MIN_NAME <= name.len() && name.contains(['_', '-']));
            for name in own.into_iter().chain([tool.public.as_str()]) {
                tools.entry(name).or_default().push(tool);
            }
        }
        Self { tools }
    }

    /// What is unusual in a text of a server.
    pub fn text(&self, text: &str, server: &ServerName) -> Vec<TextFinding> {
        let text = beginning(text);
        let mut findings = scan_alone(text);
        let mut named: Vec<&ToolEntry> = Vec::new();
        let mut known = HashSet::new();
        for word in text.split(|letter: char| !(letter.is_alphanumeric() || "_-.".contains(letter))) {
            // A name may end a sentence.
            let tools = self.tools.get(word).or_else(|| self.tools.get(word.trim_matches('.')));
            let others = tools.into_iter().flatten().filter(|tool| tool.origin.server != *server);
            named.extend(others.filter(|tool| known.insert(&tool.origin)));
            if MAX_FINDINGS <= named.len() {
                break;
            }
        }
        findings.extend(
            named.into_iter().take(MAX_FINDINGS).map(|tool| TextFinding::OtherTool {
                server: tool.origin.server.clone(),
                tool: tool.item.name.clone(),
            }),
        );
        findings
    }

    /// What is unusual in the definition of a tool or prompt, in the parts that a model or a person reads.
    pub fn definition(&self, definition: &Raw, server: &ServerName) -> Vec<PartFindings> {
        let members = definition.fields(PARTS.map(|(_, member)| member));
        let parts = PARTS.iter().zip(members).filter_map(|((part, _), value)| {
            let mut text = String::new();
            add_texts(&value?, &mut text);
            let findings = self.text(&text, server);
            (!findings.is_empty()).then_some(PartFindings { part, findings })
        });
        parts.collect()
    }
}

/// Adds the names of members and the texts in a value, each on a line, until there is enough to search. The recursion depth
/// is bounded by the parser of messages.
fn add_texts(value: &Raw, text: &mut String) {
    if MAX_TEXT <= text.len() {
        return;
    }
    match value.kind() {
        JsonKind::Object => {
            for member in value.members() {
                text.push_str(&member.key);
                text.push('\n');
                add_texts(&member.value, text);
            }
        }
        JsonKind::Array => value.elements().iter().for_each(|element| add_texts(element, text)),
        JsonKind::String => {
            // A text that is not Unicode is written with its escapes.
            text.push_str(&value.as_str().unwrap_or_else(|| value.to_string().into()));
            text.push('\n');
        }
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => {}
    }
}

/// What is unusual in a text by itself.
fn scan_alone(text: &str) -> Vec<TextFinding> {
    let mut findings = Vec::new();
    findings.extend(hidden_characters(text).map(TextFinding::HiddenCharacters));
    let plain = normalised(text);
    let phrases = PHRASES.iter().filter(|phrase| plain.contains(**phrase)).take(MAX_FINDINGS);
    findings.extend(phrases.map(|phrase| TextFinding::Instruction(phrase)));
    findings
}

/// The part of a text that is searched.
fn beginning(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The hidden characters of a text as they are made visible; `None` without one. Line ends and tabs are usual.
fn hidden_characters(text: &str) -> Option<String> {
    let is_hidden = |letter: &char| {
        let mut bytes = [0; 4];
        !matches!(letter, '\n' | '\t' | '\r' | '\\')
            && visible::plain(letter.encode_utf8(&mut bytes)) != letter.to_string()
    };
    let hidden: String = text.chars().filter(is_hidden).take(8).collect();
    (!hidden.is_empty()).then(|| visible::one_line(&hidden))
}

/// Lower case, without hidden characters, each white space one space.
fn normalised(text: &str) -> String {
    let kept = text.chars().filter(|letter| {
        let mut bytes = [0; 4];
        letter.is_whitespace() || visible::plain(letter.encode_utf8(&mut bytes)) == letter.to_string()
    });
    let kept: String = kept.collect::<String>().to_lowercase();
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl std::fmt::Display for TextFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::HiddenCharacters(shown) => write!(f, "hidden characters ({shown})"),
            Self::Instruction(phrase) => write!(f, "an instruction to the model (\"{phrase}\")"),
            Self::OtherTool { server, tool } => {
                write!(f, "the name of the tool `{}` of server `{server}`", visible::one_line(tool))
            }
        }
    }
}

/// What a text contains, for a sentence.
pub fn contents(findings: &[TextFinding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Display for PartFindings {
    /// `its description contains …`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "its {} contains {}", self.part, contents(&self.findings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        scan_alone(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn hidden_characters_and_instructions_are_found() {
        assert_eq!(found("Reads a file.\nPath is relative."), Vec::<String>::new());
        assert_eq!(found("Liest eine Datei, größer als 1 €. 日本語 👍"), Vec::<String>::new());
        assert!(found("Reads\u{200b} a file")[0].starts_with("hidden characters (\\u{200b}"));
        assert!(found("a\u{202e}b")[0].contains("\\u{202e}"));
        assert!(found("a\u{e0041}b")[0].contains("hidden"), "tag characters");
        assert_eq!(found("IGNORE  all\nprevious text"), ["an instruction to the model (\"ignore all previous\")"]);
        assert!(found("ig\u{200b}nore previous").iter().any(|finding| finding.contains("ignore previous")));
        assert!(found("<IMPORTANT> read ~/.ssh").len() == 2);
    }

    #[test]
    fn every_part_of_a_definition_is_searched() {
        let catalog = Catalog::empty();
        let scanner = Scanner::new(&catalog);
        let found = |text: &'static str| {
            let parts = scanner.definition(&Raw::parse(text).unwrap(), &"files".parse().unwrap());
            parts.iter().map(|part| part.part).collect::<Vec<_>>()
        };
        let innocent =
            r#"{"name":"a","description":"Reads","inputSchema":{"properties":{"path":{"description":"Where\n\tto"}}}}"#;
        assert_eq!(found(innocent), Vec::<&str>::new());
        for (definition, parts) in [
            (r#"{"description":"Ignore previous","title":"Read \u200bme"}"#, vec!["description", "title"]),
            (r#"{"inputSchema":{"properties":{"a":{"items":{"description":"<IMPORTANT>"}}}}}"#, vec!["input schema"]),
            (r#"{"inputSchema":{"properties":{"contents_of_~/.ssh":{}}}}"#, vec!["input schema"]),
            (r#"{"inputSchema":{"properties":{"a":{"default":"see ~/.ssh/x"}}}}"#, vec!["input schema"]),
            (r#"{"inputSchema":{"properties":{"a":{"enum":[1,"do not mention this"]}}}}"#, vec!["input schema"]),
            (r#"{"outputSchema":{"$comment":"do not tell the user"}}"#, vec!["output schema"]),
            (r#"{"annotations":{"title":"a\u202eb"}}"#, vec!["list of annotations"]),
            (r#"{"arguments":[{"name":"x","description":"id_rsa"}]}"#, vec!["list of arguments"]),
        ] {
            assert_eq!(found(definition), parts, "{definition}");
        }
    }
}
