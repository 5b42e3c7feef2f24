//! Adapts server requests (elicitation, sampling, roots) to a client's revision.

use std::borrow::Cow;

use serde_json::json;

use super::{content, each, missing};
use crate::{
    json::{JsonKind, Raw},
    message::{
        ClientCapabilities,
        splice::{self, Edit},
    },
    revision::Revision,
};

/// A server request that this client's revision cannot express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("protocol revision {revision} does not support {what}")]
pub(in crate::down) struct UnsupportedServerRequest {
    revision: Revision,
    what: &'static str,
}

/// The declared client capabilities, without those that concern only this hop. What a client declares counts, whatever
/// its revision: some negotiate an older date than they implement.
pub(in crate::down) fn capabilities(declared: &Raw) -> ClientCapabilities {
    let members = declared.members();
    let mut edits = vec![Edit::Remove("tasks")];
    for member in &members {
        match member.key.as_str() {
            "roots" => edits.push(Edit::Set("roots", splice::edited(&member.value, &[Edit::Remove("listChanged")]))),
            key @ ("elicitation" | "sampling") if member.value.kind() != JsonKind::Object => {
                let is_declared = member.value.as_bool() == Some(true);
                edits.push(if is_declared { Edit::Set(key, Raw::empty_object()) } else { Edit::Remove(key) });
            }
            _ => {}
        }
    }
    let changes = |edit: &Edit<'_>| match edit {
        Edit::Remove(key) => declared.get(key).is_some(),
        Edit::Set(key, value) | Edit::Add(key, value) => declared.get(key).as_ref() != Some(value),
    };
    edits.retain(changes);
    ClientCapabilities(splice::edited(declared, &edits))
}

/// Params of a server request adapted to a client of this revision with these capabilities; unchanged where nothing has
/// to change.
pub(in crate::down) fn adapt_server_request(
    revision: Revision,
    declared: &ClientCapabilities,
    method: &str,
    params: &Raw,
) -> Result<Raw, UnsupportedServerRequest> {
    let declares = |capability, feature| declared.0.get(capability).is_some_and(|it| it.get(feature).is_some());
    match method {
        // Only 2025-11-25 defines these members, so the client knows its requests.
        "elicitation/create" if declares("elicitation", "form") || declares("elicitation", "url") => Ok(params.clone()),
        "sampling/createMessage" if declares("sampling", "tools") => Ok(params.clone()),
        "elicitation/create" if revision < Revision::V2025_11_25 => form(revision, params),
        "sampling/createMessage" if revision < Revision::V2025_11_25 => Ok(sampling(revision, params)),
        _ => Ok(params.clone()),
    }
}

/// A form of 2025-06-18: single-value fields, choices by name, defaults only for booleans.
fn form(revision: Revision, params: &Raw) -> Result<Raw, UnsupportedServerRequest> {
    let mut edits = vec![Edit::Remove("mode"), Edit::Remove("task")];
    if let Some(schema) = params.get("requestedSchema")
        && let Some(properties) = schema.get("properties")
    {
        let members = properties.members();
        let mut fields = Vec::new();
        for member in &members {
            let field = field(&member.value).map_err(|what| UnsupportedServerRequest { revision, what })?;
            fields.extend(field.map(|field| Edit::Set(&member.key, field)));
        }
        if !fields.is_empty() {
            let properties = splice::edited(&properties, &fields);
            edits.push(Edit::Set("requestedSchema", splice::edited(&schema, &[Edit::Set("properties", properties)])));
        }
    }
    Ok(splice::edited(params, &edits))
}

/// The adapted field; `None` if it need not change.
fn field(field: &Raw) -> Result<Option<Raw>, &'static str> {
    let [kind, choices, default] = field.fields(["type", "oneOf", "default"]);
    let kind = kind.as_ref().and_then(Raw::as_str).unwrap_or_default();
    if kind == "array" {
        return Err("multi-select fields");
    }
    let mut edits = Vec::new();
    if let Some(choices) = choices.filter(|choices| choices.kind() == JsonKind::Array) {
        let text_of = |choice: &Raw, key| choice.get(key).as_ref().and_then(Raw::as_str).map(Cow::into_owned);
        let values: Vec<_> = choices.elements().iter().filter_map(|choice| text_of(choice, "const")).collect();
        let names: Vec<_> = choices
            .elements()
            .iter()
            .filter_map(|choice| text_of(choice, "title").or_else(|| text_of(choice, "const")))
            .collect();
        edits.extend([
            Edit::Remove("oneOf"),
            Edit::Set("enum", Raw::of(&values)),
            Edit::Set("enumNames", Raw::of(&names)),
        ]);
    }
    if default.is_some() && kind != "boolean" {
        edits.push(Edit::Remove("default"));
    }
    Ok((!edits.is_empty()).then(|| splice::edited(field, &edits)))
}

/// Sampling params of before 2025-11-25: one content block per message.
fn sampling(revision: Revision, params: &Raw) -> Raw {
    let messages = params.get("messages").unwrap_or_else(|| splice::array([]));
    let several = |message: &Raw| message.get("content").is_some_and(|content| content.kind() == JsonKind::Array);
    let mut all = messages.elements();
    let split = all.iter().any(several);
    if split {
        all = all.iter().flat_map(one_block_each).collect();
    }
    let whole = if split { splice::array(&all) } else { messages.clone() };
    let fitted = each(&whole, |message| {
        let content = content::block(missing(revision), &message.get("content")?)?;
        Some(splice::edited(message, &[Edit::Set("content", content)]))
    });
    match fitted.or(split.then_some(whole)) {
        Some(messages) => splice::edited(params, &[Edit::Set("messages", messages), Edit::Remove("task")]),
        None if params.get("task").is_some() => splice::edited(params, &[Edit::Remove("task")]),
        None => params.clone(),
    }
}

fn one_block_each(message: &Raw) -> Vec<Raw> {
    match message.get("content").filter(|content| content.kind() == JsonKind::Array) {
        None => vec![message.clone()],
        Some(content) => {
            let with = |block: &Raw| splice::edited(message, &[Edit::Set("content", block.clone())]);
            content.elements().iter().map(with).collect()
        }
    }
}

/// Log notification for the client that its revision cannot express a server request.
pub(in crate::down) fn not_forwarded_log(unsupported: &UnsupportedServerRequest) -> Raw {
    Raw::of(&json!({ "level": "warning", "data": format!("a server request was not forwarded: {unsupported}") }))
}
