//! Messages over a pair of byte streams: a process's standard input and output, a socket, a pipe.
//!
//! What opens the streams is a port ([`OpenStreams`]): the process behind them belongs to the host, which spawns it,
//! keeps its stderr and knows how it ended.

use std::{fmt, io, pin::pin, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
};
use tokio_util::task::AbortOnDropHandle;

use super::transport::{Lane, Link, Manner, Outbound, Shape, Sink, Transport};
use crate::{
    error::WireError,
    json::Raw,
    limit::Limits,
    line::{Line, LineReader, LineWriter},
    revision::Revision,
};

/// A byte stream to read from.
pub type ReadStream = Box<dyn AsyncRead + Send + Unpin>;
/// A byte stream to write to.
pub type WriteStream = Box<dyn AsyncWrite + Send + Unpin>;

/// Opens the streams to a server, or opens them again.
pub trait OpenStreams: Send + Sync + fmt::Debug {
    /// The command or address, for messages.
    fn target(&self) -> String;
    /// Opens them.
    fn open(&self) -> BoxFuture<'_, Result<Streams, WireError>>;
}

/// Open streams to a server.
pub struct Streams {
    /// What it says.
    pub read: ReadStream,
    /// What we say.
    pub write: WriteStream,
    /// Whoever keeps the process; let go when the link is closed.
    pub keeper: Option<Box<dyn Keeper>>,
}

/// Whoever is behind the streams.
pub trait Keeper: Send + Sync + fmt::Debug {
    /// The streams ended: what became of the other side, as a sentence.
    fn epitaph(&self) -> BoxFuture<'_, String>;
    /// The streams are closed; see to it that the other side ends.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The way over a pair of streams.
#[derive(Debug)]
pub struct StdioTransport {
    streams: Arc<dyn OpenStreams>,
    limits: Limits,
}

struct StdioLink {
    writer: LineWriter,
    keeper: Option<Arc<dyn Keeper>>,
    _reading: AbortOnDropHandle<()>,
    writing: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl StdioTransport {
    /// A way over the streams that `streams` opens.
    pub fn new(streams: Arc<dyn OpenStreams>, limits: Limits) -> Self {
        Self { streams, limits }
    }
}

impl Transport for StdioTransport {
    fn target(&self) -> String {
        self.streams.target()
    }

    fn shape(&self) -> Shape {
        Shape::Stream
    }

    fn open<'a>(&'a self, _manner: Manner, sink: Arc<dyn Sink>) -> BoxFuture<'a, Result<Arc<dyn Link>, WireError>> {
        Box::pin(async move {
            let streams = self.streams.open().await?;
            let keeper: Option<Arc<dyn Keeper>> = streams.keeper.map(Arc::from);
            let (writer, writing) = LineWriter::new(streams.write, self.limits.unsent_bytes);
            let (broke, broken) = oneshot::channel();
            let writing = async move {
                if let Err(error) = writing.await {
                    // Whoever reads may have ended before.
                    drop(broke.send(error));
                }
            };
            let reader = LineReader::new(streams.read, self.limits.message_bytes);
            let reading = read(reader, broken, sink, keeper.clone(), self.limits.message_bytes);
            let runtime = tokio::runtime::Handle::current();
            Ok(Arc::new(StdioLink {
                writer,
                keeper,
                _reading: AbortOnDropHandle::new(runtime.spawn(reading)),
                writing: Mutex::new(Some(AbortOnDropHandle::new(runtime.spawn(writing)))),
            }) as Arc<dyn Link>)
        })
    }
}

async fn read(
    mut reader: LineReader<ReadStream>,
    broken: oneshot::Receiver<io::Error>,
    sink: Arc<dyn Sink>,
    keeper: Option<Arc<dyn Keeper>>,
    limit: usize,
) {
    let mut deaf = pin!(no_longer_reads(broken));
    let end = loop {
        let line = tokio::select! {
            line = reader.next() => line,
            why = &mut deaf => return sink.closed(why),
        };
        match line {
            // Cut off in the middle of a message: what ended is the server, not its manners.
            Ok(Some(Line::Message(text))) if reader.ended_inside() && Raw::parse(text.clone()).is_err() => {}
            Ok(Some(Line::Message(text))) => drop(sink.message(Lane::Shared, text)),
            Ok(Some(Line::TooLong(skimmed))) => {
                // A question of the server's has a number of the server's.
                let answers = skimmed.id.filter(|_| !skimmed.is_request);
                sink.too_long(Lane::Shared, answers, limit);
            }
            Ok(None) => break "it closed its output".to_owned(),
            Err(error) => break error.to_string(),
        }
    };
    let why = match keeper {
        Some(keeper) => keeper.epitaph().await,
        None => end,
    };
    sink.closed(WireError::Ended(why));
}

/// The other side takes nothing more, and has had time to say its last words or to end.
async fn no_longer_reads(broken: oneshot::Receiver<io::Error>) -> WireError {
    match broken.await {
        Ok(error) => {
            tokio::time::sleep(LAST_READS).await;
            WireError::Ended(format!("it no longer reads: {error}"))
        }
        // Closed in good order: reading goes on.
        Err(_) => std::future::pending().await,
    }
}

impl Link for StdioLink {
    fn send(&self, outbound: Outbound) -> Result<(), WireError> {
        self.writer.send(outbound.message)
    }

    fn abandon(&self, _request: u64) {}

    fn settle(&self, _revision: Revision) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.writer.close();
            let writing = self.writing.lock().take();
            if let Some(writing) = writing {
                // What is in line is written unless the other side has stopped reading.
                drop(tokio::time::timeout(LAST_WRITES, writing).await);
            }
            if let Some(keeper) = &self.keeper {
                keeper.close().await;
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

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streams")
    }
}
