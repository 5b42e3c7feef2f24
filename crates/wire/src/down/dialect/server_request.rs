//! Adapts server requests (elicitation, sampling, roots) to a client's revision.

use std::borrow::Cow;

use super::{content, each, missing};
use crate::{
    json::{JsonKind, Raw},
    message::{
        ClientCapabilities,
        splice::{self, Edit},
    },
    revision::Revision,
};

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
) -> Raw {
    let declares = |capability, feature| declared.0.get(capability).is_some_and(|it| it.get(feature).is_some());
    match method {
        // Only 2025-11-25 defines these members, so the client knows its requests.
        "elicitation/create" if declares("elicitation", "form") || declares("elicitation", "url") => params.clone(),
        "sampling/createMessage" if declares("sampling", "tools") => params.clone(),
        "elicitation/create" if revision < Revision::V2025_11_25 => form(params),
        "sampling/createMessage" if revision < Revision::V2025_11_25 => sampling(revision, params),
        _ => params.clone(),
    }
}

/// A form for clients of 2025-06-18, which know choices only by name. What such a client merely does not know, a field with
/// several values for example, is left to it.
fn form(params: &Raw) -> Raw {
    let mut edits = vec![Edit::Remove("mode"), Edit::Remove("task")];
    if let Some(schema) = params.get("requestedSchema")
        && let Some(properties) = schema.get("properties")
    {
        let members = properties.members();
        let named = |(key, value)| named_choices(value).map(|field| Edit::Set(key, field));
        let fields: Vec<_> =
            members.iter().map(|member| (member.key.as_str(), &member.value)).filter_map(named).collect();
        if !fields.is_empty() {
            let properties = splice::edited(&properties, &fields);
            edits.push(Edit::Set("requestedSchema", splice::edited(&schema, &[Edit::Set("properties", properties)])));
        }
    }
    splice::edited(params, &edits)
}

/// The field with its titled choices as names; `None` if it need not change.
fn named_choices(field: &Raw) -> Option<Raw> {
    let choices = field.get("oneOf").filter(|choices| choices.kind() == JsonKind::Array)?.elements();
    let text_of = |choice: &Raw, key| choice.get(key).as_ref().and_then(Raw::as_str).map(Cow::into_owned);
    let name_of = |choice: &Raw| text_of(choice, "title").or_else(|| text_of(choice, "const"));
    let values: Vec<_> = choices.iter().filter_map(|choice| text_of(choice, "const")).collect();
    let names: Vec<_> = choices.iter().filter_map(name_of).collect();
    let edits = [Edit::Remove("oneOf"), Edit::Set("enum", Raw::of(&values)), Edit::Set("enumNames", Raw::of(&names))];
    Some(splice::edited(field, &edits))
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
