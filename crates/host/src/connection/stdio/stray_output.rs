//! What a program writes to its standard output before it says anything of the protocol: a banner, a log, a mistake.
//!
//! Only the first such line is kept, and the listening ends with the first line that could be a message.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, ReadBuf};
use toolway_wire::up::stdio::ReadStream;

use crate::connection::last_words::LastWords;

/// Bytes kept of the line: enough to know it again.
const KEPT: usize = 80;

/// A process's standard output, listened to until it speaks the protocol.
struct Listened {
    inner: ReadStream,
    last_words: LastWords,
    course: Course,
}

/// How far the listening is.
enum Course {
    /// At the beginning of a line.
    Beginning,
    /// In the line that is kept.
    Stray(Vec<u8>),
    /// Heard enough.
    Over,
}

/// The stream, with its first stray line noted.
pub(super) fn listened(inner: ReadStream, last_words: LastWords) -> ReadStream {
    Box::new(Listened { inner, last_words, course: Course::Beginning })
}

impl AsyncRead for Listened {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if !matches!(self.course, Course::Over) {
            let Self { course, last_words, .. } = &mut *self;
            if let Some(stray) = course.hear(&buffer.filled()[before..]) {
                last_words.note_stray(stray);
            }
        }
        read
    }
}

impl Course {
    /// What is kept of a stray line after these bytes, if they belong to one.
    fn hear(&mut self, bytes: &[u8]) -> Option<String> {
        for &byte in bytes {
            match self {
                Self::Beginning if byte.is_ascii_whitespace() => {}
                Self::Beginning if matches!(byte, b'{' | b'[') => *self = Self::Over,
                Self::Beginning => *self = Self::Stray(vec![byte]),
                Self::Stray(kept) if byte != b'\n' && kept.len() < KEPT => kept.push(byte),
                Self::Stray(kept) => {
                    let kept = escaped(kept);
                    *self = Self::Over;
                    return Some(kept);
                }
                Self::Over => return None,
            }
        }
        match self {
            Self::Stray(kept) => Some(escaped(kept)),
            Self::Beginning | Self::Over => None,
        }
    }
}

fn escaped(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::{Course, KEPT};

    fn heard(chunks: &[&[u8]]) -> Option<String> {
        let mut course = Course::Beginning;
        chunks.iter().fold(None, |before, chunk| course.hear(chunk).or(before))
    }

    #[test]
    fn only_what_comes_before_the_protocol_is_stray_and_it_is_escaped() {
        assert_eq!(heard(&[b"\n {\"jsonrpc\"", b":1}\nhello\n"]), None);
        assert_eq!(heard(&[b"Listening", b" on 3000\r\n{}\n", b"more\n"]).as_deref(), Some("Listening on 3000"));
        assert_eq!(heard(&[b"\x1b[2J\xff"]).as_deref(), Some("\\u{1b}[2J\u{fffd}"));
        assert_eq!(heard(&[&[b'x'; 500]]).unwrap().len(), KEPT);
    }
}
