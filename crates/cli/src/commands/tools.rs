//! `toolway tools`: lists, shows and checks tools.

pub(super) mod hidden;
mod lint;

use std::sync::Arc;

use toolway_host::{
    call::Target as CallTarget,
    catalog::{Catalog, HiddenItem, ItemKind, Origin, ToolEntry},
    connection::Lists,
};
use toolway_wire::{
    json::Raw,
    message::{
        item::Tool,
        splice::{self, Edit},
    },
};

use super::call;
use crate::{
    answering_tools::AnsweringTools,
    app::App,
    example_call,
    exit_code::ExitCode,
    lifecycle,
    multi_server_host::{ListingAge, MultiServerHost, WaitPolicy},
    output::{Format, Output, content},
    report::Report,
    schema::{self, Schema},
    suggestion,
    target::Target,
    terminal::given::CommandAnswerer,
};

/// List the tools of one server or of all, or show one tool in full
///
/// Without a server, connects to all configured servers in parallel. Servers that do not respond shortly after the others
/// are reported on standard error; their cached listing, if any, is shown and marked. --timeout waits that long for all.
/// Tools of several servers have public names, `<server>__<tool>`, which `call` accepts. Tools that a server offers only to
/// clients whose user answers its requests are marked (`toolway/needs` in `_meta` with `-o json`).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, override_usage = USAGE)]
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
    /// The server [default: all configured servers] and a tool to show in full; omit the server with --stdio or --url
    #[arg(value_name = "SERVER] [TOOL", num_args = 0..=2)]
    words: Vec<String>,

    /// Only tools that match these words, best match first
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
}

const USAGE: &str = "toolway tools [OPTIONS] [SERVER] [TOOL]\n       toolway tools <COMMAND>";

/// Most results of a search.
const FOUND: usize = 20;

const EXAMPLES: &str = "\
Examples:
  toolway tools                                All tools of all servers
  toolway tools --search 'read a file'         Matching tools, best match first
  toolway tools files                          Signatures, one per line
  toolway tools files read_file                One tool in full, with its schema; also `files.read_file`
  toolway tools --stdio 'toolway sample'       A server that is not configured
  toolway tools lint --vendor openai           What a model vendor would reject
  toolway tools files -o json | jq '.tools[].name'";

pub(crate) async fn run(args: &ToolsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    if let Some(ToolsCommand::Lint(args)) = &args.command {
        return lint::run(args, app, output).await;
    }
    let (mut words, selector) = (args.list.words.clone(), args.list.words.first().cloned().unwrap_or_default());
    app.split_address(&mut words);
    if words.is_empty() && app.reach.names_no_server() {
        return all(args.list.search.as_deref(), app, output).await;
    }
    let target = app.target(&mut words, output)?;
    of_server(target, &words, &selector, args.list.search.as_deref(), app, output).await
}

async fn of_server(
    target: Target,
    words: &[String],
    selector: &str,
    search: Option<&str>,
    app: &App,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    if let [name] = words {
        app.refuse_excluded(&target, ItemKind::Tool, CallTarget::ToolOf(target.origin(name))).await?;
    }
    let (lists, answerer) = (Lists::Only(ItemKind::Tool), Arc::new(CommandAnswerer::for_lists()));
    app.with_answered_server(target, lists, answerer, output, async |single, output| {
        let catalog = single.catalog(ItemKind::Tool, output)?;
        let marks = match words {
            [] => app.answering_tools(&single.host, std::slice::from_ref(&single.target)).await,
            _ => AnsweringTools::default(),
        };
        let own = |entry| ListedTool::own(entry, &marks);
        match (words, search) {
            ([], None) => {
                let tools: Vec<_> = catalog.tools_of(single.name()).iter().map(own).collect();
                list(&tools, &hidden::of(&catalog, Some(single.name())), output);
            }
            ([], Some(search)) => {
                list(&found(&catalog, search).into_iter().map(own).collect::<Vec<_>>(), &[], output);
            }
            ([name], None) => one(&call::find(&catalog, single, name, selector)?.item, &single.target, output),
            _ => return Err(Report::usage("arguments", "a tool name and --search cannot be combined")),
        }
        Ok(ExitCode::Ok)
    })
    .await
}

