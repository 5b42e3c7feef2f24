//! The result of a run as blocks: texts, pictures, audio, other data, links; each within bounds.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::value::RawValue;
use toolway_host::call::CallKind;
use toolway_wire::{
    json::{JsonKind, Raw},
    message::content::{Content, ContentKind},
};

use super::{audio, image};

/// Blocks that are shown.
const MAX_BLOCKS: usize = 100;
/// Bytes of one text, and of one JSON value.
const MAX_TEXT: usize = 256 * 1024;
/// Bytes of all texts and JSON values.
const MAX_TEXTS: usize = 1024 * 1024;
/// Bytes of all pictures and sounds.
const MAX_MEDIA: usize = 6 * 1024 * 1024;
/// Bytes at the beginning of other data that are shown.
const MAX_BEGINNING: usize = 192;
/// Bytes of a name, an address or a type.
const MAX_NAME: usize = 2048;

/// A result as a page shows it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResultView {
    blocks: Vec<BlockView>,
    /// Blocks that are not shown.
    more: usize,
    structured: Option<JsonView>,
    /// Members besides content and structured content.
    other: Option<JsonView>,
}

/// One block.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockView {
    /// `text`, `picture`, `audio`, `data`, `link` or `json`.
    kind: &'static str,
    /// Position in the result, for its file.
    part: usize,
    /// Of a message of a prompt: `user` or `assistant`.
    role: Option<String>,
    /// Of a resource or a link.
    uri: Option<String>,
    name: Option<String>,
    mime_type: Option<String>,
    /// The whole size; of data that is encoded, its own.
    bytes: usize,
    text: Option<String>,
    json: Option<JsonView>,
    /// Data URL of a picture or sound that may be shown.
    address: Option<String>,
    /// The first bytes of other data in hexadecimal.
    beginning: Option<String>,
    /// Whether only the beginning is here.
    cut: bool,
}

/// A JSON value, or the beginning of its text.
#[derive(Debug, Serialize)]
pub(crate) struct JsonView {
    value: Option<Box<RawValue>>,
    text: Option<String>,
    bytes: usize,
}

/// A piece of a result: one content block, one resource, or one message of a prompt.
struct Piece {
    content: Raw,
    role: Option<String>,
    is_resource: bool,
}

/// Bytes that are left.
struct Room {
    texts: usize,
    media: usize,
}

/// The result of a call of this kind.
pub(crate) fn result(kind: CallKind, result: &Raw) -> ResultView {
    let all = pieces(kind, result);
    let mut room = Room { texts: MAX_TEXTS, media: MAX_MEDIA };
    let structured = result.get("structuredContent").map(|value| room.json(&value));
    let blocks = all.iter().take(MAX_BLOCKS).enumerate();
    let blocks: Vec<_> = blocks.map(|(part, piece)| BlockView { part, ..room.block(piece) }).collect();
    let others: serde_json::Map<_, _> = result
        .members()
        .into_iter()
        .filter(|member| !SHOWN.contains(&member.key.as_str()) && member.value.as_bytes().len() <= MAX_TEXT)
        .filter_map(|member| Some((member.key, member.value.read().ok()?)))
        .collect();
    let other = (!others.is_empty()).then(|| room.json(&Raw::of(&others)));
    ResultView { more: all.len().saturating_sub(blocks.len()), blocks, structured, other }
}

/// Members that are shown as such.
const SHOWN: [&str; 6] = ["content", "structuredContent", "isError", "contents", "messages", "resultType"];

/// A part of a result as a file.
pub(crate) struct PartFile {
    pub(crate) bytes: Vec<u8>,
    /// Ending of its name.
    pub(crate) ending: &'static str,
}

/// The part of a result at a position, decoded; `None` if the result has fewer parts.
pub(crate) fn file(kind: CallKind, result: &Raw, part: usize) -> Option<PartFile> {
    let piece = pieces(kind, result).into_iter().nth(part)?;
    let data = if piece.is_resource { Encoded::of_resource(&piece.content) } else { Encoded::of_block(&piece.content) };
    if let Some(Encoded { data, .. }) = data {
        let bytes = BASE64_STANDARD.decode(data).ok()?;
        return Some(PartFile { bytes, ending: "bin" });
    }
    match text(&piece.content, "text") {
        Some(text) => Some(PartFile { bytes: text.into_bytes(), ending: "txt" }),
        None => Some(PartFile { bytes: piece.content.as_bytes().to_vec(), ending: "json" }),
    }
}

