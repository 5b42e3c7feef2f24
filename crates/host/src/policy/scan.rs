//! Findings in the descriptions and instructions of servers: what a model might follow and a person might not see.
//!
//! A finding is a hint for the person who is asked, not a proof; a text without one can still mislead.

use std::collections::HashSet;

use toolway_config::{ServerName, visible};

use crate::catalog::Catalog;

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

/// What is unusual in a text of a server. Names are those of other servers' tools in the catalog.
pub fn scan(text: &str, server: &ServerName, catalog: &Catalog) -> Vec<TextFinding> {
    let text = beginning(text);
    let mut findings = scan_alone(text);
    let words: HashSet<&str> =
        text.split(|letter: char| !(letter.is_alphanumeric() || "_-.".contains(letter))).collect();
    let others = catalog.tools().iter().filter(|tool| tool.origin.server != *server);
    let is_named = |name: &str| MIN_NAME <= name.len() && name.contains(['_', '-']) && words.contains(name);
    let named = others.filter(|tool| is_named(&tool.item.name) || words.contains(tool.public.as_str()));
    findings.extend(
        named.take(MAX_FINDINGS).map(|tool| TextFinding::OtherTool {
            server: tool.origin.server.clone(),
            tool: tool.item.name.to_string(),
        }),
    );
    findings
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

/// Findings in one sentence; `None` without one.
pub fn sentence(findings: &[TextFinding]) -> Option<String> {
    let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| format!("its description contains {}", texts.join(", ")))
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
}
