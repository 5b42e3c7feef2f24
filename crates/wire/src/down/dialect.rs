//! What each revision can say, and how results, definitions, content and questions are fitted to a caller's.
//!
//! One table says what a revision lacks; what nobody has to change keeps its bytes. Nothing is invented but the words
//! that stand for what cannot be said.

mod content;
mod definition;
mod question;

use crate::{
    json::{Kind, Raw, scan},
    message::{
        meta,
        splice::{self, Edit},
    },
    revision::Revision,
};

pub(super) use self::question::{capabilities, question, told};

/// What a revision lacks.
#[derive(Debug)]
struct Lacks {
    /// Members of a result.
    result: &'static [&'static str],
    /// Members of everything that is listed.
    item: &'static [&'static str],
    /// Members of a tool besides.
    tool: &'static [&'static str],
    /// Members of a content block.
    block: &'static [&'static str],
    /// Kinds of content.
    kinds: &'static [&'static str],
    /// Structured results and their schemas.
    structure: Structure,
}

/// What a tool's result may hold beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Structure {
    /// Nothing.
    None,
    /// An object; every property's schema is one too.
    Objects,
    /// Any value, any schema.
    Anything,
}

const MODERN: Lacks =
    Lacks { result: &[], item: &[], tool: &["execution"], block: &[], kinds: &[], structure: Structure::Anything };

const V2025_11_25: Lacks = Lacks {
    result: &["resultType", "ttlMs", "cacheScope"],
    item: &[],
    tool: &[],
    block: &[],
    kinds: &[],
    structure: Structure::Objects,
};

const V2025_06_18: Lacks = Lacks { item: &["icons"], tool: &["execution"], block: &["icons"], ..V2025_11_25 };

const V2025_03_26: Lacks = Lacks {
    result: &["resultType", "ttlMs", "cacheScope", "structuredContent"],
    item: &["title", "_meta", "icons"],
    tool: &["execution", "outputSchema"],
    block: &["_meta"],
    kinds: &["resource_link"],
    structure: Structure::None,
};

const V2024_11_05: Lacks =
    Lacks { tool: &["execution", "outputSchema", "annotations"], kinds: &["resource_link", "audio"], ..V2025_03_26 };

fn lacks(revision: Revision) -> &'static Lacks {
    match revision {
        Revision::V2026_07_28 => &MODERN,
        Revision::V2025_11_25 => &V2025_11_25,
        Revision::V2025_06_18 => &V2025_06_18,
        Revision::V2025_03_26 => &V2025_03_26,
        Revision::V2024_11_05 => &V2024_11_05,
    }
}

/// The edits that fit the result of this method to a caller of this revision.
pub(super) fn result(revision: Revision, method: &str, result: &Raw) -> Vec<Edit<'static>> {
    let lacks = lacks(revision);
    let mut edits = Vec::new();
    let mut structured = None;
    // Where a result lacks nothing, nobody looks through it.
    let members = if lacks.result.is_empty() {
        Vec::new()
    } else {
        present(result, &["structuredContent", "_meta"], lacks.result)
    };
    for (key, value) in members {
        match key {
            "structuredContent" => structured = Some(value),
            "_meta" => edits.extend(without_hop(&value)),
            key => edits.push(Edit::Remove(key)),
        }
    }
    match method {
        "tools/list" => edits.extend(definition::tools(lacks, result)),
        "resources/list" => edits.extend(definition::items(lacks, result, "resources")),
        "resources/templates/list" => edits.extend(definition::items(lacks, result, "resourceTemplates")),
        "prompts/list" => edits.extend(definition::prompts(lacks, result)),
        "prompts/get" => edits.extend(content::messages(lacks, result)),
        "resources/read" => edits.extend(definition::items(lacks, result, "contents")),
        "tools/call" | "tasks/result" => edits.extend(content::of_a_tool(lacks, result, structured)),
        _ => {}
    }
    edits
}

/// Who answers, with what this revision says of that.
pub(super) fn info(revision: Revision, info: &Raw) -> Raw {
    let lacks: &[&str] = match revision {
        Revision::V2026_07_28 | Revision::V2025_11_25 => return info.clone(),
        Revision::V2025_06_18 => &["icons", "description", "websiteUrl"],
        Revision::V2025_03_26 | Revision::V2024_11_05 => &["icons", "description", "websiteUrl", "title"],
    };
    definition::without(info, &definition::removals(lacks, info)).unwrap_or_else(|| info.clone())
}

/// Progress as this revision reports it.
pub(super) fn progress(revision: Revision) -> Option<Edit<'static>> {
    (revision < Revision::V2025_03_26).then_some(Edit::Remove("message"))
}

/// Which of these members an object has, in one pass.
fn present(object: &Raw, some: &[&'static str], others: &[&'static str]) -> Vec<(&'static str, Raw)> {
    let mut found = Vec::new();
    object.each_member(|key, value| {
        let literal = &object.as_bytes()[key];
        let known = some.iter().chain(others).copied().find(|known| scan::key_is(literal, known));
        found.extend(known.map(|known| (known, Raw::checked(object.bytes().slice(value)))));
    });
    found
}

/// What a server says of its own hop stays on that hop.
fn without_hop(theirs: &Raw) -> Option<Edit<'static>> {
    let keys = meta::HOP_KEYS.into_iter().filter(|key| *key != meta::RELATED_TASK && theirs.get(key).is_some());
    let edits: Vec<Edit<'_>> = keys.map(Edit::Remove).collect();
    if edits.is_empty() {
        return None;
    }
    let rest = splice::edited(theirs, &edits);
    Some(if rest.members().is_empty() { Edit::Remove("_meta") } else { Edit::Set("_meta", rest) })
}

/// The list with each object in it changed by `fit`; none where nothing had to change.
fn each(list: &Raw, fit: impl Fn(&Raw) -> Option<Raw>) -> Option<Raw> {
    if list.kind() != Kind::Array {
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
