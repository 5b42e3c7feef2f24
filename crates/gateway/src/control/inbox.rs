//! The inbox over the control socket: its items as JSON, and answers to them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolway_host::{
    call::Caller,
    inbox::{
        AnswerError, ApprovalDetails, ElicitationAnswer, Form, FormField, Inbox, InboxAnswer, InboxContent, InboxItem,
        SamplingAnswer, approval_rows::ArgumentRow,
    },
    policy::{ApprovalAnswer, ApprovalTerm, Scope},
};
use toolway_wire::time::rfc3339_of;

use super::Failure;

/// An answer to an inbox item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum ControlAnswer {
    /// Approves the call.
    Once {},
    /// Approves what the scope covers for the conversation of the call, or for the session of its client.
    Conversation {
        /// What it covers; `None`: what the item proposes.
        cover: Option<Cover>,
    },
    /// Approves all later calls of the caller that the scope covers.
    Always {
        /// What it covers; `None`: what the item proposes.
        cover: Option<Cover>,
    },
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

/// What an approval covers, in words. Values stay with the item: JSON in between would round its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cover {
    /// Any arguments.
    Any,
    /// Any host.
    AnyHost,
    /// What is proposed, with a word for single arguments: `same`, `folder`, `host` or `any`.
    Arguments(BTreeMap<String, String>),
}

impl ControlAnswer {
    fn approves(&self) -> bool {
        matches!(self, Self::Once {} | Self::Conversation { .. } | Self::Always { .. })
    }

    /// The same as the answer to a sampling request; `None` if it cannot be one.
    fn for_sampling(&self) -> Option<SamplingAnswer> {
        match self {
            Self::Once {} => Some(SamplingAnswer::Once),
            Self::Always { cover: None } => Some(SamplingAnswer::Always),
            Self::No { .. } | Self::Decline {} => Some(SamplingAnswer::No),
            _ => None,
        }
    }
}

/// Whether a call with hidden characters may be approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HiddenCharacters {
    Refused,
    Allowed,
}

/// Surface in the record of an approval.
const SURFACE: &str = "inbox";

/// Answers an item.
pub(super) fn answer(
    inbox: &Inbox,
    id: &str,
    answer: ControlAnswer,
    hidden: HiddenCharacters,
) -> Result<Value, Failure> {
    let unknown = || failed(&AnswerError::NotWaiting(id.to_owned()));
    let item = inbox.find(id).ok_or_else(unknown)?;
    let has_hidden = match &item.content {
        InboxContent::Approval(details) => details.has_hidden(),
        InboxContent::Sampling(details) => details.has_hidden(),
        InboxContent::Form { .. } | InboxContent::Url { .. } => false,
    };
    if answer.approves() && has_hidden && hidden == HiddenCharacters::Refused {
        let what = if matches!(item.content, InboxContent::Sampling(_)) { "request" } else { "call" };
        let message = format!("the {what} contains hidden characters; it is approved only with `--allow-hidden`");
        return Err(super::failure("hidden_characters", &message));
    }
    if let (InboxContent::Sampling(_), Some(answer)) = (&item.content, answer.for_sampling()) {
        inbox.answer(id, InboxAnswer::Sampling(answer)).map_err(|error| failed(&error))?;
        return Ok(json!({ "id": id }));
    }
    let by = || SURFACE.to_owned();
    let approved = |term, cover: Option<Cover>| {
        let scope = cover.map(|cover| scope(&item, term, &cover)).transpose()?;
        Ok::<_, Failure>(InboxAnswer::Approval(ApprovalAnswer::Approved { term, scope, by: by() }))
    };
    let declined = |why, term| InboxAnswer::Approval(ApprovalAnswer::Declined { why, term, by: by() });
    let answer = match answer {
        ControlAnswer::Once {} => approved(ApprovalTerm::Once, None)?,
        ControlAnswer::Conversation { cover } => approved(ApprovalTerm::Conversation, cover)?,
        ControlAnswer::Always { cover } => approved(ApprovalTerm::Always, cover)?,
        ControlAnswer::No { reason } => declined(reason, ApprovalTerm::Once),
        ControlAnswer::Never {} => declined(None, ApprovalTerm::Always),
        ControlAnswer::Accept { texts, values } => {
            InboxAnswer::Elicitation(ElicitationAnswer::Accept(content(&item, &texts, values)?))
        }
        ControlAnswer::Decline {} => InboxAnswer::Elicitation(ElicitationAnswer::Decline),
        ControlAnswer::Cancel {} => InboxAnswer::Elicitation(ElicitationAnswer::Cancel),
    };
    let covers = covers(&item, &answer);
    inbox.answer(id, answer).map_err(|error| failed(&error))?;
    Ok(match covers {
        Some(covers) => json!({ "id": id, "covers": covers }),
        None => json!({ "id": id }),
    })
}