async fn all(search: Option<&str>, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let targets = app.targets(&[], output)?;
    let lists = Lists::Only(ItemKind::Tool);
    let hosts = app.connect_all(targets.clone(), lists, WaitPolicy::Adaptive, output).await?;
    hosts.report_unavailable(output);
    let shown = hosts.check_any_available();
    if shown.is_ok() {
        let marks = app.answering_tools(&hosts.host, &targets).await;
        let catalog = hosts.host.catalog();
        let entries = match search {
            Some(search) => found(&catalog, search),
            None => catalog.tools().iter().collect(),
        };
        let listed = entries.into_iter().map(|entry| ListedTool::public(entry, &hosts, &marks));
        let listed: Vec<ListedTool<'_>> = listed.collect();
        let hidden = if search.is_none() { hidden::of(&catalog, None) } else { Vec::new() };
        match (output.format, search) {
            (Format::Human, None) => {
                by_server(&listed, &hosts, output);
                hidden::print(&hidden, output);
            }
            _ => list(&listed, &hidden, output),
        }
    }
    lifecycle::disconnect(&hosts.host).await;
    shown.and_then(|()| hosts.check_required()).map(|()| ExitCode::Ok)
}

/// Prints the tools of each server under its name, and a summary.
fn by_server(tools: &[ListedTool<'_>], hosts: &MultiServerHost, output: &mut Output) {
    let server_of = |tool: &ListedTool<'_>| tool.origin.map(|origin| origin.server.clone());
    for group in tools.chunk_by(|one, other| server_of(one) == server_of(other)) {
        let Some(server) = server_of(&group[0]) else { continue };
        let outcome = hosts.outcomes.iter().find(|outcome| outcome.status.server == server);
        let transport = outcome.map(|outcome| format!(", {}", outcome.status.transport.word())).unwrap_or_default();
        output.entry(server.as_str(), &format!("  {}{transport}", counted(group.len(), "tool")));
        group.iter().for_each(|tool| brief(tool, output));
        output.line("");
    }
    let missing = hosts.outcomes.iter().filter(|outcome| outcome.problem().is_some());
    let (connecting, unavailable): (Vec<_>, Vec<_>) = missing.partition(|outcome| outcome.is_connecting());
    let missing = [(connecting.len(), "connecting"), (unavailable.len(), "unavailable")];
    let missing = missing.into_iter().filter(|(count, _)| 0 < *count);
    let missing: String =
        missing.map(|(count, state)| format!("; {} {state}, see above", counted(count, "server"))).collect();
    let servers = counted(hosts.outcomes.len(), "server");
    output.notice(&format!("toolway: {} of {servers}{missing}", counted(tools.len(), "tool")));
}

fn counted(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

fn found<'a>(catalog: &'a Catalog, search: &str) -> Vec<&'a ToolEntry> {
    catalog.search(search, FOUND).into_iter().map(|hit| hit.entry).collect()
}

/// A tool with its displayed name.
struct ListedTool<'a> {
    name: &'a str,
    tool: &'a Tool,
    /// Its origin, if tools of several servers are listed.
    origin: Option<&'a Origin>,
    age: ListingAge,
    audience: Audience,
}

/// Whom the server lists a tool to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    All,
    /// Clients whose user answers its requests.
    AnsweringClients,
}

impl<'a> ListedTool<'a> {
    /// By the server's own name.
    fn own(entry: &'a ToolEntry, marks: &AnsweringTools) -> Self {
        let (age, audience) = (ListingAge::Current, Audience::of(entry, marks));
        Self { name: &entry.item.name, tool: &entry.item, origin: None, age, audience }
    }

    /// By its public name.
    fn public(entry: &'a ToolEntry, hosts: &MultiServerHost, marks: &AnsweringTools) -> Self {
        let (origin, age) = (Some(&entry.origin), hosts.listing_age(&entry.origin));
        Self { name: entry.public.as_str(), tool: &entry.item, origin, age, audience: Audience::of(entry, marks) }
    }

    /// The protocol object with the displayed name; our additions are in `_meta`.
    fn object(&self) -> Raw {
        let object = match self.origin {
            Some(origin) => self.age.with_origin(&self.tool.raw, origin, Some(self.name)),
            None => self.tool.raw.clone(),
        };
        match self.audience {
            Audience::All => object,
            Audience::AnsweringClients => {
                let meta = object.get("_meta").unwrap_or_else(Raw::empty_object);
                let meta = splice::edited(&meta, &[Edit::Set("toolway/needs", Raw::of("user"))]);
                splice::edited(&object, &[Edit::Set("_meta", meta)])
            }
        }
    }
}

impl Audience {
    fn of(entry: &ToolEntry, marks: &AnsweringTools) -> Self {
        match marks.has(&entry.origin.server, &entry.item.name) {
            true => Self::AnsweringClients,
            false => Self::All,
        }
    }

    /// Suffix of the tool's text line.
    fn remark(self) -> &'static str {
        match self {
            Self::All => "",
            Self::AnsweringClients => "  (needs a user who answers)",
        }
    }
}