fn pieces(kind: CallKind, result: &Raw) -> Vec<Piece> {
    let list = |key: &str| result.get(key).map(|list| list.elements()).unwrap_or_default();
    let plain = |content: Raw, is_resource| Piece { content, role: None, is_resource };
    match kind {
        CallKind::Tool | CallKind::Method => list("content").into_iter().map(|block| plain(block, false)).collect(),
        CallKind::Resource => list("contents").into_iter().map(|resource| plain(resource, true)).collect(),
        CallKind::Prompt => list("messages").iter().flat_map(messages).collect(),
    }
}

/// The blocks of one message.
fn messages(message: &Raw) -> Vec<Piece> {
    let Some(content) = message.get("content") else { return Vec::new() };
    let blocks = if content.kind() == JsonKind::Array { content.elements() } else { vec![content] };
    let role = text(message, "role").map(|role| cut(&role, MAX_NAME).to_owned());
    blocks.into_iter().map(|content| Piece { content, role: role.clone(), is_resource: false }).collect()
}

/// Data in base64.
struct Encoded {
    data: String,
    mime_type: Option<String>,
}

impl Encoded {
    fn of_block(block: &Raw) -> Option<Self> {
        match Content::view(block).kind {
            ContentKind::Image { data, mime_type } | ContentKind::Audio { data, mime_type } => {
                Some(Self { data, mime_type: Some(mime_type) })
            }
            ContentKind::Resource { resource, .. } => Self::of_resource(&resource),
            _ => None,
        }
    }

    fn of_resource(resource: &Raw) -> Option<Self> {
        Some(Self { data: text(resource, "blob")?, mime_type: text(resource, "mimeType") })
    }

    /// Size of the data.
    fn bytes(&self) -> usize {
        let padding = self.data.bytes().rev().take_while(|byte| *byte == b'=').count();
        (self.data.len() / 4 * 3).saturating_sub(padding.min(2))
    }
}

impl Room {
    fn block(&mut self, piece: &Piece) -> BlockView {
        let view = if piece.is_resource { self.resource(&piece.content) } else { self.content(&piece.content) };
        BlockView { role: piece.role.clone(), ..view }
    }

    fn content(&mut self, block: &Raw) -> BlockView {
        match Content::view(block).kind {
            ContentKind::Text(text) => self.text(&text),
            ContentKind::Image { .. } | ContentKind::Audio { .. } => {
                Encoded::of_block(block).map(|data| self.media(&data)).unwrap_or_default()
            }
            ContentKind::Resource { resource, .. } => self.resource(&resource),
            ContentKind::ResourceLink { uri } => BlockView {
                kind: "link",
                uri: Some(cut(&uri, MAX_NAME).to_owned()),
                name: short(block, "title").or_else(|| short(block, "name")),
                mime_type: short(block, "mimeType"),
                text: short(block, "description"),
                ..BlockView::default()
            },
            ContentKind::Other(_) => {
                let json = self.json(block);
                BlockView { kind: "json", bytes: json.bytes, json: Some(json), ..BlockView::default() }
            }
        }
    }

    fn resource(&mut self, resource: &Raw) -> BlockView {
        let view = match (text(resource, "text"), Encoded::of_resource(resource)) {
            (Some(text), _) => self.text(&text),
            (None, Some(data)) => self.media(&data),
            (None, None) => {
                let json = self.json(resource);
                BlockView { kind: "json", bytes: json.bytes, json: Some(json), ..BlockView::default() }
            }
        };
        BlockView { uri: short(resource, "uri"), mime_type: short(resource, "mimeType"), ..view }
    }

    fn text(&mut self, text: &str) -> BlockView {
        let shown = cut(text, MAX_TEXT.min(self.texts));
        self.texts -= shown.len();
        BlockView {
            kind: "text",
            bytes: text.len(),
            cut: shown.len() < text.len(),
            text: Some(shown.to_owned()),
            ..BlockView::default()
        }
    }

    /// A picture or sound of a type that a page may show, else the beginning of the data.
    fn media(&mut self, data: &Encoded) -> BlockView {
        let bytes = data.bytes();
        let mime_type = data.mime_type.as_deref().unwrap_or_default();
        let view = BlockView {
            bytes,
            mime_type: data.mime_type.as_deref().map(|kind| cut(kind, MAX_NAME).to_owned()),
            ..BlockView::default()
        };
        let fits = data.data.len() <= self.media;
        let address = fits.then(|| image(mime_type, &data.data).map(|address| ("picture", address)));
        let address = address.flatten().or_else(|| fits.then(|| audio(mime_type, &data.data)).flatten().map(sound));
        match address {
            Some((kind, address)) => {
                self.media -= data.data.len();
                BlockView { kind, address: Some(address), ..view }
            }
            None => BlockView { kind: "data", beginning: beginning(&data.data), ..view },
        }
    }

