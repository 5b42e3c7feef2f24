//! Lints tool definitions: in general ([`Catalog::findings`]), and for one model vendor ([`Catalog::lint`]).
//!
//! The findings depend on the definitions only. Vendor rules are a table in `provider`, schema checks are in `schema`,
//! and checks for hidden or suspicious text in `text`.

mod provider;
mod schema;
mod text;

use std::fmt;

use toolway_config::ServerName;

use self::provider::Rules;
pub use self::provider::{Provider, UnknownProvider};
use super::{Catalog, ToolEntry, name::PublicName};

/// A problem of a tool definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity of the problem.
    pub severity: Severity,
    /// Stable identifier of the rule.
    pub rule: &'static str,
    /// Server of the tool; `None` if the finding concerns all servers.
    pub server: Option<ServerName>,
    /// Tool concerned; `None` if the finding concerns a server or the whole catalog.
    pub tool: Option<PublicName>,
    /// Description of the problem, as a full sentence.
    pub sentence: String,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Informational finding.
    Note,
    /// The tool works worse than it could, or should be reviewed.
    Warning,
    /// The vendor rejects the tool, or the definition is deceptive.
    Error,
}

/// Maximum number of findings per tool. Further ones are only counted.
const PER_TOOL: usize = 20;
/// Size in bytes above which some hosts shorten a schema.
const SCHEMA_BYTES: usize = 5_000;
/// Depth above which models do not follow a schema reliably.
const SCHEMA_DEPTH: usize = 10;
/// Size of all definitions in bytes above which they fill a large part of a model's context.
const ALL_BYTES: usize = 200_000;

impl Catalog {
    /// Findings that apply to all vendors, in catalog order. Computed once per snapshot.
    pub fn findings(&self) -> &[Finding] {
        self.findings.get_or_init(|| {
            let mut findings = Vec::new();
            for (server, offer) in self.servers() {
                let instructions = offer.listing.instructions.as_deref().unwrap_or_default();
                findings.extend(text::of_instructions(server, instructions));
            }
            for entry in self.tools() {
                let mut report = ToolReport::new(entry);
                report.definition();
                text::check(&mut report, self);
                findings.extend(report.finish());
            }
            findings
        })
    }

    /// Findings for one model vendor, by tool, followed by those about the whole catalog.
    pub fn lint(&self, provider: Provider) -> Vec<Finding> {
        let rules = provider.rules();
        let mut findings = Vec::new();
        for entry in self.tools() {
            let mut report = ToolReport::new(entry);
            report.name(rules);
            report.check_description(rules);
            schema::check(&mut report, rules);
            findings.extend(report.finish());
        }
        findings.extend(self.in_all(provider));
        findings
    }

    fn in_all(&self, provider: Provider) -> Vec<Finding> {
        let (count, mut findings) = (self.tools().len(), Vec::new());
        let mut report = |severity, rule, sentence| {
            findings.push(Finding { severity, rule, server: None, tool: None, sentence });
        };
        if let Some(most) = provider.tool_rules().and_then(|limits| limits.tools).filter(|most| *most < count) {
            let sentence = format!("{count} tools are offered; {provider} accepts at most {most} in one request.");
            report(Severity::Error, "too-many-tools", sentence);
        }
        let bytes: usize = self.tools().iter().map(|entry| entry.item.raw.as_bytes().len()).sum();
        if ALL_BYTES < bytes {
            let sentence = format!(
                "All definitions together have {bytes} bytes; let models search for tools instead of listing all."
            );
            report(Severity::Warning, "large-catalog", sentence);
        }
        findings
    }
}

/// Collects the findings about one tool.
struct ToolReport<'a> {
    entry: &'a ToolEntry,
    findings: Vec<Finding>,
    omitted: usize,
}

// === impl ToolReport ===

impl<'a> ToolReport<'a> {
    fn new(entry: &'a ToolEntry) -> Self {
        Self { entry, findings: Vec::new(), omitted: 0 }
    }

    fn report(&mut self, severity: Severity, rule: &'static str, sentence: impl Into<String>) {
        if PER_TOOL <= self.findings.len() {
            self.omitted += 1;
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
        if 0 < self.omitted {
            let sentence = format!("{} more findings about this tool are not shown.", self.omitted);
            self.omitted = 0;
            let place = Finding { severity: Severity::Note, rule: "more", server: None, tool: None, sentence };
            let (server, tool) = (Some(self.entry.origin.server.clone()), Some(self.entry.public.clone()));
            self.findings.push(Finding { server, tool, ..place });
        }
        self.findings
    }

    /// Checks that apply to all vendors.
    fn definition(&mut self) {
        let tool = &self.entry.item;
        if tool.description.as_deref().unwrap_or_default().trim().is_empty() {
            self.report(
                Severity::Warning,
                "no-description",
                "It has no description; a model has to guess its purpose.",
            );
        }
        let size = tool.input_schema.as_bytes().len();
        if SCHEMA_BYTES < size {
            let sentence =
                format!("Its input schema has {size} bytes; some hosts shorten schemas above {SCHEMA_BYTES} bytes.");
            self.report(Severity::Warning, "large-schema", sentence);
        }
        let depth = schema::depth(&tool.input_schema);
        if SCHEMA_DEPTH < depth {
            self.report(Severity::Warning, "deep-schema", format!("Its input schema is {depth} levels deep."));
        }
        if !self.entry.public.as_str().ends_with(&tool.name) {
            let sentence = format!(
                "Its name `{}` was changed: it is too long, has characters that some vendors reject, or is taken.",
                shown(&tool.name)
            );
            self.report(Severity::Note, "renamed", sentence);
        }
        self.hints();
    }

    /// Checks for contradictions among annotations and name.
    fn hints(&mut self) {
        const WRITES: [&str; 10] =
            ["delete", "remove", "write", "create", "update", "send", "drop", "execute", "insert", "move"];
        let Some(annotations) = &self.entry.item.annotations else { return };
        let hint = |key| annotations.get(key).and_then(|value| value.as_bool()).unwrap_or_default();
        if !hint("readOnlyHint") {
            return;
        }
        if hint("destructiveHint") {
            self.report(Severity::Warning, "contradiction", "It declares both `readOnlyHint` and `destructiveHint`.");
        }
        let name = self.entry.item.name.to_ascii_lowercase();
        let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        if let Some(word) = words.find_map(|word| WRITES.iter().find(|known| **known == word)) {
            let sentence = format!("It declares `readOnlyHint`, but its name contains `{word}`.");
            self.report(Severity::Warning, "contradiction", sentence);
        }
    }

    fn name(&mut self, rules: &Rules) {
        let limits = rules.provider.tool_rules();
        if let Some(problem) = limits.and_then(|limits| limits.name.problem(self.entry.public.as_str())) {
            self.report(Severity::Error, "name", format!("Its name {problem}, which {} rejects.", rules.provider));
        }
    }

    fn check_description(&mut self, rules: &Rules) {
        let length = self.entry.item.description.as_deref().unwrap_or_default().chars().count();
        let most = rules.provider.tool_rules().and_then(|limits| limits.description);
        if let Some(most) = most.filter(|most| *most < length) {
            let sentence = format!(
                "Its description has {length} characters; some models of {} reject more than {most}.",
                rules.provider
            );
            self.report(Severity::Error, "long-description", sentence);
        }
    }
}

/// Text of a remote party, shortened and with control characters escaped.
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
