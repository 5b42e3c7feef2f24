//! `/api/v1/conversations`: stored conversations.

use serde_json::{Value, json};
use toolway_host::{record::CallFilter, task::TaskFilter};
use uuid::Uuid;

use super::{Answered, Query, calls::records};
use crate::{
    console::Console,
    error::ApiError,
    reply,
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
    let made: conversation::MadeCalls = records.calls(filter).await?.into_iter().collect();
    let filter = TaskFilter { conversation: Some(uuid.to_string()), limit: CALLS, ..TaskFilter::default() };
    let tasks: Vec<Value> = records.tasks(filter).await?.iter().map(task::view).collect();
    reply::json(&json!({
        "id": id,
        "title": head.title,
        "model": head.model,
        "messages": conversation::messages(&messages, &made),
        "tasks": tasks,
        "running": turn.is_some(),
        "messagesBefore": turn.as_ref().and_then(|turn| turn.messages_before),
        "partial": turn.map(|turn| turn.partial).filter(|text| !text.is_empty()),
    }))
}
