//! Lines: independent of the chunk sizes, none over the limit, and the id of a line that is too long is found.
#![no_main]

#[path = "../../crates/wire/tests/it/oracle.rs"]
mod oracle;

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    vec,
};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncRead, ReadBuf};
use toolway_fuzz::Input;
use toolway_fuzz::private::{Line, lines};

/// Longest id that is searched in a line over the limit.
const LONGEST_ID: usize = 64;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let limit = input.parameter(60);
    let [whole, others @ ..] = input.cuts().map(|chunks| read(chunks, limit));
    others.iter().for_each(|other| assert_eq!(*other, whole));
    check(input.text, limit, &whole);
});

fn read(chunks: Vec<Bytes>, limit: usize) -> Vec<Line> {
    let stream = Chunks { rest: chunks.into_iter(), chunk: Bytes::new() };
    match pin!(lines(stream, limit)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(lines) => lines,
        Poll::Pending => panic!("waits for a stream that is always ready"),
    }
}

fn check(text: &[u8], limit: usize, lines: &[Line]) {
    let mut lines = lines.iter();
    for line in text.split(|byte| *byte == b'\n') {
        if limit < line.len() {
            let Some(Line::TooLong(id)) = lines.next() else { panic!("a line over the limit was returned") };
            check_id(line, id.as_ref().map(|id| id.as_bytes()));
        } else if !line.trim_ascii().is_empty() {
            assert_eq!(lines.next(), Some(&Line::Message(Bytes::copy_from_slice(line.trim_ascii()))));
        }
    }
    assert_eq!(lines.next(), None);
}

/// Checks the id found in a skipped line that has exactly one `id` member.
fn check_id(line: &[u8], id: Option<&[u8]>) {
    let Some(text) = std::str::from_utf8(line).ok().filter(|text| oracle::is_json(text.as_bytes())) else { return };
    let mut members = oracle::members(text).unwrap_or_default();
    members.retain(|member| &text[member.key.clone()] == "\"id\"");
    let is_id = |value: &&[u8]| value.len() <= LONGEST_ID && !matches!(value[0], b'{' | b'[' | b't' | b'f' | b'n');
    match &members[..] {
        [] => assert_eq!(id, None),
        [one] => assert_eq!(id, Some(&line[one.value.clone()]).filter(is_id)),
        _ => {}
    }
}

/// A stream that is always ready and returns one chunk after the other.
struct Chunks {
    rest: vec::IntoIter<Bytes>,
    chunk: Bytes,
}

impl AsyncRead for Chunks {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        if self.chunk.is_empty() {
            self.chunk = self.rest.next().unwrap_or_default();
        }
        let size = self.chunk.len().min(buffer.remaining());
        buffer.put_slice(&self.chunk.split_to(size));
        Poll::Ready(Ok(()))
    }
}
