//! `/api/v1/calls`: recorded calls; cancelling one, and settling one whose outcome is unknown.

use serde::Deserialize;
use serde_json::json;
use toolway_host::{
    call::{CallId, Caller},
    record::{AuditNote, CallFilter, CallState, Delivery, Finding, Records, Settlement, StoredCall, kind},
    time::{self, Micros},
};
use uuid::Uuid;

use super::{Answered, Query, done, tasks};
use crate::{console::Console, error::ApiError, reply, view::call};

/// Calls of one page, unless the request says otherwise.
const DEFAULT_LIMIT: usize = 100;
/// Most calls of one page.
const MAX_LIMIT: usize = 500;
/// Characters of a note.
const MAX_NOTE: usize = 1_000;

pub(super) async fn list(console: &Console, query: &Query) -> Answered {
    let filter = filter(query)?;
    let limit = filter.limit;
    let Some(records) = &console.records else { return reply::json(&json!({ "calls": [], "next": null })) };
    // One more, to know whether there is a next page.
    let filter = CallFilter { limit: limit + 1, ..filter };
    let mut rows = records.calls(filter).await?;
    let next = if limit < rows.len() {
        rows.truncate(limit);
        rows.last().map(|row| row.id.to_string())
    } else {
        None
    };
    let calls: Vec<_> = rows.into_iter().map(call::of_row).collect();
    reply::json(&Page { calls, next })
}

#[derive(serde::Serialize)]
struct Page {
    calls: Vec<call::CallView>,
    next: Option<String>,
}

pub(super) async fn show(console: &Console, id: &str) -> Answered {
    let id = parse_id(id)?;
    let found = records(console)?.call(id).await?;
    let StoredCall { row, body } = found.ok_or_else(|| ApiError::not_found("unknown call"))?;
    let settlement = match row.outcome {
        Some(Delivery::Unknown) => records(console)?.settlement(id).await?,
        _ => None,
    };
    let task = records(console)?.task(id).await?;
    let sampling = records(console)?.sampling_of(id).await?;
    reply::json(&call::details(row, body, settlement, task.as_ref(), &sampling))
}

/// What a person found out about a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FoundOut {
    finding: Found,
    note: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Found {
    Happened,
    DidNotHappen,
}

/// Settles a call whose outcome is unknown. `session` is the session of the console.
pub(super) async fn settle(console: &Console, id: &str, session: &str, found: FoundOut) -> Answered {
    let id = parse_id(id)?;
    let stored = records(console)?.call(id).await?;
    let row = stored.ok_or_else(|| ApiError::not_found("unknown call"))?.row;
    if row.outcome != Some(Delivery::Unknown) {
        return Err(ApiError::conflict("only a call whose outcome is unknown can be settled"));
    }
    let changes = console.changes.as_deref().ok_or_else(ApiError::no_store)?;
    let finding = match found.finding {
        Found::Happened => Finding::Happened,
        Found::DidNotHappen => Finding::DidNotHappen,
    };
    let note = found.note.filter(|note| !note.trim().is_empty());
    let note = note.map(|note| note.chars().take(MAX_NOTE).collect::<String>());
    let details = json!({ "call": id.to_string(), "finding": finding.as_str(), "note": note, "by": format!("console {session}") });
    changes.settle(Settlement { call: id, at: time::now(), finding, note }).await?;
    console.host.note(AuditNote {
        kind: kind::SETTLEMENT,
        caller: Some(Caller::Console.label()),
        server: row.server.and_then(|server| server.parse().ok()),
        subject: Some(row.tool.unwrap_or(row.name)),
        call: None,
        details,
    });
    console.ring.publish("inbox", &json!({}));
    done()
}

pub(super) async fn cancel(console: &Console, id: &str) -> Answered {
    let id = parse_id(id)?;
    if console.host.cancel_call(CallId::from_u128(id.as_u128()), "cancelled in the console") {
        return done();
    }
    if console.host.follows_task(id) {
        return tasks::cancel(console, &id.to_string()).await;
    }
    Err(ApiError::conflict("the call has ended, or another process makes it"))
}

fn filter(query: &Query) -> Result<CallFilter, ApiError> {
    let limit = query.get("limit").map(|limit| limit.parse::<usize>()).transpose();
    let limit = limit.map_err(|_| ApiError::bad_request("`limit` must be a number"))?;
    let states = query.get("state").unwrap_or_default();
    let states: Result<Vec<CallState>, _> =
        states.split(',').filter(|state| !state.is_empty()).map(str::parse).collect();
    let before = query.get("before").map(|id| parse_id(&id)).transpose()?;
    // Ids begin with the time.
    let until = moment(query, "until")?.map(first_id_at);
    Ok(CallFilter {
        states: states.map_err(|error| ApiError::bad_request(error.to_string()))?,
        server: query.get("server"),
        caller: query.get("caller"),
        tool: query.get("tool"),
        conversation: query.get("conversation"),
        since: moment(query, "since")?,
        before: before.into_iter().chain(until).min(),
        limit: limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
    })
}

fn moment(query: &Query, key: &str) -> Result<Option<Micros>, ApiError> {
    let parse = |text: String| {
        let wrong = || ApiError::bad_request(format!("`{key}` must be a time such as `2026-11-16T23:29:24Z`"));
        time::parse_rfc3339(&text).ok_or_else(wrong)
    };
    query.get(key).map(parse).transpose()
}

/// The least id of a call that began at this time.
fn first_id_at(at: Micros) -> Uuid {
    let milliseconds = u64::try_from(at / 1_000).unwrap_or_default();
    Uuid::from_u64_pair(milliseconds << 16, 0)
}

fn parse_id(id: &str) -> Result<Uuid, ApiError> {
    id.parse().map_err(|_| ApiError::not_found("unknown call"))
}

pub(super) fn records(console: &Console) -> Result<&dyn Records, ApiError> {
    console.records.as_deref().ok_or_else(ApiError::no_store)
}
