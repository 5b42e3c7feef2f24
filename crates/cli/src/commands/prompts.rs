//! `toolway prompts`: lists and gets prompts.

use toolway_host::{
    call::Target,
    catalog::{Catalog, ItemKind, PromptEntry},
    connection::Lists,
};
use toolway_wire::{
    json::Raw,
    message::{content::Content, item::Prompt},
};

use super::{call, tools};
use crate::{
    app::App,
    arguments,
    exit_code::ExitCode,
    lifecycle::CalledItem,
    multi_server_host::{ListingAge, MultiServerHost},
    output::{
        Format, Output,
        content::{self, Piece},
    },
    report::Report,
    schema,
    single_server_host::SingleServerHost,
    suggestion,
};

/// List and get prompts of one server or of all
///
/// Without a server, lists the prompts of all configured servers by their public names, `<server>__<prompt>`, which `get`
/// accepts.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, override_usage = USAGE)]
pub(crate) struct PromptsArgs {
    #[command(subcommand)]
    command: Option<PromptsCommand>,

    #[command(flatten)]
    list: PromptListArgs,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PromptsCommand {
    /// List the prompts
    #[command(override_usage = "toolway prompts list [OPTIONS] [SERVER] [PROMPT]")]
    List(PromptListArgs),
    /// Get one prompt with its arguments filled in
    Get(GetArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptListArgs {
    /// The server [default: all configured servers] and a prompt to show alone; omit the server with --stdio or --url
    #[arg(value_name = "SERVER] [PROMPT", num_args = 0..=2)]
    words: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// `<server>.<prompt>`, `<server>__<prompt>` or `<server> <prompt>`, or `<prompt>` if an option gives the server
    prompt: String,

    /// `name=value`, `name=@file`, or a value for the next argument
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

const USAGE: &str = "toolway prompts [OPTIONS] [SERVER] [PROMPT]\n       toolway prompts <COMMAND>";

const EXAMPLES: &str = "\
Examples:
  toolway prompts                              Prompts of all servers
  toolway prompts files
  toolway prompts get files.review path=src/lib.rs
  toolway prompts get --stdio 'toolway sample' introduce name=Ada";

pub(crate) async fn run(args: &PromptsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        None => list(&args.list, app, output).await,
        Some(PromptsCommand::List(args)) => list(args, app, output).await,
        Some(PromptsCommand::Get(args)) => get(args, app, output).await,
    }
}

async fn list(args: &PromptListArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words = args.words.clone();
    app.split_address(&mut words);
    let selector = args.words.first().cloned().unwrap_or_default();
    if words.is_empty() && app.reach.names_no_server() {
        return app
            .list_all(ItemKind::Prompt, output, |hosts, output| {
                let catalog = hosts.host.catalog();
                show_list(
                    &catalog.prompts().iter().map(|entry| ListedPrompt::public(entry, hosts)).collect::<Vec<_>>(),
                    output,
                );
            })
            .await;
    }
    let target = app.target(&mut words, output)?;
    if 1 < words.len() {
        return Err(Report::usage("arguments", "too many arguments; use `prompts get` to fill in a prompt"));
    }
    app.with_server(target, Lists::Only(ItemKind::Prompt), output, async |single, output| {
        let catalog = single.catalog(ItemKind::Prompt, output)?;
        let shown = match words.first() {
            Some(name) => std::slice::from_ref(find(&catalog, single, name, &selector)?),
            None => catalog.prompts_of(single.name()),
        };
        show_list(&shown.iter().map(ListedPrompt::own).collect::<Vec<_>>(), output);
        Ok(ExitCode::Ok)
    })
    .await
}

/// A prompt with its displayed name.
struct ListedPrompt<'a> {
    name: &'a str,
    prompt: &'a Prompt,
    object: Raw,
    age: ListingAge,
}

impl<'a> ListedPrompt<'a> {
    /// By the server's own name.
    fn own(entry: &'a PromptEntry) -> Self {
        let prompt = &*entry.item;
        Self { name: &prompt.name, prompt, object: prompt.raw.clone(), age: ListingAge::Current }
    }

    /// By its public name.
    fn public(entry: &'a PromptEntry, hosts: &MultiServerHost) -> Self {
        let (name, age) = (entry.public.as_str(), hosts.listing_age(&entry.origin));
        Self { name, prompt: &entry.item, object: age.with_origin(&entry.item.raw, &entry.origin, Some(name)), age }
    }
}

fn show_list(prompts: &[ListedPrompt<'_>], output: &mut Output) {
    match output.format {
        Format::Json => output.json(&content::listed("prompts", prompts.iter().map(|shown| &shown.object))),
        Format::Ndjson => prompts.iter().for_each(|shown| output.json(&shown.object)),
        Format::Raw => prompts.iter().for_each(|shown| output.content(format!("{}\n", shown.name).as_bytes())),
        Format::Human => {
            for ListedPrompt { name, prompt, age, .. } in prompts {
                let signature = schema::prompt_signature("", &prompt.arguments);
                let used = name.chars().count() + signature.chars().count() + 2;
                let about = prompt.description.as_ref().map(|text| format!("  {}", output.fit(used, text)));
                output.entry(name, &format!("{signature}{}{}", about.unwrap_or_default(), age.remark()));
            }
        }
    }
}

async fn get(args: &GetArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words: Vec<String> = std::iter::once(&args.prompt).chain(&args.arguments).cloned().collect();
    app.join_address(&mut words);
    let selected = app.select(&words.remove(0), ItemKind::Prompt, output)?;
    let meant = Target::PromptOf(selected.target.origin(&selected.name));
    app.refuse_excluded(&selected.target, ItemKind::Prompt, meant.clone()).await?;
    let stdin = app.stdin(arguments::uses_stdin(&words)).await?;
    let item = CalledItem { target: selected.target.clone(), item: meant };
    let answerer = app.plain_answerer()?;
    app.with_called_server(item, Lists::Only(ItemKind::Prompt), answerer, output, async |single, output| {
        let catalog = single.catalog(ItemKind::Prompt, output)?;
        let entry = find(&catalog, single, &selected.name, &selected.selector)?;
        let arguments = arguments_of(&entry.item, &words, &stdin)?;
        let request = single.request(app, Target::PromptOf(entry.origin.clone()), Some(arguments));
        show(&single.call(app, request, "prompts/get", output).await?, output);
        Ok(ExitCode::Ok)
    })
    .await
}

/// Finds the selected prompt by the server's own name or by its public name.
fn find<'a>(
    catalog: &'a Catalog,
    single: &SingleServerHost,
    name: &str,
    selector: &str,
) -> Result<&'a PromptEntry, Report> {
    let public = selector.parse().ok();
    let is_ours = |entry: &&PromptEntry| entry.origin.server == *single.name();
    let by_public = || public.as_ref().and_then(|name| catalog.find_prompt(name)).filter(is_ours);
    catalog.prompt_at(single.name(), name).or_else(by_public).ok_or_else(|| {
        let known = catalog.prompts_of(single.name()).iter().map(|entry| entry.item.name.as_str());
        let near = suggestion::did_you_mean(name, known);
        Report::usage("unknown_prompt", format!("server `{}` has no prompt `{name}`{near}", single.name()))
            .hint("list its prompts with `toolway prompts`")
    })
}

fn arguments_of(prompt: &Prompt, words: &[String], stdin: &[u8]) -> Result<Raw, Report> {
    let names: Vec<String> = prompt.arguments.iter().map(|argument| argument.name.clone()).collect();
    let wrong = |message: &str| {
        Report::usage("arguments", format!("prompt `{}`: {message}", prompt.name))
            .hint(format!("usage: {}", schema::prompt_signature(&prompt.name, &prompt.arguments)))
    };
    let arguments = arguments::read_strings(words, &names, stdin)
        .map_err(|error| error.hint.into_iter().fold(wrong(&error.message), Report::hint))?;
    let is_missing = |name: &&str| arguments.get(name).is_none();
    let required = prompt.arguments.iter().filter(|argument| argument.required).map(|argument| argument.name.as_str());
    if let Some(missing) = required.into_iter().find(is_missing) {
        return Err(wrong(&format!("missing argument `{missing}`")));
    }
    Ok(arguments)
}

fn show(result: &Raw, output: &mut Output) {
    let messages = result.get("messages").map(|list| list.elements()).unwrap_or_default();
    let piece = |message: &Raw| message.get("content").map(|content| Piece::of(&Content::view(&content)));
    match output.format {
        Format::Json | Format::Ndjson => output.json(result),
        Format::Raw => call::raw(&messages.iter().filter_map(piece).collect::<Vec<_>>(), output),
        Format::Human => {
            for message in &messages {
                let role = message.get("role").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
                output.entry(&format!("{role}:"), "");
                output.line(&tools::indent(&piece(message).map(|piece| piece.described()).unwrap_or_default()));
            }
        }
    }
}