/// What an approval that lasts covers, as a sentence.
fn covers(item: &InboxItem, answer: &InboxAnswer) -> Option<String> {
    let (InboxContent::Approval(details), InboxAnswer::Approval(answer)) = (&item.content, answer) else { return None };
    match answer {
        ApprovalAnswer::Approved { term: ApprovalTerm::Once, .. } => None,
        ApprovalAnswer::Approved { term, scope, .. } => {
            Some(scope.as_ref().unwrap_or_else(|| details.proposal.scope(*term)).to_string())
        }
        _ => None,
    }
}

/// All items, and the number that changes with them.
pub(super) fn list(inbox: &Inbox) -> Value {
    let version = *inbox.changes().borrow();
    let items: Vec<Value> = inbox.list().iter().map(|item| view(item)).collect();
    json!({ "version": version, "items": items })
}

/// One item with everything that is shown of it.
pub(super) fn item(inbox: &Inbox, id: &str) -> Result<Value, Failure> {
    let item = inbox.find(id).ok_or_else(|| failed(&AnswerError::NotWaiting(id.to_owned())))?;
    let mut view = view(&item);
    if let InboxContent::Approval(details) = &item.content {
        for (index, row) in details.rows.iter().enumerate() {
            view["approval"]["rows"][index]["value"] = json!(row.value);
        }
    }
    Ok(view)
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
        "createdAt": rfc3339_of(item.created_at),
        "expiresAt": rfc3339_of(item.expires_at),
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
        InboxContent::Sampling(details) => view["sampling"] = details.to_json(),
    }
    view
}

fn approval(details: &ApprovalDetails) -> Value {
    let is_whole = details.rows.iter().any(|row| row.whole.is_some());
    let arguments = details.arguments.as_ref().filter(|_| !is_whole);
    json!({
        "kind": details.subject.kind.as_str(),
        "name": details.subject.raw_name,
        "title": details.title,
        "arguments": arguments.and_then(|arguments| arguments.read::<Value>().ok()),
        "rows": details.rows.iter().map(row).collect::<Vec<_>>(),
        "warnings": details.warnings(),
        "hidden": details.has_hidden(),
        "rule": details.rule.to_string(),
        "file": details.rule.place().map(|place| place.file.display().to_string()),
        "line": details.rule.place().map(|place| place.line),
        "reason": details.reason,
        "remedy": details.remedy,
        "covers": details.proposal.always.to_string(),
        "proposal": details.proposal.to_json(),
        "asksForHosts": details.asks_for_hosts(),
        "canLast": details.can_last(),
    })
}

fn scope(item: &InboxItem, term: ApprovalTerm, cover: &Cover) -> Result<Scope, Failure> {
    let InboxContent::Approval(details) = &item.content else { return Err(invalid("the item is not an approval")) };
    match cover {
        Cover::Any => Ok(Scope::Any),
        Cover::AnyHost => Ok(Scope::AnyHost),
        Cover::Arguments(words) => details.proposal.covering(term, words).map_err(|error| invalid(&error.to_string())),
    }
}

/// A row; arguments that are one row are without their text, which [`item`] adds.
fn row(row: &ArgumentRow) -> Value {
    let mut view =
        json!({ "argument": row.argument, "label": row.label, "value": row.value, "important": row.important });
    if row.has_hidden {
        view["hidden"] = json!(true);
    }
    if let Some(whole) = &row.whole {
        view["value"] = Value::Null;
        view["bytes"] = json!(whole.bytes);
        view["sha256"] = json!(whole.sha256);
    }
    view
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
        AnswerError::WrongKind { .. }
        | AnswerError::NoConversation(_)
        | AnswerError::NoTerm(_)
        | AnswerError::NotCovered(_)
        | AnswerError::AnyHostForGood(_)
        | AnswerError::InvalidForm(_) => "invalid_answer",
    };
    super::failure(code, &error.to_string())
}
