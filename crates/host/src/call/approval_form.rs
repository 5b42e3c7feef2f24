//! The form by which a gateway client is asked for an approval: its text, its fields, and its answer.

use serde_json::{Value, json};
use toolway_config::visible;
use toolway_wire::{exchange::Answer, json::Raw};

use crate::{
    inbox::{InboxAnswer, approval_rows::ArgumentRow},
    policy::{ApprovalAnswer, ApprovalRequest},
};

/// Bytes of a form. What does not fit is not asked by elicitation.
const MAX_BYTES: usize = 8 * 1024;

/// A form that shows all arguments. It names neither files nor rules of the operator.
#[derive(Debug)]
pub(super) struct ApprovalForm {
    params: Raw,
    /// The user has to confirm hidden characters, too.
    has_hidden: bool,
}

/// The params of a form without text, to find out what a client supports.
pub(super) fn empty() -> Raw {
    params("", &json!({}), &[])
}

impl ApprovalForm {
    /// The form of a call with these arguments; `None` if they do not fit.
    pub(super) fn of(request: &ApprovalRequest, rows: &[ArgumentRow]) -> Option<Self> {
        let shown: usize = rows.iter().map(|row| row.label.len() + row.value.len()).sum();
        if MAX_BYTES < shown || rows.iter().any(|row| row.whole.is_some()) {
            return None;
        }
        let subject = request.subject();
        let has_hidden = visible::has_hidden(&subject.raw_name) || rows.iter().any(|row| row.has_hidden);
        let mut properties = json!({ "allow": switch("Allow this call") });
        let mut required = vec!["allow"];
        if has_hidden {
            properties["allowHidden"] = switch("Allow it although it contains hidden characters");
            required.push("allowHidden");
        }
        let warning = if has_hidden { " It contains hidden characters, which are shown as `\\u{…}`." } else { "" };
        let params = params(&message(request, rows, warning), &properties, &required);
        (params.as_bytes().len() <= MAX_BYTES).then_some(Self { params, has_hidden })
    }

    /// The params of the elicitation request.
    pub(super) fn params(&self) -> Raw {
        self.params.clone()
    }

    /// Only an explicit `true` approves.
    pub(super) fn read(&self, answer: &Answer, by: &str) -> InboxAnswer {
        let Answer::Given(result) = answer else { return InboxAnswer::Unavailable };
        let action = result.get("action").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        let content = result.get("content");
        let is_true = |key: &str| content.as_ref().and_then(|content| content.get(key)?.as_bool()) == Some(true);
        let is_allowed = is_true("allow") && (!self.has_hidden || is_true("allowHidden"));
        InboxAnswer::Approval(match action.as_deref() {
            Some("accept") if is_allowed => ApprovalAnswer::approved(by),
            _ => ApprovalAnswer::declined(None, by),
        })
    }
}

fn message(request: &ApprovalRequest, rows: &[ArgumentRow], hidden: &str) -> String {
    let subject = request.subject();
    let (server, tool) = (&subject.server, visible::name(&subject.raw_name));
    let warning = if request.annotations().destructive { " It may change or delete data." } else { "" };
    // A project may have written it.
    let reason = request.client_reason();
    let reason = reason.map(|reason| format!(" Reason: {}", visible::one_line(reason))).unwrap_or_default();
    let mut message = format!("Allow the {} `{tool}` of `{server}`?{warning}{hidden}{reason}", subject.kind);
    if !rows.is_empty() {
        message.push_str("\nArguments:");
    }
    for row in rows {
        let value = visible::plain(&row.value).replace('\n', "\n    ");
        message.push_str(&format!("\n  {}: {value}", visible::one_line(&row.label)));
    }
    message
}

fn switch(title: &str) -> Value {
    json!({ "type": "boolean", "title": title, "default": false })
}

fn params(message: &str, properties: &Value, required: &[&str]) -> Raw {
    Raw::of(&json!({
        "mode": "form",
        "message": message,
        "requestedSchema": { "type": "object", "properties": properties, "required": required },
    }))
}
