//! `/api/v1/inbox`: what waits for a person, and the answers.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolway_host::{
    connection::Phase,
    inbox::{AnswerError, ElicitationAnswer, InboxAnswer, InboxContent, InboxItem, SamplingAnswer},
    policy::{ApprovalAnswer, ApprovalTerm, Scope},
};
use toolway_wire::json::Raw;

use super::{Answered, blocking, done};
use crate::{
    console::Console,
    error::ApiError,
    reply,
    view::{inbox, proposal},
};

/// Calls of unknown outcome that are listed.
const MAX_UNSETTLED: usize = 100;
/// Characters of a reason.
const MAX_REASON: usize = 1_000;

/// An answer, to an approval request or to a form or URL.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    answer: Option<ApprovalWord>,
    reason: Option<String>,
    action: Option<Action>,
    content: Option<Map<String, Value>>,
    /// What an approval for longer covers; absent: what the item proposes.
    scope: Option<Value>,
    /// The same as positions of options, one for each argument of the proposal.
    options: Option<Vec<usize>>,
    /// The user confirmed that hidden characters are approved.
    #[serde(default, rename = "allowHidden")]
    allow_hidden: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ApprovalWord {
    Once,
    Conversation,
    Always,
    No,
    Never,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    Cancel,
}

/// All items, servers that require a sign-in, and the calls of which a person is to find out whether they happened. What is
/// shown of them can be long: it is written off the runtime.
pub(super) async fn list(console: &Console) -> Answered {
    let unsettled = match &console.records {
        Some(records) => records.unsettled(MAX_UNSETTLED).await?,
        None => Vec::new(),
    };
    let items = console.host.inbox().list();
    let servers = console.host.servers();
    let backend = Arc::clone(&console.backend);
    blocking(move || {
        let waiting = items.iter().map(|item| inbox::view(item));
        let required = servers.iter().filter(|status| matches!(status.phase, Phase::SignInRequired { .. }));
        let sign_ins =
            required.map(|status| inbox::sign_in(status, backend.sign_in_failure(&status.server).as_deref()));
        reply::json(&waiting.chain(sign_ins).chain(unsettled.iter().map(inbox::unsettled)).collect::<Vec<Value>>())
    })
    .await?
}

/// The text of arguments that are too large to be shown one by one.
pub(super) async fn arguments(console: &Console, id: &str) -> Answered {
    let item = find(console, id)?;
    let InboxContent::Approval(details) = &item.content else {
        return Err(ApiError::not_found("the item has no arguments"));
    };
    let rows = Arc::clone(&details.rows);
    blocking(move || {
        let text = rows.iter().find(|row| row.whole.is_some()).map(|row| row.value.as_str());
        reply::json(&json!({ "text": text }))
    })
    .await?
}

fn find(console: &Console, id: &str) -> Result<Arc<InboxItem>, ApiError> {
    console.host.inbox().find(id).ok_or_else(|| refused(&AnswerError::NotWaiting(id.to_owned())))
}

/// `session` is the session of the console that answers.
pub(super) fn answer(console: &Console, id: &str, session: &str, given: Given) -> Answered {
    let is_confirmed = given.allow_hidden;
    let by = format!("console {session}");
    let item = find(console, id)?;
    let answer = match given {
        Given { answer: Some(word), action: None, content: None, scope: None, options: None, .. }
            if matches!(item.content, InboxContent::Sampling(_)) =>
        {
            InboxAnswer::Sampling(sampling(word)?)
        }
        Given { answer: Some(word), reason, action: None, content: None, scope, options, .. } => {
            let scope = chosen_scope(&item, scope, options)?;
            InboxAnswer::Approval(approval(word, reason, scope, by))
        }
        Given { answer: None, reason: None, action: Some(action), content, .. } => {
            InboxAnswer::Elicitation(elicitation(action, content))
        }
        _ => return Err(ApiError::bad_request("give either `answer` or `action`")),
    };
    let sends_hidden = match (&answer, &item.content) {
        (InboxAnswer::Approval(ApprovalAnswer::Approved { .. }), InboxContent::Approval(details)) => {
            details.has_hidden()
        }
        (InboxAnswer::Sampling(given), InboxContent::Sampling(details)) => {
            *given != SamplingAnswer::No && details.has_hidden()
        }
        _ => false,
    };
    if sends_hidden && !is_confirmed {
        let message = "the text contains hidden characters; approve it a second time to send them";
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "hidden_characters", message));
    }
    console.host.inbox().answer(id, answer).map_err(|error| refused(&error))?;
    done()
}

