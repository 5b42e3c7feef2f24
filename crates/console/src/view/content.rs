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
    let shown = pieces(kind, result, MAX_BLOCKS);
    let mut room = Room { texts: MAX_TEXTS, media: MAX_MEDIA };
    let structured = result.get("structuredContent").map(|value| room.json(&value));
    let blocks = shown.iter().enumerate();
    let blocks: Vec<_> = blocks.map(|(part, piece)| BlockView { part, ..room.block(piece) }).collect();
    let other = others(result).map(|others| room.json(&others));
    ResultView { more: count(kind, result).saturating_sub(blocks.len()), blocks, structured, other }
}

/// The members of a result besides its content, as far as all of them fit one text and are no more than blocks.
fn others(result: &Raw) -> Option<Raw> {
    let mut others = serde_json::Map::new();
    let mut room = MAX_TEXT;
    result.each_member(|key, value| {
        let bytes = key.len() + value.len();
        if MAX_BLOCKS <= others.len() || room < bytes {
            return;
        }
        let text = result.as_bytes();
        // A key is a string of the same text.
        let Some(key) = serde_json::from_slice::<String>(&text[key]).ok() else { return };
        if SHOWN.contains(&key.as_str()) {
            return;
        }
        if let Ok(value) = serde_json::from_slice(&text[value]) {
            room -= bytes;
            others.insert(key, value);
        }
    });
    (!others.is_empty()).then(|| Raw::of(&others))
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
    let piece = pieces(kind, result, part.checked_add(1)?.min(MAX_BLOCKS)).into_iter().nth(part)?;
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

/// The list of a result that has its pieces.
fn list(kind: CallKind, result: &Raw) -> Option<Raw> {
    result.get(match kind {
        CallKind::Tool | CallKind::Method => "content",
        CallKind::Resource => "contents",
        CallKind::Prompt => "messages",
    })
}

/// The first pieces of a result. A list of a server may have millions of elements, each of which would cost more than its text: no
/// more are looked at than are asked for.
fn pieces(kind: CallKind, result: &Raw, most: usize) -> Vec<Piece> {
    let elements = list(kind, result).map(|list| list.elements_within(most)).unwrap_or_default();
    let plain = |content: Raw| Piece { content, role: None, is_resource: kind == CallKind::Resource };
    let elements = elements.into_iter();
    match kind {
        CallKind::Prompt => elements.flat_map(|message| messages(&message, most)).take(most).collect(),
        CallKind::Tool | CallKind::Method | CallKind::Resource => elements.map(plain).take(most).collect(),
    }
}

/// The number of pieces of a result. A message of a prompt that is not looked at counts as one.
fn count(kind: CallKind, result: &Raw) -> usize {
    let Some(list) = list(kind, result) else { return 0 };
    match kind {
        CallKind::Prompt => {
            let looked_at = list.elements_within(MAX_BLOCKS);
            let of_message = |message: &Raw| match message.get("content") {
                Some(content) if content.kind() == JsonKind::Array => content.element_count(),
                Some(_) => 1,
                None => 0,
            };
            list.element_count().saturating_sub(looked_at.len()) + looked_at.iter().map(of_message).sum::<usize>()
        }
        CallKind::Tool | CallKind::Method | CallKind::Resource => list.element_count(),
    }
}

/// The first blocks of one message.
fn messages(message: &Raw, most: usize) -> Vec<Piece> {
    let Some(content) = message.get("content") else { return Vec::new() };
    let blocks = if content.kind() == JsonKind::Array { content.elements_within(most) } else { vec![content] };
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

    use super::{MAX_BLOCKS, MAX_TEXT, file, result};

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

    /// Bytes of memory that `act` adds to this process at its peak.
    #[cfg(target_os = "linux")]
    fn peak(act: impl FnOnce()) -> usize {
        let kilobytes = |key: &str| -> usize {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.trim_end_matches("kB").trim().parse().unwrap()
        };
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = kilobytes("VmRSS:");
        act();
        kilobytes("VmHWM:").saturating_sub(before) * 1024
    }

    /// A list of as many zeros, as a value of a result.
    fn zeros(count: usize) -> String {
        format!("[0{}]", ",0".repeat(count - 1))
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_result_of_many_elements_takes_no_memory_for_each_of_them() {
        let list = zeros(700_000);
        let wide: Vec<_> = (0..100_000).map(|key| format!("\"key{key}\":0")).collect();
        let cases = [
            (CallKind::Tool, format!(r#"{{"content":{list}}}"#)),
            (CallKind::Resource, format!(r#"{{"contents":{list}}}"#)),
            (CallKind::Prompt, format!(r#"{{"messages":[{{"role":"user","content":{list}}}]}}"#)),
            (CallKind::Prompt, format!(r#"{{"messages":{list}}}"#)),
            (CallKind::Tool, format!("{{{}}}", wide.join(","))),
        ];
        for (kind, text) in cases {
            // Besides what tests beside this one take. Each element would take 112 bytes.
            let most = 40 * 1024 * 1024 + 2 * text.len();
            let result = Raw::parse(text).unwrap();
            let shown = peak(|| drop(super::result(kind, &result)));
            let saved = peak(|| drop(file(kind, &result, 99)));
            assert!(shown < most && saved < most, "{kind:?}: {shown} and {saved} bytes of {most}");
        }
    }

    #[test]
    fn the_first_of_many_blocks_are_shown_and_the_others_counted() {
        let counted = |kind, text: String| {
            let shown = serde_json::to_value(result(kind, &Raw::parse(text).unwrap())).unwrap();
            (shown["blocks"].as_array().unwrap().len(), shown["more"].as_u64().unwrap())
        };
        let (list, few) = (zeros(1_000), zeros(3));
        assert_eq!(counted(CallKind::Tool, format!(r#"{{"content":{list}}}"#)), (100, 900));
        assert_eq!(counted(CallKind::Tool, format!(r#"{{"content":{few}}}"#)), (3, 0));
        let two = format!(r#"{{"messages":[{{"content":{few}}},{{"content":{list}}}]}}"#);
        assert_eq!(counted(CallKind::Prompt, two.clone()), (100, 903));
        let two = Raw::parse(two).unwrap();
        assert!(file(CallKind::Prompt, &two, 99).is_some() && file(CallKind::Prompt, &two, 100).is_none());
        assert!(file(CallKind::Prompt, &two, usize::MAX).is_none());
        let wide: serde_json::Map<_, _> = (0..1_000).map(|key| (format!("key{key}"), json!(0))).collect();
        let shown = view(CallKind::Tool, &Value::Object(wide));
        assert_eq!(shown["other"]["value"].as_object().unwrap().len(), MAX_BLOCKS);
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
