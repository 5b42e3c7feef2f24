//! Waits for a task, and prints its result as `toolway call` does.

use std::{sync::Arc, time::Duration};

use toolway_host::{
    connection::Lists,
    record::{CallBody, Records},
    task::{TaskRow, TaskStatus},
};
use toolway_wire::{json::Raw, message::result::CallResult};
use uuid::Uuid;

use super::{find, share};
use crate::{
    app::App, commands::call, exit_code::ExitCode, gateway_inbox::WaitSetting, output::Output, report::Report,
    terminal::given::AnswerArgs,
};

/// Time between two looks at the row of a task.
const LOOK: Duration = Duration::from_millis(250);

pub(super) async fn print(app: &App, id: &str, output: &mut Output) -> Result<ExitCode, Report> {
    let records = app.settled_records()?;
    let task = find(&*records, id).await?;
    if task.status.is_open() {
        let message = format!("task `{}` is still {}", task.id, task.status);
        return Err(Report::usage("not_ended", message).hint(format!("wait for it with `toolway tasks wait {id}`")));
    }
    show(&*records, &task, output).await
}

pub(super) async fn wait(app: &App, id: &str, answer: &AnswerArgs, output: &mut Output) -> Result<ExitCode, Report> {
    let records = app.settled_records()?;
    let task = find(&*records, id).await?;
    let task = match until_ended(app, &*records, task.id, output).await? {
        Waited::Ended(task) => task,
        Waited::Unfollowed(task) => follow(app, &*records, &task, answer, output).await?,
    };
    show(&*records, &task, output).await
}

/// Why the wait is over.
enum Waited {
    Ended(Box<TaskRow>),
    /// No process follows it.
    Unfollowed(Box<TaskRow>),
}

/// Waits until the task has ended, or is followed by no process.
async fn until_ended(app: &App, records: &dyn Records, id: Uuid, output: &mut Output) -> Result<Waited, Report> {
    let mut shown = None;
    loop {
        let task = Box::new(records.task(id).await?.ok_or_else(|| removed(id))?);
        match (task.status.is_open(), task.process) {
            (false, _) => return Ok(Waited::Ended(task)),
            (true, None) => return Ok(Waited::Unfollowed(task)),
            (true, Some(_)) => {}
        }
        let line = task
            .progress
            .map(share)
            .into_iter()
            .chain(task.message.as_ref().map(ToString::to_string))
            .collect::<Vec<_>>()
            .join(" ");
        if shown.as_ref() != Some(&line) && !line.is_empty() {
            output.progress(&line);
            shown = Some(line);
        }
        app.stop.or(tokio::time::sleep(LOOK)).await?;
    }
}

/// Follows a task over a connection of this command.
async fn follow(
    app: &App,
    records: &dyn Records,
    task: &TaskRow,
    answer: &AnswerArgs,
    output: &mut Output,
) -> Result<Box<TaskRow>, Report> {
    let target = app.target(&mut vec![task.server.clone()], output)?;
    let setting = WaitSetting::of(target.settings.inbox_wait.value);
    let answerer = Arc::new(app.command_answerer(answer, setting).await?);
    let id = task.id;
    app.with_answered_server(target, Lists::Ignored, answerer, output, async |single, output| {
        loop {
            let adopted = single.host.adopt_task(id).await?;
            match until_ended(app, records, id, output).await? {
                Waited::Ended(task) => return Ok(task),
                // Another process had it for a moment.
                Waited::Unfollowed(_) if adopted => app.stop.or(tokio::time::sleep(LOOK)).await?,
                Waited::Unfollowed(task) => {
                    let message = format!("task `{id}` of server `{}` cannot be followed here", task.server);
                    let report = Report::new(ExitCode::Unreachable, "task", message);
                    return Err(report.hint("a task of the gateway may need the gateway: start `toolway serve`"));
                }
            }
        }
    })
    .await
}

/// Prints the result of a task that has ended.
async fn show(records: &dyn Records, task: &TaskRow, output: &mut Output) -> Result<ExitCode, Report> {
    let call = records.call(task.id).await?.ok_or_else(|| removed(task.id))?;
    let why = call.row.error.clone().or_else(|| task.message.as_ref().map(ToString::to_string)).unwrap_or_default();
    match task.status {
        TaskStatus::Completed => {}
        TaskStatus::Cancelled => {
            return Err(Report::new(ExitCode::Unreachable, "cancelled", format!("task `{}` was cancelled", task.id)));
        }
        TaskStatus::Lost => {
            let message = format!("task `{}` is lost: {why}", task.id);
            return Err(Report::new(ExitCode::Unreachable, "task_lost", message));
        }
        TaskStatus::Failed | TaskStatus::Working | TaskStatus::InputRequired => {
            return Err(Report::new(ExitCode::Protocol, "server_error", format!("task `{}` failed: {why}", task.id)));
        }
    }
    let result = kept(&call.body).ok_or_else(|| {
        let report =
            Report::new(ExitCode::Internal, "not_kept", format!("the result of task `{}` is not kept", task.id));
        report.hint("`store.bodies` and `store.maxBytes` in the configuration decide what is kept")
    })?;
    let result = CallResult::view(&result);
    call::show(&result, None, &task.tool, output)?;
    if result.is_error { Err(Report::tool_error(&task.tool)) } else { Ok(ExitCode::Ok) }
}

/// The result, unless only the reason is kept why it is not.
fn kept(body: &CallBody) -> Option<Raw> {
    let result = Raw::parse(body.result.clone()?).ok()?;
    let omitted = result.get("toolway").and_then(|ours| ours.get("notKept"));
    omitted.is_none().then_some(result)
}

fn removed(id: Uuid) -> Report {
    Report::usage("unknown_task", format!("task `{id}` was removed from the store meanwhile"))
}
