//! `toolway calls`: recorded calls.

mod settle;
mod timing;

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_host::{
    record::{
        CallBody, CallFilter, CallRow, CallState, Delivery, SamplingRow, Settlement, StatsFilter, StoredCall, ToolStats,
    },
    task::TaskStatus,
    time::{self, Micros},
    visible,
};
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
};

use self::timing::Timing;
use crate::{
    app::App,
    clock::Clock,
    effect::Effect,
    exit_code::ExitCode,
    output::{Format, Listing, Output, content},
    record_args::{RecordArgs, parse_since},
    record_id,
    report::Report,
};

/// List, show and follow recorded calls
///
/// Every call of every surface is recorded in the store (`store` in the configuration), with its caller, state, duration and
/// the rule that decided. Without a command, lists the last 100.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CallsArgs {
    #[command(subcommand)]
    command: Option<CallsCommand>,
}

const EXAMPLES: &str = "\
Examples:
  toolway calls list --state refused,failed --since 1h
  toolway calls show last
  toolway calls show last --timing
  toolway calls follow --server files
  toolway calls stats --since 24h
  toolway calls settle 1a2b3c4d --did-not-happen --note 'no such order'";

#[derive(Debug, Subcommand)]
enum CallsCommand {
    /// List calls, newest first
    List(FilterArgs),
    /// Show one call with its arguments and result
    Show {
        /// Id of the call, the beginning or end of it, or `last`
        id: String,

        /// Only where it spent its time
        #[arg(long)]
        timing: bool,
    },
    /// Say what happened in a call whose outcome is unknown
    ///
    /// The outcome of the record stays `unknown`; what you found out stands beside it and in the audit log. A call that did not
    /// happen frees its idempotency key.
    Settle(settle::SettleArgs),
    /// Print calls as they end, until interrupted
    Follow(FilterArgs),
    /// Count calls, errors and durations by tool
    Stats {
        /// Only calls since then: a time (RFC 3339) or a duration such as `24h`
        #[arg(long, value_name = "TIME", value_parser = parse_since, default_value = "24h")]
        since: Micros,
    },
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only calls in these states, separated by commas
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<CallState>,

    #[command(flatten)]
    records: RecordArgs,
}

impl CallsArgs {
    pub(crate) fn effect(&self) -> Effect {
        match &self.command {
            // A call that did not happen may be made again under its key.
            Some(CallsCommand::Settle(_)) => Effect::Widens,
            None
            | Some(
                CallsCommand::List(_)
                | CallsCommand::Show { .. }
                | CallsCommand::Follow(_)
                | CallsCommand::Stats { .. },
            ) => Effect::Ordinary,
        }
    }
}

/// Time between two looks for new calls.
const POLL: Duration = Duration::from_millis(250);

pub(crate) async fn run(args: &CallsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        None => list(app, &FilterArgs::default(), output).await?,
        Some(CallsCommand::List(filter)) => list(app, filter, output).await?,
        Some(CallsCommand::Show { id, timing: false }) => show(app, id, output).await?,
        Some(CallsCommand::Show { id, timing: true }) => show_timing(app, id, output).await?,
        Some(CallsCommand::Settle(args)) => settle::run(args, app, output).await?,
        Some(CallsCommand::Follow(filter)) => follow(app, filter, output).await?,
        Some(CallsCommand::Stats { since }) => {
            let filter = StatsFilter { since: *since, server: app.reach.by_name.clone(), ..StatsFilter::default() };
            stats(&app.records()?.stats(filter).await?, output);
        }
    }
    Ok(ExitCode::Ok)
}

async fn list(app: &App, filter: &FilterArgs, output: &mut Output) -> Result<(), Report> {
    let calls = app.records()?.calls(filter.filter(app)).await?;
    let is_filter = !filter.state.is_empty() || filter.records.is_filter() || app.reach.by_name.is_some();
    let empty = if is_filter { "no recorded call matches" } else { NONE };
    output.listing(&calls, &Listing { empty, ..LISTING });
    Ok(())
}

