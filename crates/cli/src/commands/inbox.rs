//! `toolway inbox`: what waits for a user at a running gateway.

mod coverage;

use std::collections::BTreeSet;

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_gateway::control::{ControlAnswer, ControlRequest, Cover};
use toolway_host::{record::CallRow, visible};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    effect::Effect,
    exit_code::ExitCode,
    output::{Format, Output},
    record_id,
    report::Report,
    terminal::given,
};

/// List and answer what waits for a user at the running gateway
///
/// Calls that policy asks about wait here if their client cannot ask its own user. The first answer wins, wherever it is
/// given. A waiting item holds up only its own call, and expires after ten minutes. Calls whose outcome is unknown are
/// listed until `toolway calls settle`, unless their tool is annotated idempotent or read-only.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InboxArgs {
    #[command(subcommand)]
    command: Option<InboxCommand>,
}

const EXAMPLES: &str = "\
Examples:
  toolway inbox list
  toolway inbox answer 0197c9a4-9d6b-7c3e-8a51-2f6f2a4b9c01
  toolway inbox answer 0197c9a4-9d6b-7c3e-8a51-2f6f2a4b9c01 --for always
  toolway inbox answer 0197c9a4-9d6b-7c3e-8a51-2f6f2a4b9c01 --for conversation --cover text=any
  toolway inbox answer 0197c9a4-9d6b-7c3e-8a51-2f6f2a4b9c02 name=Ada colour=red
  toolway inbox decline 0197c9a4-9d6b-7c3e-8a51-2f6f2a4b9c01 --reason 'use the test database'";

#[derive(Debug, Subcommand)]
enum InboxCommand {
    /// List the waiting items, oldest first
    List,
    /// Show everything about a waiting item
    Show {
        /// Id of the item, or the beginning of it
        id: String,
    },
    /// Approve a call or a request to a model, send a form, or agree to open a URL
    Answer {
        /// Id of the item, or the beginning of it
        id: String,

        /// Values of a form: `field=value`, or `@file` with a JSON object
        #[arg(value_name = "FIELD=VALUE")]
        values: Vec<String>,

        /// How long an approval holds
        #[arg(long = "for", value_name = "TERM", default_value = "once")]
        term: Term,

        /// What an approval covers of an argument, instead of what is proposed: `same`, `folder`, `host` or `any`; `*=any`
        /// for any arguments
        #[arg(long = "cover", value_name = "ARGUMENT=WORD", conflicts_with = "any_host")]
        covers: Vec<String>,

        /// Cover calls that only read, to any host, until the conversation ends
        #[arg(long)]
        any_host: bool,

        /// Approve a call although its arguments contain hidden characters, which `inbox show` shows as `\u{…}`
        #[arg(long)]
        allow_hidden: bool,
    },
    /// Decline a call, a request to a model, a form or a URL
    Decline {
        /// Id of the item, or the beginning of it
        id: String,

        /// Reason for the client or the model
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,

        /// Decline all later calls of this tool by this caller, too
        #[arg(long, conflicts_with = "reason")]
        never: bool,

        /// Close a form or URL without an answer
        #[arg(long, conflicts_with_all = ["reason", "never"])]
        cancel: bool,
    },
    /// Print each item as it comes to wait, until interrupted
    Follow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Term {
    /// This call
    Once,
    /// Later calls that it covers, until the conversation or the client's session ends
    Conversation,
    /// Later calls of this caller that it covers, saved (`toolway trust`)
    Always,
}

impl Term {
    /// The word in JSON.
    fn key(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Conversation => "conversation",
            Self::Always => "always",
        }
    }
}

impl InboxArgs {
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            Some(InboxCommand::Answer { .. }) => Effect::Widens,
            None
            | Some(
                InboxCommand::List | InboxCommand::Show { .. } | InboxCommand::Decline { .. } | InboxCommand::Follow,
            ) => Effect::Ordinary,
        }
    }
}

