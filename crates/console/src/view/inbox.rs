//! An item of the inbox: an approval request, a form or a URL.

use serde_json::{Value, json};
use toolway_host::{
    catalog::Catalog,
    inbox::{ApprovalDetails, Form, FormField, InboxContent, InboxItem, approval_rows},
};
use toolway_wire::json::Raw;
use url::Url;

use super::moment;

/// Bytes of the arguments of an approval request that are shown.
const MAX_ARGUMENTS: usize = 256 * 1024;

/// One item.
pub(crate) fn view(item: &InboxItem, catalog: &Catalog) -> Value {
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
            view["approval"] = approval(details, catalog);
        }
        InboxContent::Form { message, form } => {
            view["message"] = json!(message);
            view["form"] = self::form(form);
        }
        InboxContent::Url { message, url } => {
            view["message"] = json!(message);
            view["url"] = self::url(url);
        }
    }
    view
}

fn approval(details: &ApprovalDetails, catalog: &Catalog) -> Value {
    let ApprovalDetails { subject, annotations, trust, .. } = details;
    let rows = approval_rows::rows(details.arguments.as_ref());
    let rows: Vec<Value> = rows
        .into_iter()
        .map(|row| json!({ "label": row.label, "value": cut(&row.value), "important": row.important }))
        .collect();
    let public = catalog.tool_at(&subject.server, &subject.raw_name).map(|entry| entry.public.to_string());
    json!({
        "tool": subject.raw_name,
        "publicName": public,
        "kind": subject.kind.as_str(),
        "title": details.title,
        "arguments": details.arguments.as_ref().map(arguments),
        "rows": rows,
        "warnings": approval_rows::warnings(*annotations, *trust),
        "readOnly": annotations.read_only,
        "destructive": annotations.destructive,
        "openWorld": annotations.open_world,
        "trust": trust.as_str(),
        "rule": details.rule.to_string(),
        "reason": details.reason,
        "remedy": details.remedy,
        "covers": cut(&details.pattern.to_string()),
    })
}

/// The arguments as JSON, or the beginning of their text.
fn arguments(raw: &Raw) -> Value {
    let text = raw.to_string();
    if MAX_ARGUMENTS < text.len() {
        return Value::from(cut(&text));
    }
    raw.read().unwrap_or_else(|_| Value::from(text))
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_ARGUMENTS)]
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
