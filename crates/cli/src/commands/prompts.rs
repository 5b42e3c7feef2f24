//! `toolway prompts`: texts a server has prepared for models.

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
    gathering::{Gathering, News},
    output::{
        Format, Output,
        content::{self, Piece},
    },
    report::Report,
    schema,
    session::Session,
    similar,
    target::Selected,
};

/// List and get the prompts of one server or of all
///
/// Without a server those of all that are configured are listed, under public names, `<server>__<prompt>`, which `get`
/// takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct PromptsArgs {
    #[command(subcommand)]
    command: Option<PromptsCommand>,

    #[command(flatten)]
    list: OfServer,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PromptsCommand {
    /// List the prompts
    List(OfServer),
    /// Get one prompt, filled in
    Get(GetArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct OfServer {
    /// The server, unless --stdio or --url gives it; all where none is given
    server: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// `<server>.<prompt>`; only `<prompt>` where an option gives the server
    prompt: String,

    /// `name=value`, `name=@file`, or a value for the next argument
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  toolway prompts                              Those of all servers
  toolway prompts files
  toolway prompts get --stdio 'toolway sample' introduce name=Ada";

pub(crate) async fn run(args: &PromptsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        None => list(&args.list, app, output).await,
        Some(PromptsCommand::List(args)) => list(args, app, output).await,
        Some(PromptsCommand::Get(args)) => get(args, app, output).await,
    }
}

async fn list(args: &OfServer, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words: Vec<String> = args.server.iter().cloned().collect();
    if words.is_empty() && app.reach.names_no_server() {
        return app
            .of_all(ItemKind::Prompt, output, |gathering, output| {
                let catalog = gathering.host.catalog();
                show_list(
                    &catalog.prompts().iter().map(|entry| Shown::public(entry, gathering)).collect::<Vec<_>>(),
                    output,
                );
            })
            .await;
    }
    let target = app.target(&mut words, output)?;
    if !words.is_empty() {
        return Err(Report::usage("arguments", "The server is given twice; `get` gets a prompt."));
    }
    app.visit(target, Lists::Only(ItemKind::Prompt), output, async |session, output| {
        let catalog = session.listed(ItemKind::Prompt, output)?;
        show_list(&catalog.prompts_of(session.name()).iter().map(Shown::own).collect::<Vec<_>>(), output);
        Ok(ExitCode::Ok)
    })
    .await
}

/// A prompt under the name it is shown with.
struct Shown<'a> {
    name: &'a str,
    prompt: &'a Prompt,
    object: Raw,
    news: News,
}

impl<'a> Shown<'a> {
    /// As its server calls it.
    fn own(entry: &'a PromptEntry) -> Self {
        let prompt = &*entry.item;
        Self { name: &prompt.name, prompt, object: prompt.raw.clone(), news: News::Now }
    }

    /// As it is called among the prompts of all servers.
    fn public(entry: &'a PromptEntry, gathering: &Gathering) -> Self {
        let (name, news) = (entry.public.as_str(), gathering.news_of(&entry.origin));
        Self { name, prompt: &entry.item, object: news.marked(&entry.item.raw, &entry.origin, Some(name)), news }
    }
}

fn show_list(prompts: &[Shown<'_>], output: &mut Output) {
    match output.format {
        Format::Json => output.json(&content::listed("prompts", prompts.iter().map(|shown| &shown.object))),
        Format::Ndjson => prompts.iter().for_each(|shown| output.json(&shown.object)),
        Format::Raw => prompts.iter().for_each(|shown| output.content(format!("{}\n", shown.name).as_bytes())),
        Format::Human => {
            for Shown { name, prompt, news, .. } in prompts {
                let signature = schema::prompt_signature("", &prompt.arguments);
                let about = prompt.description.as_ref().map(|text| format!("  {}", tools::first_line(text)));
                output.entry(name, &format!("{signature}{}{}", about.unwrap_or_default(), news.remark()));
            }
        }
    }
}

async fn get(args: &GetArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let selected = app.selected(&args.prompt, output)?;
    let meant = Target::PromptOf(selected.target.origin(&selected.name));
    app.refuse_left_out(&selected.target, ItemKind::Prompt, meant).await?;
    let stdin = app.stdin(arguments::want_stdin(&args.arguments)).await?;
    app.visit(selected.target.clone(), Lists::Only(ItemKind::Prompt), output, async |session, output| {
        let catalog = session.listed(ItemKind::Prompt, output)?;
        let entry = find(&catalog, session, &selected)?;
        let arguments = arguments_of(&entry.item, &args.arguments, &stdin)?;
        let request = session.request(app, Target::PromptOf(entry.origin.clone()), Some(arguments));
        show(&session.result(app, request, "prompts/get", output).await?, output);
        Ok(ExitCode::Ok)
    })
    .await
}

/// The prompt that is meant: by the server's own name for it, or by the public one.
fn find<'a>(catalog: &'a Catalog, session: &Session, selected: &Selected) -> Result<&'a PromptEntry, Report> {
    let name = &selected.name;
    let public = selected.word.parse().ok();
    let is_ours = |entry: &&PromptEntry| entry.origin.server == *session.name();
    let by_public = || public.as_ref().and_then(|name| catalog.find_prompt(name)).filter(is_ours);
    catalog.prompt_at(session.name(), name).or_else(by_public).ok_or_else(|| {
        let report = Report::usage("unknown_prompt", format!("The server has no prompt `{name}`."));
        let known = catalog.prompts_of(session.name()).iter().map(|entry| entry.item.name.as_str());
        match similar::to(name, known) {
            Some(near) => report.hint(format!("Did you mean `{near}`?")),
            None => report.hint("`toolway prompts` lists what it has."),
        }
    })
}

fn arguments_of(prompt: &Prompt, words: &[String], stdin: &[u8]) -> Result<Raw, Report> {
    let names: Vec<String> = prompt.arguments.iter().map(|argument| argument.name.clone()).collect();
    let wrong = |sentence: &str| {
        Report::usage("arguments", format!("`{}`: {sentence}", prompt.name))
            .hint(format!("It takes: {}", schema::prompt_signature(&prompt.name, &prompt.arguments)))
    };
    let arguments = arguments::read_strings(words, &names, stdin)
        .map_err(|problem| problem.idea.into_iter().fold(wrong(&problem.sentence), Report::hint))?;
    let is_missing = |name: &&str| arguments.get(name).is_none();
    let required = prompt.arguments.iter().filter(|argument| argument.required).map(|argument| argument.name.as_str());
    if let Some(missing) = required.into_iter().find(is_missing) {
        return Err(wrong(&format!("`{missing}` is missing.")));
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
