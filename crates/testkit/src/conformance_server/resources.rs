//! The resources: a text, an image, a subscribable one and a template.

use serde_json::{Value, json};
use toolway_wire::{exchange::Request, json::Raw, message::RpcError};

use super::content;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
/// Subscribable resource, which a tool changes.
pub(super) const WATCHED: &str = "test://watched-resource";
const TEMPLATE: (&str, &str) = ("test://template/", "/data");

pub(super) fn list() -> Raw {
    let resource = |uri: &str, name: &str, description: &str, mime_type: &str| json!({ "uri": uri, "name": name, "description": description, "mimeType": mime_type });
    Raw::of(&json!({ "resources": [
        resource(TEXT, "Static text", "A text that never changes", "text/plain"),
        resource(BINARY, "Static binary", "A picture that never changes", "image/png"),
        resource(WATCHED, "Watched", "A text that can be subscribed to", "text/plain"),
    ] }))
}

pub(super) fn templates() -> Raw {
    Raw::of(&json!({ "resourceTemplates": [{
        "uriTemplate": format!("{}{{id}}{}", TEMPLATE.0, TEMPLATE.1),
        "name": "Template",
        "description": "Data for one id",
        "mimeType": "application/json",
    }] }))
}

pub(super) fn read(request: &Request) -> Result<Raw, RpcError> {
    let uri = request.param("uri").and_then(|uri| uri.as_str().map(|uri| uri.into_owned())).unwrap_or_default();
    let contents = contents(&uri).ok_or_else(|| {
        let message = format!("no resource `{uri}`");
        RpcError::with_data(RpcError::RESOURCE_NOT_FOUND, &message, json!({ "uri": uri }))
    })?;
    Ok(Raw::of(&json!({ "contents": [contents] })))
}

/// The URIs that can be subscribed to.
pub(super) fn known(uris: &[String]) -> Vec<String> {
    uris.iter().filter(|uri| contents(uri).is_some()).cloned().collect()
}

fn contents(uri: &str) -> Option<Value> {
    let plain = |text: &str| json!({ "uri": uri, "mimeType": "text/plain", "text": text });
    match uri {
        TEXT => Some(plain("This is the content of the static text resource.")),
        BINARY => Some(json!({ "uri": uri, "mimeType": "image/png", "blob": content::PICTURE })),
        WATCHED => Some(plain("Nothing has happened yet.")),
        _ => {
            let id = uri.strip_prefix(TEMPLATE.0)?.strip_suffix(TEMPLATE.1).filter(|id| !id.is_empty())?;
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            Some(json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() }))
        }
    }
}