/// The message if there are no calls.
const NONE: &str = "no calls recorded";

const LISTING: Listing<'_, CallRow, 6> = Listing {
    empty: NONE,
    headings: ["STARTED", "STATE", "TIME", "CALLER", "CALL", "ID"],
    row: line,
    id: |call| call.id.to_string(),
    view,
};

/// The call with this id, with the beginning or end of it, or the last one.
async fn find(app: &App, id: &str) -> Result<StoredCall, Report> {
    let unknown = || {
        let message = format!("no recorded call has the id `{id}`");
        Report::usage("unknown_call", message).hint("list them with `toolway calls list`")
    };
    let records = app.records()?;
    let found = match id {
        "last" => {
            let last = records.calls(CallFilter { limit: 1, ..CallFilter::default() }).await?;
            last.iter().map(|call| call.id).collect()
        }
        id => records.find_calls(id).await?,
    };
    let id = match found.as_slice() {
        [one] => *one,
        [] if id == "last" => return Err(Report::usage("unknown_call", NONE)),
        [] => return Err(unknown()),
        several => {
            let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
            return Err(record_id::ambiguous("unknown_call", "calls", id, &ids));
        }
    };
    records.call(id).await?.ok_or_else(unknown)
}

async fn show(app: &App, id: &str, output: &mut Output) -> Result<(), Report> {
    let StoredCall { row: call, body } = find(app, id).await?;
    let records = app.records()?;
    let settlement = records.settlement(call.id).await?;
    let sampling = records.sampling_of(call.id).await?;
    let mut view = full_view(&call, &body);
    view["settlement"] = settlement.as_ref().map(settle::view).into();
    view["sampling"] = sampling.iter().map(sampled).collect();
    view["timing"] = Timing::of(&call).view();
    if output.format != Format::Human {
        output.json(&with_exact_bodies(&view, &body));
        return Ok(());
    }
    show_rows(&call, &body, settlement.as_ref(), output);
    for sampled in &sampling {
        let tokens = match (sampled.input_tokens, sampled.output_tokens) {
            (Some(input), Some(output)) => format!("{input} tokens in, {output} out"),
            _ => format!("at most {} tokens", sampled.tokens),
        };
        let SamplingRow { model, reason, outcome, .. } = sampled;
        let outcome = outcome.as_deref().unwrap_or("open");
        output.line(&format!("{:<LABEL$}{outcome} by `{}` ({}), {tokens}", "sampled", exact(model), exact(reason)));
    }
    Ok(())
}

/// Prints where a call spent its time.
async fn show_timing(app: &App, id: &str, output: &mut Output) -> Result<(), Report> {
    let call = find(app, id).await?.row;
    let timing = Timing::of(&call);
    if output.format != Format::Human {
        let mut view = view(&call);
        view["timing"] = timing.view();
        output.json(&Raw::of(&view));
        return Ok(());
    }
    output.line(&line(&call, output.clock()).join("  "));
    for (label, micros, what) in timing.rows() {
        output.line(&format!("  {label:<LABEL$}{:>10}  {what}", duration(micros)));
    }
    Ok(())
}

/// What a model answered the server of a call.
fn sampled(row: &SamplingRow) -> Value {
    json!({
        "at": time::rfc3339(row.at),
        "model": row.model,
        "reason": row.reason,
        "outcome": row.outcome,
        "tokens": row.tokens,
        "inputTokens": row.input_tokens,
        "outputTokens": row.output_tokens,
    })
}

fn exact(text: &str) -> String {
    visible::one_line(text)
}

