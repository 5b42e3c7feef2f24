//! Wire formats of tasks: the core tasks of 2025-11-25, and the extension.

use std::{borrow::Cow, time::Duration};

use serde_json::{Map, Value, json};

use super::{Task, TaskContent, TaskPage, TaskStatus};
use crate::{
    exchange::{Cause, ServerRequestDetails, ServerRequestId},
    json::{JsonKind, Raw},
    message::{
        RpcError, meta,
        result::CallResult,
        splice::{self, Edit},
    },
    time,
};

/// Legacy task object: without content; a tool result with `isError` counts as failed.
pub(crate) fn legacy(task: &Task) -> Raw {
    let failed = matches!(&task.content, TaskContent::Result(result) if CallResult::view(result).is_error);
    let status = if failed { TaskStatus::Failed } else { task.status };
    Raw::of(&Value::Object(members(task, status, ["ttl", "pollInterval"])))
}

/// Legacy result of a call that became a task.
pub(crate) fn legacy_created(task: &Task) -> Raw {
    splice::object([("task", &legacy(task))])
}

/// Legacy page of tasks.
pub(crate) fn legacy_page(page: &TaskPage) -> Raw {
    let tasks: Vec<String> = page.tasks.iter().map(|task| legacy(task).to_string()).collect();
    let tasks = Raw::checked(format!("[{}]", tasks.join(",")).into());
    splice::object([("tasks", &tasks)].into_iter().chain(page.next.iter().map(|next| ("nextCursor", next))))
}

/// Extension result of a call that became a task.
pub(crate) fn modern(task: &Task) -> Raw {
    let mut members = members(task, task.status, ["ttlMs", "pollIntervalMs"]);
    members.insert("resultType".to_owned(), "task".into());
    Raw::of(&Value::Object(members))
}

/// Extension task object with content.
pub(crate) fn modern_whole(task: &Task) -> Raw {
    let members = Raw::of(&Value::Object(members(task, task.status, ["ttlMs", "pollIntervalMs"])));
    match &task.content {
        TaskContent::Nothing => members,
        TaskContent::Requests(requests) => {
            splice::edited(&members, &[Edit::Set("inputRequests", input_requests(requests))])
        }
        TaskContent::Result(result) => splice::edited(&members, &[Edit::Set("result", meta::without_hop_keys(result))]),
        TaskContent::Error(error) => splice::edited(&members, &[Edit::Set("error", error.raw().clone())]),
    }
}

/// Parses a task of either era, flat or under `task`; `None` if its id or status is missing or invalid.
pub(crate) fn read(result: &Raw) -> Option<Task> {
    let nested = result.get("task").filter(|task| task.kind() == JsonKind::Object);
    let task = nested.as_ref().unwrap_or(result);
    let text = |key| task.get(key).as_ref().and_then(Raw::as_str).map(Cow::into_owned);
    let millis = |keys: [&str; 2]| keys.iter().find_map(|key| task.get(key)).and_then(|value| value.as_u64());
    let status = text("status")?.parse().ok()?;
    Some(Task {
        id: text("taskId")?,
        status,
        message: text("statusMessage"),
        created: text("createdAt").unwrap_or_else(time::rfc3339_now),
        updated: text("lastUpdatedAt").unwrap_or_else(time::rfc3339_now),
        ttl: millis(["ttlMs", "ttl"]).map(Duration::from_millis),
        poll_interval: millis(["pollIntervalMs", "pollInterval"]).map(Duration::from_millis),
        content: content(task, status),
        raw: result.clone(),
    })
}

/// Parses a legacy page of tasks, at most `most` of them.
pub(crate) fn read_page(result: &Raw, most: usize) -> TaskPage {
    let tasks = result.get("tasks").map(|tasks| tasks.elements_within(most)).unwrap_or_default();
    let next = result.get("nextCursor").filter(|next| next.kind() == JsonKind::String);
    TaskPage { tasks: tasks.iter().take(most).filter_map(read).collect(), next }
}

fn content(task: &Raw, status: TaskStatus) -> TaskContent {
    let content = match status {
        TaskStatus::Completed => task.get("result").map(TaskContent::Result),
        TaskStatus::Failed => task.get("error").map(|error| TaskContent::Error(RpcError::from_raw(error))),
        TaskStatus::InputRequired => {
            task.get("inputRequests").map(|requests| TaskContent::Requests(read_requests(&requests)))
        }
        TaskStatus::Working | TaskStatus::Cancelled => None,
    };
    content.unwrap_or(TaskContent::Nothing)
}

