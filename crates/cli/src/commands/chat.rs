//! `toolway chat`: a conversation with a model that uses your tools.

use std::{collections::BTreeSet, io::IsTerminal, path::PathBuf, sync::Arc};

use toolway_agent::{AgentOptions, Assistant, Budget, ContextOptions, ConversationModels, ResourceOptions};
use toolway_config::{Config, HostPattern, PolicyMode, ServerName};
use toolway_host::{policy::Surface, sampling::Presence};
use toolway_model::Model;

use super::run::{self as run_command, ServerChoice};
use crate::{
    app::App,
    assistant::{self, GivenBudget},
    chat::{self, Chat, ChatParts, Screen, ScreenKind, no_model, stored},
    exit_code::ExitCode,
    output::{Format, Output},
    project_instructions::Asking,
    report::Report,
    sampler::AskedFrom,
};

/// Talk to a model that works with your tools
///
/// The model gets the tools of all configured servers, and of one given with --stdio or --url. Policy decides on every call:
/// calls that may write are asked about in place. Every call and every conversation is recorded. Without a terminal, each line of standard input is a message.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ChatArgs {
    /// Talk to this assistant: its model, prompt, servers, tools, approval and budgets
    ///
    /// Another option wins where it is not looser: of two modes, of two lists of servers, the stricter counts.
    #[arg(long, value_name = "NAME")]
    assistant: Option<String>,

    /// Name of the model, or `scripted:FILE` [default: `defaultModel`, or the first one]
    #[arg(long)]
    model: Option<String>,

    /// Replace the default of policy: `ask` (about every call), `writes` or `allow`
    #[arg(long, value_parser = run_command::parse_mode)]
    mode: Option<PolicyMode>,

    /// Let tools that only read reach this host or `*.host` without a question; can be repeated
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<HostPattern>,

    /// Read the system prompt from this file
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,

    /// Only the tools of these servers, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    servers: Vec<String>,

    /// Continue a stored conversation: its id, the beginning of it, or `last`
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  toolway chat
  toolway chat --model scripted:demo          A built-in script instead of a model
  toolway chat --model local --servers files --mode ask
  toolway chat --assistant librarian          One of `toolway assistants`
  toolway chat --resume last";

pub(crate) async fn run(args: &ChatArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    refuse_format(app)?;
    let mut config = app.config(output)?;
    config.settings.policy.hosts.value.extend(args.allow_host.iter().cloned());
    let stored = match (&args.resume, &args.assistant) {
        (Some(id), None) => stored::assistant(app, id).await?,
        (Some(id), Some(_)) => stored::find(app, id).await.map(|_| None)?,
        (None, _) => None,
    };
    let assistant = assistant::choose(args.assistant.as_deref(), stored.as_ref(), &config.settings, output)?;
    assistant::note_mode(assistant.as_ref(), args.mode, output);
    let system = run_command::system(args.system.as_deref(), assistant.as_ref())?;
    let chosen = run_command::server_choice(&args.servers, assistant.as_ref(), &mut config, app, output)?;
    let ServerChoice { servers, additional } = chosen;
    let Some(model) = model(args, assistant.as_ref(), app, &config, output).await? else { return Ok(ExitCode::Usage) };
    let project = app.project_instructions(Asking::Allowed, output)?;
    let (answerer, terminal) = chat::answerer(app);
    let has_sample = |config: &Config| config.servers.keys().any(|name| name.as_str() == "sample");
    let is_demo = model.name() == "demo" && !has_sample(&config);
    let embedded = if is_demo { no_model::sample_server() } else { None };
    let others = embedded.into_iter().chain(additional).collect();
    let presence = if terminal.is_some() { Presence::Person } else { Presence::Unattended };
    let mode = args.mode.or(config.settings.policy.mode.value);
    let mode = assistant.as_ref().map_or(mode, |assistant| assistant.policy().bound(mode));
    let models = ConversationModels::default();
    let from = AskedFrom { conversation: Some(&model), models: &models, presence, mode };
    let sampler = app.conversation_sampler(&config, from);
    let (host, log) = app.agent_host(&config, others, answerer, sampler, "chat").await?;
    let kind = if std::io::stdout().is_terminal() { ScreenKind::Terminal } else { ScreenKind::Plain };
    let screen = Arc::new(Screen::new(host.clone(), kind, output.colour()));
    let gate = terminal.as_ref().map(|terminal| terminal.gate()).unwrap_or_default();
    if let Some(terminal) = terminal {
        terminal.attach(&screen);
    }
    let budget = assistant::budget(assistant.as_ref(), GivenBudget::default(), output);
    let options = options(&config, system, servers);
    let options = AgentOptions { mode: args.mode, budget, assistant, ..options };
    let colour = output.colour();
    let chat = Chat::new(app, ChatParts { config, host, log, model, models, options, project, screen, colour, gate })?;
    Ok(chat.run(args.resume.as_deref()).await)
}

/// Refuses `--output` for programs. `TOOLWAY_OUTPUT` is a default for all commands and is not refused.
fn refuse_format(app: &App) -> Result<(), Report> {
    match app.show.output {
        None | Some(Format::Human) => Ok(()),
        Some(_) => {
            let message = "`toolway chat` has no `--output` for programs; use `toolway run --output json`";
            Err(Report::usage("arguments", message))
        }
    }
}

/// The model; `None` if no model is configured and the user does not want the script.
async fn model(
    args: &ChatArgs,
    assistant: Option<&Assistant>,
    app: &App,
    config: &Config,
    output: &mut Output,
) -> Result<Option<Arc<dyn Model>>, Report> {
    let named = args.model.as_deref().or(assistant.and_then(|assistant| assistant.values().model.as_deref()));
    let wanted = named.or(config.settings.default_model.value.as_deref());
    if wanted == Some(no_model::DEMO) {
        return no_model::demo().map(Some);
    }
    match app.proposed_model(named, &config.settings, output).await {
        Err(_) if wanted.is_none() && !app.knows_model(&config.settings) => {
            let wants_demo = no_model::offer_demo(app, output).await?;
            wants_demo.then(no_model::demo).transpose()
        }
        model => model.map(Some),
    }
}

/// How the context of a model is kept within its window.
pub(crate) fn context_options(config: &Config) -> ContextOptions {
    ContextOptions { compact_at: config.settings.agent.compaction_share() }
}

/// How an agent uses resources.
pub(crate) fn resource_options(config: &Config) -> ResourceOptions {
    let is_on = config.settings.agent.auto_context.value.unwrap_or_default();
    let servers = config.servers.values().filter(|server| is_on && server.auto_context);
    ResourceOptions {
        cache: config.settings.agent.resource_cache(),
        auto_context: servers.map(|server| server.name.clone()).collect(),
    }
}

fn options(config: &Config, system: String, servers: Option<BTreeSet<ServerName>>) -> AgentOptions {
    AgentOptions {
        surface: Surface::Chat,
        system,
        servers,
        budget: Budget::default(),
        max_output: None,
        resources: config.settings.agent.expose_resources.value.unwrap_or(true),
        prompts: config.settings.agent.expose_prompts.value.unwrap_or(true),
        answer_schema: None,
        mode: None,
        context: context_options(config),
        reading: resource_options(config),
        assistant: None,
    }
}
