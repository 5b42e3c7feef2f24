//! `toolway tools lint`: problems of tools, in general or for one model vendor.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use toolway_config::Vendor;
use toolway_host::{
    catalog::{Catalog, ItemKind},
    connection::Lists,
};
use toolway_model::{
    lint::{Definitions, Finding, Instructions, LintedTool, Severity},
    vendor::VENDORS,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    lifecycle,
    multi_server_host::WaitPolicy,
    output::{Format, Output},
    report::Report,
};

/// Check tools for problems, and for what a model vendor would reject
///
/// Checks names, descriptions, schemas and annotations of one server or of all; calls no tool. The exit code is 2 if there
/// are errors, and 0 for notes and warnings.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LintArgs {
    /// The servers [default: all configured servers]
    servers: Vec<String>,

    /// Also check what models of this vendor reject or misunderstand
    #[arg(long, value_parser = vendors())]
    vendor: Option<Vendor>,
}

const EXAMPLES: &str = "\
Examples:
  toolway tools lint
  toolway tools lint files --vendor anthropic
  toolway tools lint --vendor gemini -o json | jq '.findings[] | select(.severity == \"error\")'";

pub(crate) async fn run(args: &LintArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let targets = app.targets(&args.servers, output)?;
    let hosts = app.connect_all(targets, Lists::Only(ItemKind::Tool), WaitPolicy::Adaptive, output).await?;
    hosts.report_unavailable(output);
    let catalog = hosts.host.catalog();
    let linted = hosts.check_any_available();
    let definitions = definitions(&catalog);
    let mut findings = definitions.findings();
    findings.extend(args.vendor.into_iter().flat_map(|vendor| definitions.findings_for(vendor)));
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

/// The vendors that have rules for tools, by their words in the configuration.
fn vendors() -> impl TypedValueParser<Value = Vendor> {
    let with_rules = VENDORS.iter().filter(|entry| entry.tools.is_some());
    let words = PossibleValuesParser::new(with_rules.map(|entry| entry.vendor.as_str()));
    words.try_map(|word| Vendor::from_word(&word).ok_or("unknown vendor"))
}

fn definitions(catalog: &Catalog) -> Definitions<'_> {
    let instructions = catalog.servers().map(|(server, offer)| Instructions {
        server,
        text: offer.listing.instructions.as_deref().unwrap_or_default(),
    });
    let tools = catalog.tools().iter().map(|entry| LintedTool {
        server: &entry.origin.server,
        public_name: entry.public.as_str(),
        definition: &entry.item,
    });
    Definitions { instructions: instructions.collect(), tools: tools.collect() }
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