pub(crate) async fn run(args: &InboxArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        None | Some(InboxCommand::List) => {
            list(&all_items(app).await?, output);
        }
        Some(InboxCommand::Show { id }) => {
            let id = text(&find(app, id).await?["id"]);
            show(&app.require_gateway(&ControlRequest::InboxItem { id }).await?.value, output);
        }
        Some(InboxCommand::Answer { id, values, term, covers, any_host, allow_hidden }) => {
            let item = find(app, id).await?;
            let cover = if *any_host { Some(Cover::AnyHost) } else { coverage::chosen(covers)? };
            let answer = answer(&item, values, *term, cover)?;
            let hidden = if *allow_hidden { HiddenCharacters::Allowed } else { HiddenCharacters::Refused };
            let reply = send(app, &item, answer, hidden, output).await?;
            if reply["covers"].is_string() && output.format == Format::Human {
                output.line(&format!("It covers: {}", exact(&reply["covers"])));
            }
        }
        Some(InboxCommand::Decline { id, reason, never, cancel }) => {
            let item = find(app, id).await?;
            let is_decided = item["kind"] == "approval" || item["kind"] == "sampling";
            let answer = match (is_decided, never, cancel) {
                (true, false, _) => ControlAnswer::No { reason: reason.clone() },
                (true, true, _) => ControlAnswer::Never {},
                (false, _, true) => ControlAnswer::Cancel {},
                (false, _, false) => ControlAnswer::Decline {},
            };
            send(app, &item, answer, HiddenCharacters::Refused, output).await?;
        }
        Some(InboxCommand::Follow) => return follow(app, output).await,
    }
    Ok(ExitCode::Ok)
}

/// What waits at the gateway, and the calls whose outcome is to be found out, which the store has also without one.
async fn all_items(app: &App) -> Result<Vec<Value>, Report> {
    let unsettled: Vec<Value> = app.records()?.unsettled(UNSETTLED).await?.iter().map(unsettled).collect();
    match items(app, None).await {
        Ok((waiting, _)) => Ok([waiting, unsettled].concat()),
        Err(report) if unsettled.is_empty() => Err(report),
        Err(_) => Ok(unsettled),
    }
}

/// Calls of unknown outcome that are listed.
const UNSETTLED: usize = 100;

fn unsettled(call: &CallRow) -> Value {
    let id = call.id.to_string();
    let tool = call.tool.as_deref().unwrap_or(&call.name);
    let short = record_id::short(&call.id);
    let text = format!(
        "`{tool}` was sent, and its outcome is unknown; find out, then `toolway calls settle {short} --happened` or \
         `--did-not-happen`"
    );
    json!({ "id": id, "kind": "unknown-outcome", "text": text, "callId": id, "caller": call.caller, "server": call.server })
}

/// The waiting items, and the number that changes with them; after a change if a number is given.
async fn items(app: &App, after: Option<u64>) -> Result<(Vec<Value>, u64), Report> {
    let reply = app.require_gateway(&ControlRequest::Inbox { after }).await?.value;
    let items = reply["items"].as_array().cloned().unwrap_or_default();
    Ok((items, reply["version"].as_u64().unwrap_or_default()))
}

/// The item with this id, or with an id that begins or ends with it.
async fn find(app: &App, id: &str) -> Result<Value, Report> {
    let (items, _) = items(app, None).await?;
    let mut found = record_id::select(items, id, |item| text(&item["id"]));
    if 1 < found.len() {
        let ids: Vec<String> = found.iter().map(|item| text(&item["id"])).collect();
        return Err(record_id::ambiguous("not_waiting", "inbox items", id, &ids));
    }
    match found.pop() {
        Some(item) => Ok(item),
        None => {
            let message =
                format!("no inbox item `{id}` is waiting; it may have been answered elsewhere or have expired");
            Err(Report::usage("not_waiting", message).hint("list them with `toolway inbox list`"))
        }
    }
}

