//! `toolway tools`: what a server can do, or all of them; and what is wrong with that.

mod lint;

use toolway_host::{
    call::Target as CallTarget,
    catalog::{Catalog, ItemKind, Origin, ToolEntry},
    connection::Lists,
};
use toolway_wire::{json::Raw, message::item::Tool};

use crate::{
    app::App,
    exit_code::ExitCode,
    gathering::{Gathering, News},
    output::{Format, Output, content},
    report::Report,
    schema::{self, Schema},
    similar,
    target::Target,
};

/// List the tools of one server or of all, or show one of them in full
///
/// Without a server all that are configured are asked, side by side. Those that are not there a moment after the others
/// are named on standard error with the reason; where it is known what they listed before, that is shown and marked.
/// With --timeout all are waited for that long. Tools of several servers have public names, `<server>__<tool>`, which `call` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: Option<ToolsCommand>,

    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ToolsCommand {
    Lint(lint::LintArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// The server, unless --stdio or --url gives it, and a tool to show in full; all servers where none is given
    #[arg(value_name = "SERVER] [TOOL", num_args = 0..=2)]
    words: Vec<String>,

    /// Only tools that fit these words, the best first
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
}

/// Tools that a search shows.
const FOUND: usize = 20;

const EXAMPLES: &str = "\
Examples:
  toolway tools                                All tools of all servers
  toolway tools --search 'read a file'         Those that fit, the best first
  toolway tools files                          Signatures, one per line
  toolway tools files read_file                One tool in full, with its schema
  toolway tools --stdio 'toolway sample'       A server that is not configured
  toolway tools lint --provider openai         What a model vendor would refuse
  toolway tools files -o json | jq '.tools[].name'";

pub(crate) async fn run(args: &ToolsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    if let Some(ToolsCommand::Lint(args)) = &args.command {
        return lint::run(args, app, output).await;
    }
    let mut words = args.list.words.clone();
    if words.is_empty() && app.reach.names_no_server() {
        return all(args.list.search.as_deref(), app, output).await;
    }
    let target = app.target(&mut words, output)?;
    of_server(target, &words, args.list.search.as_deref(), app, output).await
}

async fn of_server(
    target: Target,
    words: &[String],
    search: Option<&str>,
    app: &App,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    if let [name] = words {
        app.refuse_left_out(&target, ItemKind::Tool, CallTarget::ToolOf(target.origin(name))).await?;
    }
    app.visit(target, Lists::Only(ItemKind::Tool), output, async |session, output| {
        let catalog = session.listed(ItemKind::Tool, output)?;
        let entries = catalog.tools_of(session.name());
        match (words, search) {
            ([], None) => list(&entries.iter().map(Shown::own).collect::<Vec<_>>(), output),
            ([], Some(search)) => {
                let found = found(&catalog, search);
                list(&found.into_iter().map(Shown::own).collect::<Vec<_>>(), output);
            }
            ([name], None) => one(find(entries, name)?, output),
            _ => return Err(Report::usage("arguments", "Give one tool, or words to search for, or neither.")),
        }
        Ok(ExitCode::Ok)
    })
    .await
}

async fn all(search: Option<&str>, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    app.of_all(ItemKind::Tool, output, |gathering, output| {
        let catalog = gathering.host.catalog();
        let entries = match search {
            Some(search) => found(&catalog, search),
            None => catalog.tools().iter().collect(),
        };
        list(&entries.into_iter().map(|entry| Shown::public(entry, gathering)).collect::<Vec<_>>(), output);
    })
    .await
}

fn found<'a>(catalog: &'a Catalog, search: &str) -> Vec<&'a ToolEntry> {
    catalog.search(search, FOUND).into_iter().map(|hit| hit.entry).collect()
}

/// A tool under the name it is shown with.
struct Shown<'a> {
    name: &'a str,
    tool: &'a Tool,
    /// Whose it is, where that is not clear.
    origin: Option<&'a Origin>,
    news: News,
}

impl<'a> Shown<'a> {
    /// As its server calls it.
    fn own(entry: &'a ToolEntry) -> Self {
        Self { name: &entry.item.name, tool: &entry.item, origin: None, news: News::Now }
    }

    /// As it is called among the tools of all servers.
    fn public(entry: &'a ToolEntry, gathering: &Gathering) -> Self {
        let (origin, news) = (Some(&entry.origin), gathering.news_of(&entry.origin));
        Self { name: entry.public.as_str(), tool: &entry.item, origin, news }
    }

    /// The protocol's own object, under this name. What is ours stands in `_meta`.
    fn object(&self) -> Raw {
        match self.origin {
            Some(origin) => self.news.marked(&self.tool.raw, origin, Some(self.name)),
            None => self.tool.raw.clone(),
        }
    }
}

/// The tool of this name.
fn find<'a>(tools: &'a [ToolEntry], name: &str) -> Result<&'a Tool, Report> {
    tools.iter().find(|tool| tool.item.name == name).map(|tool| &*tool.item).ok_or_else(|| unknown(tools, name))
}

/// There is no such tool; what there is.
pub(crate) fn unknown(tools: &[ToolEntry], name: &str) -> Report {
    let report = Report::usage("unknown_tool", format!("The server has no tool `{name}`."));
    match similar::to(name, tools.iter().map(|tool| tool.item.name.as_str())) {
        Some(near) => report.hint(format!("Did you mean `{near}`?")),
        None if tools.is_empty() => report.hint("It has no tools at all."),
        None => report.hint("`toolway tools` lists what it has."),
    }
}

fn list(tools: &[Shown<'_>], output: &mut Output) {
    match output.format {
        Format::Json => {
            let objects: Vec<Raw> = tools.iter().map(Shown::object).collect();
            output.json(&content::listed("tools", objects.iter()));
        }
        Format::Ndjson => tools.iter().for_each(|tool| output.json(&tool.object())),
        Format::Raw => tools.iter().for_each(|tool| output.content(format!("{}\n", tool.name).as_bytes())),
        Format::Human => tools.iter().for_each(|tool| brief(tool, output)),
    }
}

fn brief(shown: &Shown<'_>, output: &mut Output) {
    let Shown { name, tool, news, .. } = shown;
    let signature = schema::signature(tool);
    let rest = signature.strip_prefix(&tool.name).unwrap_or_default();
    output.entry(name, &format!("{rest}{}{}", tags(tool), news.remark()));
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
