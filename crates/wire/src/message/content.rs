//! A view of one content block; kinds nobody knows yet survive as they are.

use crate::json::Raw;

/// One block of a tool's result, a prompt's message or a sampling message.
#[derive(Clone, Debug)]
pub struct Content {
    /// What is in it.
    pub kind: ContentKind,
    /// All of it.
    pub raw: Raw,
}

/// What a content block holds.
#[derive(Clone, Debug)]
pub enum ContentKind {
    /// Plain text.
    Text(String),
    /// A picture, base64.
    Image {
        /// The base64 text.
        data: String,
        /// Its kind.
        mime_type: String,
    },
    /// Sound, base64.
    Audio {
        /// The base64 text.
        data: String,
        /// Its kind.
        mime_type: String,
    },
    /// A resource, embedded.
    Resource {
        /// Where it could also be read.
        uri: String,
        /// All of the resource.
        resource: Raw,
    },
    /// A resource, named.
    ResourceLink {
        /// Where it can be read.
        uri: String,
    },
    /// A kind this program does not know, or a known one without what it needs.
    Other(String),
}

impl Content {
    /// The view of one block.
    pub fn view(raw: &Raw) -> Self {
        let kind = ContentKind::view(raw).unwrap_or_else(|| ContentKind::Other(text(raw, "type").unwrap_or_default()));
        Self { kind, raw: raw.clone() }
    }
}

impl ContentKind {
    fn view(raw: &Raw) -> Option<Self> {
        Some(match text(raw, "type")?.as_str() {
            "text" => Self::Text(text(raw, "text")?),
            "image" => Self::Image { data: text(raw, "data")?, mime_type: text(raw, "mimeType")? },
            "audio" => Self::Audio { data: text(raw, "data")?, mime_type: text(raw, "mimeType")? },
            "resource" => {
                let resource = raw.get("resource")?;
                Self::Resource { uri: text(&resource, "uri")?, resource }
            }
            "resource_link" => Self::ResourceLink { uri: text(raw, "uri")? },
            _ => return None,
        })
    }
}

fn text(raw: &Raw, key: &str) -> Option<String> {
    raw.get(key).as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned)
}
