//! What is wrong with the tools on offer: for anyone ([`Catalog::findings`]), and for one model vendor
//! ([`Catalog::lint`]).
//!
//! Everything here is decided from the text alone and says the same each time. What a vendor takes stands in a
//! table in `provider`; schemas are walked in `schema`, text that hides something is found in `text`.

mod provider;
mod schema;
mod text;

use std::fmt;

use toolway_config::ServerName;

use self::provider::Rules;
pub use self::provider::{Provider, UnknownProvider};
use super::{Catalog, ToolEntry, name::PublicName};

/// Something that is wrong, with a sentence about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which rule says so, as a word for programs.
    pub rule: &'static str,
    /// Whose tool it is; `None` for what concerns all of them.
    pub server: Option<ServerName>,
    /// Which tool; `None` for what concerns a server or all of them.
    pub tool: Option<PublicName>,
    /// A full sentence.
    pub sentence: String,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// It works worse than it could, or somebody should look at it.
    Warning,
    /// It is refused, or pretends to be what it is not.
    Error,
}

/// One tool says no more than this; the rest is counted.
const PER_TOOL: usize = 20;
/// A schema this large is cut or thinned out by some hosts.
const SCHEMA_BYTES: usize = 5_000;
/// A schema this deep is more than models follow.
const SCHEMA_DEPTH: usize = 10;
/// All definitions together: beyond this the tools alone fill a good part of a model's window.
const ALL_BYTES: usize = 200_000;

impl Catalog {
    /// What is wrong with the tools whoever uses them, in order of the catalog. Looked for once per snapshot.
    pub fn findings(&self) -> &[Finding] {
        self.findings.get_or_init(|| {
            let mut findings = Vec::new();
            for (server, offer) in self.servers() {
                let instructions = offer.listing.instructions.as_deref().unwrap_or_default();
                findings.extend(text::of_instructions(server, instructions));
            }
            for entry in self.tools() {
                let mut about = About::new(entry);
                about.definition();
                text::check(&mut about, self);
                findings.extend(about.finish());
            }
            findings
        })
    }

    /// What one vendor's models would refuse or misunderstand, tool by tool, and what concerns all of them.
    pub fn lint(&self, provider: Provider) -> Vec<Finding> {
        let rules = provider.rules();
        let mut findings = Vec::new();
        for entry in self.tools() {
            let mut about = About::new(entry);
            about.name(rules);
            about.described(rules);
            schema::check(&mut about, rules);
            findings.extend(about.finish());
        }
        findings.extend(self.in_all(provider, rules));
        findings
    }

    fn in_all(&self, provider: Provider, rules: &Rules) -> Vec<Finding> {
        let (count, mut findings) = (self.tools().len(), Vec::new());
        let mut say = |severity, rule, sentence| {
            findings.push(Finding { severity, rule, server: None, tool: None, sentence });
        };
        if let Some(most) = rules.tools.filter(|most| *most < count) {
            let sentence = format!("{count} tools are on offer, and {provider} takes {most} in one request.");
            say(Severity::Error, "too-many-tools", sentence);
        }
        let bytes: usize = self.tools().iter().map(|entry| entry.item.raw.as_bytes().len()).sum();
        if ALL_BYTES < bytes {
            let sentence = format!(
                "All definitions together are {bytes} bytes; let models search for tools instead of listing them."
            );
            say(Severity::Warning, "large-catalog", sentence);
        }
        findings
    }
}

/// What is said about one tool.
struct About<'a> {
    entry: &'a ToolEntry,
    findings: Vec<Finding>,
    unsaid: usize,
}

// === impl About ===

impl<'a> About<'a> {
    fn new(entry: &'a ToolEntry) -> Self {
        Self { entry, findings: Vec::new(), unsaid: 0 }
    }

    fn say(&mut self, severity: Severity, rule: &'static str, sentence: impl Into<String>) {
        if PER_TOOL <= self.findings.len() {
            self.unsaid += 1;
            return;
        }
        self.findings.push(Finding {
            severity,
            rule,
            server: Some(self.entry.origin.server.clone()),
            tool: Some(self.entry.public.clone()),
            sentence: sentence.into(),
        });
    }

    fn finish(mut self) -> Vec<Finding> {
        if 0 < self.unsaid {
            let sentence = format!("{} more findings about this tool are not shown.", self.unsaid);
            self.unsaid = 0;
            let place = Finding { severity: Severity::Note, rule: "more", server: None, tool: None, sentence };
            let (server, tool) = (Some(self.entry.origin.server.clone()), Some(self.entry.public.clone()));
            self.findings.push(Finding { server, tool, ..place });
        }
        self.findings
    }

    /// What matters to everyone.
    fn definition(&mut self) {
        let tool = &self.entry.item;
        if tool.description.as_deref().unwrap_or_default().trim().is_empty() {
            self.say(
                Severity::Warning,
                "no-description",
                "It has no description; a model has to guess what it is for.",
            );
        }
        let size = tool.input_schema.as_bytes().len();
        if SCHEMA_BYTES < size {
            let sentence =
                format!("Its input schema is {size} bytes; some hosts thin out what is larger than {SCHEMA_BYTES}.");
            self.say(Severity::Warning, "large-schema", sentence);
        }
        let depth = schema::depth(&tool.input_schema);
        if SCHEMA_DEPTH < depth {
            self.say(Severity::Warning, "deep-schema", format!("Its input schema is {depth} levels deep."));
        }
        if !self.entry.public.as_str().ends_with(&tool.name) {
            let sentence = format!(
                "`{}` has another name here: it is too long, not plain enough for every vendor, or taken.",
                shown(&tool.name)
            );
            self.say(Severity::Note, "renamed", sentence);
        }
        self.hints();
    }

    /// What a tool says of itself and its name contradicts.
    fn hints(&mut self) {
        const WRITES: [&str; 10] =
            ["delete", "remove", "write", "create", "update", "send", "drop", "execute", "insert", "move"];
        let Some(annotations) = &self.entry.item.annotations else { return };
        let hint = |key| annotations.get(key).and_then(|value| value.as_bool()).unwrap_or_default();
        if !hint("readOnlyHint") {
            return;
        }
        if hint("destructiveHint") {
            self.say(Severity::Warning, "contradiction", "It says that it only reads, and that it destroys.");
        }
        let name = self.entry.item.name.to_ascii_lowercase();
        let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        if let Some(word) = words.find_map(|word| WRITES.iter().find(|known| **known == word)) {
            let sentence = format!("It says that it only reads, and is called `{word}`.");
            self.say(Severity::Warning, "contradiction", sentence);
        }
    }

    fn name(&mut self, rules: &Rules) {
        if let Some(problem) = rules.name.problem(self.entry.public.as_str()) {
            self.say(Severity::Error, "name", format!("Its name {problem}, which {} refuses.", rules.provider));
        }
    }

    fn described(&mut self, rules: &Rules) {
        let length = self.entry.item.description.as_deref().unwrap_or_default().chars().count();
        if let Some(most) = rules.description.filter(|most| *most < length) {
            let sentence = format!(
                "Its description has {length} letters; models of {} exist that refuse more than {most}.",
                rules.provider
            );
            self.say(Severity::Error, "long-description", sentence);
        }
    }
}

/// A stranger's text, short and without anything that moves a cursor.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if 60 < text.chars().take(61).count() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

#[cfg(test)]
mod tests;
