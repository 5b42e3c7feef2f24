//! The inbox over the control socket: its items as JSON, and answers to them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolway_host::{
    call::Caller,
    inbox::{
        AnswerError, ApprovalDetails, ElicitationAnswer, Form, FormField, Inbox, InboxAnswer, InboxContent, InboxItem,
        approval_rows::{self, ArgumentRow},
    },
    policy::{ApprovalAnswer, ApprovalScope},
};

use super::Failure;
use crate::records::Timestamp;

/// An answer to an inbox item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum ControlAnswer {
    /// Approves the call.
    Once {},
    /// Approves the tool for the conversation of the call, or for the session of its client.
    Conversation {},
    /// Approves all later calls of the caller that touch the same.
    Always {},
    /// Declines the call.
    No {
        /// Reason for the caller.
        reason: Option<String>,
    },
    /// Declines the tool for all later calls of the caller.
    Never {},
    /// Answers a form, or agrees to open a URL.
    Accept {
        /// Values as typed, by field.
        texts: Map<String, Value>,
        /// Values as JSON, by field.
        values: Map<String, Value>,
    },
    /// Declines a form or URL.
    Decline {},
    /// Closes a form or URL without an answer.
    Cancel {},
}

/// Surface in the record of an approval.
const SURFACE: &str = "inbox";

/// Answers an item.
pub(super) fn answer(inbox: &Inbox, id: &str, answer: ControlAnswer) -> Result<Value, Failure> {
    let unknown = || failed(&AnswerError::NotWaiting(id.to_owned()));
    let item = inbox.find(id).ok_or_else(unknown)?;
    let approved = |scope| InboxAnswer::Approval(ApprovalAnswer::Approved { scope, by: SURFACE.to_owned() });
    let declined = |why, scope| InboxAnswer::Approval(ApprovalAnswer::Declined { why, scope });
    let answer = match answer {
        ControlAnswer::Once {} => approved(ApprovalScope::Once),
        ControlAnswer::Conversation {} => approved(ApprovalScope::Conversation),
        ControlAnswer::Always {} => approved(ApprovalScope::Always),
        ControlAnswer::No { reason } => declined(reason, ApprovalScope::Once),
        ControlAnswer::Never {} => declined(None, ApprovalScope::Always),
        ControlAnswer::Accept { texts, values } => {
            InboxAnswer::Elicitation(ElicitationAnswer::Accept(content(&item, &texts, values)?))
        }
        ControlAnswer::Decline {} => InboxAnswer::Elicitation(ElicitationAnswer::Decline),
        ControlAnswer::Cancel {} => InboxAnswer::Elicitation(ElicitationAnswer::Cancel),
    };
    inbox.answer(id, answer).map_err(|error| failed(&error))?;
    Ok(json!({ "id": id }))
}

/// All items, and the number that changes with them.
pub(super) fn list(inbox: &Inbox) -> Value {
    let version = *inbox.changes().borrow();
    let items: Vec<Value> = inbox.list().iter().map(|item| view(item)).collect();
    json!({ "version": version, "items": items })
}

/// One item as scripts see it. `text` of a form or URL contains the server's words.
pub(super) fn view(item: &InboxItem) -> Value {
    let mut view = json!({
        "id": item.id,
        "kind": item.content.kind(),
        "server": item.server.as_str(),
        "caller": item.caller.as_ref().map(Caller::label),
        "surface": item.surface.map(|surface| surface.to_string()),
        "callId": item.call.map(|call| call.to_string()),
        "conversation": item.conversation.as_deref(),
        "session": item.has_session,
        "text": item.summary(),
        "createdAt": Timestamp(item.created_at).to_string(),
        "expiresAt": Timestamp(item.expires_at).to_string(),
    });
    match &item.content {
        InboxContent::Approval(details) => view["approval"] = approval(details),
        InboxContent::Form { message, form } => {
            view["message"] = json!(message);
            view["form"] = json!({ "fields": form.fields.iter().map(FormField::to_json).collect::<Vec<_>>() });
        }
        InboxContent::Url { message, url } => {
            view["message"] = json!(message);
            view["url"] = json!(url);
        }
    }
    view
}

fn approval(details: &ApprovalDetails) -> Value {
    let row = |row: ArgumentRow| json!({ "label": row.label, "value": row.value, "important": row.important });
    let arguments = details.arguments.as_ref().and_then(|arguments| arguments.read::<Value>().ok());
    json!({
        "kind": details.subject.kind.as_str(),
        "name": details.subject.raw_name,
        "title": details.title,
        "arguments": arguments,
        "rows": approval_rows::rows(details.arguments.as_ref()).into_iter().map(row).collect::<Vec<_>>(),
        "warnings": approval_rows::warnings(details.annotations, details.trust),
        "rule": details.rule.to_string(),
        "file": details.rule.place().map(|place| place.file.display().to_string()),
        "line": details.rule.place().map(|place| place.line),
        "reason": details.reason,
        "remedy": details.remedy,
        "covers": details.pattern.to_string(),
    })
}

/// The content of a form: texts are converted to the types of their fields; defaults stand for what is not given.
fn content(
    item: &InboxItem,
    texts: &Map<String, Value>,
    mut values: Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    let InboxContent::Form { form: Form { fields }, .. } = &item.content else { return Ok(Map::new()) };
    for (name, text) in texts {
        let text = text.as_str().unwrap_or_default();
        let value = match fields.iter().find(|field| field.name == *name) {
            Some(field) => field.parse(text).map_err(|why| invalid(&format!("`{name}`: {why}")))?,
            None => return Err(invalid(&format!("`{name}`: the form has no such field"))),
        };
        values.insert(name.clone(), value);
    }
    for field in fields {
        if let (false, Some(default)) = (values.contains_key(&field.name), &field.default) {
            values.insert(field.name.clone(), default.clone());
        }
    }
    Ok(values)
}

fn invalid(message: &str) -> Failure {
    super::failure("invalid_answer", message)
}

fn failed(error: &AnswerError) -> Failure {
    let code = match error {
        AnswerError::NotWaiting(_) => "not_waiting",
        AnswerError::WrongKind { .. } | AnswerError::NoConversation(_) | AnswerError::InvalidForm(_) => {
            "invalid_answer"
        }
    };
    super::failure(code, &error.to_string())
}
