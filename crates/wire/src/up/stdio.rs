//! Transport over a pair of byte streams: a process's standard input and output, a socket, a pipe.
//!
//! The streams are opened by a port ([`StreamOpener`]): the process belongs to the host, which spawns it, keeps its
//! stderr and knows how it ended.

use std::{fmt, io, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
    task::AbortHandle,
};
use tokio_util::task::AbortOnDropHandle;

use super::transport::{HttpMode, Lane, Link, LinkKind, Outbound, Sink, Transport};
use crate::{
    error::WireError,
    exchange::WriteStart,
    json::Raw,
    limit::Limits,
    line::{FramedLine, LineReader, LineWriter},
    revision::Revision,
};

/// A byte stream to read from.
pub type ReadStream = Box<dyn AsyncRead + Send + Unpin>;
/// A byte stream to write to.
pub type WriteStream = Box<dyn AsyncWrite + Send + Unpin>;

/// Opens the streams to a server; may be called several times.
pub trait StreamOpener: Send + Sync + fmt::Debug {
    /// Command or address, for messages.
    fn target(&self) -> String;
    /// Opens new streams, starting the process if there is one.
    fn open(&self) -> BoxFuture<'_, Result<ServerStreams, WireError>>;
}

/// Open streams to a server.
pub struct ServerStreams {
    /// Output of the server.
    pub read: ReadStream,
    /// Input of the server.
    pub write: WriteStream,
    /// Handle of the process, if any; dropped when the link is closed.
    pub process: Option<Box<dyn ProcessHandle>>,
}

/// Handle of the process behind the streams.
pub trait ProcessHandle: Send + Sync + fmt::Debug {
    /// Describes how the process ended, after its streams have ended.
    fn exit_reason(&self) -> BoxFuture<'_, String>;
    /// Ends the process; called after the streams are closed.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Transport over a pair of streams.
#[derive(Debug)]
pub struct StdioTransport {
    streams: Arc<dyn StreamOpener>,
    limits: Limits,
}

struct StdioLink {
    writer: LineWriter,
    process: Option<Arc<dyn ProcessHandle>>,
    _reading: AbortOnDropHandle<()>,
    /// A separate task, so that incoming messages do not wake it.
    _write_failure: AbortOnDropHandle<()>,
    writing: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl StdioTransport {
    /// Creates a transport over the streams that `streams` opens.
    pub fn new(streams: Arc<dyn StreamOpener>, limits: Limits) -> Self {
        Self { streams, limits }
    }
}

impl Transport for StdioTransport {
    fn target(&self) -> String {
        self.streams.target()
    }

    fn link_kind(&self) -> LinkKind {
        LinkKind::Stream
    }

    fn open<'a>(&'a self, _mode: HttpMode, sink: Arc<dyn Sink>) -> BoxFuture<'a, Result<Arc<dyn Link>, WireError>> {
        Box::pin(async move {
            let streams = self.streams.open().await?;
            let process: Option<Arc<dyn ProcessHandle>> = streams.process.map(Arc::from);
            let (writer, writing) =
                LineWriter::new(streams.write, self.limits.unsent_bytes, self.limits.memory.clone());
            let reader =
                LineReader::new(streams.read, self.limits.message_bytes).charged_to(self.limits.memory.clone());
            let reading = read(reader, Arc::clone(&sink), process.clone(), self.limits.message_bytes);
            let input = writer.clone();
            let reading = async move {
                reading.await;
                // Calls that wait for their callers may hold the link of an ended server for long.
                input.close();
            };
            let runtime = tokio::runtime::Handle::current();
            let reading = AbortOnDropHandle::new(runtime.spawn(reading));
            let (broke, broken) = oneshot::channel();
            let write_failure = close_after_write_failure(broken, reading.abort_handle(), sink);
            let writing = async move {
                if let Err(error) = writing.await {
                    // The receiver may have been dropped.
                    drop(broke.send(error));
                }
            };
            Ok(Arc::new(StdioLink {
                writer,
                process,
                _reading: reading,
                _write_failure: AbortOnDropHandle::new(runtime.spawn(write_failure)),
                writing: Mutex::new(Some(AbortOnDropHandle::new(runtime.spawn(writing)))),
            }) as Arc<dyn Link>)
        })
    }
}

async fn read(
    mut reader: LineReader<ReadStream>,
    sink: Arc<dyn Sink>,
    process: Option<Arc<dyn ProcessHandle>>,
    limit: usize,
) {
    let end = loop {
        match reader.next().await {
            // Truncated by the end of the server: not a protocol violation.
            Ok(Some(FramedLine::Message(text))) if reader.ended_inside() && Raw::parse(text.clone()).is_err() => {}
            Ok(Some(FramedLine::Message(text))) => drop(sink.message(Lane::Shared, text)),
            Ok(Some(FramedLine::TooLong(skimmed))) => {
                // A server request has an id of the server, not of a request of ours.
                let answers = skimmed.id.filter(|_| !skimmed.is_request);
                sink.too_long(Lane::Shared, answers, limit);
            }
            Ok(None) => break "the server closed its output".to_owned(),
            // The process still runs; it is ended when the link is closed.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return sink.closed(WireError::Ended(error.to_string()));
            }
            Err(error) => break error.to_string(),
        }
    };
    let why = match process {
        Some(process) => process.exit_reason().await,
        None => end,
    };
    sink.closed(WireError::Ended(why));
}

/// After a write error, gives the server time to send its last messages or to end, then closes the link. If the writer was
/// closed normally, reading continues.
async fn close_after_write_failure(broken: oneshot::Receiver<io::Error>, reading: AbortHandle, sink: Arc<dyn Sink>) {
    let Ok(error) = broken.await else { return };
    tokio::time::sleep(LAST_READS).await;
    if !reading.is_finished() {
        reading.abort();
        sink.closed(WireError::Ended(format!("the server stopped reading: {error}")));
    }
}

impl Link for StdioLink {
    fn send(&self, outbound: Outbound) -> Result<(), WireError> {
        let start = outbound.begin_write();
        if start == WriteStart::Refused {
            return Err(WireError::not_sent());
        }
        // A message that was queued counts as written: it is, unless the server stops reading.
        let queued = self.writer.send(outbound.message);
        if let (Err(_), WriteStart::First, Some(mark)) = (&queued, start, &outbound.mark) {
            mark.undo();
        }
        queued
    }

    fn marks_writes(&self) -> bool {
        true
    }

    fn abandon(&self, _request: u64) {}

    fn set_revision(&self, _revision: Revision) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.writer.close();
            let writing = self.writing.lock().take();
            if let Some(writing) = writing {
                // Queued messages are written unless the server has stopped reading.
                drop(tokio::time::timeout(LAST_WRITES, writing).await);
            }
            if let Some(process) = &self.process {
                process.close().await;
            }
            // Reading continues until the server closes its output or this link is dropped.
        })
    }
}

/// How long output is still read after a write error; most servers have ended, and their exit reason follows.
const LAST_READS: std::time::Duration = std::time::Duration::from_millis(500);

/// Timeout for writing the queued messages on close.
const LAST_WRITES: std::time::Duration = std::time::Duration::from_millis(500);

impl fmt::Debug for StdioLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StdioLink")
    }
}

impl fmt::Debug for ServerStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerStreams")
    }
}
