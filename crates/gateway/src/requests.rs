//! `/requests`: forms and URLs of servers in the calls of a client that cannot be asked over its MCP connection.
//!
//! A client sees and answers the items of its own calls only. Approval requests are answered by the operator, never here.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolway_host::{
    Host,
    call::Caller,
    inbox::{AnswerError, ElicitationAnswer, FormField, InboxAnswer, InboxContent, InboxItem},
};
use toolway_wire::{
    budget::MemoryBudget,
    down::http::{Incoming, ResponseBody},
    time::rfc3339_of,
};

use crate::{
    access::Client,
    reply,
    small_body::{self, Expected},
};

/// Longest time that a request waits for an item.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Requests of all clients that wait at the same time; further ones are answered at once.
const MAX_WAITING: usize = 256;
/// Requests of one client that wait at the same time; further ones are answered at once.
const MAX_WAITING_OF_CLIENT: usize = 16;
/// An answer.
const EXPECTED: Expected = Expected {
    what: "answer",
    most: 1024 * 1024,
    form: r#"{"action": "accept", "content": {…}}, "decline" or "cancel""#,
};

/// The requests that wait for an item.
#[derive(Debug, Default)]
pub(crate) struct RequestPolls {
    // Nothing awaits under this lock.
    /// How many of each client.
    waiting: Mutex<BTreeMap<Arc<str>, usize>>,
}

/// The place of a request that waits; free again on drop.
struct WaitingPlace<'a> {
    polls: &'a RequestPolls,
    client: &'a Arc<str>,
}

/// An answer of a client.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientAnswer {
    action: Action,
    #[serde(default)]
    content: Option<Map<String, Value>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    Cancel,
}

impl RequestPolls {
    /// The items of a client: at once if there are some, else when the first appears, or after `?wait=SECONDS` with none.
    pub(crate) async fn list(&self, host: &Host, client: &Client, query: Option<&str>) -> Response<ResponseBody> {
        let wait = match wait_of(query) {
            Ok(wait) => wait,
            Err(problem) => return reply::text(StatusCode::BAD_REQUEST, problem),
        };
        let mut changes = host.inbox().changes();
        let deadline = tokio::time::Instant::now() + wait;
        let place = self.place(&client.identity);
        loop {
            changes.mark_unchanged();
            let items = own_items(host, client);
            let is_over = place.is_none() || tokio::time::Instant::now() >= deadline;
            if !items.is_empty() || is_over {
                let items: Vec<Value> = items.iter().map(|item| view(item)).collect();
                return reply::json(StatusCode::OK, &json!({ "requests": items }));
            }
            // The inbox lives as long as the host; a change or the deadline ends the wait.
            let _ended = tokio::time::timeout_at(deadline, changes.changed()).await;
        }
    }

    /// A place to wait in; `None` if too many requests wait, of all clients or of this one.
    fn place<'a>(&'a self, client: &'a Arc<str>) -> Option<WaitingPlace<'a>> {
        let mut waiting = self.waiting.lock();
        if MAX_WAITING <= waiting.values().sum() {
            return None;
        }
        let of_client = waiting.entry(Arc::clone(client)).or_default();
        if MAX_WAITING_OF_CLIENT <= *of_client {
            return None;
        }
        *of_client += 1;
        Some(WaitingPlace { polls: self, client })
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        let mut waiting = self.polls.waiting.lock();
        if let Some(of_client) = waiting.get_mut(self.client) {
            *of_client -= 1;
            if *of_client == 0 {
                waiting.remove(self.client);
            }
        }
    }
}

/// Answers an item of a client. An item of another client, or an approval request, is as unknown as one that never existed.
/// The body is charged to `memory`.
pub(crate) async fn answer(
    host: &Host,
    client: &Client,
    id: &str,
    request: Request<Incoming>,
    memory: &MemoryBudget,
) -> Response<ResponseBody> {
    let unknown = || reply::text(StatusCode::NOT_FOUND, format!("no request `{id}` of this client is waiting"));
    let answer: ClientAnswer = match small_body::read(request, client, memory, &EXPECTED).await {
        Ok(answer) => answer,
        Err(refusal) => return *refusal,
    };
    let Some(item) = own_items(host, client).into_iter().find(|item| item.id == id) else { return unknown() };
    let answer = match answer.action {
        Action::Accept => ElicitationAnswer::Accept(answer.content.unwrap_or_default()),
        Action::Decline => ElicitationAnswer::Decline,
        Action::Cancel => ElicitationAnswer::Cancel,
    };
    match host.inbox().answer(&item.id, InboxAnswer::Elicitation(answer)) {
        Ok(()) => reply::json(StatusCode::OK, &json!({ "id": item.id })),
        Err(AnswerError::NotWaiting(_)) => unknown(),
        Err(error) => reply::text(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

/// The forms and URLs in calls of this client.
fn own_items(host: &Host, client: &Client) -> Vec<Arc<InboxItem>> {
    let caller = Caller::Client(Arc::clone(&client.name));
    let is_own = |item: &Arc<InboxItem>| {
        let is_answerable = matches!(item.content, InboxContent::Form { .. } | InboxContent::Url { .. });
        is_answerable && item.caller.as_ref() == Some(&caller)
    };
    host.inbox().list().into_iter().filter(is_own).collect()
}

fn wait_of(query: Option<&str>) -> Result<Duration, String> {
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(Duration::ZERO) };
    let seconds = query.strip_prefix("wait=").and_then(|seconds| seconds.parse().ok());
    let seconds = seconds.map(Duration::from_secs).ok_or_else(|| "only `wait=SECONDS` is known".to_owned())?;
    Ok(seconds.min(MAX_WAIT))
}

fn view(item: &InboxItem) -> Value {
    let mut view = json!({
        "id": item.id,
        "kind": item.content.kind(),
        "server": item.server.as_str(),
        "call": item.call.map(|call| call.to_string()),
        "createdAt": rfc3339_of(item.created_at),
        "expiresAt": rfc3339_of(item.expires_at),
    });
    match &item.content {
        InboxContent::Form { message, form } => {
            view["message"] = json!(message);
            view["fields"] = form.fields.iter().map(FormField::to_json).collect();
        }
        InboxContent::Url { message, url } => {
            view["message"] = json!(message);
            view["url"] = json!(url);
        }
        InboxContent::Approval(_) | InboxContent::Sampling(_) => {}
    }
    view
}