/// Parses `inputRequests` of the extension.
fn read_requests(requests: &Raw) -> Vec<ServerRequestDetails> {
    let details = |(number, member): (u64, crate::json::Member)| ServerRequestDetails {
        id: ServerRequestId(number),
        key: Some(member.key),
        method: member.value.get("method").as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned(),
        params: member.value.get("params"),
        cause: Cause::Request,
    };
    (0..).zip(requests.members()).map(details).collect()
}

/// `inputRequests` of these server requests: without members that exist only in sessions, otherwise byte for byte.
fn input_requests(requests: &[ServerRequestDetails]) -> Raw {
    let encode = |details: &ServerRequestDetails| {
        let method = Raw::of(&details.method);
        let edits = [Edit::Remove("task")];
        let params = details.params.as_ref().map(|it| splice::edited(&meta::without_hop_keys(it), &edits));
        splice::object([("method", &method)].into_iter().chain(params.iter().map(|it| ("params", it))))
    };
    let encoded: Vec<(&str, Raw)> =
        requests.iter().map(|details| (details.key.as_deref().unwrap_or_default(), encode(details))).collect();
    splice::object(encoded.iter().map(|(key, request)| (*key, request)))
}

fn members(task: &Task, status: TaskStatus, [ttl, poll]: [&str; 2]) -> Map<String, Value> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut members = Map::from_iter([
        ("taskId".to_owned(), task.id.clone().into()),
        ("status".to_owned(), status.as_str().into()),
        ("createdAt".to_owned(), task.created.clone().into()),
        ("lastUpdatedAt".to_owned(), task.updated.clone().into()),
        (ttl.to_owned(), json!(task.ttl.map(millis))),
    ]);
    if let Some(interval) = task.poll_interval {
        members.insert(poll.to_owned(), millis(interval).into());
    }
    if let Some(message) = &task.message {
        members.insert("statusMessage".to_owned(), message.clone().into());
    }
    members
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Task, TaskContent, TaskStatus, legacy, legacy_created, modern, modern_whole, read};
    use crate::json::Raw;

    fn task(status: TaskStatus, content: TaskContent) -> Task {
        let made = json!({ "taskId": "t", "status": status.as_str(), "createdAt": "a", "lastUpdatedAt": "b",
            "ttlMs": 60000, "pollIntervalMs": 1000, "statusMessage": "half way" });
        Task { content, ..read(&Raw::of(&made)).unwrap() }
    }

    fn value(raw: &Raw) -> Value {
        raw.read().unwrap()
    }

    #[test]
    fn new_task_is_encoded_per_era() {
        let task = task(TaskStatus::Working, TaskContent::Nothing);
        assert_eq!(
            value(&legacy_created(&task)),
            json!({ "task": { "taskId": "t", "status": "working", "createdAt": "a", "lastUpdatedAt": "b",
                "ttl": 60000, "pollInterval": 1000, "statusMessage": "half way" } })
        );
        assert_eq!(
            value(&modern(&task)),
            json!({ "resultType": "task", "taskId": "t", "status": "working", "createdAt": "a", "lastUpdatedAt": "b",
                "ttlMs": 60000, "pollIntervalMs": 1000, "statusMessage": "half way" })
        );
        let forever = Task { ttl: None, ..task };
        assert_eq!(value(&modern(&forever))["ttlMs"], Value::Null);
    }

    #[test]
    fn failed_tool_fails_its_task_only_in_legacy() {
        let result = Raw::parse(r#"{"content":[],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{}}}"#);
        let task = task(TaskStatus::Completed, TaskContent::Result(result.unwrap()));
        assert_eq!(value(&legacy(&task))["status"], "failed");
        let whole = value(&modern_whole(&task));
        assert_eq!(whole["status"], "completed");
        assert_eq!(whole["result"], json!({ "content": [], "isError": true }), "hop keys are removed");
    }

    #[test]
    fn server_requests_of_a_task_round_trip() {
        let asks = json!({ "k": { "method": "roots/list", "params": { "x": 1.50 } } });
        let whole = json!({ "taskId": "t", "status": "input_required", "ttlMs": null, "inputRequests": asks });
        let task = read(&Raw::of(&whole)).unwrap();
        assert_eq!(task.ttl, None);
        let TaskContent::Requests(questions) = &task.content else { panic!("{task:?}") };
        assert_eq!((questions[0].key.as_deref(), questions[0].method.as_str()), (Some("k"), "roots/list"));
        assert_eq!(value(&modern_whole(&task))["inputRequests"], asks);
        assert!(read(&Raw::of(&json!({ "taskId": "t", "status": "odd" }))).is_none());
        assert!(read(&Raw::of(&json!({ "status": "working" }))).is_none());
    }
}
