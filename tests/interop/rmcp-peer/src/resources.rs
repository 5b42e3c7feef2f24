//! Resources: a text that has editions, a blob, and a template for the rest.

use std::sync::atomic::Ordering;

use rmcp::model::{ErrorData, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::server::World;

/// The resource that `touch_resource` touches.
pub(crate) const MEMO_ONE: &str = "memo://one";

pub(crate) const TEMPLATE: &str = "memo://{name}";

const MEMO_BLOB: &str = "memo://blob";

/// The bytes 0, 1, 2, 253, 254, 255.
const BLOB: &str = "AAEC/f7/";

pub(crate) fn list() -> Vec<Resource> {
    vec![
        Resource::new(MEMO_ONE, "one").with_description("A text that has editions.").with_mime_type("text/plain"),
        Resource::new(MEMO_BLOB, "blob").with_mime_type("application/octet-stream").with_size(6),
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![ResourceTemplate::new(TEMPLATE, "memo").with_description("A memo on any name.").with_mime_type("text/plain")]
}

pub(crate) fn read(world: &World, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let contents = match uri {
        MEMO_ONE => {
            let edition = world.memo_edition.load(Ordering::Relaxed);
            ResourceContents::text(format!("one, edition {edition}"), uri).with_mime_type("text/plain")
        }
        MEMO_BLOB => ResourceContents::blob(BLOB, uri).with_mime_type("application/octet-stream"),
        _ => match uri.strip_prefix("memo://") {
            Some(name) if !name.is_empty() && !name.contains('/') => {
                ResourceContents::text(format!("memo on {name}"), uri).with_mime_type("text/plain")
            }
            _ => return Err(ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": uri })))),
        },
    };
    Ok(ReadResourceResult::new(vec![contents]))
}