fn answer(item: &Value, values: &[String], term: Term, cover: Option<Cover>) -> Result<ControlAnswer, Report> {
    let is_sampling = item["kind"] == "sampling";
    let is_approval = item["kind"] == "approval" || is_sampling;
    if is_approval && !values.is_empty() {
        return Err(Report::usage("arguments", "an approval takes no values"));
    }
    if is_sampling && (term == Term::Conversation || cover.is_some()) {
        let message = "a request to a model is approved once or always for the server";
        return Err(Report::usage("arguments", message).hint("use `--for once` or `--for always`, without `--cover`"));
    }
    if cover.is_some() && term == Term::Once {
        let message = "an approval of one call covers nothing else";
        return Err(Report::usage("arguments", message).hint("add `--for conversation` or `--for always`"));
    }
    Ok(match (is_approval, term) {
        (true, Term::Once) => ControlAnswer::Once {},
        (true, Term::Conversation) => ControlAnswer::Conversation { cover },
        (true, Term::Always) => ControlAnswer::Always { cover },
        (false, _) => {
            let (texts, values) = given::texts_and_values(values)?;
            ControlAnswer::Accept { texts, values }
        }
    })
}

/// Whether a call with hidden characters may be approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HiddenCharacters {
    Refused,
    Allowed,
}

async fn send(
    app: &App,
    item: &Value,
    answer: ControlAnswer,
    hidden: HiddenCharacters,
    output: &mut Output,
) -> Result<Value, Report> {
    let word = match &answer {
        ControlAnswer::Once {} => "Approved once.",
        ControlAnswer::Conversation { .. } => "Approved for this conversation.",
        ControlAnswer::Always { .. } => "Approved and saved.",
        ControlAnswer::No { .. } | ControlAnswer::Decline {} => "Declined.",
        ControlAnswer::Never {} => "Refused and saved.",
        ControlAnswer::Accept { .. } => "Answered.",
        ControlAnswer::Cancel {} => "Cancelled.",
    };
    let allow_hidden = hidden == HiddenCharacters::Allowed;
    let reply = app.require_gateway(&ControlRequest::Answer { id: text(&item["id"]), answer, allow_hidden }).await?;
    match output.format {
        Format::Human | Format::Raw => output.line(word),
        Format::Json | Format::Ndjson => output.json(&Raw::of(&reply.value)),
    }
    Ok(reply.value)
}

/// Prints items until the command is stopped, which is its only end.
async fn follow(app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let (mut known, mut version) = (BTreeSet::new(), None);
    loop {
        let (items, now) = items(app, version).await?;
        version = Some(now);
        let ids: BTreeSet<String> = items.iter().filter_map(|item| item["id"].as_str().map(str::to_owned)).collect();
        for item in &items {
            if item["id"].as_str().is_some_and(|id| !known.contains(id)) {
                match output.format {
                    Format::Human | Format::Raw => print(item, output),
                    Format::Json | Format::Ndjson => output.json(&Raw::of(item)),
                }
            }
        }
        known = ids;
    }
}

fn list(items: &[Value], output: &mut Output) {
    match output.format {
        Format::Human if items.is_empty() => output.notice("toolway: nothing is waiting"),
        Format::Human => items.iter().for_each(|item| print(item, output)),
        Format::Raw => items.iter().for_each(|item| output.line(&text(&item["id"]))),
        Format::Json => output.json(&Raw::of(items)),
        Format::Ndjson => items.iter().for_each(|item| output.json(&Raw::of(item))),
    }
}

fn print(item: &Value, output: &mut Output) {
    let rest = format!("  {}  {}", text(&item["kind"]), exact(&item["text"]));
    output.print_wrapped_entry(&record_id::short(&text(&item["id"])), &rest, "    ");
}

