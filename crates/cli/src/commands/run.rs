//! `toolway run`: lets a model work without a user.

mod ending;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolway_agent::{
    Agent, AgentError, AgentEvent, AgentOptions, Answer, AnswerSchema, Assistant, AttachedResource, Attachment,
    AttachmentSource, Budget, Compacted, Conversation, ConversationModels, EndedCall, EndedTask, Observer,
    OfferedTools, StartedCall, Stop, TaskBoard, describe,
};
use toolway_config::{Config, HostPattern, PolicyMode, ServerName, parse_duration};
use toolway_host::{
    Host,
    connection::{Phase, ServerStatus, WantedServer},
    policy::Surface,
    sampling::Presence,
};
use toolway_model::{Message, ModelErrorKind, ModelEvent};
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
};

use super::chat::{context_options, resource_options};
use crate::{
    app::App,
    assistant::{self, GivenBudget},
    attach_args::{self, AttachArgs},
    cost::Cost,
    exit_code::ExitCode,
    gateway_inbox::WaitSetting,
    output::{Format, Output},
    project_instructions::Asking,
    report::Report,
    sampler::AskedFrom,
    target,
    terminal::given::{AnswerArgs, CommandAnswerer},
};

/// Let a model work with your tools, without a user
///
/// The model gets the tools of all configured servers, and of one given with --stdio or --url. Policy decides on every
/// call: without a rule, calls that may write are refused, because no user can approve them; the message names the
/// command that would allow them (exit code 7).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The prompt, or `-` for standard input
    #[arg(required_unless_present = "file")]
    prompt: Option<String>,

    /// Read the prompt from this file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,

    /// Let this assistant work: its model, prompt, servers, tools, approval and budgets
    ///
    /// Another option wins where it is not looser: of two modes, lists of servers or limits, the stricter counts.
    #[arg(long, value_name = "NAME")]
    assistant: Option<String>,

    /// Name of the model, or `scripted:FILE` [default: `defaultModel`, or the first one]
    #[arg(long)]
    model: Option<String>,

    /// Replace the default of policy: `ask` (about every call), `writes` or `allow`
    #[arg(long, value_parser = parse_mode)]
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

    /// JSON Schema that the answer must match
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,

    /// Show the model, the servers and exactly the tools that the model gets, without asking it
    #[arg(long)]
    dry_run: bool,

    /// At most this many requests to the model [default: 50]
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,

    /// At most this many tokens in all requests, with those that servers ask a model for
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,

    /// At most this many tool calls [default: 200]
    #[arg(long, value_name = "N")]
    max_tool_calls: Option<u32>,

    /// At most this much time, e.g. `10m`
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    max_time: Option<Duration>,

    #[command(flatten)]
    attached: AttachArgs,

    #[command(flatten)]
    answer: AnswerArgs,
}

const EXAMPLES: &str = "\
Examples:
  toolway run 'Summarise notes.txt' --model local --servers files
  toolway run 'Sort my notes' --assistant librarian
  toolway run --file task.md --mode allow --max-tool-calls 20 -o json
  toolway run 'What is in this picture?' --attach photo.png
  toolway run 'Compare these' --resource docs.memo://plan --attach notes.txt
  toolway run 'List open tickets' --schema tickets.schema.json -o json
  toolway run 'Book a table' --answer guests=2 --wait";

