//! `/api/v1/inbox`: what waits for a person, and the answers.

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolway_host::{
    inbox::{AnswerError, ElicitationAnswer, InboxAnswer},
    policy::{ApprovalAnswer, ApprovalScope},
};

use super::{Answered, done};
use crate::{console::Console, error::ApiError, reply, view::inbox};

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

pub(super) fn list(console: &Console) -> Answered {
    let catalog = console.host.catalog();
    let items = console.host.inbox().list();
    let views: Vec<Value> = items.iter().map(|item| inbox::view(item, &catalog)).collect();
    reply::json(&views)
}

pub(super) fn answer(console: &Console, id: &str, given: Given) -> Answered {
    let answer = match given {
        Given { answer: Some(word), reason, action: None, content: None } => {
            InboxAnswer::Approval(approval(word, reason))
        }
        Given { answer: None, reason: None, action: Some(action), content } => {
            InboxAnswer::Elicitation(elicitation(action, content))
        }
        _ => return Err(ApiError::bad_request("give either `answer` or `action`")),
    };
    console.host.inbox().answer(id, answer).map_err(|error| refused(&error))?;
    done()
}

fn approval(word: ApprovalWord, reason: Option<String>) -> ApprovalAnswer {
    let approved = |scope| ApprovalAnswer::Approved { scope, by: "console".to_owned() };
    let why = || reason.filter(|reason| !reason.trim().is_empty()).map(|text| text.chars().take(MAX_REASON).collect());
    match word {
        ApprovalWord::Once => approved(ApprovalScope::Once),
        ApprovalWord::Conversation => approved(ApprovalScope::Conversation),
        ApprovalWord::Always => approved(ApprovalScope::Always),
        ApprovalWord::No => ApprovalAnswer::Declined { why: why(), scope: ApprovalScope::Once },
        ApprovalWord::Never => ApprovalAnswer::Declined { why: why(), scope: ApprovalScope::Always },
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
        AnswerError::WrongKind { .. } | AnswerError::NoConversation(_) => ApiError::bad_request(error.to_string()),
        AnswerError::InvalidForm(problems) => {
            let fields = problems.iter().map(|problem| (problem.field.clone(), Value::from(problem.message.clone())));
            let invalid = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", "some values are invalid");
            invalid.fields(fields.collect())
        }
    }
}