fn show(item: &Value, output: &mut Output) {
    if output.format != Format::Human {
        output.json(&Raw::of(item));
        return;
    }
    output.entry(&exact(&item["text"]), "");
    for (label, key) in [("id", "id"), ("caller", "caller"), ("call", "callId"), ("expires", "expiresAt")] {
        if item[key].is_string() {
            output.line(&format!("{label}: {}", exact(&item[key])));
        }
    }
    show_approval(&item["approval"], output);
    show_sampling(&item["sampling"], output);
    for field in item["form"]["fields"].as_array().into_iter().flatten() {
        let required = if field["required"] == true { ", required" } else { "" };
        output.line(&format!("  {} ({}{required})", exact(&field["name"]), text(&field["type"])));
    }
    if let Some(url) = item["url"].as_str() {
        output.line(&format!("address: {}", visible::address(url)));
    }
}

fn show_sampling(sampling: &Value, output: &mut Output) {
    if sampling.is_null() {
        return;
    }
    let lines = |value: &Value| visible::plain(&text(value)).replace('\n', "\n    ");
    output.line(&format!("called: {}", exact(&sampling["called"])));
    let texts = [("system prompt", "system"), ("answer of the model", "answer")];
    for (label, key) in texts.into_iter().filter(|(_, key)| sampling[key].is_string()) {
        output.line(&format!("  {label}: {}", lines(&sampling[key])));
    }
    for message in sampling["messages"].as_array().into_iter().flatten() {
        output.line(&format!("  {}: {}", exact(&message["role"]), lines(&message["text"])));
    }
    for tool in sampling["tools"].as_array().into_iter().flatten() {
        output.line(&format!("  tool {}: {}", exact(&tool["name"]), lines(&tool["description"])));
        output.line(&format!("    {}", lines(&tool["schema"])));
    }
    for stop in sampling["stopSequences"].as_array().into_iter().flatten() {
        output.line(&format!("  stops at: {}", lines(stop)));
    }
    for (label, key) in [("tool choice", "toolChoice"), ("temperature", "temperature")] {
        if sampling[key].is_string() {
            output.line(&format!("  {label}: {}", exact(&sampling[key])));
        }
    }
    if sampling["hidden"] == true {
        output.line("! the text contains hidden characters");
    }
    output.line(&format!("model: {}, {}", exact(&sampling["model"]), exact(&sampling["reason"])));
    output.line(&format!("at most {} tokens", sampling["maxTokens"]));
    for left in sampling["quota"].as_array().into_iter().flatten() {
        output.line(&format!("left after this: {}", exact(&left["text"])));
    }
}

fn show_approval(approval: &Value, output: &mut Output) {
    if approval["title"].is_string() {
        output.line(&format!("title by the server: {}", exact(&approval["title"])));
    }
    for row in approval["rows"].as_array().into_iter().flatten() {
        let value = visible::plain(&text(&row["value"])).replace('\n', "\n    ");
        let size = match (row["bytes"].as_u64(), row["sha256"].as_str()) {
            (Some(bytes), Some(sha256)) => format!(" ({bytes} bytes, sha256 {sha256})"),
            _ => String::new(),
        };
        output.line(&format!("  {}{size}: {value}", exact(&row["label"])));
    }
    for warning in approval["warnings"].as_array().into_iter().flatten() {
        output.line(&format!("! {}", text(warning)));
    }
    if let Some(rule) = approval["rule"].as_str() {
        let reason = approval["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
        output.print_wrapped("", &format!("asked by {rule}{reason}"));
        if approval["remedy"].is_string() {
            output.line(&format!("allow it always with: {}", exact(&approval["remedy"])));
        }
        for term in [Term::Conversation, Term::Always] {
            let covers = exact(&approval["proposal"][term.key()]["covers"]);
            output.print_wrapped("", &format!("`--for {}` covers: {covers}", term.key()));
        }
    }
}

/// Text of others on one line.
fn exact(value: &Value) -> String {
    visible::one_line(&text(value))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