/// The report of an unknown tool.
pub(crate) fn unknown(tools: &[ToolEntry], name: &str, target: &Target) -> Report {
    let near = suggestion::did_you_mean(name, tools.iter().map(|tool| tool.item.name.as_str()));
    let report = Report::usage("unknown_tool", format!("the server has no tool `{name}`{near}"));
    match &target.entry {
        _ if tools.is_empty() => report.hint("the server has no tools"),
        Some(entry) => report.hint(format!("list its tools with `toolway tools {}`", entry.name)),
        None => report.hint("list its tools with `toolway tools`"),
    }
}

/// Prints tools, and those that are hidden.
fn list(tools: &[ListedTool<'_>], hidden: &[&HiddenItem], output: &mut Output) {
    match output.format {
        Format::Json => {
            let objects: Vec<Raw> = tools.iter().map(ListedTool::object).collect();
            output.json(&hidden::add(content::listed("tools", objects.iter()), hidden));
        }
        Format::Ndjson => tools.iter().for_each(|tool| output.json(&tool.object())),
        Format::Raw => tools.iter().for_each(|tool| output.content(format!("{}\n", tool.name).as_bytes())),
        Format::Human => {
            tools.iter().for_each(|tool| brief(tool, output));
            hidden::print(hidden, output);
        }
    }
}

fn brief(shown: &ListedTool<'_>, output: &mut Output) {
    let ListedTool { name, tool, age, audience, .. } = shown;
    let signature = schema::signature(tool);
    let rest = signature.strip_prefix(&tool.name).unwrap_or_default();
    output.tool_entry(name, &format!("{rest}{}{}{}", age.remark(), tags(tool), audience.remark()));
    if let Some(description) = &tool.description {
        output.line(&format!("    {}", output.fit(4, description)));
    }
}

fn one(tool: &Tool, target: &Target, output: &mut Output) {
    match output.format {
        Format::Json | Format::Ndjson => output.json(&tool.raw),
        Format::Raw => output.content(format!("{}\n", tool.raw).as_bytes()),
        Format::Human => {
            let signature = schema::signature(tool);
            let rest = format!("{}{}", signature.strip_prefix(&tool.name).unwrap_or_default(), tags(tool));
            output.tool_entry(&tool.name, &rest);
            if let Some(title) = title(tool) {
                output.line(&format!("  title: {title}"));
            }
            if let Some(description) = &tool.description {
                output.print_wrapped("    ", description);
            }
            output.line(&format!("  example:\n    {}", example_call::command(target, tool)));
            let schema = Schema::new(tool.input_schema.clone());
            for property in schema.properties() {
                let description = property.schema.get("description");
                let description = description.as_ref().and_then(toolway_wire::json::Raw::as_str).unwrap_or_default();
                let needed = if property.required { "" } else { ", optional" };
                let rest = format!(" ({}{needed}) {description}", schema.type_text(&property.schema));
                output.print_wrapped_entry(&format!("  {}", property.name), &rest, "      ");
            }
            output.line(&format!("  input schema:\n{}", indent(&content::indented(&tool.input_schema))));
            if let Some(schema) = &tool.output_schema {
                output.line(&format!("  output schema:\n{}", indent(&content::indented(schema))));
            }
        }
    }
}

/// The title, if it says more than the name.
fn title(tool: &Tool) -> Option<String> {
    let annotated = || tool.annotations.as_ref()?.get("title")?.as_str().map(std::borrow::Cow::into_owned);
    tool.title.clone().or_else(annotated).filter(|title| *title != tool.name)
}

/// The tool's annotations and task support, as claimed by the server.
fn tags(tool: &Tool) -> String {
    let says = |hint: &str| tool.annotations.as_ref().and_then(|all| all.get(hint)).and_then(|flag| flag.as_bool());
    let mut tags = Vec::new();
    match (says("readOnlyHint"), says("destructiveHint")) {
        // Hints that contradict each other count as destructive.
        (_, Some(true)) => tags.push("destructive"),
        (Some(true), _) => tags.push("read-only"),
        _ => {}
    }
    if says("idempotentHint") == Some(true) {
        tags.push("idempotent");
    }
    if says("openWorldHint") == Some(true) {
        tags.push("open world");
    }
    let tasks = tool.raw.get("execution").and_then(|execution| execution.get("taskSupport"));
    match tasks.as_ref().and_then(Raw::as_str).as_deref() {
        Some("required") => tags.push("runs as a task"),
        Some("optional") => tags.push("can run as a task"),
        _ => {}
    }
    if tags.is_empty() { String::new() } else { format!("  [{}]", tags.join(", ")) }
}

pub(crate) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
