//! Server-sent events, both ways and bounded.
//!
//! The decoder keeps the chunks it is given and copies only where a line crosses two of them; a message that is one
//! line is taken out without a copy.

use bytes::{Bytes, BytesMut};

use crate::{error::WireError, json, pieces::Pieces};

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// `event:`, if any.
    pub name: Option<String>,
    /// `data:`, lines joined; empty where there was none.
    pub data: Bytes,
    /// `id:`, if any.
    pub id: Option<String>,
    /// `retry:` in milliseconds, if any.
    pub retry: Option<u64>,
}

/// Turns chunks of a stream into events.
#[derive(Debug)]
pub struct SseDecoder {
    /// The line so far.
    line: Pieces,
    /// Bytes of the event so far.
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

/// The `data:` lines of an event so far: one as it came, more of them joined.
#[derive(Debug, Default)]
enum Data {
    #[default]
    Nothing,
    Line(Bytes),
    Lines(BytesMut),
}

/// A message as an event of its own.
pub fn encode(message: Bytes) -> Bytes {
    const BEFORE: &[u8] = b"event: message\ndata: ";
    let line = json::one_line(message);
    let mut event = Vec::with_capacity(BEFORE.len() + line.len() + 2);
    event.extend_from_slice(BEFORE);
    event.extend_from_slice(&line);
    event.extend_from_slice(b"\n\n");
    event.into()
}

/// A message as an event of its own that can be named later.
pub fn encode_with_id(id: &str, message: Bytes) -> Bytes {
    let line = json::one_line(message);
    let mut event = Vec::with_capacity(line.len() + id.len() + 32);
    for part in [b"id: ", id.as_bytes(), b"\nevent: message\ndata: ", &line, b"\n\n"] {
        event.extend_from_slice(part);
    }
    event.into()
}

/// The beginning of a stream that can be taken up again: where it stands, how long to wait, and nothing else.
pub fn encode_opening(id: &str, retry_millis: u64) -> Bytes {
    format!("id: {id}\nretry: {retry_millis}\ndata: \n\n").into()
}

/// Where the old transport's messages are posted: the first event of its stream.
pub fn encode_endpoint(path: &str) -> Bytes {
    format!("event: endpoint\ndata: {path}\n\n").into()
}

/// A sign of life that is no event.
pub fn keep_alive_comment() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

// === impl SseDecoder ===

impl SseDecoder {
    /// A decoder that refuses events over `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let (line, event) = (Pieces::default(), Partial::default());
        Self { line, size: 0, event, limit, after_return: false, at_start: true }
    }

    /// Takes the next chunk; gives the events it completes.
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

    /// Line ends do not count: one that is cut in two would count once or twice.
    fn count(&mut self, bytes: usize) -> Result<(), WireError> {
        self.size += bytes;
        if self.limit < self.size {
            return Err(WireError::TooLarge { what: "server-sent event", limit: self.limit });
        }
        Ok(())
    }

    /// The whole line; copied only when it came in pieces.
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
            // Comments and fields of the future.
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

/// Digits and nothing else, as the specification has it.
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

    fn decoded(text: &[u8], step: usize) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new(10_000);
        let chunks = text.chunks(step.max(1)).map(Bytes::copy_from_slice);
        chunks.flat_map(|chunk| decoder.push(chunk).unwrap()).collect()
    }

    #[test]
    fn events_are_read_whatever_their_line_ends_and_however_they_are_cut() {
        let text = b"\xef\xbb\xbf: hi\r\n\r\nid: 7\r\nretry: 500\r\ndata:\r\n\r\nevent: ping\rdata: x\r\rdata: {\"a\":\ndata:1}\nfuture: y\n\n";
        for step in 1..40 {
            let events = decoded(text, step);
            assert_eq!(events.len(), 3, "step {step}: {events:?}");
            assert_eq!((events[0].id.as_deref(), events[0].retry, events[0].data.len()), (Some("7"), Some(500), 0));
            assert_eq!(events[1].name.as_deref(), Some("ping"));
            assert_eq!(&events[2].data[..], b"{\"a\":\n1}");
        }
    }

    #[test]
    fn an_event_over_the_bound_is_refused_however_it_arrives() {
        for chunk in ["data: xxxxxxxx\n", ": x", "xxxx"] {
            let mut decoder = SseDecoder::new(100);
            let verdict = (0..100).try_for_each(|_| decoder.push(Bytes::from(chunk)).map(drop));
            assert_eq!(verdict.unwrap_err().code(), "too_large", "{chunk}");
        }
        let mut decoder = SseDecoder::new(100);
        assert!((0..100).all(|_| decoder.push(Bytes::from("data: short\n\n")).is_ok()), "many small ones are fine");
    }

    #[test]
    fn the_verdict_on_a_bound_does_not_depend_on_where_a_line_end_was_cut() {
        for limit in 1..12 {
            let verdict = |step: usize| {
                let mut decoder = SseDecoder::new(limit);
                b": a\r\ndata\r\n\r\n".chunks(step).try_for_each(|chunk| decoder.push(Bytes::from(chunk)).map(drop))
            };
            assert!((1..10).all(|step| verdict(step).is_ok() == verdict(100).is_ok()), "limit {limit}");
        }
    }

    #[test]
    fn many_small_lines_take_no_more_than_their_bytes() {
        let mut decoder = SseDecoder::new(3_000_000);
        let lines = Bytes::from("data:x\n".repeat(300_000) + "\n");
        let events = decoder.push(lines).unwrap();
        assert_eq!(events[0].data.len(), 2 * 300_000 - 1);
    }

    #[test]
    fn a_line_end_of_two_bytes_swallows_only_its_own() {
        let text = b"data: a\r\n\ndata: b\r\n\n";
        assert!((1..30).all(|step| decoded(text, step).len() == 2));
    }

    #[test]
    fn a_retry_that_is_no_number_is_passed_over() {
        let events = decoded(b"retry: 7\nretry: +8\nretry: x\n\nretry: x\n\n", 5);
        assert_eq!(events.iter().map(|event| event.retry).collect::<Vec<_>>(), [Some(7)]);
    }

    #[test]
    fn a_message_is_one_event_even_when_it_has_line_breaks() {
        let message = Bytes::from_static(b"{\"a\":\n\"x\",\r\"b\":1}\n\ndata: {\"injected\":true}");
        let events = decoded(&encode(message), 7);
        assert_eq!(events.len(), 1);
        assert!(!events[0].data.contains(&b'\n'));
    }

    proptest! {
        #![proptest_config(property::cases())]
        #[test]
        fn any_bytes_decode_the_same_however_they_are_cut(bytes in prop::collection::vec(any::<u8>(), 0..300), step in 1..50usize) {
            assert_eq!(decoded(&bytes, step), decoded(&bytes, bytes.len()));
        }
    }
}
