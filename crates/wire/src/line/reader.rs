//! Reads one message per line. A line that is too long is skipped; a line without an end is an error.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::KEPT_BUFFER;
use crate::{
    budget::{Charge, MemoryBudget},
    json::skim::{Skimmed, Skimmer},
    limit::ENDLESS_LINE,
};

/// Bytes per read.
const CHUNK: usize = 64 * 1024;

/// Reads messages, one per line.
pub(crate) struct LineReader<R> {
    stream: R,
    buffer: Vec<u8>,
    /// Start of the unread bytes.
    start: usize,
    /// End of the bytes already searched for a line break.
    searched: usize,
    /// Whether the stream ended without a line break.
    unended: bool,
    limit: usize,
    /// Charge for a large incomplete line.
    charge: Charge,
}

/// One line of the stream.
#[derive(Debug)]
pub(crate) enum FramedLine {
    /// Text of one message.
    Message(Bytes),
    /// A line over the limit was skipped; its id and kind, as far as found.
    TooLong(Skimmed),
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(stream: R, limit: usize) -> Self {
        let (buffer, charge) = (Vec::new(), Charge::default());
        Self { stream, buffer, start: 0, searched: 0, unended: false, limit, charge }
    }

    /// The same reader, whose large incomplete lines are charged to this budget. If that is exhausted, the line is skipped
    /// like one that is too long.
    pub(crate) fn charged_to(self, memory: MemoryBudget) -> Self {
        Self { charge: Charge::empty(memory), ..self }
    }

    /// Returns the next line that is not blank; `None` at the end of the stream. [`io::ErrorKind::InvalidData`] means a
    /// line without an end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<FramedLine>> {
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                Some(offset) => {
                    let end = self.searched + offset;
                    if let Some(line) = self.take(end) {
                        return Ok(Some(line));
                    }
                }
                None => {
                    self.searched = self.buffer.len();
                    let length = self.buffer.len() - self.start;
                    let charged = if length <= KEPT_BUFFER { 0 } else { length + CHUNK };
                    if self.limit < length || self.charge.set(charged).is_err() {
                        return self.skim().await;
                    }
                    if self.fill().await? == 0 {
                        return Ok(self.rest());
                    }
                }
            }
        }
    }

    /// Takes the line that ends at `end`, copied at its exact size; `None` if it is blank.
    fn take(&mut self, end: usize) -> Option<FramedLine> {
        let line = &self.buffer[self.start..end];
        let line = match line.trim_ascii() {
            // The limit applies to the line before trimming, as it does for a line whose end has not been read.
            _ if self.limit < line.len() => Some(FramedLine::TooLong(Skimmer::whole(line))),
            [] => None,
            text => Some(FramedLine::Message(Bytes::copy_from_slice(text))),
        };
        self.start = end + 1;
        self.searched = self.start;
        line
    }

    async fn fill(&mut self) -> io::Result<usize> {
        if 0 < self.start {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && KEPT_BUFFER < self.buffer.capacity() {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(CHUNK);
        self.stream.read_buf(&mut self.buffer).await
    }

    /// Takes the bytes after the last line break.
    fn rest(&mut self) -> Option<FramedLine> {
        let end = self.buffer.len();
        if end <= self.start {
            return None;
        }
        let line = self.take(end);
        self.buffer.clear();
        (self.start, self.searched) = (0, 0);
        self.unended = true;
        line
    }

    /// Whether the stream ended without a line break; the last line may be incomplete.
    pub(crate) fn ended_inside(&self) -> bool {
        self.unended
    }

    /// Skips a line that is too long, looking only for its id.
    async fn skim(&mut self) -> io::Result<Option<FramedLine>> {
        let mut skimmer = Skimmer::default();
        skimmer.skim(&self.buffer[self.start..]);
        let most = self.limit.max(CHUNK).saturating_mul(ENDLESS_LINE);
        let mut length = self.buffer.len() - self.start;
        loop {
            if most < length {
                let message = format!("more than {most} bytes without a line break");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.buffer = Vec::new();
            (self.start, self.searched) = (0, 0);
            if self.fill().await? == 0 {
                return Ok(Some(FramedLine::TooLong(skimmer.found())));
            }
            match memchr::memchr(b'\n', &self.buffer) {
                Some(end) => {
                    skimmer.skim(&self.buffer[..end]);
                    (self.start, self.searched) = (end + 1, end + 1);
                    return Ok(Some(FramedLine::TooLong(skimmer.found())));
                }
                None => {
                    skimmer.skim(&self.buffer);
                    length = length.saturating_add(self.buffer.len());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, any, prop, prop_oneof, proptest};
    use tokio::io::{AsyncRead, AsyncWriteExt};

    use super::{FramedLine, LineReader};
    use crate::property;

    async fn lines(stream: impl AsyncRead + Unpin, limit: usize) -> Vec<String> {
        let mut reader = LineReader::new(stream, limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(match line {
                FramedLine::Message(text) => String::from_utf8_lossy(&text).into_owned(),
                FramedLine::TooLong(skimmed) => format!("too long, id {:?}", skimmed.id),
            });
        }
        lines
    }

    #[tokio::test]
    async fn each_line_is_a_message_for_any_line_ending() {
        assert_eq!(lines(&b"{\"a\":1}\r\n\n  \n{}\nrest"[..], 100).await, ["{\"a\":1}", "{}", "rest"]);
    }

    #[tokio::test]
    async fn line_over_the_limit_is_skipped_and_its_id_reported() {
        let long = format!("{{\"result\":\"{}\",\"id\":7}}\n{{}}\n", "x".repeat(500_000));
        assert_eq!(lines(long.as_bytes(), 100).await, ["too long, id Some(7)", "{}"]);
        assert_eq!(lines(&[b'x'; 1_000][..], 100).await, ["too long, id None"]);
        // The same for a line received in one read.
        assert_eq!(lines(&b"{\"result\":\"xxxxxxxxxx\",\"id\":7}\n{}"[..], 20).await, ["too long, id Some(7)", "{}"]);
    }

    #[tokio::test]
    async fn line_without_end_is_an_error() {
        let mut reader = LineReader::new(tokio::io::repeat(b'x'), 100_000);
        let error = reader.next().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "more than 800000 bytes without a line break");
    }

    /// Reads the lines of `bytes`, which arrive in pieces of `size` bytes.
    async fn lines_cut(bytes: &[u8], size: usize, limit: usize) -> Vec<String> {
        let (reading, mut writing) = tokio::io::duplex(size);
        let write = async {
            writing.write_all(bytes).await.unwrap();
            drop(writing);
        };
        tokio::join!(lines(reading, limit), write).0
    }

    #[tokio::test]
    async fn line_at_the_limit_is_treated_alike_for_any_piece_size() {
        let stream = b"{\"id\":7}\r\n   {}\r\n{\"id\":8}\n          \n{}";
        for limit in 1..12 {
            let whole = lines(&stream[..], limit).await;
            for size in 1..20 {
                assert_eq!(lines_cut(stream, size, limit).await, whole, "limit {limit}, cut to {size}");
            }
        }
    }

    proptest! {
        #![proptest_config(property::cases())]
        #[test]
        fn lines_do_not_depend_on_the_piece_size(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..300),
            size in 1..300_usize,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let whole = runtime.block_on(lines(&bytes[..], 50));
            assert_eq!(runtime.block_on(lines_cut(&bytes, size, 50)), whole);
            assert!(whole.iter().all(|line| !line.is_empty() && !line.contains('\n')));
        }
    }
}
