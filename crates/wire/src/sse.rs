//! Encoder and bounded decoder of server-sent events.
//!
//! The decoder copies only where a line spans several chunks; a one-line message within a chunk is not copied.

use bytes::{Bytes, BytesMut};

use crate::{error::WireError, json, pieces::Pieces};

/// One server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event:` field.
    pub name: Option<String>,
    /// The `data:` fields, joined by line breaks; empty without any.
    pub data: Bytes,
    /// The `id:` field.
    pub id: Option<String>,
    /// The `retry:` field in milliseconds.
    pub retry: Option<u64>,
}

/// Decodes a stream of chunks into events.
#[derive(Debug)]
pub struct SseDecoder {
    /// Incomplete current line.
    line: Pieces,
    /// Bytes of the current event, line breaks excluded.
    size: usize,
    event: Partial,
    limit: usize,
    after_return: bool,
    at_start: bool,
}

#[derive(Debug, Default)]
struct Partial {
    event: SseEvent,
    data: Data,
    any: bool,
}

/// The `data:` fields so far: a single one is not copied, several are joined.
#[derive(Debug, Default)]
enum Data {
    #[default]
    Nothing,
    Line(Bytes),
    Lines(BytesMut),
}

/// Encodes a message as one event.
pub fn encode(message: Bytes) -> Bytes {
    const BEFORE: &[u8] = b"event: message\ndata: ";
    let line = json::one_line(message);
    let mut event = Vec::with_capacity(BEFORE.len() + line.len() + 2);
    event.extend_from_slice(BEFORE);
    event.extend_from_slice(&line);
    event.extend_from_slice(b"\n\n");
    event.into()
}

/// Encodes a message as one event with an id.
pub fn encode_with_id(id: &str, message: Bytes) -> Bytes {
    let line = json::one_line(message);
    let mut event = Vec::with_capacity(line.len() + id.len() + 32);
    for part in [b"id: ", id.as_bytes(), b"\nevent: message\ndata: ", &line, b"\n\n"] {
        event.extend_from_slice(part);
    }
    event.into()
}

/// Encodes the first event of a resumable stream: its position and the retry delay, without data.
pub fn encode_opening(id: &str, retry_millis: u64) -> Bytes {
    format!("id: {id}\nretry: {retry_millis}\ndata: \n\n").into()
}

/// Encodes the `endpoint` event of HTTP+SSE: the path for the client's messages.
pub fn encode_endpoint(path: &str) -> Bytes {
    format!("event: endpoint\ndata: {path}\n\n").into()
}

/// A comment that keeps the connection open.
pub fn keep_alive_comment() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

// === impl SseDecoder ===