pub(crate) async fn run(args: &RunArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let prompt = prompt(args, app).await?;
    let files = args.attached.read_files().await?;
    let schema = args.schema.as_deref().map(read_schema).transpose()?.map(Arc::new);
    let mut config = app.config(output)?;
    if let Some(mode) = args.mode {
        config.settings.policy.mode.value = Some(mode);
    }
    config.settings.policy.hosts.value.extend(args.allow_host.iter().cloned());
    let assistant = assistant::choose(args.assistant.as_deref(), None, &config.settings, output)?;
    assistant::note_mode(assistant.as_ref(), args.mode, output);
    let system = system(args.system.as_deref(), assistant.as_ref())?;
    let chosen = server_choice(&args.servers, assistant.as_ref(), &mut config, app, output)?;
    let ServerChoice { servers, additional } = chosen;
    let own_model = assistant.as_ref().and_then(|assistant| assistant.values().model.as_deref());
    let model = app.proposed_model(args.model.as_deref().or(own_model), &config.settings, output).await?;
    // Without a user, the mode decides on what would be asked.
    let mode = config.settings.policy.mode.value;
    let mode = assistant.as_ref().map_or(mode, |assistant| assistant.policy().bound(mode));
    // A server may ask where `ask` is set: a refusal ends the run with exit code 7 and says what would allow it.
    // They go on with the model that they begin with.
    let models = ConversationModels::default();
    let from = AskedFrom { conversation: Some(&model), models: &models, presence: Presence::Person, mode };
    let sampler = app.conversation_sampler(&config, from);
    let others = Vec::from_iter(additional);
    let setting = WaitSetting::of(config.settings.inbox_wait.value);
    let answerer = Arc::new(app.unattended_answerer(&args.answer, setting).await?);
    let port = Arc::<CommandAnswerer>::clone(&answerer);
    let (host, conversations) = app.agent_host(&config, others, port, sampler, "run").await?;
    app.stop.or(connect_all(&host, output)).await?;
    let given = GivenBudget {
        turns: args.max_turns,
        tokens: args.max_tokens,
        tool_calls: args.max_tool_calls,
        time: args.max_time,
    };
    let options = AgentOptions {
        surface: Surface::Run,
        system: with_schema(system, schema.as_deref()),
        servers: servers.clone(),
        budget: assistant::budget(assistant.as_ref(), given, output),
        max_output: None,
        resources: config.settings.agent.expose_resources.value.unwrap_or(true),
        prompts: config.settings.agent.expose_prompts.value.unwrap_or(true),
        answer_schema: schema.clone(),
        mode: None,
        context: context_options(&config),
        reading: resource_options(&config),
        assistant,
    };
    let project = app.project_instructions(Asking::Never, output)?;
    let tasks = TaskBoard::new(&host);
    let agent = Agent::new(host.clone(), Arc::clone(&model), options).with_tasks(tasks.clone());
    let agent = agent.with_project_instructions(project);
    if args.dry_run {
        let shown = dry_run(&agent, &host, servers.as_ref(), output);
        host.shutdown().await;
        return Ok(shown);
    }
    let mut conversation = Conversation::new(conversations);
    let attachments = args.attached.with_resources(files, &agent, &conversation);
    let attachments = match app.stop.or(attachments).await.and_then(|attachments| attachments) {
        Ok(attachments) => attachments,
        Err(report) => {
            host.shutdown().await;
            return Err(report);
        }
    };
    attachments.iter().for_each(|attachment| show_attachment(attachment, output));
    let attached = attachments.into_iter().map(|attachment| attachment.message(&conversation));
    let messages = attached.chain([Message::user(prompt)]).collect();
    let mut observe = |event: AgentEvent| show(&event, output);
    let cancel = CancellationToken::new();
    let work = TaskedRun { agent: &agent, tasks: &tasks, cancel: &cancel };
    let answer = work.answer(&mut conversation, messages, &mut observe);
    let answered = stopped_by(app, answer, &cancel).await;
    let sampling = host.sampling_in(conversation.id());
    host.shutdown().await;
    for task in tasks.open(conversation.id()) {
        output.notice(&format!("toolway: {}; `toolway tasks` shows what becomes of it", describe(&task)));
    }
    let (answer, stopped) = answered;
    let answer = answer.map_err(|error| answer_report(&error))?;
    if let Some(report) = stopped {
        return Err(report);
    }
    let cost = Cost::of(&config.settings, model.name(), &answer.usage);
    let context = agent.context(&conversation);
    let ended = ending::EndedRun {
        answer: &answer,
        conversation: &conversation,
        schema: schema.as_deref(),
        context,
        cost,
        assistant: agent.assistant(),
    };
    let finished = ending::finish(&ended, output)?;
    match sampling.unapproved.first() {
        Some(server) => Err(ending::unapproved_sampling(server)),
        None => ending::unanswered(answerer.unanswered()).map_or(Ok(finished), Err),
    }
}

/// A run that ends when its background tasks have ended.
struct TaskedRun<'a> {
    agent: &'a Agent,
    tasks: &'a TaskBoard,
    cancel: &'a CancellationToken,
}

