//! Transport traits: how messages are sent to a server and received from it.
//!
//! A [`Transport`] can be opened several times. Each time it opens a [`Link`]; the server's messages go to the given
//! [`Sink`], together with the lane they arrived on. A lane is one stream of incoming messages. An embedding program can
//! supply its own transport; ours are [`super::stdio`], [`super::http`] and [`super::in_process`]. Transports do not know
//! the era: differences are expressed by [`HttpMode`] and the headers of an [`Outbound`].

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::{
    error::WireError,
    exchange::{PendingIo, WriteMark, WriteStart},
    message::Id,
    revision::Revision,
};

/// Transport to one server.
pub trait Transport: Send + Sync + fmt::Debug {
    /// URL or command, for messages.
    fn target(&self) -> String;

    /// Kind of the links it opens.
    fn link_kind(&self) -> LinkKind;

    /// Opens a link. Streams ignore `mode`.
    fn open<'a>(&'a self, mode: HttpMode, sink: Arc<dyn Sink>) -> BoxFuture<'a, Result<Arc<dyn Link>, WireError>>;
}

/// An open connection to a server.
pub trait Link: Send + Sync + fmt::Debug {
    /// Sends one message without waiting. Later failures are reported to the sink.
    fn send(&self, outbound: Outbound) -> Result<(), WireError>;

    /// As [`Link::send`], for a request that a task waits for. May return I/O for that task to poll: the request has been
    /// sent by then, and not polling only delays its response. Dropping the I/O abandons the request, as
    /// [`Link::abandon`] does.
    fn start(&self, outbound: Outbound) -> Result<Option<PendingIo>, WireError> {
        self.send(outbound).map(|()| None)
    }

    /// Sends a notification or response, and waits until the server has accepted it.
    fn deliver(&self, outbound: Outbound) -> BoxFuture<'_, Result<(), WireError>> {
        let sent = self.send(outbound);
        Box::pin(async { sent })
    }

    /// Whether it sets the mark of an [`Outbound`] before it writes or queues the first byte. If not, each request that it
    /// is given counts as written.
    fn marks_writes(&self) -> bool {
        false
    }

    /// Stops reading the lane of a cancelled request.
    fn abandon(&self, request: u64);

    /// Starts a handshake; discards session and revision of an earlier one.
    fn begin_handshake(&self) {}

    /// Resumes a session of an earlier connection without a handshake; returns false if not supported.
    fn resume(&self, _session: &str, _revision: Revision) -> bool {
        false
    }

    /// Keeps the session on the server when this link is closed.
    fn leave(&self) {}

    /// Sets the revision negotiated in the handshake.
    fn set_revision(&self, revision: Revision);

    /// Opens the standing stream for messages outside requests, if the transport has one, and waits until it is open.
    /// Messages sent by the server before that may be lost.
    fn open_standing_stream(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Session id assigned by the server, if any.
    fn session(&self) -> Option<String> {
        None
    }

    /// Whether the server has lost the session and no new one was negotiated yet.
    fn has_lost_session(&self) -> bool {
        false
    }

    /// Closes the link: sends queued messages and deletes the session.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Receives the messages of a server. Its methods never wait.
pub trait Sink: Send + Sync {
    /// A message arrived.
    fn message(&self, lane: Lane, text: Bytes) -> Flow;

    /// A message over the limit was skipped; `id` is the request it answered, if known.
    fn too_long(&self, lane: Lane, id: Option<Id>, limit: usize);

    /// The lane of a request ended.
    fn on_lane_end(&self, request: u64, end: LaneEnd);

    /// The server violated the protocol outside any request.
    fn fault(&self, error: WireError);

    /// The server has lost the session; detected outside any request.
    fn on_session_lost(&self) {}

    /// The whole link has ended.
    fn closed(&self, why: WireError);
}

/// Kind of a link. A stream has one lane for all messages; HTTP has one per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A byte stream: stdio, pipes, in process.
    Stream,
    /// HTTP in any mode.
    Http,
}

/// HTTP transport variant of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMode {
    /// Streamable HTTP without session: independent POSTs; closing a response stream cancels its request.
    Stateless,
    /// Streamable HTTP with session id, standing stream and resumable streams.
    Session,
    /// HTTP+SSE of 2024-11-05.
    EventStream,
}

/// The stream on which a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The only lane of a byte stream.
    Shared,
    /// The response to the POST of this request.
    Of(u64),
    /// The standing stream, which belongs to no request.
    Standing,
}

/// Whether to continue reading a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More messages are expected.
    Continue,
    /// The request of the lane has its response.
    Done,
}

/// How the lane of a request ended without a response.
#[derive(Clone, Debug)]
pub enum LaneEnd {
    /// The stream closed and cannot be resumed.
    Over,
    /// The server accepted the message without a response (202, 204).
    Accepted,
    /// An HTTP error whose body may contain a JSON-RPC response.
    Status {
        /// HTTP status code.
        status: StatusCode,
        /// Body, up to the limit.
        body: Bytes,
    },
    /// The session is unknown to the server; the request was not processed.
    SessionGone,
    /// Any other failure.
    Failed(WireError),
}

/// One outgoing message.
#[derive(Clone)]
pub struct Outbound {
    /// JSON text.
    pub message: Bytes,
    /// Id, if the message is a request.
    pub request: Option<u64>,
    /// Additional headers over HTTP.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Set before its first byte is written; `None` if no caller wants to know.
    pub mark: Option<WriteMark>,
}

impl Outbound {
    /// A message without additional headers.
    pub fn plain(message: Bytes, request: Option<u64>) -> Self {
        Self { message, request, headers: Vec::new(), mark: None }
    }

    /// Sets its mark before it is written.
    pub fn begin_write(&self) -> WriteStart {
        self.mark.as_ref().map_or(WriteStart::Again, WriteMark::begin)
    }
}

/// Shows only the size of the message, which may contain user data.
impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("request", &self.request)
            .field("bytes", &self.message.len())
            .field("headers", &self.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())
            .finish()
    }
}