/// Prints a call as labelled rows, with indented JSON.
fn show_rows(call: &CallRow, body: &CallBody, settlement: Option<&Settlement>, output: &mut Output) {
    let count = |bytes: i64| format!("{bytes} bytes");
    let waited = (call.waited > 0).then(|| format!("{} for a person", duration(call.waited)));
    let rows = [
        ("id", Some(call.id.to_string())),
        ("state", Some(call.state.to_string())),
        ("outcome", call.outcome.map(|outcome| outcome.to_string())),
        ("settled", settlement.map(|settlement| settle::words(settlement, output.clock()))),
        ("call", Some(format!("{} ({})", call.tool.as_ref().unwrap_or(&call.name), call.kind))),
        ("server", call.server.clone()),
        ("caller", Some(format!("{} ({})", call.caller, call.surface))),
        ("conversation", call.conversation.clone()),
        ("started", Some(output.clock().full(call.started_at))),
        ("took", call.duration.map(duration)),
        ("waited", waited),
        ("rule", call.rule.clone()),
        ("approved by", call.approved_by.clone()),
        ("error", call.error.clone()),
        ("from cache", call.from_cache.then(|| "yes: an earlier result answered it, nothing was sent".to_owned())),
        ("task", call.task.map(|status| status.to_string())),
        ("requests", (call.server_requests > 0).then(|| format!("{} of the server", call.server_requests))),
        ("arguments", Some(count(call.argument_bytes))),
    ];
    let indent = " ".repeat(LABEL);
    let mut print = |label: &str, text: &str| output.print_wrapped_entry(&format!("{label:<LABEL$}"), text, &indent);
    for (label, text) in rows.into_iter().filter_map(|(label, text)| Some((label, text?))) {
        print(label, &text);
    }
    print_body(body.arguments.as_deref(), output);
    let indent = " ".repeat(LABEL);
    output.print_wrapped_entry(&format!("{:<LABEL$}", "result"), &count(call.result_bytes), &indent);
    print_body(body.result.as_deref(), output);
}

/// Columns of a label.
const LABEL: usize = 14;

/// Prints JSON with an indent; other text as it is.
fn print_body(text: Option<&str>, output: &mut Output) {
    let Some(text) = text else { return };
    let shown = Raw::parse(text.to_owned()).map_or_else(|_| text.to_owned(), |value| content::indented(&value));
    output.print_wrapped("  ", &visible::json(&shown));
}

/// Prints calls that ended since the command began.
async fn follow(app: &App, args: &FilterArgs, output: &mut Output) -> Result<(), Report> {
    let since = args.records.since.unwrap_or_else(time::now);
    let mut printed = std::collections::HashSet::new();
    let mut records = None;
    loop {
        // The file may be created while we wait.
        if records.is_none() {
            records = app.stored_records()?;
        }
        if let Some(records) = &records {
            let filter = CallFilter { since: Some(since), limit: 10_000, ..args.filter(app) };
            let calls = records.calls(filter).await?;
            let ended = calls.iter().rev().filter(|call| !call.state.is_open());
            for call in ended {
                if printed.insert(call.id) {
                    print(call, output);
                }
            }
        }
        app.stop.or(tokio::time::sleep(POLL)).await?;
    }
}

fn print(call: &CallRow, output: &mut Output) {
    match output.format {
        Format::Human => {
            let line = line(call, output.clock()).join("  ");
            output.line(&line);
        }
        Format::Raw => output.content(format!("{}\n", call.id).as_bytes()),
        Format::Json | Format::Ndjson => output.json(&Raw::of(&view(call))),
    }
}

