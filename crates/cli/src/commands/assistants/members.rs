//! Converts the options of `add` and `set` to members of an assistant, and checks the names in them.

use std::{path::PathBuf, time::Duration};

use toolway_config::{AssistantConfig, Loaded, ServerName, ToolPattern, Vendor, edit::NewValue, parse_duration};

use crate::{app::App, commands::run::read_file, loading, models, report::Report, suggestion};

/// Members by key, `budgets.maxTurns` for one inside `budgets`; `None` removes the member.
pub(super) type Members = Vec<(String, Option<NewValue>)>;

/// Keys of an assistant.
#[derive(Debug, clap::Args)]
pub(super) struct KeyArgs {
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Name of its model, or `scripted:FILE` [default: as without an assistant]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Its system prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Read its system prompt from this file, once
    #[arg(long, value_name = "FILE", conflicts_with = "system")]
    system_file: Option<PathBuf>,

    /// The only servers that it gets, separated by commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    servers: Option<Vec<String>>,

    /// The only tools that it gets of them, separated by commas; both parts may contain `*` [default: all]
    #[arg(long, value_name = "SERVER.TOOL", value_delimiter = ',')]
    tools: Option<Vec<ToolPattern>>,

    /// Which calls are asked about: `always-ask` (all), `trusted-only` (all but trusted tools and fully trusted servers) or
    /// `auto` (none that mode and rules allow) [default: always-ask]
    #[arg(long, value_name = "APPROVAL", value_parser = ["always-ask", "trusted-only", "auto"])]
    approval: Option<String>,

    /// The tools that `trusted-only` passes, separated by commas
    #[arg(long, value_name = "SERVER.TOOL", value_delimiter = ',')]
    trusted_tools: Option<Vec<ToolPattern>>,

    /// Add a tool that `trusted-only` passes; repeatable
    #[arg(long, value_name = "SERVER.TOOL")]
    trust_tool: Vec<ToolPattern>,

    /// Whether a conversation goes on while a task runs: `true` or `false`
    #[arg(long, value_name = "BOOL")]
    background: Option<bool>,

    /// Time between two looks at a task whose server suggests none, e.g. `2s`
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    poll_interval: Option<Duration>,

    /// At most this many requests to the model in one answer
    #[arg(long, value_name = "N")]
    max_turns: Option<u32>,

    /// At most this many tokens in one answer
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,

    /// At most this many tool calls in one answer
    #[arg(long, value_name = "N")]
    max_tool_calls: Option<u32>,

    /// At most this much time for one answer, e.g. `10m`
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    max_time: Option<Duration>,

    /// Attach the resource with this URI, or `SERVER.URI`, at the start of a conversation; repeatable
    #[arg(long, value_name = "URI")]
    resource: Vec<String>,
}

/// Keys that can be removed.
const KEYS: [&str; 14] = [
    "description",
    "model",
    "system",
    "servers",
    "tools",
    "approval",
    "trustedTools",
    "tasks.background",
    "tasks.pollInterval",
    "budgets.maxTurns",
    "budgets.maxTokens",
    "budgets.maxToolCalls",
    "budgets.maxTime",
    "resources",
];