impl TaskedRun<'_> {
    /// Answers the messages. While tasks go on, the model is told of their ends, within the budget of the run.
    async fn answer(
        &self,
        conversation: &mut Conversation,
        messages: Vec<Message>,
        observe: Observer<'_>,
    ) -> Result<Answer, AgentError> {
        let began = Instant::now();
        let budget = self.agent.budget();
        let mut answer = self.agent.answer(conversation, messages, self.cancel, observe).await?;
        while matches!(answer.stop, Stop::Done | Stop::MaxOutput) {
            match self.next_end(conversation.id(), budget, began).await {
                NextEnd::Turn => {}
                NextEnd::None => break,
                NextEnd::OutOfTime => {
                    answer.stop = Stop::MaxTime;
                    break;
                }
                NextEnd::Cancelled => {
                    answer.stop = Stop::Cancelled;
                    break;
                }
            }
            let agent = self.agent.with_budget(budget.less(&answer, began.elapsed()));
            let next = agent.answer(conversation, Vec::new(), self.cancel, observe).await?;
            answer = answer.followed_by(next);
        }
        Ok(answer)
    }

    /// Waits until the model is to be told of an end. Its last turn waits until all tasks have ended.
    async fn next_end(&self, conversation: &str, budget: Budget, began: Instant) -> NextEnd {
        let mut changes = self.tasks.changes();
        let left = budget.time.map(|most| most.saturating_sub(began.elapsed()));
        let mut out_of_time = std::pin::pin!(tokio::time::sleep(left.unwrap_or(Duration::MAX)));
        loop {
            changes.borrow_and_update();
            let is_open = self.tasks.has_open(conversation);
            let is_last = self.tasks.turns_left(conversation) <= 1;
            match self.tasks.wants_turn(conversation) {
                true if !is_open || !is_last => return NextEnd::Turn,
                false if !is_open => return NextEnd::None,
                true | false => {}
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return NextEnd::None },
                () = &mut out_of_time => return NextEnd::OutOfTime,
                () = self.cancel.cancelled() => return NextEnd::Cancelled,
            }
        }
    }
}

/// What a run does after an answer.
enum NextEnd {
    /// A task has ended: the model is told.
    Turn,
    /// No task is open, and the model knows of all ends that it may be told of.
    None,
    OutOfTime,
    Cancelled,
}

/// Lets the agent finish. When the command has to stop, what was said so far is kept, and the reason is returned.
async fn stopped_by<T>(app: &App, answer: impl Future<Output = T>, cancel: &CancellationToken) -> (T, Option<Report>) {
    let mut answer = std::pin::pin!(answer);
    let report = tokio::select! {
        biased;
        answer = &mut answer => return (answer, None),
        report = app.stop.triggered() => report,
    };
    cancel.cancel();
    (answer.await, Some(report))
}

/// Waits until every server is listed or has failed.
async fn connect_all(host: &Host, output: &mut Output) {
    let servers = host.servers();
    let listed = join_all(servers.iter().map(|status| host.list(&status.server))).await;
    for status in listed.into_iter().flatten().filter(|status| !matches!(status.phase, Phase::Ready)) {
        let why = status.last_error.as_ref().map(|error| format!(": {}", error.message.as_str())).unwrap_or_default();
        output.notice(&format!("toolway: server `{}` is not available{why}", status.server));
    }
}

async fn prompt(args: &RunArgs, app: &App) -> Result<String, Report> {
    let text = match (&args.prompt, &args.file) {
        (Some(prompt), _) if prompt == "-" => String::from_utf8_lossy(&app.stdin(true).await?).into_owned(),
        (Some(prompt), _) => prompt.clone(),
        (None, Some(file)) => read_file(file)?,
        (None, None) => String::new(),
    };
    if text.trim().is_empty() {
        return Err(Report::usage("arguments", "the prompt is empty"));
    }
    Ok(text)
}

/// The servers of an agent.
#[derive(Debug)]
pub(crate) struct ServerChoice {
    /// Names of the servers whose tools it gets; `None`: all.
    pub(crate) servers: Option<BTreeSet<ServerName>>,
    /// The server of `--stdio` or `--url`.
    pub(crate) additional: Option<WantedServer>,
}

/// The servers of `--servers`, or of `--server`, else those of the assistant, else all; and the one of `--stdio` or `--url`.
/// Removes the others from `config`.
pub(crate) fn server_choice(
    names: &[String],
    assistant: Option<&Assistant>,
    config: &mut Config,
    app: &App,
    output: &mut Output,
) -> Result<ServerChoice, Report> {
    let names = names.iter().chain(&app.reach.by_name);
    let named = names.map(|name| target::entry(config, name).map(|server| server.name.clone()));
    let named: BTreeSet<ServerName> = named.collect::<Result<_, _>>()?;
    let named = Some(named).filter(|named| !named.is_empty());
    let mut servers = match assistant {
        Some(assistant) => assistant::narrowed(assistant, named, config, output)?,
        None => named,
    };
    config.servers.retain(|name, _| servers.as_ref().is_none_or(|servers| servers.contains(name)));
    let additional = app.additional_server(config)?;
    if let (Some(assistant), Some(_)) = (assistant, &additional) {
        assistant::refuse_additional(assistant)?;
    }
    if let (Some(servers), Some(additional)) = (&mut servers, &additional) {
        servers.insert(additional.name.clone());
    }
    Ok(ServerChoice { servers, additional })
}

