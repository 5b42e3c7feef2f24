//! Messages of a conversation in a neutral form, with the vendor's own items beside them.
//!
//! A message of a model keeps the items that the vendor sent ([`RawItems`]): they are sent back unchanged to the same
//! vendor, so that reasoning signatures and unknown items survive. For another vendor the message is rebuilt from its
//! [`Part`]s. All types are stored as JSON in conversations.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, value::RawValue};
use toolway_config::Vendor;
use toolway_wire::json::Raw;

use crate::raw_json;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Contents in order.
    pub parts: Vec<Part>,
    /// The vendor's items of a model's message; `None` for other roles and for partial messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawItems>,
    /// Id of the background task that the host wrote this message about. `None` for everything that a user, a model or a
    /// server wrote, whatever it says. Vendors do not get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Name of the file or resource that this message of role `User` attaches. `None` for everything that a user typed and that
    /// a model or a server wrote, whatever it says. Vendors do not get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<String>,
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text or markdown.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image(Image),
    /// A sound. For a vendor that takes none, a text stands in for it.
    Audio(Audio),
    /// Reasoning as far as the vendor shows it. It is never sent to another vendor.
    Reasoning {
        /// The text, possibly a summary.
        text: String,
    },
    /// A call that the model wants to make.
    ToolCall(ToolCall),
    /// The result of a call.
    ToolResult(ToolResult),
}

/// An image in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// MIME type, such as `image/png`.
    pub mime_type: String,
    /// Standard base64 without line breaks.
    pub data: String,
}

/// A sound in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audio {
    /// MIME type, such as `audio/wav`.
    pub mime_type: String,
    /// Standard base64 without line breaks.
    pub data: String,
}

/// A call that the model wants to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id that the result refers to. Made by us where the vendor sends none.
    pub id: String,
    /// Name as it was offered to the model.
    pub name: String,
    /// Arguments as the model wrote them. An object, or a string with the text of the model if that is not valid JSON.
    #[serde(with = "raw_json::one")]
    pub arguments: Raw,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Id of the call.
    pub call_id: String,
    /// Name of the tool, for vendors that match by name.
    pub name: String,
    /// Contents in order.
    pub content: Vec<ResultPart>,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
}

/// One part of a tool result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResultPart {
    /// Plain text or JSON text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image(Image),
    /// A sound. For a vendor that takes none, a text stands in for it.
    Audio(Audio),
}

/// A vendor's items, sent back to it unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawItems {
    /// The vendor they belong to.
    #[serde(with = "vendor_word")]
    pub vendor: Vendor,
    /// The model that made them; signatures are not valid for another one.
    pub model: String,
    /// The items in order, as the vendor wrote them.
    #[serde(with = "raw_json::list")]
    pub items: Vec<Raw>,
}

impl Message {
    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, parts: vec![Part::Text { text: text.into() }], raw: None, task: None, attached: None }
    }

    /// Results of tool calls.
    pub fn tool_results(results: impl IntoIterator<Item = ToolResult>) -> Self {
        Self {
            role: Role::Tool,
            parts: results.into_iter().map(Part::ToolResult).collect(),
            raw: None,
            task: None,
            attached: None,
        }
    }

    /// The text parts, joined.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// The vendor's items, if they belong to this vendor and model.
    pub fn raw_for(&self, vendor: Vendor, model: &str) -> Option<&[Raw]> {
        let raw = self.raw.as_ref().filter(|raw| raw.vendor == vendor && raw.model == model)?;
        Some(&raw.items)
    }
}

impl From<ResultPart> for Part {
    fn from(part: ResultPart) -> Self {
        match part {
            ResultPart::Text { text } => Self::Text { text },
            ResultPart::Image(image) => Self::Image(image),
            ResultPart::Audio(audio) => Self::Audio(audio),
        }
    }
}

impl Image {
    /// The text that stands in for an image that a model does not take.
    pub(crate) fn left_out(&self) -> String {
        format!("[image left out: this model takes no `{}`]", self.mime_type)
    }
}

impl Audio {
    /// The text that stands in for a sound that a model does not take.
    pub(crate) fn left_out(&self) -> String {
        format!("[audio left out: this model takes no `{}`]", self.mime_type)
    }
}

impl ToolCall {
    /// The arguments, to be looked at: of repeated keys the last, and numbers as far as a `Value` holds them. What is
    /// sent is [`Self::arguments`].
    pub fn arguments_value(&self) -> Value {
        raw_json::value_of(&self.arguments)
    }

    /// Whether the arguments are an object.
    pub fn has_object(&self) -> bool {
        raw_json::is_object(&self.arguments)
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// The text of arguments is kept only if nothing is read in between, as it is for a type with a tag.
impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Tag {
            r#type: String,
        }
        let stored = Box::<RawValue>::deserialize(deserializer)?;
        let tag: Tag = serde_json::from_str(stored.get()).map_err(de::Error::custom)?;
        if tag.r#type == "tool_call" {
            return serde_json::from_str(stored.get()).map(Self::ToolCall).map_err(de::Error::custom);
        }
        Self::deserialize(&mut serde_json::Deserializer::from_str(stored.get())).map_err(de::Error::custom)
    }
}

/// A vendor as its word in the configuration.
pub(crate) mod vendor_word {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use toolway_config::Vendor;

    pub(crate) fn serialize<S: Serializer>(vendor: &Vendor, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(vendor.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vendor, D::Error> {
        let word = String::deserialize(deserializer)?;
        Vendor::from_word(&word).ok_or_else(|| de::Error::custom(format!("unknown vendor `{word}`")))
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::{Message, Part, RawItems, Role, ToolCall, Vendor};

    #[test]
    fn stored_arguments_and_items_keep_every_byte() {
        let text = r#"{"n":123456789012345678901234567890,"x":1e400,"z":-0,"a":1,"a":2,"s":"\u00e9\/"}"#;
        let arguments = Raw::parse(text).unwrap();
        let call = ToolCall { id: "1".to_owned(), name: "t".to_owned(), arguments: arguments.clone() };
        let raw = RawItems { vendor: Vendor::Gemini, model: "m".to_owned(), items: vec![arguments] };
        let parts = vec![Part::Text { text: "hi".to_owned() }, Part::ToolCall(call)];
        let message = Message { role: Role::Assistant, parts, raw: Some(raw), task: None, attached: None };
        let stored = serde_json::to_string(&message).unwrap();
        assert_eq!(stored.matches(text).count(), 2, "{stored}");
        assert_eq!(serde_json::from_str::<Message>(&stored).unwrap(), message);
    }
}