impl SseDecoder {
    /// Creates a decoder that rejects events over `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let (line, event) = (Pieces::default(), Partial::default());
        Self { line, size: 0, event, limit, after_return: false, at_start: true }
    }

    /// Bytes kept of an event that is not complete.
    pub(crate) fn incomplete_bytes(&self) -> usize {
        self.size
    }

    /// Decodes the next chunk; returns the events it completes.
    pub fn push(&mut self, mut chunk: Bytes) -> Result<Vec<SseEvent>, WireError> {
        let mut events = Vec::new();
        if !chunk.is_empty() && std::mem::take(&mut self.after_return) && chunk[0] == b'\n' {
            chunk = chunk.slice(1..);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', &chunk) {
            let mut next = end + 1;
            if chunk[end] == b'\r' {
                match chunk.get(next) {
                    Some(b'\n') => next += 1,
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            self.count(end)?;
            let line = self.line(chunk.slice(..end));
            if let Some(event) = self.take(&line) {
                events.push(event);
            }
            chunk = chunk.slice(next..);
        }
        if !chunk.is_empty() {
            self.count(chunk.len())?;
            self.line.push(chunk);
        }
        Ok(events)
    }

    /// Counts bytes toward the limit. Line breaks are excluded, because a CR LF may be split over two chunks.
    fn count(&mut self, bytes: usize) -> Result<(), WireError> {
        self.size += bytes;
        if self.limit < self.size {
            return Err(WireError::TooLarge { what: "server-sent event", limit: self.limit });
        }
        Ok(())
    }

    /// Returns the whole line; copied only if it spans several chunks.
    fn line(&mut self, last: Bytes) -> Bytes {
        let mut line = match std::mem::take(&mut self.line) {
            nothing if nothing.len() == 0 => last,
            mut line => {
                line.push(last);
                line.whole()
            }
        };
        if self.at_start {
            self.at_start = false;
            if line.starts_with(b"\xef\xbb\xbf") {
                line = line.slice(3..);
            }
        }
        line
    }

    fn take(&mut self, line: &Bytes) -> Option<SseEvent> {
        if line.is_empty() {
            self.size = 0;
            return std::mem::take(&mut self.event).finish();
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = line.slice((colon + 1).min(line.len())..);
        let value = if value.first() == Some(&b' ') { value.slice(1..) } else { value };
        self.event.field(&line[..colon], value);
        None
    }
}

impl Partial {
    fn field(&mut self, name: &[u8], value: Bytes) {
        let text = || String::from_utf8_lossy(&value).into_owned();
        match name {
            b"event" => self.event.name = Some(text()),
            b"data" => self.data.push(value),
            b"id" if !value.contains(&0) => self.event.id = Some(text()),
            b"retry" => match number(&value) {
                Some(millis) => self.event.retry = Some(millis),
                None => return,
            },
            // Comments and unknown fields.
            _ => return,
        }
        self.any = true;
    }

    fn finish(self) -> Option<SseEvent> {
        self.any.then(|| SseEvent { data: self.data.finish(), ..self.event })
    }
}

impl Data {
    fn push(&mut self, line: Bytes) {
        let mut lines = match std::mem::take(self) {
            Self::Nothing => {
                *self = Self::Line(line);
                return;
            }
            Self::Line(first) => BytesMut::from(first),
            Self::Lines(lines) => lines,
        };
        lines.extend_from_slice(b"\n");
        lines.extend_from_slice(&line);
        *self = Self::Lines(lines);
    }

    fn finish(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::Line(line) => line,
            Self::Lines(lines) => lines.freeze(),
        }
    }
}

/// Parses ASCII digits only, as the specification requires.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::{any, prop, proptest};

    use super::{SseDecoder, SseEvent, encode};
    use crate::property;

    fn decode_all(text: &[u8], step: usize) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new(10_000);
        let chunks = text.chunks(step.max(1)).map(Bytes::copy_from_slice);
        chunks.flat_map(|chunk| decoder.push(chunk).unwrap()).collect()
    }

    #[test]
    fn events_are_decoded_for_any_line_ending_and_chunk_size() {
        let text = b"\xef\xbb\xbf: hi\r\n\r\nid: 7\r\nretry: 500\r\ndata:\r\n\r\nevent: ping\rdata: x\r\rdata: {\"a\":\ndata:1}\nfuture: y\n\n";
        for step in 1..40 {
            let events = decode_all(text, step);
            assert_eq!(events.len(), 3, "step {step}: {events:?}");
            assert_eq!((events[0].id.as_deref(), events[0].retry, events[0].data.len()), (Some("7"), Some(500), 0));
            assert_eq!(events[1].name.as_deref(), Some("ping"));
            assert_eq!(&events[2].data[..], b"{\"a\":\n1}");
        }
    }

    #[test]
    fn event_over_the_limit_is_rejected_for_any_chunk_size() {
        for chunk in ["data: xxxxxxxx\n", ": x", "xxxx"] {
            let mut decoder = SseDecoder::new(100);
            let verdict = (0..100).try_for_each(|_| decoder.push(Bytes::from(chunk)).map(drop));
            assert_eq!(verdict.unwrap_err().code(), "too_large", "{chunk}");
        }
        let mut decoder = SseDecoder::new(100);
        assert!((0..100).all(|_| decoder.push(Bytes::from("data: short\n\n")).is_ok()), "many small ones are fine");
    }

    #[test]
    fn limit_does_not_depend_on_where_a_line_break_is_split() {
        for limit in 1..12 {
            let verdict = |step: usize| {
                let mut decoder = SseDecoder::new(limit);
                b": a\r\ndata\r\n\r\n".chunks(step).try_for_each(|chunk| decoder.push(Bytes::from(chunk)).map(drop))
            };
            assert!((1..10).all(|step| verdict(step).is_ok() == verdict(100).is_ok()), "limit {limit}");
        }
    }

    #[test]
    fn many_small_data_lines_are_joined_without_overhead() {
        let mut decoder = SseDecoder::new(3_000_000);
        let lines = Bytes::from("data:x\n".repeat(300_000) + "\n");
        let events = decoder.push(lines).unwrap();
        assert_eq!(events[0].data.len(), 2 * 300_000 - 1);
    }

    #[test]
    fn cr_lf_counts_as_one_line_break() {
        let text = b"data: a\r\n\ndata: b\r\n\n";
        assert!((1..30).all(|step| decode_all(text, step).len() == 2));
    }

    #[test]
    fn invalid_retry_is_ignored() {
        let events = decode_all(b"retry: 7\nretry: +8\nretry: x\n\nretry: x\n\n", 5);
        assert_eq!(events.iter().map(|event| event.retry).collect::<Vec<_>>(), [Some(7)]);
    }

    #[test]
    fn message_with_line_breaks_is_one_event() {
        let message = Bytes::from_static(b"{\"a\":\n\"x\",\r\"b\":1}\n\ndata: {\"injected\":true}");
        let events = decode_all(&encode(message), 7);
        assert_eq!(events.len(), 1);
        assert!(!events[0].data.contains(&b'\n'));
    }

    proptest! {
        #![proptest_config(property::cases())]
        #[test]
        fn decoding_does_not_depend_on_the_chunk_size(bytes in prop::collection::vec(any::<u8>(), 0..300), step in 1..50usize) {
            assert_eq!(decode_all(&bytes, step), decode_all(&bytes, bytes.len()));
        }
    }
}