/// The system prompt: of a file of the command line, else of the assistant.
pub(crate) fn system(file: Option<&Path>, assistant: Option<&Assistant>) -> Result<String, Report> {
    let own = || assistant.and_then(|assistant| assistant.values().system.clone()).unwrap_or_default();
    file.map_or_else(|| Ok(own()), read_file)
}

/// Reads a file of the command line.
pub(crate) fn read_file(file: &Path) -> Result<String, Report> {
    std::fs::read_to_string(file)
        .map_err(|error| Report::usage("arguments", format!("cannot read `{}`: {error}", file.display())))
}

fn read_schema(file: &Path) -> Result<AnswerSchema, Report> {
    let invalid = |why: String| Report::usage("arguments", format!("the schema in `{}` {why}", file.display()));
    let schema: Value =
        serde_json::from_str(&read_file(file)?).map_err(|error| invalid(format!("is not JSON: {error}")))?;
    let validator = jsonschema::validator_for(&schema);
    let validator = validator.map_err(|error| invalid(format!("is not a valid JSON Schema: {error}")))?;
    let validate = move |value: &Value| match validator.iter_errors(value).next() {
        None => Ok(()),
        Some(error) if error.instance_path().as_str().is_empty() => Err(error.to_string()),
        Some(error) => Err(format!("{error} (at `{}`)", error.instance_path())),
    };
    Ok(AnswerSchema::new(schema, Box::new(validate)))
}

/// Not every vendor enforces the schema, so the model is told in words too.
fn with_schema(system: String, schema: Option<&AnswerSchema>) -> String {
    let Some(schema) = schema.map(AnswerSchema::schema) else { return system };
    let words = format!("Answer with one JSON value that matches this JSON Schema and with nothing else:\n{schema}");
    if system.is_empty() { words } else { format!("{system}\n\n{words}") }
}

/// Prints what the model would get, from what builds its request.
fn dry_run(agent: &Agent, host: &Host, servers: Option<&BTreeSet<ServerName>>, output: &mut Output) -> ExitCode {
    let OfferedTools { names, left_out } = agent.offered_tools();
    let model = agent.model().name();
    let seen = |server: &ServerName| servers.is_none_or(|servers| servers.contains(server));
    let statuses: Vec<_> = host.servers().into_iter().filter(|status| seen(&status.server)).collect();
    if output.format == Format::Human {
        let servers = statuses.iter().map(|status| format!("{} ({})", status.server, status.phase.word()));
        if let Some(assistant) = agent.assistant() {
            let approval = assistant.policy().approval().as_str();
            output.line(&format!("assistant: {} (approval {approval})", assistant.name()));
        }
        output.line(&format!("model: {model}"));
        output.line(&format!("servers: {}", servers.collect::<Vec<_>>().join(", ")));
        output.line(&format!("tools: {}", names.join(", ")));
        left_out.iter().for_each(|reason| output.notice(&format!("toolway: {reason}")));
    } else {
        let view = |status: &ServerStatus| json!({ "name": status.server.as_str(), "state": status.phase.word() });
        let servers: Vec<Value> = statuses.iter().map(view).collect();
        let mut view = json!({ "model": model, "servers": servers, "tools": names, "leftOut": left_out });
        if let Some(assistant) = agent.assistant() {
            view["assistant"] = json!(&**assistant.name());
        }
        output.json(&Raw::of(&view));
    }
    ExitCode::Ok
}

/// Shows what is attached, before it is sent.
fn show_attachment(attachment: &Attachment, output: &mut Output) {
    if output.format != Format::Ndjson {
        return output.notice(&format!("toolway: {}", attach_args::words(attachment)));
    }
    let tokens = attachment.tokens();
    let view = match attachment.source() {
        AttachmentSource::File { path } => json!({ "type": "attached", "file": path, "tokens": tokens }),
        AttachmentSource::Resource { server, uri, .. } => {
            let server = server.as_ref().map(|server| server.as_str());
            json!({ "type": "attached", "server": server, "uri": uri, "tokens": tokens })
        }
        AttachmentSource::Prompt { server, name } => {
            json!({ "type": "attached", "server": server.as_str(), "prompt": name, "tokens": tokens })
        }
    };
    output.json(&Raw::of(&view));
}

