//! Messages framed by lines, over any pair of byte streams: the same for both faces.
//!
//! [`LineReader`] gives one message per line and survives lines that are too long. [`LineWriter`] gathers what is
//! sent while the last write was under way and writes it at once; sending never waits. Who speaks over the lines is
//! decided in [`crate::up`] and [`crate::down`].

use std::{fmt, io, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::Notify,
};

use crate::{
    error::WireError,
    json::{
        self,
        skim::{Skimmed, Skimmer},
    },
};

/// Bytes asked of the stream at a time.
const CHUNK: usize = 64 * 1024;
/// A buffer that one large message has grown is given back above this.
const KEPT_BUFFER: usize = 2 * 1024 * 1024;

/// Reads messages, one per line.
pub(crate) struct LineReader<R> {
    stream: R,
    buffer: Vec<u8>,
    /// Where unread bytes begin.
    start: usize,
    /// Up to where no line end was found.
    searched: usize,
    /// Whether the last line had no end.
    unended: bool,
    limit: usize,
}

/// Something read.
#[derive(Debug)]
pub(crate) enum Line {
    /// One message's text.
    Message(Bytes),
    /// A line over the bound went by; it was about this.
    TooLong(Skimmed),
}

/// Sends messages, one per line. Cloning is cheap; every clone writes to the same stream.
#[derive(Clone)]
pub(crate) struct LineWriter {
    shared: Arc<Shared>,
}

struct Shared {
    // Nothing awaits under this lock.
    state: Mutex<Unsent>,
    wake: Notify,
    limit: usize,
}

#[derive(Default)]
struct Unsent {
    bytes: Vec<u8>,
    closed: Option<String>,
}

