//! `/api/v1/conversations`: stored conversations.

use serde_json::{Value, json};
use toolway_agent::{StoredAssistant, export as file};
use toolway_host::{record::CallFilter, task::TaskFilter};
use uuid::Uuid;

use super::{Answered, Query, calls::records};
use crate::{
    console::Console,
    error::ApiError,
    reply,
    turns::BranchOrigin,
    view::{conversation, task},
};

/// Conversations in a list.
const LIMIT: usize = 200;
/// Recorded calls of a conversation whose state is shown; the page shows about as many messages.
const CALLS: usize = 500;

pub(super) async fn list(console: &Console, query: &Query) -> Answered {
    let Some(records) = &console.records else { return reply::json(&json!([])) };
    let search = query.get("search");
    let found = match &search {
        Some(text) => {
            let found = records.search_conversations(text, LIMIT).await?;
            found.into_iter().map(|found| found.conversation).collect()
        }
        None => records.conversations(LIMIT).await?,
    };
    let views: Vec<Value> = found.iter().map(conversation::head).collect();
    reply::json(&views)
}

pub(super) async fn show(console: &Console, id: &str) -> Answered {
    let uuid: Uuid = id.parse().map_err(|_| ApiError::unknown_conversation())?;
    // Before the queries: a message that ends in between is then in them.
    let turn = console.turns.progress(id);
    let records = records(console)?;
    let head = records.conversation(uuid).await?.ok_or_else(ApiError::unknown_conversation)?;
    let messages = records.messages(uuid).await?;
    let filter = CallFilter { conversation: Some(uuid.to_string()), limit: CALLS, ..CallFilter::default() };
    let mut made = records.calls(filter).await?;
    let notes = records.conversation_notes(uuid).await?;
    let origin = BranchOrigin::of_notes(&notes);
    // The calls of the messages that a branch was begun with.
    for conversation in origin.iter().flat_map(|origin| &origin.conversations) {
        let filter = CallFilter { conversation: Some(conversation.to_string()), limit: CALLS, ..CallFilter::default() };
        made.extend(records.calls(filter).await?);
    }
    let made: conversation::MadeCalls = made.into_iter().collect();
    let filter = TaskFilter { conversation: Some(uuid.to_string()), limit: CALLS, ..TaskFilter::default() };
    let tasks: Vec<Value> = records.tasks(filter).await?.iter().map(task::view).collect();
    let assistant = StoredAssistant::of_notes(&notes).ok().flatten();
    let assistant = assistant.map(|stored| json!({ "name": stored.name, "values": stored.values.json() }));
    let is_running = turn.is_some();
    let messages_before = turn.as_ref().and_then(|turn| turn.messages_before);
    let in_progress = turn.map(|turn| turn.in_progress).unwrap_or_default();
    let partial = Some(in_progress.partial).filter(|text| !text.is_empty());
    reply::json(&json!({
        "id": id,
        "title": head.title,
        "assistant": assistant,
        "model": head.model,
        "messages": conversation::messages(&messages, &made, &console.host),
        "compaction": conversation::compaction(&notes, messages.len()),
        "branch": origin.map(|origin| json!({ "conversation": origin.conversations.first(), "messages": origin.messages })),
        "queue": console.turns.queue_view(id),
        "tasks": tasks,
        "running": is_running,
        "messagesBefore": messages_before,
        "partial": partial,
        "calling": in_progress.calls,
    }))
}

/// A conversation as a file, as `toolway history export` writes it.
pub(super) async fn export(console: &Console, id: &str, query: &Query) -> Answered {
    let uuid: Uuid = id.parse().map_err(|_| ApiError::unknown_conversation())?;
    let records = records(console)?;
    let head = records.conversation(uuid).await?.ok_or_else(ApiError::unknown_conversation)?;
    let messages = records.messages(uuid).await?;
    match query.get("format").as_deref() {
        Some("json") => {
            let notes = records.conversation_notes(uuid).await?;
            let assistant = StoredAssistant::of_notes(&notes).ok().flatten();
            let text = file::json(&head, assistant.as_ref(), &messages).to_string();
            Ok(reply::attachment(&format!("{uuid}.json"), text.into()))
        }
        None | Some("markdown") => {
            Ok(reply::attachment(&format!("{uuid}.md"), file::markdown(&head, &messages).into()))
        }
        Some(_) => Err(ApiError::bad_request("`format` must be `markdown` or `json`")),
    }
}