/// Shows what happens: text on standard output at the end, calls on standard error.
fn show(event: &AgentEvent, output: &mut Output) {
    if output.format == Format::Ndjson {
        if let Some(event) = event_view(event) {
            output.json(&event);
        }
        return;
    }
    match event {
        AgentEvent::LeftOut(reason) => output.notice(&format!("toolway: {reason}")),
        AgentEvent::CallEnded(EndedCall { made, problem, mismatches, .. }) => {
            let why = problem.as_ref().map(|why| format!(": {}", why.as_str())).unwrap_or_default();
            output.notice(&format!("toolway: {} {}{why}", made.name, made.state.as_str()));
            mismatches.iter().for_each(|mismatch| output.notice(&format!("toolway: {}: {mismatch}", made.name)));
        }
        AgentEvent::TaskEnded(EndedTask { row, end, .. }) => {
            output.notice(&format!("toolway: task {} of {} {}", row.id, row.tool, end.words()));
        }
        AgentEvent::Attached(attached) => output.notice(&format!("toolway: {}", attached.words())),
        AgentEvent::Compacted(compacted) => output.notice(&format!("toolway: {}", compacted.words())),
        AgentEvent::Model(_) | AgentEvent::Usage(_) | AgentEvent::CallStarted(_) | AgentEvent::CallProgress(_) => {}
    }
}

fn event_view(event: &AgentEvent) -> Option<Raw> {
    let view = match event {
        AgentEvent::Model(ModelEvent::Text(text)) => Some(json!({ "type": "text", "text": text })),
        AgentEvent::Model(ModelEvent::Reasoning(text)) => Some(json!({ "type": "reasoning", "text": text })),
        AgentEvent::Model(_) | AgentEvent::CallProgress(_) => None,
        AgentEvent::Usage(usage) => Some(json!({ "type": "usage", "usage": usage })),
        AgentEvent::LeftOut(reason) => Some(json!({ "type": "leftOut", "reason": reason })),
        AgentEvent::Attached(AttachedResource { server, uri, tokens, .. }) => {
            let server = server.as_ref().map(ServerName::as_str);
            Some(json!({ "type": "attached", "server": server, "uri": uri, "tokens": tokens }))
        }
        AgentEvent::Compacted(Compacted { summarised, before, after }) => Some(json!({
            "type": "compacted", "summarisedMessages": summarised, "tokensBefore": before, "tokensAfter": after,
        })),
        AgentEvent::TaskEnded(EndedTask { row, end, content, .. }) => Some(json!({
            "type": "taskResult", "taskId": row.id, "name": row.tool, "state": end.as_str(), "content": content,
        })),
        AgentEvent::CallStarted(StartedCall { call, tool, call_id }) => {
            let view = Raw::of(&json!({ "type": "toolCall", "id": call.id, "name": tool, "callId": call_id }));
            return Some(splice::edited(&view, &[Edit::Set("arguments", call.arguments.clone())]));
        }
        AgentEvent::CallEnded(EndedCall { made, result, .. }) => {
            let (name, state, call_id) = (&made.name, made.state.as_str(), &made.call_id);
            Some(json!({
                "type": "toolResult", "id": result.call_id, "name": name, "state": state, "callId": call_id,
                "content": result.content,
            }))
        }
    };
    view.as_ref().map(Raw::of)
}

/// The report of an answer that failed.
pub(crate) fn answer_report(error: &AgentError) -> Report {
    match error {
        AgentError::Model(error) => model_report(error),
        AgentError::Continued => Report::new(ExitCode::Internal, "continued", error.to_string()).hint(
            "`toolway history` shows what is stored; the last messages here are not. Resume it, or begin a new one",
        ),
    }
}

/// The report of a model that failed.
pub(crate) fn model_report(error: &toolway_model::ModelError) -> Report {
    let exit = match error.kind {
        ModelErrorKind::Unauthorized { .. } => ExitCode::Authorization,
        ModelErrorKind::Unreachable { .. }
        | ModelErrorKind::RateLimited
        | ModelErrorKind::Unavailable { .. }
        | ModelErrorKind::Cut => ExitCode::Unreachable,
        ModelErrorKind::ContextExceeded => ExitCode::ToolError,
        ModelErrorKind::InvalidRequest { .. } | ModelErrorKind::InvalidAnswer(_) | ModelErrorKind::Script(_) => {
            ExitCode::Protocol
        }
    };
    Report::new(exit, "model", error.to_string())
}

pub(crate) fn parse_mode(text: &str) -> Result<PolicyMode, String> {
    PolicyMode::parse(text).ok_or_else(|| "must be `ask`, `writes` or `allow`".to_owned())
}

fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "must be a duration such as `10m`".to_owned())
}
