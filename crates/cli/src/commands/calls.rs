//! `toolway calls`: recorded calls.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_store::{
    Reader,
    calls::{CallBody, CallFilter, CallRow, CallState},
    rollup::RollupFilter,
    time::{self, Micros},
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
    storage,
};

/// List, show and follow recorded calls
///
/// Every call of every surface is recorded in the store (`store` in the configuration), with its caller, state, duration and
/// the rule that decided.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CallsArgs {
    #[command(subcommand)]
    command: CallsCommand,
}

const EXAMPLES: &str = "\
Examples:
  toolway calls list --state refused,failed --since 1h
  toolway calls show 0198c0de
  toolway calls follow --server files
  toolway calls stats --since 24h";

#[derive(Debug, Subcommand)]
enum CallsCommand {
    /// List calls, newest first
    List(FilterArgs),
    /// Show one call with its arguments and result
    Show {
        /// Id of the call, or the beginning of it
        id: String,
    },
    /// Print calls as they end, until interrupted
    Follow(FilterArgs),
    /// Count calls, errors and durations by tool
    Stats {
        /// Only calls since then: a time (RFC 3339) or a duration such as `24h`
        #[arg(long, value_name = "TIME", value_parser = parse_since, default_value = "24h")]
        since: Micros,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct FilterArgs {
    /// At most this many calls
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,

    /// Only calls in these states, separated by commas
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    state: Vec<CallState>,

    /// Only calls of this caller: `KIND` or `KIND:NAME`
    #[arg(long)]
    caller: Option<String>,

    /// Only calls since then: a time (RFC 3339) or a duration such as `2h`
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Micros>,
}

/// Time between two looks for new calls.
const POLL: Duration = Duration::from_millis(250);

pub(crate) async fn run(args: &CallsArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let reader = app.open_reader()?;
    match &args.command {
        CallsCommand::List(filter) => list(reader.as_ref(), &filter.filter(app), output),
        CallsCommand::Show { id } => show(reader.as_ref(), id, output),
        CallsCommand::Follow(filter) => follow(app, filter, output).await,
        CallsCommand::Stats { since } => stats(reader.as_ref(), *since, app.reach.by_name.clone(), output),
    }
}

fn list(reader: Option<&Reader>, filter: &CallFilter, output: &mut Output) -> Result<ExitCode, Report> {
    let calls = reader.map_or(Ok(Vec::new()), |reader| reader.calls(filter));
    let calls = calls.map_err(|error| storage::failed(&error))?;
    match output.format {
        Format::Human if calls.is_empty() => output.notice("toolway: no calls recorded"),
        Format::Human => output
            .table(["STARTED", "STATE", "TIME", "CALLER", "CALL", "ID"], &calls.iter().map(line).collect::<Vec<_>>()),
        Format::Raw => calls.iter().for_each(|call| output.content(format!("{}\n", call.id).as_bytes())),
        Format::Json => output.json(&Raw::of(&calls.iter().map(view).collect::<Vec<_>>())),
        Format::Ndjson => calls.iter().for_each(|call| output.json(&Raw::of(&view(call)))),
    }
    Ok(ExitCode::Ok)
}

fn show(reader: Option<&Reader>, id: &str, output: &mut Output) -> Result<ExitCode, Report> {
    let failed = |error| storage::failed(&error);
    let unknown = || Report::usage("unknown_call", format!("no recorded call has the id `{id}`"));
    let reader = reader.ok_or_else(unknown)?;
    let found = reader.calls_by_prefix(id).map_err(failed)?;
    let id = match found.as_slice() {
        [one] => *one,
        [] => return Err(unknown()),
        _ => return Err(Report::usage("unknown_call", format!("several calls have ids that begin with `{id}`"))),
    };
    let (call, body) = reader.call(id).map_err(failed)?.ok_or_else(unknown)?;
    let view = full_view(&call, &body);
    match output.format {
        Format::Human => {
            for (key, value) in view.as_object().into_iter().flatten() {
                match value {
                    Value::Null => {}
                    Value::String(text) => output.entry(key, &format!(": {text}")),
                    other => output.entry(key, &format!(": {other}")),
                }
            }
        }
        Format::Raw | Format::Json | Format::Ndjson => output.json(&Raw::of(&view)),
    }
    Ok(ExitCode::Ok)
}

/// Prints calls that ended since the command began.
async fn follow(app: &App, args: &FilterArgs, output: &mut Output) -> Result<ExitCode, Report> {
    let since = args.since.unwrap_or_else(time::now);
    let mut printed = std::collections::HashSet::new();
    let mut reader = None;
    loop {
        // The file may be created while we wait.
        if reader.is_none() {
            reader = app.open_reader()?;
        }
        if let Some(reader) = &reader {
            let filter = CallFilter { since: Some(since), limit: 10_000, ..args.filter(app) };
            let calls = reader.calls(&filter).map_err(|error| storage::failed(&error))?;
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
        Format::Human => output.line(&line(call).join("  ")),
        Format::Raw => output.content(format!("{}\n", call.id).as_bytes()),
        Format::Json | Format::Ndjson => output.json(&Raw::of(&view(call))),
    }
}

fn stats(
    reader: Option<&Reader>,
    since: Micros,
    server: Option<String>,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let filter = RollupFilter { since, server, ..RollupFilter::default() };
    let stats = reader.map_or(Ok(Vec::new()), |reader| reader.stats(&filter));
    let stats = stats.map_err(|error| storage::failed(&error))?;
    let millis = |micros: Option<i64>| micros.map(|micros| micros as f64 / 1_000.0);
    let views: Vec<Value> = stats
        .iter()
        .map(|tool| {
            json!({
                "server": tool.server, "tool": tool.tool, "calls": tool.total.calls, "errors": tool.unsuccessful,
                "meanMs": millis(tool.total.duration.checked_div(tool.total.calls)),
                "p50Ms": millis(tool.total.quantile(0.5)), "p95Ms": millis(tool.total.quantile(0.95)),
            })
        })
        .collect();
    if output.format == Format::Human {
        let cell = |view: &Value, key: &str| match &view[key] {
            Value::Null => "–".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let keys = ["server", "tool", "calls", "errors", "meanMs", "p50Ms", "p95Ms"];
        let rows: Vec<[String; 7]> = views.iter().map(|view| keys.map(|key| cell(view, key))).collect();
        output.table(["SERVER", "TOOL", "CALLS", "ERRORS", "MEAN MS", "P50 MS ≤", "P95 MS ≤"], &rows);
    } else {
        output.json(&Raw::of(&views));
    }
    Ok(ExitCode::Ok)
}

fn line(call: &CallRow) -> [String; 6] {
    let duration = call.duration.map_or_else(|| "–".to_owned(), |micros| format!("{:.1} ms", micros as f64 / 1_000.0));
    let name = call.tool.clone().unwrap_or_else(|| call.name.clone());
    let id = call.id.to_string();
    [time::rfc3339(call.started_at), call.state.to_string(), duration, call.caller.clone(), name, id]
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
        "startedAt": time::rfc3339(call.started_at),
        "durationMs": call.duration.map(|micros| micros as f64 / 1_000.0),
        "rule": call.rule,
        "conversation": call.conversation,
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
    view["argumentBytes"] = call.argument_bytes.into();
    view["resultBytes"] = call.result_bytes.into();
    view["serverRequests"] = call.server_requests.into();
    view
}

/// A time in RFC 3339, or a duration before now.
pub(crate) fn parse_since(text: &str) -> Result<Micros, String> {
    let ago = || toolway_config::parse_duration(text).map(|ago| time::now() - time::duration(ago));
    let expected = "must be a time such as `2026-11-16T10:00:00Z`, or a duration such as `2h`";
    time::parse_rfc3339(text).or_else(ago).ok_or_else(|| expected.to_owned())
}

impl FilterArgs {
    /// The filter; `--server` is an option of all commands.
    fn filter(&self, app: &App) -> CallFilter {
        CallFilter {
            states: self.state.clone(),
            server: app.reach.by_name.clone(),
            caller: self.caller.clone(),
            since: self.since,
            limit: self.limit,
            ..CallFilter::default()
        }
    }
}
