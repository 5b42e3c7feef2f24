//! `toolway assistants`: named assistants of the user's file.

pub(crate) mod change;
pub(crate) mod members;

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_config::{AssistantConfig, ServerName, Settings};
use toolway_wire::json::Raw;

use super::config::place;
use crate::{
    app::App,
    assistant,
    effect::Effect,
    exit_code::ExitCode,
    output::{Format, Output, clean},
    report::Report,
};

/// List, show, add, change and remove assistants
///
/// An assistant is a name for a model, a system prompt, servers, tools, an approval and budgets: `toolway chat --assistant
/// NAME`, `toolway run --assistant NAME`. They stand in your own file, whose comments and order are preserved; a project's file
/// defines none. Without a command, lists them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AssistantsArgs {
    #[command(subcommand)]
    command: Option<AssistantsCommand>,
}

const EXAMPLES: &str = "\
Examples:
  toolway assistants add librarian --servers files --tools 'files.read_*' --system 'You keep the notes.'
  toolway assistants set librarian --approval trusted-only --trusted-tools 'files.read_*'
  toolway assistants show librarian
  toolway chat --assistant librarian";

#[derive(Debug, Subcommand)]
enum AssistantsCommand {
    /// List the assistants
    List,
    /// Show one assistant
    Show {
        /// Name of the assistant
        name: String,
    },
    Add(change::AddArgs),
    Set(change::SetArgs),
    Remove(change::RemoveArgs),
}

impl AssistantsArgs {
    /// An assistant can allow what the default of the surface asks about.
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            None | Some(AssistantsCommand::List | AssistantsCommand::Show { .. }) => Effect::Ordinary,
            Some(AssistantsCommand::Add(_) | AssistantsCommand::Set(_) | AssistantsCommand::Remove(_)) => {
                Effect::Widens
            }
        }
    }
}

pub(crate) fn run(args: &AssistantsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        None | Some(AssistantsCommand::List) => list(&app.load()?.config.settings, output),
        Some(AssistantsCommand::Show { name }) => show(name, &app.load()?.config.settings, output)?,
        Some(AssistantsCommand::Add(args)) => change::add(args, app, output)?,
        Some(AssistantsCommand::Set(args)) => change::set(args, app, output)?,
        Some(AssistantsCommand::Remove(args)) => change::remove(args, app, output)?,
    }
    Ok(ExitCode::Ok)
}

fn list(settings: &Settings, output: &mut Output) {
    let assistants = &settings.assistants.value;
    match output.format {
        Format::Human if assistants.is_empty() => {
            output.notice("toolway: no assistants; add one with `toolway assistants add`");
        }
        Format::Human => {
            let rows: Vec<_> = assistants.iter().map(|(name, config)| row(name, config)).collect();
            output.table(["NAME", "APPROVAL", "MODEL", "SERVERS", "DESCRIPTION"], &rows);
        }
        Format::Raw => assistants.keys().for_each(|name| output.line(name)),
        Format::Json => {
            output.json(&Raw::of(&assistants.iter().map(|(name, config)| view(name, config)).collect::<Vec<_>>()));
        }
        Format::Ndjson => assistants.iter().for_each(|(name, config)| output.json(&Raw::of(&view(name, config)))),
    }
}

fn row(name: &str, config: &AssistantConfig) -> [String; 5] {
    let servers = config.servers.as_ref().map(|servers| {
        let servers: Vec<&str> = servers.iter().map(ServerName::as_str).collect();
        if servers.is_empty() { "none".to_owned() } else { servers.join(", ") }
    });
    let text = |text: &Option<String>| text.as_deref().map(clean::flat).unwrap_or_default();
    let approval = config.approval.as_str().to_owned();
    let servers = servers.unwrap_or_else(|| "all".to_owned());
    [name.to_owned(), approval, text(&config.model), servers, text(&config.description)]
}

fn show(name: &str, settings: &Settings, output: &mut Output) -> Result<(), Report> {
    let config = assistant::find(settings, name)?;
    if output.format != Format::Human {
        output.json(&Raw::of(&view(name, config)));
        return Ok(());
    }
    output.entry(name, &format!("  {}", config.place));
    assistant::lines(config).iter().for_each(|line| output.line(&format!("  {line}")));
    Ok(())
}

/// One assistant as JSON: its keys as they are written, its name, and where it is defined.
fn view(name: &str, config: &AssistantConfig) -> Value {
    let mut view = json!({ "name": name, "source": place(&config.place) });
    if let (Some(view), Value::Object(values)) = (view.as_object_mut(), config.json()) {
        view.extend(values);
    }
    view
}