fn stats(stats: &[ToolStats], output: &mut Output) {
    if output.format == Format::Human {
        if stats.is_empty() {
            return output.notice("toolway: no calls recorded in this time");
        }
        let time = |micros: Option<i64>| micros.map_or_else(|| "–".to_owned(), duration);
        let row = |tool: &ToolStats| {
            let name =
                if tool.tool.is_empty() { format!("{} (other requests)", tool.server) } else { tool.tool.clone() };
            let counts = [tool.calls, tool.unsuccessful].map(|count| count.to_string());
            let [calls, errors] = counts;
            [name, calls, errors, time(tool.mean), time(tool.p50), time(tool.p95)]
        };
        output.table(["TOOL", "CALLS", "ERRORS", "MEAN", "P50 ≤", "P95 ≤"], &stats.iter().map(row).collect::<Vec<_>>());
        return;
    }
    let millis = |micros: Option<i64>| micros.map(|micros| micros as f64 / 1_000.0);
    let view = |tool: &ToolStats| {
        json!({
            "server": tool.server, "tool": tool.tool, "calls": tool.calls, "errors": tool.unsuccessful,
            "meanMs": millis(tool.mean),
            "p50Ms": millis(tool.p50), "p95Ms": millis(tool.p95),
        })
    };
    output.json(&Raw::of(&stats.iter().map(view).collect::<Vec<Value>>()));
}

/// A duration for the user.
fn duration(micros: i64) -> String {
    match micros as f64 / 1_000.0 {
        millis if millis < 1_000.0 => format!("{millis:.1} ms"),
        millis => format!("{:.1} s", millis / 1_000.0),
    }
}

fn line(call: &CallRow, clock: Clock) -> [String; 6] {
    let took = call.duration.map_or_else(|| "–".to_owned(), duration);
    let waited = if call.waited > 0 { format!(" (waited {})", duration(call.waited)) } else { String::new() };
    let name = call.tool.clone().unwrap_or_else(|| call.name.clone());
    let (started, id) = (clock.brief(call.started_at), record_id::short(&call.id));
    [started, call.state.to_string(), format!("{took}{waited}"), call.caller.clone(), name, id]
}

/// A call as scripts see it.
pub(crate) fn view(call: &CallRow) -> Value {
    json!({
        "id": call.id.to_string(),
        "caller": call.caller,
        "surface": call.surface,
        "server": call.server,
        "tool": call.tool,
        "kind": call.kind,
        "name": call.name,
        "state": call.state.as_str(),
        "outcome": call.outcome.map(Delivery::as_str),
        "startedAt": time::rfc3339(call.started_at),
        "durationMs": call.duration.map(|micros| micros as f64 / 1_000.0),
        "waitedMs": call.waited as f64 / 1_000.0,
        "rule": call.rule,
        "conversation": call.conversation,
        "taskId": call.task.map(|_| call.id.to_string()),
        "taskStatus": call.task.map(TaskStatus::as_str),
    })
}

fn full_view(call: &CallRow, body: &CallBody) -> Value {
    let json = |text: &Option<String>| {
        text.as_ref().map(|text| serde_json::from_str::<Value>(text).unwrap_or_else(|_| Value::from(text.clone())))
    };
    let mut view = view(call);
    view["arguments"] = json(&body.arguments).into();
    view["result"] = json(&body.result).into();
    view["error"] = call.error.clone().into();
    view["approvedBy"] = call.approved_by.clone().into();
    view["code"] = call.code.clone().into();
    view["argumentBytes"] = call.argument_bytes.into();
    view["resultBytes"] = call.result_bytes.into();
    view["fromCache"] = call.from_cache.into();
    view["serverRequests"] = call.server_requests.into();
    view
}

/// The view with arguments and result as they were recorded, with every digit.
fn with_exact_bodies(view: &Value, body: &CallBody) -> Raw {
    let exact = |text: &Option<String>| text.as_ref().and_then(|text| Raw::parse(text.clone()).ok());
    let bodies = [("arguments", exact(&body.arguments)), ("result", exact(&body.result))];
    let edits = bodies.into_iter().filter_map(|(key, body)| Some(Edit::Set(key, body?)));
    splice::edited(&Raw::of(view), &edits.collect::<Vec<_>>())
}

impl FilterArgs {
    /// The filter; `--server` is an option of all commands.
    fn filter(&self, app: &App) -> CallFilter {
        CallFilter {
            states: self.state.clone(),
            server: app.reach.by_name.clone(),
            caller: self.records.caller.clone(),
            since: self.records.since,
            limit: self.records.limit,
            ..CallFilter::default()
        }
    }
}
