//! Cancels a task: through the gateway that follows it, or at its server.

use std::{sync::Arc, time::Duration};

use toolway_gateway::control::ControlRequest;
use toolway_host::{
    call::{Caller, CallerContext, TaskOperation},
    connection::Lists,
    record::Records,
    task::{KeptBy, TaskRow},
};
use uuid::Uuid;

use super::find;
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
    terminal::given::{AnswerArgs, CommandAnswerer},
};

/// Time between two looks at the row of a task.
const LOOK: Duration = Duration::from_millis(100);
/// How long the process that follows a task may take to write its end.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(app: &App, id: &str, output: &mut Output) -> Result<ExitCode, Report> {
    let records = app.settled_records()?;
    let task = find(&*records, id).await?;
    if !task.status.is_open() {
        let message = format!("task `{}` has ended: {}", task.id, task.status);
        return Err(Report::usage("ended", message).hint(format!("`toolway tasks result {id}` prints its result")));
    }
    let order = ControlRequest::CancelTask { id: task.id.to_string() };
    let by_gateway =
        app.ask_gateway_of_configuration(&order).await?.is_some_and(|reply| reply.value["cancelled"] == true);
    match (by_gateway, task.kept_by) {
        (true, _) => {}
        (false, KeptBy::Server) => at_server(app, &task, output).await?,
        (false, KeptBy::Process) => {
            let message = format!("task `{}` belongs to another command, which has started its server", task.id);
            return Err(Report::usage("not_followed", message).hint("end that command; its task ends with it"));
        }
    }
    let task = ended(app, &*records, task.id).await?;
    match output.format {
        Format::Human => output.line(&format!("{}: {}", task.id, task.status)),
        Format::Raw => output.content(format!("{}\n", task.status).as_bytes()),
        Format::Json | Format::Ndjson => output.json(&toolway_wire::json::Raw::of(&super::view(&task))),
    }
    Ok(ExitCode::Ok)
}

/// Cancels a task at its server, over a connection of this command.
async fn at_server(app: &App, task: &TaskRow, output: &mut Output) -> Result<(), Report> {
    let target = app.target(&mut vec![task.server.clone()], output)?;
    let answerer = Arc::new(CommandAnswerer::new(&AnswerArgs::default(), &app.environment)?);
    let id = task.id;
    app.with_answered_server(target, Lists::Ignored, answerer, output, async |single, _| {
        if single.host.adopt_task(id).await? {
            single.host.cancel_task(id);
            while single.host.follows_task(id) {
                app.stop.or(tokio::time::sleep(LOOK)).await?;
            }
            return Ok(());
        }
        // Another command follows it, and sees at the server that it is cancelled.
        let context = CallerContext::from(&Caller::Terminal);
        let remote = task.remote_id.as_str();
        let tasks = single.host.tasks_for(TaskOperation::Cancel, context, single.name(), Some(remote)).await;
        let tasks = tasks.map_err(|outcome| single.report(&outcome, "tasks/cancel"))?;
        let failed = |error: toolway_wire::task::TaskError| {
            Report::new(ExitCode::Protocol, "server_error", format!("the task cannot be cancelled: {error}"))
        };
        tasks.tasks().cancel(remote).await.map(drop).map_err(failed)
    })
    .await
}

/// Waits until the end of the task is written.
async fn ended(app: &App, records: &dyn Records, id: Uuid) -> Result<TaskRow, Report> {
    let waiting = async {
        loop {
            match records.task(id).await? {
                Some(task) if task.status.is_open() => app.stop.or(tokio::time::sleep(LOOK)).await?,
                Some(task) => return Ok(task),
                None => return Err(Report::usage("unknown_task", format!("task `{id}` was removed meanwhile"))),
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| {
        let message = format!("task `{id}` was cancelled at its server, which still works on it after {PATIENCE:?}");
        Err(Report::new(ExitCode::Unreachable, "not_ended", message))
    })
}
