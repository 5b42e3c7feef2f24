//! Tools that can run as tasks.

use std::time::Duration;

use serde_json::{Value, json};
use toolway_wire::{
    down::{self, Caller},
    exchange::{self, Exchange, ExchangeTimeouts, Feed, Handover, Outcome, Request},
    json::Raw,
    message::RpcError,
};

use super::{ConformanceServer, UNREAD, content, schemas, server_requests, tools};

/// Whether a tool can run as a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Support {
    /// As a task or directly.
    Optional,
    /// As a task only.
    Required,
}

/// Tools that can run as a task: name, description and support.
const TOOLS: [(&str, &str, Support); 7] = [
    ("slow_compute", "Takes the time it is told to take", Support::Optional),
    ("long_job", "Says what it does, and takes the time it is told to take", Support::Required),
    ("failing_job", "Says that it failed", Support::Required),
    ("protocol_error_job", "Ends with an error", Support::Required),
    ("confirm_delete", "Asks before it deletes", Support::Optional),
    ("multi_input", "Asks two things at once", Support::Optional),
    ("test_tool_with_task", "Asks for a name before it becomes a task", Support::Required),
];

/// Duration of a job.
const JOB: Duration = Duration::from_millis(500);
/// Maximum duration in seconds.
const LONGEST: f64 = 600.0;

/// Entries of these tools in the list.
pub(super) fn list() -> impl Iterator<Item = Value> {
    TOOLS.into_iter().map(|(name, description, support)| {
        let support = if support == Support::Required { "required" } else { "optional" };
        json!({
            "name": name,
            "description": description,
            "inputSchema": schema_of(name).unwrap_or_else(schemas::nothing),
            "execution": { "taskSupport": support },
        })
    })
}

fn schema_of(tool: &str) -> Option<Value> {
    match tool {
        "slow_compute" | "long_job" => Some(json!({
            "type": "object",
            "properties": { "seconds": { "type": "number" }, "label": { "type": "string" } },
        })),
        "confirm_delete" => Some(schemas::one("filename", "What to delete")),
        _ => None,
    }
}

/// Calls a tool: directly, or as a task if both sides support it.
pub(super) async fn call(server: &ConformanceServer, request: &Request, caller: &Caller, feed: &Feed) -> Outcome {
    let name = tools::name_of(request);
    let support = TOOLS.into_iter().find(|(tool, ..)| *tool == name).map(|(_, _, support)| support);
    let keeps = match (support, request.handover) {
        (None, _) => return tools::call(server, request, feed).await,
        (Some(Support::Required), Handover::Never) => return Outcome::Refused(down::tasks_not_declared()),
        (Some(Support::Optional), Handover::Never) => return ended(run(server, &name, request, None, feed).await),
        (Some(_), Handover::Allowed) => None,
        (Some(_), Handover::Wanted(keeps)) => keeps,
    };
    let gathered = match gather(&name, request, feed).await {
        Ok(gathered) => gathered,
        Err(error) => return Outcome::Refused(error),
    };
    let work = start(server.clone(), name, request.clone(), gathered);
    match server.shared.tasks.start(work, keeps, caller) {
        Ok(task) => Outcome::HandedOff(Box::new(task)),
        Err(error) => Outcome::Refused(error),
    }
}

/// Input that a tool requests before it becomes a task.
async fn gather(name: &str, request: &Request, feed: &Feed) -> Result<Option<String>, RpcError> {
    if name != "test_tool_with_task" {
        return Ok(None);
    }
    let asked = server_requests::form("user_name", "What is your name?", "name", "string");
    let answer = server_requests::send(asked, request, feed).await?;
    Ok(Some(server_requests::field(&answer, "name")))
}

/// Starts the work of a task as an exchange without a caller.
fn start(server: ConformanceServer, name: String, request: Request, gathered: Option<String>) -> Exchange {
    let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), UNREAD);
    // The task ends with its exchange when it is cancelled.
    tokio::runtime::Handle::current().spawn(async move {
        let outcome = tokio::select! {
            answer = run(&server, &name, &request, gathered, &feed) => ended(answer),
            () = feed.cancelled() => Outcome::Cancelled,
        };
        feed.end(outcome);
    });
    exchange
}

fn ended(answer: Result<Raw, RpcError>) -> Outcome {
    answer.map_or_else(Outcome::Refused, Outcome::Answered)
}

async fn run(
    server: &ConformanceServer,
    name: &str,
    request: &Request,
    gathered: Option<String>,
    feed: &Feed,
) -> Result<Raw, RpcError> {
    match name {
        "slow_compute" => Ok(compute(request).await),
        "long_job" => {
            write_effect(server, "start", request)?;
            feed.progress(Raw::of(&json!({ "progress": 1, "message": "mixing the paint" })));
            let result = compute(request).await;
            write_effect(server, "end", request)?;
            Ok(result)
        }
        "failing_job" => {
            tokio::time::sleep(JOB).await;
            Ok(content::error_result("The job failed."))
        }
        "confirm_delete" => {
            let file = tools::argument(request, "filename");
            let asked = server_requests::form("confirm", &format!("Delete {file}?"), "confirm", "boolean");
            let answer = server_requests::send(asked, request, feed).await?;
            Ok(content::text_result(&format!("{file}: {}", server_requests::describe(&answer))))
        }
        "multi_input" => {
            let asked = |key| server_requests::form(key, "What is your name?", "name", "string");
            let [one, other] = server_requests::send_all([asked("first"), asked("second")], request, feed).await;
            Ok(content::text_result(&format!(
                "{} and {}",
                server_requests::field(&one?, "name"),
                server_requests::field(&other?, "name")
            )))
        }
        "test_tool_with_task" => {
            tokio::time::sleep(JOB).await;
            Ok(content::text_result(&format!("Hello, {}!", gathered.unwrap_or_else(|| "unknown".to_owned()))))
        }
        _ => {
            tokio::time::sleep(JOB).await;
            Err(RpcError::new(RpcError::INTERNAL, "the job cannot go on"))
        }
    }
}

/// Takes the time that the request says.
async fn compute(request: &Request) -> Raw {
    let seconds = request.param("arguments").and_then(|arguments| arguments.get("seconds"));
    let seconds = seconds.and_then(|seconds| seconds.as_f64()).unwrap_or_default().clamp(0.0, LONGEST);
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    content::text_result(&format!("Computed for {seconds} seconds."))
}

/// Writes what a job did, if the server has a file for it.
fn write_effect(server: &ConformanceServer, what: &str, request: &Request) -> Result<(), RpcError> {
    let Some(effects) = &server.shared.effects else { return Ok(()) };
    let written = effects.write(&format!("{what} {}", tools::argument(request, "label")));
    written.map_err(|error| RpcError::new(RpcError::INTERNAL, &format!("the effect cannot be written: {error}")))
}
