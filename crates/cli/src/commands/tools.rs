//! `toolway tools`: what a server can do.

use toolway_wire::message::item::Tool;

use crate::{
    app::App,
    disk_copy,
    exit_code::ExitCode,
    output::{Format, Output, content},
    report::Report,
    schema::{self, Schema},
    similar,
};

/// List the tools of a server, or show one of them in full
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ToolsArgs {
    /// The server, unless --stdio or --url gives it, and a tool to show in full
    #[arg(value_name = "SERVER] [TOOL", num_args = 0..=2)]
    words: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  toolway tools files                          Signatures, one per line
  toolway tools files read_file                One tool in full, with its schema
  toolway tools --stdio 'toolway sample'       A server that is not configured
  toolway tools files -o json | jq '.tools[].name'";

pub(crate) async fn run(args: &ToolsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words = args.words.clone();
    let target = app.target(&mut words, output)?;
    app.visit(target, async |session| {
        let tools = session.tools(app, output).await?.items;
        match words.as_slice() {
            [] => list(&tools, output),
            [name] => one(find(&tools, name)?, output),
            _ => return Err(Report::usage("arguments", "Give one tool, or none for all of them.")),
        }
        Ok(ExitCode::Ok)
    })
    .await
}

/// The tool of this name.
pub(crate) fn find<'a>(tools: &'a [Tool], name: &str) -> Result<&'a Tool, Report> {
    tools.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let report = Report::usage("unknown_tool", format!("The server has no tool `{name}`."));
        match similar::to(name, tools.iter().map(|tool| tool.name.as_str())) {
            Some(near) => report.hint(format!("Did you mean `{near}`?")),
            None if tools.is_empty() => report.hint("It has no tools at all."),
            None => report.hint("`toolway tools` lists what it has."),
        }
    })
}

fn list(tools: &[Tool], output: &mut Output) {
    match output.format {
        Format::Json => output.json(&disk_copy::listed("tools", tools.iter().map(|tool| &tool.raw))),
        Format::Ndjson => tools.iter().for_each(|tool| output.json(&tool.raw)),
        Format::Raw => tools.iter().for_each(|tool| output.content(format!("{}\n", tool.name).as_bytes())),
        Format::Human => {
            for tool in tools {
                brief(tool, output);
            }
        }
    }
}

fn brief(tool: &Tool, output: &mut Output) {
    let signature = schema::signature(tool);
    let rest = signature.strip_prefix(&tool.name).unwrap_or_default();
    output.entry(&tool.name, &format!("{rest}{}", tags(tool)));
    if let Some(description) = &tool.description {
        output.line(&format!("    {}", first_line(description)));
    }
}

fn one(tool: &Tool, output: &mut Output) {
    match output.format {
        Format::Json | Format::Ndjson => output.json(&tool.raw),
        Format::Raw => output.content(format!("{}\n", tool.raw).as_bytes()),
        Format::Human => {
            let signature = schema::signature(tool);
            output.entry(
                &tool.name,
                &format!("{}{}", signature.strip_prefix(&tool.name).unwrap_or_default(), tags(tool)),
            );
            if let Some(description) = &tool.description {
                output.line(&indent(description));
            }
            let schema = Schema::new(tool.input_schema.clone());
            for property in schema.properties() {
                let description = property.schema.get("description");
                let description = description.as_ref().and_then(toolway_wire::json::Raw::as_str).unwrap_or_default();
                let needed = if property.required { "" } else { ", optional" };
                output.entry(
                    &format!("  {}", property.name),
                    &format!(" ({}{needed}) {description}", schema.kind_words(&property.schema)),
                );
            }
            output.line(&format!("  input schema:\n{}", indent(&content::indented(&tool.input_schema))));
            if let Some(schema) = &tool.output_schema {
                output.line(&format!("  output schema:\n{}", indent(&content::indented(schema))));
            }
        }
    }
}

/// What the server says of the tool's effects; nobody has to believe it.
fn tags(tool: &Tool) -> String {
    let says = |hint: &str| tool.annotations.as_ref().and_then(|all| all.get(hint)).and_then(|flag| flag.as_bool());
    let mut tags = Vec::new();
    match (says("readOnlyHint"), says("destructiveHint")) {
        (Some(true), _) => tags.push("read-only"),
        (_, Some(true)) => tags.push("destructive"),
        _ => {}
    }
    if says("idempotentHint") == Some(true) {
        tags.push("idempotent");
    }
    if tags.is_empty() { String::new() } else { format!("  [{}]", tags.join(", ")) }
}

pub(crate) fn first_line(text: &str) -> String {
    const SHOWN: usize = 110;
    let line = text.trim().lines().next().unwrap_or_default();
    crate::output::clean::line(line, SHOWN)
}

pub(crate) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
