//! Adapts results, definitions, content and server requests to a client's protocol revision.
//!
//! One table lists the features that each revision lacks. Bytes that need no change are kept as received; text is
//! added only in place of content that the revision cannot express.

mod content;
mod definition;
mod server_request;

use crate::{
    json::{JsonKind, Raw, scan},
    message::{
        meta,
        splice::{self, Edit},
    },
    revision::Revision,
};

pub(super) use self::server_request::{adapt_server_request, capabilities};

/// Features that a revision lacks.
#[derive(Debug)]
struct MissingFeatures {
    /// Result members.
    result: &'static [&'static str],
    /// Members of every listed item.
    item: &'static [&'static str],
    /// Further members of a tool.
    tool: &'static [&'static str],
    /// Content block members.
    block: &'static [&'static str],
    /// Content types.
    kinds: &'static [&'static str],
    /// Supported structured results and schemas.
    structure: Structure,
}

/// Structured results that a revision supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Structure {
    /// Not supported.
    None,
    /// Objects; each property schema is an object too.
    Objects,
    /// Any value and any schema.
    Anything,
}

const MODERN: MissingFeatures = MissingFeatures {
    result: &[],
    item: &[],
    tool: &["execution"],
    block: &[],
    kinds: &[],
    structure: Structure::Anything,
};

const V2025_11_25: MissingFeatures = MissingFeatures {
    result: &["resultType", "ttlMs", "cacheScope"],
    item: &[],
    tool: &[],
    block: &[],
    kinds: &[],
    structure: Structure::Objects,
};

const V2025_06_18: MissingFeatures =
    MissingFeatures { item: &["icons"], tool: &["execution"], block: &["icons"], ..V2025_11_25 };

const V2025_03_26: MissingFeatures = MissingFeatures {
    result: &["resultType", "ttlMs", "cacheScope", "structuredContent"],
    item: &["title", "_meta", "icons"],
    tool: &["execution", "outputSchema"],
    block: &["_meta"],
    kinds: &["resource_link"],
    structure: Structure::None,
};

const V2024_11_05: MissingFeatures = MissingFeatures {
    tool: &["execution", "outputSchema", "annotations"],
    kinds: &["resource_link", "audio"],
    ..V2025_03_26
};

fn missing(revision: Revision) -> &'static MissingFeatures {
    match revision {
        Revision::V2026_07_28 => &MODERN,
        Revision::V2025_11_25 => &V2025_11_25,
        Revision::V2025_06_18 => &V2025_06_18,
        Revision::V2025_03_26 => &V2025_03_26,
        Revision::V2024_11_05 => &V2024_11_05,
    }
}

/// Edits that adapt the result of this method to a client of this revision.
pub(super) fn result(revision: Revision, method: &str, result: &Raw) -> Vec<Edit<'static>> {
    let missing = missing(revision);
    let mut edits = Vec::new();
    let mut structured = None;
    // Nothing to remove: skip the scan.
    let members = if missing.result.is_empty() {
        Vec::new()
    } else {
        present(result, &["structuredContent", "_meta"], missing.result)
    };
    for (key, value) in members {
        match key {
            "structuredContent" => structured = Some(value),
            "_meta" => edits.extend(without_hop(&value)),
            key => edits.push(Edit::Remove(key)),
        }
    }
    match method {
        "tools/list" => edits.extend(definition::tools(missing, result)),
        "resources/list" => edits.extend(definition::items(missing, result, "resources")),
        "resources/templates/list" => edits.extend(definition::items(missing, result, "resourceTemplates")),
        "prompts/list" => edits.extend(definition::prompts(missing, result)),
        "prompts/get" => edits.extend(content::messages(missing, result)),
        "resources/read" => edits.extend(definition::items(missing, result, "contents")),
        "tools/call" | "tasks/result" => edits.extend(content::tool_result(missing, result, structured)),
        _ => {}
    }
    edits
}

/// An item of a list, named by its member of the result, for a client of this revision; `None` if it need not change.
pub(super) fn list_item(revision: Revision, member: &str, item: &Raw) -> Option<Raw> {
    let missing = missing(revision);
    match member {
        "tools" => definition::tool(missing, item),
        "prompts" => definition::prompt(missing, item),
        _ => definition::item(missing, item),
    }
}

/// Server information without the members that this revision lacks.
pub(super) fn info(revision: Revision, info: &Raw) -> Raw {
    let missing: &[&str] = match revision {
        Revision::V2026_07_28 | Revision::V2025_11_25 => return info.clone(),
        Revision::V2025_06_18 => &["icons", "description", "websiteUrl"],
        Revision::V2025_03_26 | Revision::V2024_11_05 => &["icons", "description", "websiteUrl", "title"],
    };
    definition::without(info, &definition::removals(missing, info)).unwrap_or_else(|| info.clone())
}

/// Edit of progress params for this revision.
pub(super) fn progress(revision: Revision) -> Option<Edit<'static>> {
    (revision < Revision::V2025_03_26).then_some(Edit::Remove("message"))
}

/// The members with these names that the object has, found in one pass.
fn present(object: &Raw, some: &[&'static str], others: &[&'static str]) -> Vec<(&'static str, Raw)> {
    let mut found = Vec::new();
    object.each_member(|key, value| {
        let literal = &object.as_bytes()[key];
        let known = some.iter().chain(others).copied().find(|known| scan::key_is(literal, known));
        found.extend(known.map(|known| (known, Raw::checked(object.bytes().slice(value)))));
    });
    found
}

/// Removes metadata that concerns only the hop to the server.
fn without_hop(theirs: &Raw) -> Option<Edit<'static>> {
    let keys = meta::HOP_KEYS.into_iter().filter(|key| *key != meta::RELATED_TASK && theirs.get(key).is_some());
    let edits: Vec<Edit<'_>> = keys.map(Edit::Remove).collect();
    if edits.is_empty() {
        return None;
    }
    let rest = splice::edited(theirs, &edits);
    Some(if rest.members().is_empty() { Edit::Remove("_meta") } else { Edit::Set("_meta", rest) })
}

/// The list with each element changed by `fit`; `None` if nothing changed.
fn each(list: &Raw, fit: impl Fn(&Raw) -> Option<Raw>) -> Option<Raw> {
    if list.kind() != JsonKind::Array {
        return None;
    }
    let elements = list.elements();
    let fitted: Vec<Option<Raw>> = elements.iter().map(fit).collect();
    if fitted.iter().all(Option::is_none) {
        return None;
    }
    let whole: Vec<Raw> = fitted.into_iter().zip(elements).map(|(new, old)| new.unwrap_or(old)).collect();
    Some(splice::array(&whole))
}

#[cfg(test)]
mod tests;
