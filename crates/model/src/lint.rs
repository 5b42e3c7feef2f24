//! Lints tool definitions: in general ([`Definitions::findings`]), and for one vendor ([`Definitions::findings_for`]).
//!
//! The findings depend on the definitions only. What vendors accept is the table of [`crate::vendor`], which the agent
//! keeps to as well. Schema checks are in `schema`, and checks for hidden or suspicious text in `text`.

mod schema;
mod text;

use std::fmt;

use toolway_config::{ServerName, Vendor};
use toolway_wire::message::item::Tool;

use crate::{
    raw_json::value_of,
    schema::adapt,
    vendor::{self, VendorEntry},
};

/// The definitions of all servers.
#[derive(Debug, Default)]
pub struct Definitions<'a> {
    /// What servers say about themselves.
    pub instructions: Vec<Instructions<'a>>,
    /// The tools, in the order of their public names.
    pub tools: Vec<LintedTool<'a>>,
}

/// The instructions of one server.
#[derive(Clone, Copy, Debug)]
pub struct Instructions<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// Text for the model.
    pub text: &'a str,
}

/// One tool.
#[derive(Clone, Copy, Debug)]
pub struct LintedTool<'a> {
    /// Its server.
    pub server: &'a ServerName,
    /// The name that models get.
    pub public_name: &'a str,
    /// The definition, as the server wrote it.
    pub definition: &'a Tool,
}

/// A problem of a tool definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Severity of the problem.
    pub severity: Severity,
    /// Stable identifier of the rule.
    pub rule: &'static str,
    /// Server of the tool; `None` if the finding concerns all servers.
    pub server: Option<ServerName>,
    /// Public name of the tool concerned; `None` if the finding concerns a server or the whole catalog.
    pub tool: Option<String>,
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

// === impl Definitions ===

impl Definitions<'_> {
    /// Findings that apply to all vendors, in the order of the definitions.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for Instructions { server, text } in &self.instructions {
            findings.extend(text::of_instructions(server, text));
        }
        let owners = self.tools.iter().map(|tool| (tool.public_name, tool.server)).collect();
        for tool in &self.tools {
            let mut report = ToolReport::new(*tool);
            report.definition();
            text::check(&mut report, &owners);
            findings.extend(report.finish());
        }
        findings
    }

    /// Findings for one vendor, by tool, followed by those about all of them.
    pub fn findings_for(&self, vendor: Vendor) -> Vec<Finding> {
        let entry = vendor::entry(vendor);
        let mut findings = Vec::new();
        for tool in &self.tools {
            let mut report = ToolReport::new(*tool);
            report.check_name(entry);
            report.check_description(entry);
            schema::check(&mut report, entry);
            report.check_withheld(vendor);
            findings.extend(report.finish());
        }
        findings.extend(self.in_all(entry));
        findings
    }

    fn in_all(&self, entry: &VendorEntry) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut report = |severity, rule, sentence| {
            findings.push(Finding { severity, rule, server: None, tool: None, sentence });
        };
        let count = self.tools.len();
        if let Some(most) = entry.tools.as_ref().and_then(|rules| rules.count).filter(|most| *most < count) {
            let sentence = format!("{count} tools are offered; {} accepts at most {most} in one request.", entry.title);
            report(Severity::Error, "too-many-tools", sentence);
        }
        let bytes: usize = self.tools.iter().map(|tool| tool.definition.raw.as_bytes().len()).sum();
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
    tool: LintedTool<'a>,
    findings: Vec<Finding>,
    omitted: usize,
}

// === impl ToolReport ===

impl<'a> ToolReport<'a> {
    fn new(tool: LintedTool<'a>) -> Self {
        Self { tool, findings: Vec::new(), omitted: 0 }
    }

    fn report(&mut self, severity: Severity, rule: &'static str, sentence: impl Into<String>) {
        if PER_TOOL <= self.findings.len() {
            self.omitted += 1;
            return;
        }
        self.findings.push(Finding {
            severity,
            rule,
            server: Some(self.tool.server.clone()),
            tool: Some(self.tool.public_name.to_owned()),
            sentence: sentence.into(),
        });
    }

    fn finish(mut self) -> Vec<Finding> {
        if 0 < self.omitted {
            let sentence = format!("{} more findings about this tool are not shown.", self.omitted);
            self.omitted = 0;
            self.findings.push(Finding {
                severity: Severity::Note,
                rule: "more",
                server: Some(self.tool.server.clone()),
                tool: Some(self.tool.public_name.to_owned()),
                sentence,
            });
        }
        self.findings
    }

    /// Checks that apply to all vendors.
    fn definition(&mut self) {
        let tool = self.tool.definition;
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
        if !self.tool.public_name.ends_with(&tool.name) {
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
        let Some(annotations) = &self.tool.definition.annotations else { return };
        let hint = |key| annotations.get(key).and_then(|value| value.as_bool()).unwrap_or_default();
        if !hint("readOnlyHint") {
            return;
        }
        if hint("destructiveHint") {
            self.report(Severity::Warning, "contradiction", "It declares both `readOnlyHint` and `destructiveHint`.");
        }
        let name = self.tool.definition.name.to_ascii_lowercase();
        let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        if let Some(word) = words.find_map(|word| WRITES.iter().find(|known| **known == word)) {
            let sentence = format!("It declares `readOnlyHint`, but its name contains `{word}`.");
            self.report(Severity::Warning, "contradiction", sentence);
        }
    }

    fn check_name(&mut self, entry: &VendorEntry) {
        let problem = entry.tools.as_ref().and_then(|rules| rules.name.problem(self.tool.public_name));
        if let Some(problem) = problem {
            self.report(Severity::Error, "name", format!("Its name {problem}, which {} rejects.", entry.title));
        }
    }

    fn check_description(&mut self, entry: &VendorEntry) {
        let length = self.tool.definition.description.as_deref().unwrap_or_default().chars().count();
        let most = entry.tools.as_ref().and_then(|rules| rules.description);
        if let Some(most) = most.filter(|most| *most < length) {
            let sentence = format!(
                "Its description has {length} characters; some models of {} reject more than {most}.",
                entry.title
            );
            self.report(Severity::Error, "long-description", sentence);
        }
    }

    /// Reports a tool that the agent does not offer, unless there is an error about it already.
    fn check_withheld(&mut self, vendor: Vendor) {
        if self.findings.iter().any(|finding| finding.severity == Severity::Error) {
            return;
        }
        let description = self.tool.definition.description.as_deref().unwrap_or_default();
        let schema = value_of(&self.tool.definition.input_schema);
        if let Err(left_out) = adapt(vendor, self.tool.public_name, description, &schema) {
            let sentence = format!("`chat` and `run` do not offer it: {}.", left_out.reason);
            self.report(Severity::Error, "withheld", sentence);
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