// === impl LineReader ===

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(stream: R, limit: usize) -> Self {
        Self { stream, buffer: Vec::new(), start: 0, searched: 0, unended: false, limit }
    }

    /// The next line that is not blank; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
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
                    if self.limit < self.buffer.len() - self.start {
                        return self.skim().await;
                    }
                    if self.fill().await? == 0 {
                        return Ok(self.rest());
                    }
                }
            }
        }
    }

    /// The line that ends at `end`, copied out at its exact size; `None` when it is blank.
    fn take(&mut self, end: usize) -> Option<Line> {
        let line = &self.buffer[self.start..end];
        let line = match line.trim_ascii() {
            // The bound is on what stands on the line; without its end at hand, nobody knows what to trim.
            _ if self.limit < line.len() => Some(Line::TooLong(Skimmer::whole(line))),
            [] => None,
            text => Some(Line::Message(Bytes::copy_from_slice(text))),
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

    /// What stands after the last line end.
    fn rest(&mut self) -> Option<Line> {
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

    /// Whether the stream ended inside the last line: if that is no whole message, it never will be.
    pub(crate) fn ended_inside(&self) -> bool {
        self.unended
    }

    /// Lets a line that is too long go by, looking only for its id.
    async fn skim(&mut self) -> io::Result<Option<Line>> {
        let mut skimmer = Skimmer::default();
        skimmer.skim(&self.buffer[self.start..]);
        loop {
            self.buffer = Vec::new();
            (self.start, self.searched) = (0, 0);
            if self.fill().await? == 0 {
                return Ok(Some(Line::TooLong(skimmer.found())));
            }
            match memchr::memchr(b'\n', &self.buffer) {
                Some(end) => {
                    skimmer.skim(&self.buffer[..end]);
                    (self.start, self.searched) = (end + 1, end + 1);
                    return Ok(Some(Line::TooLong(skimmer.found())));
                }
                None => skimmer.skim(&self.buffer),
            }
        }
    }
}

// === impl LineWriter ===

impl LineWriter {
    /// A writer, and the work that carries out its writes; it ends when the writer is closed or the stream breaks.
    pub(crate) fn new<W>(stream: W, limit: usize) -> (Self, impl Future<Output = io::Result<()>> + Send)
    where
        W: AsyncWrite + Unpin + Send,
    {
        let shared = Arc::new(Shared { state: Mutex::default(), wake: Notify::new(), limit });
        (Self { shared: Arc::clone(&shared) }, write(stream, shared))
    }

    /// Puts a message in line.
    pub(crate) fn send(&self, message: Bytes) -> Result<(), WireError> {
        let message = json::one_line(message);
        let mut state = self.shared.state.lock();
        if let Some(reason) = &state.closed {
            return Err(WireError::Ended(reason.clone()));
        }
        if self.shared.limit < state.bytes.len() + message.len() {
            return Err(WireError::TooLarge { what: "what waits to be written", limit: self.shared.limit });
        }
        state.bytes.reserve(message.len() + 1);
        state.bytes.extend_from_slice(&message);
        state.bytes.push(b'\n');
        drop(state);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Writes what is in line, then closes the stream.
    pub(crate) fn close(&self) {
        self.shared.state.lock().closed.get_or_insert_with(|| "closed by us".to_owned());
        self.shared.wake.notify_one();
    }
}

impl fmt::Debug for LineWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LineWriter")
    }
}

async fn write<W: AsyncWrite + Unpin>(mut stream: W, shared: Arc<Shared>) -> io::Result<()> {
    let mut batch = Vec::new();
    loop {
        let closed = {
            let mut state = shared.state.lock();
            std::mem::swap(&mut state.bytes, &mut batch);
            state.closed.is_some()
        };
        if !batch.is_empty() {
            let written = match stream.write_all(&batch).await {
                Ok(()) => stream.flush().await,
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                shared.state.lock().closed = Some(error.to_string());
                return Err(error);
            }
            batch.clear();
            if KEPT_BUFFER < batch.capacity() {
                batch = Vec::new();
            }
        } else if closed {
            // The peer may have closed first; either way it is closed now.
            let _closed = stream.shutdown().await;
            return Ok(());
        } else {
            shared.wake.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::{Just, any, prop, prop_oneof, proptest};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

    use super::{Line, LineReader, LineWriter};
    use crate::property;

    async fn lines(stream: impl AsyncRead + Unpin, limit: usize) -> Vec<String> {
        let mut reader = LineReader::new(stream, limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            lines.push(match line {
                Line::Message(text) => String::from_utf8_lossy(&text).into_owned(),
                Line::TooLong(skimmed) => format!("too long, id {:?}", skimmed.id),
            });
        }
        lines
    }

    #[tokio::test]
    async fn a_line_is_a_message_whatever_ends_it() {
        assert_eq!(lines(&b"{\"a\":1}\r\n\n  \n{}\nrest"[..], 100).await, ["{\"a\":1}", "{}", "rest"]);
    }

    #[tokio::test]
    async fn a_line_over_the_bound_goes_by_and_names_the_call_it_answers() {
        let long = format!("{{\"result\":\"{}\",\"id\":7}}\n{{}}\n", "x".repeat(500_000));
        assert_eq!(lines(long.as_bytes(), 100).await, ["too long, id Some(7)", "{}"]);
        assert_eq!(lines(&[b'x'; 1_000][..], 100).await, ["too long, id None"]);
        // Also where it came all at once.
        assert_eq!(lines(&b"{\"result\":\"xxxxxxxxxx\",\"id\":7}\n{}"[..], 20).await, ["too long, id Some(7)", "{}"]);
    }

    #[tokio::test]
    async fn what_is_sent_arrives_in_order_and_on_one_line_each() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let (writer, work) = LineWriter::new(ours, 1_000);
        writer.send(Bytes::from_static(b"{\"a\":\n1}")).unwrap();
        writer.send(Bytes::from_static(b"{}")).unwrap();
        assert!(writer.send(Bytes::from(vec![b'x'; 2_000])).is_err());
        writer.close();
        assert!(writer.send(Bytes::from_static(b"{}")).is_err());
        let mut text = String::new();
        let (written, read) = tokio::join!(work, theirs.read_to_string(&mut text));
        written.unwrap();
        read.unwrap();
        assert_eq!(text, "{\"a\": 1}\n{}\n");
    }

    /// A stream that arrives in pieces of this size.
    async fn lines_cut(bytes: &[u8], size: usize, limit: usize) -> Vec<String> {
        let (reading, mut writing) = tokio::io::duplex(size);
        let write = async {
            writing.write_all(bytes).await.unwrap();
            drop(writing);
        };
        tokio::join!(lines(reading, limit), write).0
    }

    #[tokio::test]
    async fn a_line_of_just_the_bound_is_judged_alike_however_it_is_cut() {
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
        fn any_bytes_come_out_as_the_same_lines_within_the_bound_however_they_are_cut(
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
