//! `toolway tasks`: calls that their server continues. Waiting and cancelling are in `tasks/`.

mod cancel;
mod remote;
mod result;

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_host::{
    record::Records,
    task::{TaskFilter, TaskProgress, TaskRow},
    time,
};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    clock::Clock,
    exit_code::ExitCode,
    output::{Format, Listing, Output},
    record_id,
    report::Report,
    terminal::given::AnswerArgs,
};

/// List, follow and cancel tasks: calls that their server continues
///
/// Some servers continue a long call as a task. A task has the id of its call; `toolway calls show` has its arguments and its
/// result. Without a command, lists the last 100 tasks of all callers.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct TasksArgs {
    #[command(subcommand)]
    command: Option<TasksCommand>,

    #[command(flatten)]
    list: ListArgs,
}

const EXAMPLES: &str = "\
Examples:
  toolway tasks
  toolway tasks reports -o json
  toolway tasks wait 1234abcd
  toolway tasks cancel last
  toolway tasks list --remote reports";

#[derive(Debug, Subcommand)]
enum TasksCommand {
    /// List tasks, newest first
    List(ListArgs),
    /// Show one task
    Show {
        /// Id of the task, the beginning or end of it, or `last`
        id: String,
    },
    /// Wait for a task to end, and print its result
    ///
    /// A task that no other process follows is followed by this command. Exit codes are those of `toolway call`.
    Wait {
        /// Id of the task, the beginning or end of it, or `last`
        id: String,

        #[command(flatten)]
        answer: AnswerArgs,
    },
    /// Print the result of a task that has ended
    Result {
        /// Id of the task, the beginning or end of it, or `last`
        id: String,
    },
    /// Cancel a task at its server
    Cancel {
        /// Id of the task, the beginning or end of it, or `last`
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Only tasks of this server
    server: Option<String>,

    /// Ask the server itself for the tasks that it keeps for you, recorded or not
    #[arg(long, requires = "server")]
    remote: bool,
}

/// Tasks that are listed.
const LIMIT: usize = 100;
/// Tasks among which an id is looked for.
const SEARCHED: usize = 10_000;

pub(crate) async fn run(args: &TasksArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        None => list(app, &args.list, output).await,
        Some(TasksCommand::List(args)) => list(app, args, output).await,
        Some(TasksCommand::Show { id }) => show(app, id, output).await,
        Some(TasksCommand::Wait { id, answer }) => result::wait(app, id, answer, output).await,
        Some(TasksCommand::Result { id }) => result::print(app, id, output).await,
        Some(TasksCommand::Cancel { id }) => cancel::run(app, id, output).await,
    }
}

async fn list(app: &App, args: &ListArgs, output: &mut Output) -> Result<ExitCode, Report> {
    if let (true, Some(server)) = (args.remote, &args.server) {
        return remote::list(app, server, output).await;
    }
    let server = args.server.clone().or_else(|| app.reach.by_name.clone());
    let empty = if server.is_some() { "no task of this server is recorded" } else { "no tasks recorded" };
    let filter = TaskFilter { server, limit: LIMIT, ..TaskFilter::default() };
    let tasks = app.settled_records()?.tasks(filter).await?;
    output.listing(&tasks, &Listing { empty, ..LISTING });
    Ok(ExitCode::Ok)
}

async fn show(app: &App, id: &str, output: &mut Output) -> Result<ExitCode, Report> {
    let task = find(&*app.settled_records()?, id).await?;
    if output.format != Format::Human {
        output.json(&Raw::of(&view(&task)));
        return Ok(ExitCode::Ok);
    }
    let duration = |micros: i64| format!("{} s", micros as f64 / 1_000_000.0);
    let rows = [
        ("id", Some(task.id.to_string())),
        ("status", Some(task.status.to_string())),
        ("message", task.message.as_ref().map(ToString::to_string)),
        ("progress", task.progress.map(share)),
        ("tool", Some(task.tool.clone())),
        ("server", Some(task.server.clone())),
        ("caller", Some(task.caller.clone())),
        ("conversation", task.conversation.clone()),
        ("created", Some(output.clock().full(task.created_at))),
        ("updated", Some(output.clock().full(task.updated_at))),
        ("kept for", task.ttl.map(duration)),
        ("polled every", task.poll_interval.map(duration)),
        (
            "followed",
            task.status.is_open().then(|| if task.process.is_some() { "yes" } else { "by no process" }.to_owned()),
        ),
    ];
    let indent = " ".repeat(LABEL);
    for (label, text) in rows.into_iter().filter_map(|(label, text)| Some((label, text?))) {
        output.print_wrapped_entry(&format!("{label:<LABEL$}"), &text, &indent);
    }
    Ok(ExitCode::Ok)
}

/// Columns of a label.
const LABEL: usize = 14;

/// The task of an id, of the beginning or end of one, or the last one.
async fn find(records: &dyn Records, id: &str) -> Result<TaskRow, Report> {
    let limit = if id == "last" { 1 } else { SEARCHED };
    let tasks = records.tasks(TaskFilter { limit, ..TaskFilter::default() }).await?;
    let mut found = match id {
        "last" => tasks,
        id => record_id::select(tasks, id, |task: &TaskRow| task.id.to_string()),
    };
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let message = format!("no recorded task has the id `{id}`");
            Err(Report::usage("unknown_task", message).hint("list them with `toolway tasks`"))
        }
        _ => {
            let ids: Vec<String> = found.iter().map(|task| task.id.to_string()).collect();
            Err(record_id::ambiguous("unknown_task", "tasks", id, &ids))
        }
    }
}

const LISTING: Listing<'_, TaskRow, 6> = Listing {
    empty: "",
    headings: ["CREATED", "STATUS", "PROGRESS", "CALLER", "TOOL", "ID"],
    row: line,
    id: |task| task.id.to_string(),
    view,
};

fn line(task: &TaskRow, clock: Clock) -> [String; 6] {
    let message = task.message.as_ref().map(ToString::to_string).unwrap_or_default();
    let progress = match task.progress {
        Some(progress) => format!("{} {message}", share(progress)),
        None => message,
    };
    let progress = if progress.trim().is_empty() { "–".to_owned() } else { progress };
    let id = record_id::short(&task.id);
    [clock.brief(task.created_at), task.status.to_string(), progress, task.caller.clone(), task.tool.clone(), id]
}

/// How far a task is, for the user.
fn share(progress: TaskProgress) -> String {
    match progress.total {
        Some(total) => format!("{}/{total}", progress.done),
        None => progress.done.to_string(),
    }
}

/// A task as scripts see it.
fn view(task: &TaskRow) -> Value {
    let progress = task.progress.map(|progress| json!({ "done": progress.done, "total": progress.total }));
    let millis = |micros: Option<i64>| micros.map(|micros| micros / 1_000);
    json!({
        "id": task.id.to_string(),
        "call": task.id.to_string(),
        "server": task.server,
        "tool": task.tool,
        "caller": task.caller,
        "conversation": task.conversation,
        "status": task.status.as_str(),
        "message": task.message.as_ref().map(ToString::to_string),
        "progress": progress,
        "createdAt": time::rfc3339(task.created_at),
        "updatedAt": time::rfc3339(task.updated_at),
        "ttlMs": millis(task.ttl),
        "pollIntervalMs": millis(task.poll_interval),
    })
}
