//! `toolway tools lint`: what is wrong with the tools on offer, for anyone or for one model vendor.

use serde_json::json;
use toolway_host::{
    catalog::{
        ItemKind,
        lint::{Finding, Provider, Severity},
    },
    connection::Lists,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    gathering::Patience,
    output::{Format, Output},
    report::Report,
    wiring,
};

/// Say what is wrong with the tools on offer, and what a model vendor would refuse
///
/// Without a server all that are configured are asked. Names, descriptions, schemas and annotations are looked at;
/// nothing is called. Notes and warnings end with exit code 0, an error with 2.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LintArgs {
    /// The servers; all where none is given
    servers: Vec<String>,

    /// Also what models of this vendor refuse or misunderstand
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
    let gathering = app.gather(targets, Lists::Only(ItemKind::Tool), Patience::Short, output).await?;
    gathering.say_absent(output);
    let catalog = gathering.host.catalog();
    let linted = gathering.refuse_if_nobody();
    let mut findings = catalog.findings().to_vec();
    findings.extend(args.provider.iter().flat_map(|vendor| catalog.lint(Provider::from(*vendor))));
    wiring::leave(&gathering.host).await;
    linted?;
    show(&findings, output);
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    match errors {
        0 => Ok(ExitCode::Ok),
        1 => Err(Report::usage("lint", "One thing has to be put right.")),
        many => Err(Report::usage("lint", format!("{many} things have to be put right."))),
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

fn show(findings: &[Finding], output: &mut Output) {
    let objects = || findings.iter().map(object);
    match output.format {
        Format::Json => output.json(&Raw::of(&json!({ "findings": objects().collect::<Vec<_>>() }))),
        Format::Ndjson => objects().for_each(|object| output.json(&Raw::of(&object))),
        Format::Raw => findings.iter().for_each(|finding| output.content(format!("{}\n", line(finding)).as_bytes())),
        Format::Human => {
            findings.iter().for_each(|finding| output.entry(&about(finding), &rest(finding)));
            if findings.is_empty() {
                output.say("Nothing is wrong.");
            }
        }
    }
}

fn line(finding: &Finding) -> String {
    format!("{}{}", about(finding), rest(finding))
}

/// Which tool or server; `everything` where it is about all of them.
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
