//! Server-sent events: independent of the chunk sizes, as specified, none over the limit.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use toolway_fuzz::Input;
use toolway_fuzz::sse::{SseDecoder, SseEvent, encode};

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let limit = input.parameter(250);
    let mut reference = Reference::new(limit);
    let fits = input.text.iter().all(|byte| reference.step(*byte));
    for chunks in input.cuts() {
        let (events, verdict) = decode(chunks, limit);
        assert_eq!(verdict, fits);
        if fits {
            assert_eq!(events, reference.events);
        } else {
            assert!(reference.events.starts_with(&events), "{events:?} instead of {:?}", reference.events);
        }
    }
    one_message_is_one_event(input.text);
});

/// Decodes all events; false if one exceeds the limit.
fn decode(chunks: Vec<Bytes>, limit: usize) -> (Vec<SseEvent>, bool) {
    let mut decoder = SseDecoder::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        match decoder.push(chunk) {
            Ok(more) => events.extend(more),
            Err(error) => {
                assert_eq!(error.code(), "too_large");
                return (events, false);
            }
        }
    }
    (events, true)
}

fn one_message_is_one_event(text: &[u8]) {
    let (events, _) = decode(vec![encode(Bytes::copy_from_slice(text))], usize::MAX);
    assert_eq!(events.len(), 1);
    let spaced = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    assert!(events[0].data.iter().copied().eq(text.iter().map(spaced)));
}

/// Reference implementation of the specification, byte by byte.
struct Reference {
    line: Vec<u8>,
    first: bool,
    after_return: bool,
    size: usize,
    limit: usize,
    event: SseEvent,
    data: Vec<u8>,
    any: bool,
    events: Vec<SseEvent>,
}

impl Reference {
    fn new(limit: usize) -> Self {
        let (event, data) = (SseEvent::default(), Vec::new());
        Self { line: vec![], first: true, after_return: false, size: 0, limit, event, data, any: false, events: vec![] }
    }

    /// Processes one byte; returns whether the event so far is within the limit. Line breaks do not count.
    fn step(&mut self, byte: u8) -> bool {
        let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
        match byte {
            b'\n' if after_return => {}
            b'\n' | b'\r' => self.line_ends(),
            _ => {
                self.line.push(byte);
                self.size += 1;
            }
        }
        self.size <= self.limit
    }

    fn line_ends(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.first) && line.starts_with("\u{feff}".as_bytes()) {
            line.drain(..3);
        }
        if line.is_empty() {
            return self.event_ends();
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (&line[..], &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => self.event.name = Some(text()),
            b"id" if !value.contains(&0) => self.event.id = Some(text()),
            b"retry" if value.iter().all(u8::is_ascii_digit) && text().parse::<u64>().is_ok() => {
                self.event.retry = text().parse().ok();
            }
            _ => return,
        }
        self.any = true;
    }

    fn event_ends(&mut self) {
        self.size = 0;
        let (event, mut data) = (std::mem::take(&mut self.event), std::mem::take(&mut self.data));
        data.pop();
        if std::mem::take(&mut self.any) {
            self.events.push(SseEvent { data: data.into(), ..event });
        }
    }
}
