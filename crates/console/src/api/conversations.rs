//! `/api/v1/conversations`: stored conversations.

use serde_json::{Value, json};
use toolway_store::{Uuid, calls::CallFilter};

use super::{Answered, Query, calls::records};
use crate::{console::Console, error::ApiError, reply, view::conversation};

/// Conversations in a list.
const LIMIT: usize = 200;
/// Recorded calls of a conversation whose state is shown; the page shows about as many messages.
const CALLS: usize = 500;

pub(super) async fn list(console: &Console, query: &Query) -> Answered {
    let Some(records) = &console.records else { return reply::json(&json!([])) };
    let search = query.get("search");
    let found = records.query(move |reader| match &search {
        Some(text) => {
            let found = reader.search_conversations(text, LIMIT)?;
            Ok(found.into_iter().map(|(conversation, _)| conversation).collect())
        }
        None => reader.conversations(LIMIT),
    });
    let views: Vec<Value> = found.await?.iter().map(conversation::head).collect();
    reply::json(&views)
}

pub(super) async fn show(console: &Console, id: &str) -> Answered {
    let uuid: Uuid = id.parse().map_err(|_| unknown())?;
    // Before the query: a message that ends in between is then in the query.
    let partial = console.turns.partial(id);
    let read = move |reader: &toolway_store::Reader| {
        let Some(head) = reader.conversation(uuid)? else { return Ok(None) };
        let filter = CallFilter { conversation: Some(uuid.to_string()), limit: CALLS, ..CallFilter::default() };
        Ok(Some((head, reader.messages(uuid)?, reader.calls(&filter)?)))
    };
    let (head, messages, calls) = records(console)?.query(read).await?.ok_or_else(unknown)?;
    let made: conversation::MadeCalls = calls.into_iter().collect();
    reply::json(&json!({
        "id": id,
        "title": head.title,
        "model": head.model,
        "messages": conversation::messages(&messages, &made),
        "running": partial.is_some(),
        "partial": partial.filter(|text| !text.is_empty()),
    }))
}

pub(super) fn unknown() -> ApiError {
    ApiError::not_found("unknown conversation")
}