/// The members given on the command line. `known` is the assistant as it is now.
pub(super) fn members(
    args: &KeyArgs,
    known: Option<&AssistantConfig>,
    loaded: &Loaded,
    app: &App,
) -> Result<Members, Report> {
    let text = |text: &String| NewValue::Text(text.clone());
    let texts = |patterns: &Vec<ToolPattern>| NewValue::texts(patterns.iter().map(ToString::to_string));
    let count = |count: u32| NewValue::Number(f64::from(count));
    let time = |time: Duration| NewValue::Number(time.as_secs_f64());
    let system = match &args.system_file {
        Some(file) => Some(read_file(file)?),
        None => args.system.clone(),
    };
    if let Some(model) = &args.model {
        check_model(model, loaded, app)?;
    }
    for server in args.servers.iter().flatten() {
        check_server(server, loaded)?;
    }
    let patterns = [&args.tools, &args.trusted_tools].into_iter().flatten().flatten().chain(&args.trust_tool);
    for server in patterns.filter_map(ToolPattern::server) {
        check_server(server, loaded)?;
    }
    let trusted = match (&args.trusted_tools, args.trust_tool.as_slice()) {
        (trusted, []) => trusted.clone(),
        (trusted, more) => {
            let before = trusted.clone().or_else(|| known.map(|known| known.trusted_tools.clone())).unwrap_or_default();
            let new: Vec<ToolPattern> = more.iter().filter(|pattern| !before.contains(pattern)).cloned().collect();
            Some([before, new].concat())
        }
    };
    let members = [
        ("description", args.description.as_ref().map(text)),
        ("model", args.model.as_ref().map(text)),
        ("system", system.as_ref().map(text)),
        ("servers", args.servers.as_ref().map(|servers| NewValue::texts(servers.iter().filter(|it| !it.is_empty())))),
        ("tools", args.tools.as_ref().map(texts)),
        ("approval", args.approval.as_ref().map(text)),
        ("trustedTools", trusted.as_ref().map(texts)),
        ("tasks.background", args.background.map(NewValue::Flag)),
        ("tasks.pollInterval", args.poll_interval.map(time)),
        ("budgets.maxTurns", args.max_turns.map(count)),
        ("budgets.maxTokens", args.max_tokens.map(count)),
        ("budgets.maxToolCalls", args.max_tool_calls.map(count)),
        ("budgets.maxTime", args.max_time.map(time)),
        ("resources", Some(NewValue::texts(args.resource.iter())).filter(|_| !args.resource.is_empty())),
    ];
    Ok(members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Some(value?)))).collect())
}

/// The removal of a key; fails if the key is unknown.
pub(super) fn removal(key: &str) -> Result<(String, Option<NewValue>), Report> {
    if KEYS.contains(&key) {
        return Ok((key.to_owned(), None));
    }
    let near = suggestion::did_you_mean(key, KEYS);
    let report = Report::usage("arguments", format!("unknown key `{key}`{near}"));
    Err(report.hint(format!("known keys: {}", KEYS.join(", "))))
}

/// Fails for a server that the configuration does not have.
pub(crate) fn check_server(label: &str, loaded: &Loaded) -> Result<(), Report> {
    let is_known = loaded.config.find(label).is_some() || loading::proposal_of(loaded, label).is_some();
    let is_unusable = loading::gap(&loaded.config, label).is_some();
    // An empty list is no server.
    if is_known || is_unusable || label.is_empty() {
        return Ok(());
    }
    let proposed = loaded.proposals.iter().map(|proposal| &proposal.server.name);
    let known: Vec<&str> = loaded.config.servers.keys().chain(proposed).map(ServerName::as_str).collect();
    let near = suggestion::did_you_mean(label, known.iter().copied());
    let report = Report::usage("unknown_server", format!("unknown server `{label}`{near}"));
    Err(report.hint("list the servers with `toolway servers`"))
}

/// Fails for a model that the configuration does not have.
pub(crate) fn check_model(name: &str, loaded: &Loaded, app: &App) -> Result<(), Report> {
    let known: Vec<String> = app.known_models(&loaded.config.settings).into_iter().map(|model| model.name).collect();
    let is_vendor = models::UNCONFIGURED.iter().any(|vendor: &Vendor| vendor.as_str() == name);
    if models::needs_no_entry(name) || is_vendor || known.iter().any(|known| known == name) {
        return Ok(());
    }
    let near = suggestion::did_you_mean(name, known.iter().map(String::as_str));
    let report = Report::usage("model", format!("unknown model `{name}`{near}"));
    Err(report.hint("list the models with `toolway models`"))
}

fn parse_time(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "must be a duration such as `10m`".to_owned())
}
