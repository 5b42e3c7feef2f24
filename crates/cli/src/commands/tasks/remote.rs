//! The tasks that a server keeps, as it lists them.

use serde_json::{Value, json};
use toolway_host::{
    call::{Caller, CallerContext, TaskOperation},
    connection::Lists,
};
use toolway_wire::task::{Task, TaskError};

use crate::{
    app::App,
    clock::Clock,
    exit_code::ExitCode,
    output::{Listing, Output},
    report::Report,
};

/// Pages that are read at most.
const MAX_PAGES: usize = 100;

pub(super) async fn list(app: &App, server: &str, output: &mut Output) -> Result<ExitCode, Report> {
    let target = app.target(&mut vec![server.to_owned()], output)?;
    app.with_server(target, Lists::Ignored, output, async |single, output| {
        let context = CallerContext::from(&Caller::Terminal);
        let tasks = single.host.tasks_for(TaskOperation::List, context, single.name(), None).await;
        let tasks = tasks.map_err(|outcome| single.report(&outcome, "tasks/list"))?;
        let mut found: Vec<Task> = Vec::new();
        let mut next = None;
        for _ in 0..MAX_PAGES {
            let page = app.stop.or(tasks.tasks().list(next.take())).await?.map_err(|error| failed(&error))?;
            found.extend(page.tasks);
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        output.listing(&found, &LISTING);
        Ok(ExitCode::Ok)
    })
    .await
}

const LISTING: Listing<'_, Task, 4> = Listing {
    empty: "the server keeps no tasks for you",
    headings: ["CREATED", "STATUS", "MESSAGE", "ID AT THE SERVER"],
    row: line,
    id: |task| task.id.clone(),
    view,
};

fn line(task: &Task, _clock: Clock) -> [String; 4] {
    let message = task.message.clone().unwrap_or_else(|| "–".to_owned());
    [task.created.clone(), task.status.to_string().replace('_', "-"), message, task.id.clone()]
}

fn view(task: &Task) -> Value {
    json!({
        "id": task.id,
        "status": task.status.as_str().replace('_', "-"),
        "message": task.message,
        "createdAt": task.created,
        "updatedAt": task.updated,
    })
}

fn failed(error: &TaskError) -> Report {
    let report =
        Report::new(ExitCode::Protocol, "server_error", format!("the server does not list its tasks: {error}"));
    report.hint("servers of revision 2026-07-28 have no list; `toolway tasks` has those that are recorded")
}
