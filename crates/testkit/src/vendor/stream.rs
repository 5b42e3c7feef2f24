//! A reply as bytes of HTTP: server-sent events in a chunked body, with the faults that concern all wires.

use serde_json::{Value, json};

use super::{
    VendorKind, anthropic, gemini, openai, openai_chat,
    reply::{Answer, Body, Fault, VendorReply},
};
use crate::odd::http::{Act, Reply as HttpReply};

/// One server-sent event.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// The `event:` field.
    pub(super) name: Option<String>,
    pub(super) data: String,
}

impl Event {
    /// An event without a name.
    pub(super) fn data(data: &Value) -> Self {
        Self { name: None, data: data.to_string() }
    }

    /// An event that is named by its `type`, as Anthropic and the Responses API do.
    pub(super) fn typed(data: &Value) -> Self {
        Self { name: data["type"].as_str().map(str::to_owned), data: data.to_string() }
    }

    fn text(&self, line_end: &str) -> String {
        let name = self.name.iter().map(|name| format!("event: {name}{line_end}")).collect::<String>();
        format!("{name}data: {}{line_end}{line_end}", self.data)
    }
}

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

/// The reply of a vendor.
pub(super) fn http_reply(kind: VendorKind, reply: VendorReply) -> HttpReply {
    match reply.body {
        Body::Answer(answer) => streamed(kind, &answer, reply.fault),
        Body::Stream(text) => finished(HttpReply::bare().say(HEAD).say(chunk(text.as_bytes()))),
        Body::Whole { status, kind, body } => HttpReply::body(status, &kind, body),
        Body::Closed => HttpReply::bare().then(Act::Close),
        Body::Refusal { status, message, headers, retry_info } => {
            let mut error = kind.error(status, &message);
            let seconds = retry_info.map(|time| time.as_secs());
            if let (VendorKind::Gemini, Some(seconds)) = (kind, seconds) {
                let info =
                    json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s") });
                error["error"]["details"] = json!([info]);
            }
            let reply = HttpReply::json(status, &error);
            let reply = match (kind, seconds) {
                (VendorKind::Gemini, _) | (_, None) => reply,
                (_, Some(seconds)) => reply.header("retry-after", seconds.to_string()),
            };
            headers.iter().fold(reply, |reply, (name, value)| reply.header(name, value.clone()))
        }
    }
}

fn streamed(kind: VendorKind, answer: &Answer, fault: Option<Fault>) -> HttpReply {
    let mut events = match kind {
        VendorKind::Anthropic => anthropic::events(answer, fault),
        VendorKind::Openai => openai::events(answer, fault),
        VendorKind::OpenaiChat => openai_chat::events(answer, fault),
        VendorKind::Gemini => gemini::events(answer, fault),
    };
    let half = events.len().div_ceil(2);
    match fault {
        Some(Fault::CutBody | Fault::CutConnection | Fault::Hang | Fault::EndlessText | Fault::EndlessEvent) => {
            events.truncate(half);
        }
        Some(Fault::ErrorInTheMiddle) => {
            events.truncate(half);
            events.push(error_event(kind));
        }
        Some(Fault::NotJson) => events.insert(half, Event { name: None, data: "{\"oops\":".to_owned() }),
        // The mark `[DONE]` of Chat Completions is optional; the reason is not.
        Some(Fault::NoLastEvent) if kind == VendorKind::OpenaiChat => {
            events.retain(|event| event.data != "[DONE]" && !event.data.contains("\"finish_reason\":\""));
        }
        Some(Fault::NoLastEvent) => drop(events.pop()),
        _ => {}
    }
    // Gemini ends its lines with CR LF, the others with LF.
    let crlf = kind == VendorKind::Gemini || fault == Some(Fault::SplitCrlf);
    let text: Vec<String> = events.iter().map(|event| event.text(if crlf { "\r\n" } else { "\n" })).collect();
    let reply = HttpReply::bare().say(HEAD);
    let reply = if fault == Some(Fault::SplitCrlf) {
        let bytes = text.concat().into_bytes();
        reply.say(bytes.iter().flat_map(|byte| chunk(&[*byte])).collect::<Vec<u8>>())
    } else {
        text.iter().fold(reply, |reply, event| reply.say(chunk(event.as_bytes())))
    };
    match fault {
        Some(Fault::CutConnection) => reply.then(Act::Close),
        Some(Fault::Hang) => reply.then(Act::Hang),
        Some(Fault::EndlessText) => reply.then(Act::SayForEver(chunk(endless(kind).text("\n").as_bytes()))),
        Some(Fault::EndlessEvent) => reply.say(chunk(b"data: ")).then(Act::SayForEver(chunk(&[b'x'; 65_536]))),
        _ => finished(reply),
    }
}

fn finished(reply: HttpReply) -> HttpReply {
    reply.say("0\r\n\r\n")
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// Message of an error inside a stream.
const OVERLOADED: &str = "Overloaded, try again later";

fn error_event(kind: VendorKind) -> Event {
    match kind {
        VendorKind::Anthropic => Event::typed(&kind.error(529, OVERLOADED)),
        VendorKind::Openai => Event::typed(&json!({
            "type": "error", "code": "server_error", "message": OVERLOADED, "param": null, "sequence_number": 7,
        })),
        VendorKind::OpenaiChat => Event::data(&kind.error(503, OVERLOADED)),
        VendorKind::Gemini => Event::data(&kind.error(503, OVERLOADED)),
    }
}

/// An event with 32 KiB of text.
fn endless(kind: VendorKind) -> Event {
    let text = "la ".repeat(11_000);
    match kind {
        VendorKind::Anthropic => {
            let delta = json!({ "type": "text_delta", "text": text });
            Event::typed(&json!({ "type": "content_block_delta", "index": 0, "delta": delta }))
        }
        VendorKind::Openai => Event::typed(&json!({
            "type": "response.output_text.delta", "item_id": "msg_0", "output_index": 0, "content_index": 0,
            "delta": text,
        })),
        VendorKind::OpenaiChat => openai_chat::chunk(&json!({ "content": text }), &Value::Null),
        VendorKind::Gemini => gemini::chunk(&json!([{ "text": text }]), None, None),
    }
}

/// Splits text into pieces of a few characters, as models stream it.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(7).map(|piece| piece.iter().collect()).collect()
}
