//! `toolway tools lint`: problems of tools, in general or for one model provider.

use serde_json::json;
use toolway_host::{
    catalog::{
        Catalog, ItemKind, PublicName,
        lint::{Finding, Provider, Severity},
    },
    connection::Lists,
};
use toolway_model::{schema::adapt, value_of};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    lifecycle,
    multi_server_host::WaitPolicy,
    output::{Format, Output},
    report::Report,
};

/// Check tools for problems, and for what a model provider would reject
///
/// Checks names, descriptions, schemas and annotations of one server or of all; calls no tool. The exit code is 2 if there
/// are errors, and 0 for notes and warnings.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LintArgs {
    /// The servers [default: all configured servers]
    servers: Vec<String>,

    /// Also check what models of this provider reject or misunderstand
    #[arg(long, value_enum)]
    provider: Option<Vendor>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Vendor {
    Anthropic,
    #[value(name = "openai")]
    OpenAi,
    Gemini,
}

const EXAMPLES: &str = "\
Examples:
  toolway tools lint
  toolway tools lint files --provider anthropic
  toolway tools lint --provider gemini -o json | jq '.findings[] | select(.severity == \"error\")'";

pub(crate) async fn run(args: &LintArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let targets = app.targets(&args.servers, output)?;
    let hosts = app.connect_all(targets, Lists::Only(ItemKind::Tool), WaitPolicy::Adaptive, output).await?;
    hosts.report_unavailable(output);
    let catalog = hosts.host.catalog();
    let linted = hosts.check_any_available();
    let mut findings = catalog.findings().to_vec();
    if let Some(vendor) = args.provider {
        findings.extend(catalog.lint(vendor.into()));
        let withheld = withheld(&catalog, vendor.into(), &findings);
        findings.extend(withheld);
    }
    lifecycle::disconnect(&hosts.host).await;
    linted?;
    show(&findings, output);
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    match errors {
        0 => Ok(ExitCode::Ok),
        1 => Err(Report::usage("lint", "1 error found")),
        many => Err(Report::usage("lint", format!("{many} errors found"))),
    }
}

impl From<Vendor> for Provider {
    fn from(vendor: Vendor) -> Self {
        match vendor {
            Vendor::Anthropic => Self::Anthropic,
            Vendor::OpenAi => Self::OpenAi,
            Vendor::Gemini => Self::Gemini,
        }
    }
}

impl From<Vendor> for toolway_model::Vendor {
    fn from(vendor: Vendor) -> Self {
        match vendor {
            Vendor::Anthropic => Self::Anthropic,
            Vendor::OpenAi => Self::Openai,
            Vendor::Gemini => Self::Gemini,
        }
    }
}

/// Tools that `chat` and `run` do not offer, unless an error about them is among the findings already.
fn withheld(catalog: &Catalog, vendor: toolway_model::Vendor, found: &[Finding]) -> Vec<Finding> {
    let has_error = |tool: &PublicName| {
        found.iter().any(|finding| finding.severity == Severity::Error && finding.tool.as_ref() == Some(tool))
    };
    let mut findings = Vec::new();
    for entry in catalog.tools().iter().filter(|entry| !has_error(&entry.public)) {
        let schema = value_of(&entry.item.input_schema);
        let description = entry.item.description.as_deref().unwrap_or_default();
        if let Err(left_out) = adapt(vendor, entry.public.as_str(), description, &schema) {
            findings.push(Finding {
                severity: Severity::Error,
                rule: "withheld",
                server: Some(entry.origin.server.clone()),
                tool: Some(entry.public.clone()),
                sentence: format!("`chat` and `run` do not offer it: {}.", left_out.reason),
            });
        }
    }
    findings
}

fn show(findings: &[Finding], output: &mut Output) {
    let objects = || findings.iter().map(object);
    match output.format {
        Format::Json => output.json(&Raw::of(&json!({ "findings": objects().collect::<Vec<_>>() }))),
        Format::Ndjson => objects().for_each(|object| output.json(&Raw::of(&object))),
        Format::Raw => findings.iter().for_each(|finding| output.content(format!("{}\n", line(finding)).as_bytes())),
        Format::Human => {
            findings.iter().for_each(|finding| output.entry(&about(finding), &rest(finding)));
            if findings.is_empty() {
                output.notice("No problems found.");
            }
        }
    }
}

fn line(finding: &Finding) -> String {
    format!("{}{}", about(finding), rest(finding))
}

/// The tool or server; `everything` if it is about all of them.
fn about(finding: &Finding) -> String {
    match (&finding.tool, &finding.server) {
        (Some(tool), _) => tool.to_string(),
        (None, Some(server)) => server.to_string(),
        (None, None) => "everything".to_owned(),
    }
}

fn rest(finding: &Finding) -> String {
    format!("  {} ({}): {}", finding.severity, finding.rule, finding.sentence)
}

fn object(finding: &Finding) -> serde_json::Value {
    json!({
        "severity": finding.severity.to_string(),
        "rule": finding.rule,
        "server": finding.server.as_ref().map(ToString::to_string),
        "tool": finding.tool.as_ref().map(ToString::to_string),
        "sentence": finding.sentence,
    })
}
