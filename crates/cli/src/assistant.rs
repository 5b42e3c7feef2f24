//! The assistant of `chat`, `run` and the console: found by its name, or as a stored conversation began with it; and what the
//! options of a command change about it. An option wins where it is not looser.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use toolway_agent::{Assistant, Budget, StoredAssistant};
use toolway_config::{Approval, AssistantConfig, Config, PolicyMode, ServerName, Settings};

use crate::{
    output::{Output, clean},
    report::Report,
    suggestion, target,
};

/// Limits that a command line sets; `None` is not given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GivenBudget {
    pub(crate) turns: Option<u32>,
    pub(crate) tokens: Option<u64>,
    pub(crate) tool_calls: Option<u32>,
    pub(crate) time: Option<Duration>,
}

/// The configured assistant of a name.
pub(crate) fn find<'a>(settings: &'a Settings, name: &str) -> Result<&'a AssistantConfig, Report> {
    let known = &settings.assistants.value;
    known.get(name).ok_or_else(|| {
        let near = suggestion::did_you_mean(name, known.keys().map(String::as_str));
        let report = Report::usage("unknown_assistant", format!("unknown assistant `{name}`{near}"));
        match known.is_empty() {
            true => report.hint("add one with `toolway assistants add`"),
            false => report.hint(format!("assistants: {}", known.keys().cloned().collect::<Vec<_>>().join(", "))),
        }
    })
}

/// The assistant of a conversation: the one that is named, else the one that the stored conversation began with. Says what
/// has changed since.
pub(crate) fn choose(
    name: Option<&str>,
    stored: Option<&StoredAssistant>,
    settings: &Settings,
    output: &mut Output,
) -> Result<Option<Assistant>, Report> {
    match (name, stored) {
        (Some(name), _) => find(settings, name).map(|config| Some(Assistant::new(name, config))),
        (None, Some(stored)) => {
            let configured = settings.assistants.value.get(&stored.name);
            if let Some(changes) = stored.changes(configured) {
                output.notice(&format!("toolway: {changes}"));
            }
            Ok(Some(Assistant::resumed(stored, configured)))
        }
        (None, None) => Ok(None),
    }
}

/// The servers of an assistant, narrowed to those of the command line, which `named` are.
pub(crate) fn narrowed(
    assistant: &Assistant,
    named: Option<BTreeSet<ServerName>>,
    config: &Config,
    output: &mut Output,
) -> Result<Option<BTreeSet<ServerName>>, Report> {
    let Some(own) = assistant.servers() else { return Ok(named) };
    let is_resumed = assistant.policy().stored.is_some();
    let mut known = BTreeSet::new();
    for server in own {
        match target::entry(config, server.as_str()) {
            Ok(entry) => drop(known.insert(entry.name.clone())),
            Err(report) if is_resumed => output.notice(&format!("toolway: {}", of(assistant.name(), report).message)),
            Err(report) => return Err(of(assistant.name(), report)),
        }
    }
    let Some(named) = named else { return Ok(Some(known)) };
    match named.difference(&known).next() {
        None => Ok(Some(named)),
        Some(other) => {
            let message = format!("server `{other}` is not one of assistant `{}`", assistant.name());
            Err(Report::usage("arguments", message).hint(format!("its servers: {}", joined(own))))
        }
    }
}

/// The refusal of a server of `--stdio` or `--url` for an assistant with servers of its own.
pub(crate) fn refuse_additional(assistant: &Assistant) -> Result<(), Report> {
    let Some(own) = assistant.servers() else { return Ok(()) };
    let message = format!("assistant `{}` has its own servers; --stdio and --url cannot add one", assistant.name());
    Err(Report::usage("arguments", message).hint(format!("its servers: {}", joined(own))))
}

/// A report about something that an assistant names.
pub(crate) fn of(name: &str, mut report: Report) -> Report {
    report.message = format!("assistant `{name}`: {}", report.message);
    report
}

/// Says that a mode of the command line is looser than the approval, which counts.
pub(crate) fn note_mode(assistant: Option<&Assistant>, mode: Option<PolicyMode>, output: &mut Output) {
    if let Some(note) = looser_mode(assistant, mode) {
        output.notice(&format!("toolway: {note}"));
    }
}

/// Why a mode does not count as it is given.
pub(crate) fn looser_mode(assistant: Option<&Assistant>, mode: Option<PolicyMode>) -> Option<String> {
    let assistant = assistant?;
    let mode = mode?;
    let approval = assistant.policy().approval();
    let is_looser = match approval {
        Approval::AlwaysAsk => mode != PolicyMode::Ask,
        Approval::TrustedOnly => mode == PolicyMode::Allow,
        Approval::Auto => false,
    };
    is_looser.then(|| {
        let mode = mode.as_str();
        let approval = approval.as_str();
        format!("mode `{mode}` is looser than approval `{approval}` of assistant `{}`, which counts", assistant.name())
    })
}

/// The budget of an answer: the stricter of the command line and the assistant, else the default.
pub(crate) fn budget(assistant: Option<&Assistant>, given: GivenBudget, output: &mut Output) -> Budget {
    let default = Budget::default();
    let Some(assistant) = assistant else {
        return Budget {
            turns: given.turns.unwrap_or(default.turns),
            tokens: given.tokens,
            tool_calls: given.tool_calls.unwrap_or(default.tool_calls),
            time: given.time,
        };
    };
    let own = assistant.values().budgets;
    let looser = [
        ("--max-turns", "maxTurns", exceeds(given.turns, own.max_turns)),
        ("--max-tokens", "maxTokens", exceeds(given.tokens, own.max_tokens)),
        ("--max-tool-calls", "maxToolCalls", exceeds(given.tool_calls, own.max_tool_calls)),
        ("--max-time", "maxTime", exceeds(given.time, own.max_time)),
    ];
    for (option, key, _) in looser.into_iter().filter(|(_, _, is_looser)| *is_looser) {
        let name = assistant.name();
        output
            .notice(&format!("toolway: `{option}` is looser than `budgets.{key}` of assistant `{name}`, which counts"));
    }
    // A budget of the assistant may be larger than the default.
    assistant.bounded(Budget {
        turns: given.turns.or(own.max_turns).unwrap_or(default.turns),
        tokens: given.tokens,
        tool_calls: given.tool_calls.or(own.max_tool_calls).unwrap_or(default.tool_calls),
        time: given.time,
    })
}

fn exceeds<T: Ord>(given: Option<T>, own: Option<T>) -> bool {
    given.zip(own).is_some_and(|(given, own)| own < given)
}

/// The keys that are set, one line each.
pub(crate) fn lines(config: &AssistantConfig) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => clean::flat(text),
        Value::Array(elements) => {
            let element = |element: &Value| element.as_str().map_or_else(|| element.to_string(), clean::flat);
            elements.iter().map(element).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    let values = config.values().into_iter();
    let missing = config.servers.is_none().then(|| "servers: all".to_owned());
    values.map(|(key, value)| format!("{key}: {}", text(&value))).chain(missing).collect()
}

fn joined(servers: &BTreeSet<ServerName>) -> String {
    match servers.is_empty() {
        true => "none".to_owned(),
        false => servers.iter().map(ServerName::as_str).collect::<Vec<_>>().join(", "),
    }
}
