//! Messages over a pair of byte streams: a process's standard input and output, a socket, a pipe.
//!
//! What opens the streams is a port ([`StreamOpener`]): the process behind them belongs to the host, which spawns it,
//! keeps its stderr and knows how it ended.

use std::{fmt, io, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
    task::AbortHandle,
};
use tokio_util::task::AbortOnDropHandle;

use super::transport::{Lane, Link, HttpMode, Outbound, LinkKind, Sink, Transport};
use crate::{
    error::WireError,
    json::Raw,
    limit::Limits,
    line::{FramedLine, LineReader, LineWriter},
    revision::Revision,
};

/// A byte stream to read from.
pub type ReadStream = Box<dyn AsyncRead + Send + Unpin>;
/// A byte stream to write to.
pub type WriteStream = Box<dyn AsyncWrite + Send + Unpin>;

/// Opens the streams to a server, or opens them again.
pub trait StreamOpener: Send + Sync + fmt::Debug {
    /// The command or address, for messages.
    fn target(&self) -> String;
    /// Opens them.
    fn open(&self) -> BoxFuture<'_, Result<ServerStreams, WireError>>;
}

/// Open streams to a server.
pub struct ServerStreams {
    /// What it says.
    pub read: ReadStream,
    /// What we say.
    pub write: WriteStream,
    /// Whoever keeps the process; let go when the link is closed.
    pub process: Option<Box<dyn ProcessHandle>>,
}

/// Whoever is behind the streams.
pub trait ProcessHandle: Send + Sync + fmt::Debug {
    /// The streams ended: what became of the other side, as a sentence.
    fn exit_reason(&self) -> BoxFuture<'_, String>;
    /// The streams are closed; see to it that the other side ends.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The way over a pair of streams.
#[derive(Debug)]
pub struct StdioTransport {
    streams: Arc<dyn StreamOpener>,
    limits: Limits,
}

struct StdioLink {
    writer: LineWriter,
    process: Option<Arc<dyn ProcessHandle>>,
    _reading: AbortOnDropHandle<()>,
    /// Apart from reading, so that a message that comes in is no business of it.
    _parting: AbortOnDropHandle<()>,
    writing: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl StdioTransport {
    /// A way over the streams that `streams` opens.
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

    fn open<'a>(&'a self, _manner: HttpMode, sink: Arc<dyn Sink>) -> BoxFuture<'a, Result<Arc<dyn Link>, WireError>> {
        Box::pin(async move {
            let streams = self.streams.open().await?;
            let process: Option<Arc<dyn ProcessHandle>> = streams.process.map(Arc::from);
            let (writer, writing) = LineWriter::new(streams.write, self.limits.unsent_bytes);
            let reader = LineReader::new(streams.read, self.limits.message_bytes);
            let reading = read(reader, Arc::clone(&sink), process.clone(), self.limits.message_bytes);
            let runtime = tokio::runtime::Handle::current();
            let reading = AbortOnDropHandle::new(runtime.spawn(reading));
            let (broke, broken) = oneshot::channel();
            let parting = close_after_write_failure(broken, reading.abort_handle(), sink);
            let writing = async move {
                if let Err(error) = writing.await {
                    // Whoever hears of it may have gone.
                    drop(broke.send(error));
                }
            };
            Ok(Arc::new(StdioLink {
                writer,
                process,
                _reading: reading,
                _parting: AbortOnDropHandle::new(runtime.spawn(parting)),
                writing: Mutex::new(Some(AbortOnDropHandle::new(runtime.spawn(writing)))),
            }) as Arc<dyn Link>)
        })
    }
}

async fn read(mut reader: LineReader<ReadStream>, sink: Arc<dyn Sink>, process: Option<Arc<dyn ProcessHandle>>, limit: usize) {
    let end = loop {
        match reader.next().await {
            // Cut off in the middle of a message: what ended is the server, not its manners.
            Ok(Some(FramedLine::Message(text))) if reader.ended_inside() && Raw::parse(text.clone()).is_err() => {}
            Ok(Some(FramedLine::Message(text))) => drop(sink.message(Lane::Shared, text)),
            Ok(Some(FramedLine::TooLong(skimmed))) => {
                // A question of the server's has a number of the server's.
                let answers = skimmed.id.filter(|_| !skimmed.is_request);
                sink.too_long(Lane::Shared, answers, limit);
            }
            Ok(None) => break "it closed its output".to_owned(),
            // It has not ended, and how it will is our doing.
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

/// Where the other side takes nothing more, it is given time to say its last words or to end. Where the writer was closed
/// in good order, reading goes on.
async fn close_after_write_failure(broken: oneshot::Receiver<io::Error>, reading: AbortHandle, sink: Arc<dyn Sink>) {
    let Ok(error) = broken.await else { return };
    tokio::time::sleep(LAST_READS).await;
    if !reading.is_finished() {
        reading.abort();
        sink.closed(WireError::Ended(format!("it no longer reads: {error}")));
    }
}

impl Link for StdioLink {
    fn send(&self, outbound: Outbound) -> Result<(), WireError> {
        self.writer.send(outbound.message)
    }

    fn abandon(&self, _request: u64) {}

    fn set_revision(&self, _revision: Revision) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.writer.close();
            let writing = self.writing.lock().take();
            if let Some(writing) = writing {
                // What is in line is written unless the other side has stopped reading.
                drop(tokio::time::timeout(LAST_WRITES, writing).await);
            }
            if let Some(process) = &self.process {
                process.close().await;
            }
            // Reading goes on until the other side has closed, or this link is let go.
        })
    }
}

/// How long whoever stopped reading is still listened to; most have ended, and then it is known how.
const LAST_READS: std::time::Duration = std::time::Duration::from_millis(500);

/// How long the last messages may take to be written.
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
