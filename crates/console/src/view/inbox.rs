//! An item of the inbox: an approval request, a form, a URL, a sign-in, or a call whose outcome is unknown.

use serde_json::{Value, json};
use toolway_host::{
    connection::ServerStatus,
    inbox::{ApprovalDetails, Form, FormField, InboxContent, InboxItem, approval_rows::ArgumentRow},
    record::CallRow,
    time, visible,
};
use url::Url;

use super::{cut, moment, proposal};

/// One item.
pub(crate) fn view(item: &InboxItem) -> Value {
    let mut view = json!({
        "id": item.id,
        "kind": item.content.kind(),
        "server": item.server.as_str(),
        "caller": item.caller.as_ref().map(toolway_host::call::Caller::label),
        "surface": item.surface.map(toolway_host::policy::Surface::as_str),
        "callId": item.call.map(|call| call.to_string()),
        "conversation": item.conversation.as_deref(),
        "session": item.has_session,
        "createdAt": moment(item.created_at),
        "expiresAt": moment(item.expires_at),
    });
    match &item.content {
        InboxContent::Approval(details) => {
            view["message"] = json!(item.summary());
            view["approval"] = approval(details);
        }
        InboxContent::Form { message, form } => {
            view["message"] = json!(message);
            view["form"] = self::form(form);
        }
        InboxContent::Url { message, url } => {
            view["message"] = json!(message);
            view["url"] = self::url(url);
        }
        InboxContent::Sampling(details) => {
            view["message"] = json!(item.summary());
            view["sampling"] = details.to_json();
        }
    }
    view
}

/// A server that cannot be used before its user has signed in. It is answered on the sign-in page.
pub(crate) fn sign_in(status: &ServerStatus, failure: Option<&str>) -> Value {
    json!({
        "id": format!("sign-in-{}", status.server),
        "kind": "sign-in",
        "server": status.server.as_str(),
        "caller": null,
        "surface": null,
        "callId": null,
        "conversation": null,
        "createdAt": moment(status.since),
        "expiresAt": null,
        "signIn": { "failure": failure },
    })
}

/// A call whose outcome is unknown.
pub(crate) fn unsettled(call: &CallRow) -> Value {
    json!({
        "id": call.id.to_string(),
        "kind": "unknown-outcome",
        "server": call.server,
        "caller": call.caller,
        "surface": call.surface,
        "callId": call.id.to_string(),
        "conversation": call.conversation,
        "createdAt": time::rfc3339(call.started_at),
        "expiresAt": null,
        "outcome": {
            "tool": call.tool.as_deref().unwrap_or(&call.name),
            "state": call.state.as_str(),
            "error": call.error.as_deref().map(cut),
        },
    })
}

fn approval(details: &ApprovalDetails) -> Value {
    let ApprovalDetails { subject, annotations, trust, .. } = details;
    let is_whole = details.rows.iter().any(|row| row.whole.is_some());
    let arguments = details.arguments.as_ref().filter(|_| !is_whole);
    json!({
        "tool": subject.raw_name,
        "name": visible::name(&subject.raw_name),
        "kind": subject.kind.as_str(),
        "title": details.title,
        "arguments": arguments.and_then(|arguments| arguments.read::<Value>().ok()),
        "rows": details.rows.iter().map(row).collect::<Vec<_>>(),
        "warnings": details.warnings(),
        "hidden": details.has_hidden(),
        "readOnly": annotations.read_only,
        "destructive": annotations.destructive,
        "openWorld": annotations.open_world,
        "trust": trust.as_str(),
        "rule": details.rule.to_string(),
        "reason": details.reason,
        "remedy": details.remedy,
        "covers": details.proposal.always.to_string(),
        "proposal": proposal::view(details),
        "asksForHosts": details.asks_for_hosts(),
        "canLast": details.can_last(),
    })
}

/// A row. Arguments that are one row have size and digest; a page reads their text when it is opened.
fn row(row: &ArgumentRow) -> Value {
    let value = if row.whole.is_some() { None } else { Some(&row.value) };
    let mut view = json!({ "argument": row.argument, "label": row.label, "value": value, "important": row.important });
    if row.has_hidden {
        view["hidden"] = json!(true);
    }
    if let Some(whole) = &row.whole {
        view["bytes"] = json!(whole.bytes);
        view["sha256"] = json!(whole.sha256);
    }
    view
}

fn form(form: &Form) -> Value {
    json!({ "fields": form.fields.iter().map(FormField::to_json).collect::<Vec<_>>() })
}

/// The URL, if a page may link to it, with the host that it leads to. Other schemes are text only.
fn url(text: &str) -> Value {
    let parsed = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "https" | "http"));
    match parsed {
        // Serialised again: what the browser opens is what is shown, with a host in ASCII.
        Some(url) => json!({ "url": url.as_str(), "host": url.host_str(), "safe": true }),
        None => json!({ "url": text, "host": null, "safe": false }),
    }
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn only_web_addresses_are_links() {
        assert_eq!(url("https://example.com/a?b=c")["host"], "example.com");
        assert_eq!(url("https://аррӏе.com/")["host"], "xn--80ak6aa92e.com");
        for text in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "no url"] {
            assert_eq!(url(text)["safe"], false, "{text}");
        }
    }
}
