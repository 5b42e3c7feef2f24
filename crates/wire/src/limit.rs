//! The bounds on strangers: every size, count and depth a peer could choose has a limit here.
//!
//! Each is a named constant with its reason, and a field of [`Limits`] for whoever needs another value. Over a
//! bound, the one request concerned fails; the connection lives on where the protocol allows.

/// A larger message is refused: no tool result a person or model reads is bigger, and it is held in memory.
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// A line of this many times the bound on a message, still without an end, is not going to have one: nobody reads on.
pub const ENDLESS_LINE: usize = 8;
/// JSON nested deeper than this is an attack on somebody's stack.
pub const DEPTH: usize = 128;
/// Messages of one batch, in the one revision that has them.
pub const BATCH_MESSAGES: usize = 1_000;
/// One server-sent event: a message and its field names.
pub const EVENT_BYTES: usize = MESSAGE_BYTES + 64 * 1024;
/// All header lines of one HTTP message together.
pub const HEADER_BYTES: usize = 64 * 1024;
/// Header lines of one HTTP message.
pub const HEADER_COUNT: usize = 128;
/// Pages of one listing; a server that needs more is going in circles.
pub const LISTING_PAGES: usize = 1_000;
/// Items of one listing, over all pages.
pub const LISTING_ITEMS: usize = 20_000;
/// Bytes of one listing, over all pages: as much as one message may have.
pub const LISTING_BYTES: usize = MESSAGE_BYTES;
/// Requests of ours that one server may owe us an answer to.
pub const CONCURRENT_REQUESTS: usize = 1_024;
/// How often a server may answer one request with further questions.
pub const ROUNDS: usize = 10;
/// Questions in one round, and questions of one legacy call that are open at the same time.
pub const SERVER_REQUESTS_PER_ROUND: usize = 16;
/// What a server may hand us to carry from one round to the next.
pub const REQUEST_STATE_BYTES: usize = 256 * 1024;
/// Happenings of one exchange that its caller has not yet taken; the oldest progress and logs give way.
pub const UNREAD_EVENTS: usize = 256;
/// Notices nobody has taken yet; a slow listener is told how many it missed.
pub const UNREAD_NOTICES: usize = 256;
/// Bytes waiting to be written to one peer.
pub const UNSENT_BYTES: usize = 2 * MESSAGE_BYTES;
/// Times one broken stream is taken up again without anything new arriving.
pub const RESUMPTIONS: usize = 5;
/// Longest wait a server may impose before its stream is taken up again, in milliseconds.
pub const RETRY_MILLIS: u64 = 60_000;
/// Redirects followed for one request, all on the same origin.
pub const REDIRECTS: usize = 3;
/// Events of one stream that are kept for a caller that is slow or has lost its connection; see `down::stream`.
pub const STREAM_EVENTS: usize = 256;
/// Bytes of them; one event always has room.
pub const STREAM_BYTES: usize = 1024 * 1024;
/// Streams of one session that are over and that nobody has taken yet.
pub const KEPT_STREAMS: usize = 32;
/// Bytes of them; the newest always has room.
pub const KEPT_STREAM_BYTES: usize = MESSAGE_BYTES;
/// A larger stream is let go as soon as it was handed to its connection.
pub const TAKEN_STREAM_BYTES: usize = 16 * 1024;
/// Calls that wait for their caller to come back with answers, of one downstream or of all on the same premises.
pub const PARKED_CALLS: usize = 1_000;
/// Those of one caller.
pub const PARKED_CALLS_PER_CALLER: usize = 100;
/// Legacy sessions of one downstream, or of all on the same premises.
pub const SESSIONS: usize = 4_096;
/// Those of one caller; with more, its own that was left alone for longest gives way.
pub const SESSIONS_PER_CALLER: usize = 1_024;

/// The bounds in force for one connection or one downstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// See [`MESSAGE_BYTES`].
    pub message_bytes: usize,
    /// See [`DEPTH`]; at most [`crate::json::MAX_DEPTH`].
    pub depth: usize,
    /// See [`BATCH_MESSAGES`].
    pub batch_messages: usize,
    /// See [`EVENT_BYTES`].
    pub event_bytes: usize,
    /// See [`HEADER_BYTES`].
    pub header_bytes: usize,
    /// See [`HEADER_COUNT`].
    pub header_count: usize,
    /// See [`LISTING_PAGES`].
    pub listing_pages: usize,
    /// See [`LISTING_ITEMS`].
    pub listing_items: usize,
    /// See [`LISTING_BYTES`].
    pub listing_bytes: usize,
    /// See [`CONCURRENT_REQUESTS`].
    pub concurrent_requests: usize,
    /// See [`ROUNDS`].
    pub rounds: usize,
    /// See [`SERVER_REQUESTS_PER_ROUND`].
    pub server_requests_per_round: usize,
    /// See [`REQUEST_STATE_BYTES`].
    pub request_state_bytes: usize,
    /// See [`UNREAD_EVENTS`].
    pub unread_events: usize,
    /// See [`UNREAD_NOTICES`].
    pub unread_notices: usize,
    /// See [`UNSENT_BYTES`].
    pub unsent_bytes: usize,
    /// See [`RESUMPTIONS`].
    pub resumptions: usize,
    /// See [`RETRY_MILLIS`].
    pub retry_millis: u64,
    /// See [`REDIRECTS`].
    pub redirects: usize,
    /// See [`STREAM_EVENTS`].
    pub stream_events: usize,
    /// See [`STREAM_BYTES`].
    pub stream_bytes: usize,
    /// See [`PARKED_CALLS`].
    pub parked_calls: usize,
    /// See [`PARKED_CALLS_PER_CALLER`].
    pub parked_calls_per_caller: usize,
    /// See [`SESSIONS`].
    pub sessions: usize,
    /// See [`SESSIONS_PER_CALLER`].
    pub sessions_per_caller: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: MESSAGE_BYTES,
            depth: DEPTH,
            batch_messages: BATCH_MESSAGES,
            event_bytes: EVENT_BYTES,
            header_bytes: HEADER_BYTES,
            header_count: HEADER_COUNT,
            listing_pages: LISTING_PAGES,
            listing_items: LISTING_ITEMS,
            listing_bytes: LISTING_BYTES,
            concurrent_requests: CONCURRENT_REQUESTS,
            rounds: ROUNDS,
            server_requests_per_round: SERVER_REQUESTS_PER_ROUND,
            request_state_bytes: REQUEST_STATE_BYTES,
            unread_events: UNREAD_EVENTS,
            unread_notices: UNREAD_NOTICES,
            unsent_bytes: UNSENT_BYTES,
            resumptions: RESUMPTIONS,
            retry_millis: RETRY_MILLIS,
            redirects: REDIRECTS,
            stream_events: STREAM_EVENTS,
            stream_bytes: STREAM_BYTES,
            parked_calls: PARKED_CALLS,
            parked_calls_per_caller: PARKED_CALLS_PER_CALLER,
            sessions: SESSIONS,
            sessions_per_caller: SESSIONS_PER_CALLER,
        }
    }
}