/// What the user chose to cover; `None` if the proposal was not changed.
fn chosen_scope(
    item: &InboxItem,
    scope: Option<Value>,
    options: Option<Vec<usize>>,
) -> Result<Option<Scope>, ApiError> {
    match (scope, options, &item.content) {
        (None, None, _) => Ok(None),
        (Some(given), None, _) => {
            let unreadable = || ApiError::bad_request("`scope` cannot be read");
            Scope::of(&Raw::of(&given)).ok_or_else(unreadable).map(Some)
        }
        (None, Some(positions), InboxContent::Approval(details)) => {
            let unknown = || ApiError::bad_request("`options` are not positions of the options of this item");
            proposal::chosen(&details.proposal, &positions).ok_or_else(unknown).map(Some)
        }
        _ => Err(ApiError::bad_request("give either `scope` or `options`")),
    }
}

fn sampling(word: ApprovalWord) -> Result<SamplingAnswer, ApiError> {
    match word {
        ApprovalWord::Once => Ok(SamplingAnswer::Once),
        ApprovalWord::Always => Ok(SamplingAnswer::Always),
        ApprovalWord::No => Ok(SamplingAnswer::No),
        ApprovalWord::Conversation | ApprovalWord::Never => {
            Err(ApiError::bad_request("a request to a model is answered with `once`, `always` or `no`"))
        }
    }
}

fn approval(word: ApprovalWord, reason: Option<String>, scope: Option<Scope>, by: String) -> ApprovalAnswer {
    let approved = |term| ApprovalAnswer::Approved { term, scope, by: by.clone() };
    let why = || reason.filter(|reason| !reason.trim().is_empty()).map(|text| text.chars().take(MAX_REASON).collect());
    match word {
        ApprovalWord::Once => approved(ApprovalTerm::Once),
        ApprovalWord::Conversation => approved(ApprovalTerm::Conversation),
        ApprovalWord::Always => approved(ApprovalTerm::Always),
        ApprovalWord::No => ApprovalAnswer::Declined { why: why(), term: ApprovalTerm::Once, by },
        ApprovalWord::Never => ApprovalAnswer::Declined { why: why(), term: ApprovalTerm::Always, by },
    }
}

fn elicitation(action: Action, content: Option<Map<String, Value>>) -> ElicitationAnswer {
    match action {
        Action::Accept => ElicitationAnswer::Accept(content.unwrap_or_default()),
        Action::Decline => ElicitationAnswer::Decline,
        Action::Cancel => ElicitationAnswer::Cancel,
    }
}

fn refused(error: &AnswerError) -> ApiError {
    match error {
        AnswerError::NotWaiting(_) => ApiError::conflict(error.to_string()),
        AnswerError::WrongKind { .. }
        | AnswerError::NoConversation(_)
        | AnswerError::NoTerm(_)
        | AnswerError::NotCovered(_)
        | AnswerError::AnyHostForGood(_) => ApiError::bad_request(error.to_string()),
        AnswerError::InvalidForm(problems) => {
            let fields = problems.iter().map(|problem| (problem.field.clone(), Value::from(problem.message.clone())));
            let invalid = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "some values are invalid");
            invalid.fields(fields.collect())
        }
    }
}
