//! Calls that go on as tasks, and the tools that can.

use std::time::Duration;

use serde_json::{Value, json};
use toolway_wire::{
    down::{self, Caller},
    exchange::{self, Exchange, Feed, Handover, Outcome, Request, Terms},
    json::Raw,
    message::RpcError,
};

use super::{ConformanceServer, UNREAD, asking, content, schemas, tools};

/// Whether a tool can run as a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Support {
    /// It can.
    Optional,
    /// It runs in no other way.
    Required,
}

/// The tools that can run as a task: what they do, and whether they have to.
const TOOLS: [(&str, &str, Support); 6] = [
    ("slow_compute", "Takes the time it is told to take", Support::Optional),
    ("failing_job", "Says that it failed", Support::Required),
    ("protocol_error_job", "Ends with an error", Support::Required),
    ("confirm_delete", "Asks before it deletes", Support::Optional),
    ("multi_input", "Asks two things at once", Support::Optional),
    ("test_tool_with_task", "Asks for a name before it becomes a task", Support::Required),
];

/// How long a job takes that does nothing else.
const JOB: Duration = Duration::from_millis(500);
/// No job takes longer.
const LONGEST: f64 = 600.0;

/// The tools of this file, as they are listed.
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
        "slow_compute" => Some(json!({
            "type": "object",
            "properties": { "seconds": { "type": "number" }, "label": { "type": "string" } },
        })),
        "confirm_delete" => Some(schemas::one("filename", "What to delete")),
        _ => None,
    }
}

/// Calls a tool: at once, or as a task where both sides can.
pub(super) async fn call(server: &ConformanceServer, request: &Request, caller: &Caller, feed: &Feed) -> Outcome {
    let name = tools::name_of(request);
    let support = TOOLS.into_iter().find(|(tool, ..)| *tool == name).map(|(_, _, support)| support);
    let keeps = match (support, request.handover) {
        (None, _) => return tools::call(server, request, feed).await,
        (Some(Support::Required), Handover::Never) => return Outcome::Refused(down::tasks_undeclared()),
        (Some(Support::Optional), Handover::Never) => return ended(run(&name, request, None, feed).await),
        (Some(_), Handover::Allowed) => None,
        (Some(_), Handover::Wanted(keeps)) => keeps,
    };
    let gathered = match gather(&name, request, feed).await {
        Ok(gathered) => gathered,
        Err(error) => return Outcome::Refused(error),
    };
    let work = start(name, request.clone(), gathered);
    match server.shared.tasks.keep(work, keeps, caller) {
        Ok(task) => Outcome::HandedOff(Box::new(task)),
        Err(error) => Outcome::Refused(error),
    }
}

/// What a tool wants to know before it becomes a task.
async fn gather(name: &str, request: &Request, feed: &Feed) -> Result<Option<String>, RpcError> {
    if name != "test_tool_with_task" {
        return Ok(None);
    }
    let asked = asking::form("user_name", "What is your name?", "name", "string");
    let answer = asking::put(asked, request, feed).await?;
    Ok(Some(asking::field(&answer, "name")))
}

/// The work of a task, as an exchange without a caller.
fn start(name: String, request: Request, gathered: Option<String>) -> Exchange {
    let (exchange, feed) = exchange::pair(Terms::unbounded(), UNREAD);
    // It ends with its exchange: when the task is cancelled, so is the work.
    tokio::runtime::Handle::current().spawn(async move {
        let outcome = tokio::select! {
            answer = run(&name, &request, gathered, &feed) => ended(answer),
            () = feed.cancelled() => Outcome::Cancelled,
        };
        feed.end(outcome);
    });
    exchange
}

fn ended(answer: Result<Raw, RpcError>) -> Outcome {
    answer.map_or_else(Outcome::Refused, Outcome::Answered)
}

async fn run(name: &str, request: &Request, gathered: Option<String>, feed: &Feed) -> Result<Raw, RpcError> {
    match name {
        "slow_compute" => {
            let seconds = request.param("arguments").and_then(|arguments| arguments.get("seconds"));
            let seconds = seconds.and_then(|seconds| seconds.as_f64()).unwrap_or_default().clamp(0.0, LONGEST);
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            Ok(content::said(&format!("Computed for {seconds} seconds.")))
        }
        "failing_job" => {
            tokio::time::sleep(JOB).await;
            Ok(content::failed("The job failed."))
        }
        "confirm_delete" => {
            let file = tools::argument(request, "filename");
            let asked = asking::form("confirm", &format!("Delete {file}?"), "confirm", "boolean");
            let answer = asking::put(asked, request, feed).await?;
            Ok(content::said(&format!("{file}: {}", asking::told(&answer))))
        }
        "multi_input" => {
            let asked = |key| asking::form(key, "What is your name?", "name", "string");
            let [one, other] = asking::put_all([asked("first"), asked("second")], request, feed).await;
            Ok(content::said(&format!("{} and {}", asking::field(&one?, "name"), asking::field(&other?, "name"))))
        }
        "test_tool_with_task" => {
            tokio::time::sleep(JOB).await;
            Ok(content::said(&format!("Hello, {}!", gathered.unwrap_or_else(|| "nobody".to_owned()))))
        }
        _ => {
            tokio::time::sleep(JOB).await;
            Err(RpcError::new(RpcError::INTERNAL, "the job cannot go on"))
        }
    }
}