    fn json(&mut self, value: &Raw) -> JsonView {
        let bytes = value.as_bytes().len();
        if bytes <= MAX_TEXT.min(self.texts) {
            self.texts -= bytes;
            let value = RawValue::from_string(value.to_string()).ok();
            return JsonView { value, text: None, bytes };
        }
        let text = value.text();
        let shown = cut(&text, MAX_TEXT.min(self.texts));
        self.texts -= shown.len();
        JsonView { value: None, text: Some(shown.to_owned()), bytes }
    }
}

fn sound(address: String) -> (&'static str, String) {
    ("audio", address)
}

/// The first bytes of data, as a person reads them.
fn beginning(data: &str) -> Option<String> {
    let head: String = data.chars().take(MAX_BEGINNING / 3 * 4).collect();
    let bytes = BASE64_STANDARD.decode(&head[..head.len() / 4 * 4]).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "))
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn short(raw: &Raw, key: &str) -> Option<String> {
    text(raw, key).map(|text| cut(&text, MAX_NAME).to_owned())
}

fn text(raw: &Raw, key: &str) -> Option<String> {
    raw.get(key).as_ref().and_then(Raw::as_str).map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolway_host::call::CallKind;
    use toolway_wire::json::Raw;

    use super::{MAX_TEXT, file, result};

    fn view(kind: CallKind, value: &Value) -> Value {
        serde_json::to_value(result(kind, &Raw::of(value))).unwrap()
    }

    #[test]
    fn blocks_of_all_kinds_are_told_apart() {
        let shown = view(
            CallKind::Tool,
            &json!({ "content": [
                { "type": "text", "text": "hello" },
                { "type": "image", "mimeType": "image/png", "data": "AAAA" },
                { "type": "image", "mimeType": "image/svg+xml", "data": "AAAA" },
                { "type": "audio", "mimeType": "audio/wav", "data": "AAAA" },
                { "type": "audio", "mimeType": "text/html", "data": "AAAA" },
                { "type": "resource", "resource": { "uri": "x://y", "blob": "AAE=" } },
                { "type": "resource_link", "uri": "https://example.com", "name": "there" },
                { "type": "new" }, 7
            ], "structuredContent": { "n": 1 }, "_meta": { "a": 1 } }),
        );
        let kinds: Vec<_> = shown["blocks"].as_array().unwrap().iter().map(|block| &block["kind"]).collect();
        assert_eq!(kinds, ["text", "picture", "data", "audio", "data", "data", "link", "json", "json"]);
        assert_eq!((&shown["blocks"][5]["beginning"], &shown["blocks"][5]["bytes"]), (&json!("00 01"), &json!(2)));
        assert_eq!(shown["structured"]["value"], json!({ "n": 1 }));
        assert_eq!(shown["other"]["value"], json!({ "_meta": { "a": 1 } }));
    }

    #[test]
    fn long_texts_and_many_blocks_are_cut_and_say_so() {
        let text = json!({ "type": "text", "text": "ä".repeat(MAX_TEXT) });
        let shown = view(CallKind::Tool, &json!({ "content": [text] }));
        assert_eq!((&shown["blocks"][0]["cut"], &shown["blocks"][0]["bytes"]), (&json!(true), &json!(2 * MAX_TEXT)));
        let blocks: Vec<_> = (0..500).map(|_| json!({ "type": "text", "text": "x".repeat(10_000) })).collect();
        let shown = view(CallKind::Tool, &json!({ "content": blocks }));
        assert_eq!((shown["blocks"].as_array().unwrap().len(), &shown["more"]), (100, &json!(400)));
        assert!(shown.to_string().len() < 2_000_000);
    }

    #[test]
    fn messages_and_resources_are_blocks_and_files() {
        let prompt = json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }] });
        assert_eq!(view(CallKind::Prompt, &prompt)["blocks"][0]["role"], "user");
        let resource = json!({ "contents": [{ "uri": "x://a", "blob": "AAE=" }, { "uri": "x://b", "text": "t" }] });
        let part = |at| file(CallKind::Resource, &Raw::of(&resource), at);
        assert_eq!(part(0).unwrap().bytes, [0, 1]);
        assert_eq!((part(1).unwrap().bytes.as_slice(), part(1).unwrap().ending), (&b"t"[..], "txt"));
        assert!(part(2).is_none());
    }
}
