//! A view of one content block; unknown types are kept as they are.

use crate::json::Raw;

/// One block of a tool's result, a prompt's message or a sampling message.
#[derive(Clone, Debug)]
pub struct Content {
    /// Parsed type and fields.
    pub kind: ContentKind,
    /// The whole block.
    pub raw: Raw,
}

/// Type of a content block.
#[derive(Clone, Debug)]
pub enum ContentKind {
    /// Plain text.
    Text(String),
    /// Image, base64.
    Image {
        /// The base64 text.
        data: String,
        /// Media type.
        mime_type: String,
    },
    /// Audio, base64.
    Audio {
        /// The base64 text.
        data: String,
        /// Media type.
        mime_type: String,
    },
    /// Embedded resource.
    Resource {
        /// URI of the resource.
        uri: String,
        /// The whole resource.
        resource: Raw,
    },
    /// Link to a resource.
    ResourceLink {
        /// URI of the resource.
        uri: String,
    },
    /// An unknown type, or a known one without its required fields.
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
