//! Bounds on remote parties: every size, count and depth that a peer controls has a limit here.
//!
//! Each bound is a named constant, the default of a field of [`Limits`]. A request that exceeds a bound fails; the
//! connection stays open where the protocol allows it.

use crate::budget::MemoryBudget;

/// Largest message in bytes. Messages are held in memory.
pub const MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// A line longer than this many times the message limit, still without a line break, ends the connection.
pub const ENDLESS_LINE: usize = 8;
/// Deepest nesting of JSON; deeper JSON could overflow the stack of a recursive parser.
pub const DEPTH: usize = 128;
/// Messages in one batch (2025-03-26 only).
pub const BATCH_MESSAGES: usize = 1_000;
/// Largest server-sent event in bytes: a message and its field names.
pub const EVENT_BYTES: usize = MESSAGE_BYTES + 64 * 1024;
/// Largest HTTP header section in bytes.
pub const HEADER_BYTES: usize = 64 * 1024;
/// Header fields of one HTTP message.
pub const HEADER_COUNT: usize = 128;
/// Pages of one listing; more suggest a cursor loop.
pub const LISTING_PAGES: usize = 1_000;
/// Items of one listing, over all pages.
pub const LISTING_ITEMS: usize = 20_000;
/// Bytes of one list of a server (its tools, resources, templates or prompts), over all pages.
pub const LISTING_BYTES: usize = 8 * 1024 * 1024;
/// Requests to one server that wait for a response.
pub const CONCURRENT_REQUESTS: usize = 1_024;
/// How often a server may answer one request with `input_required`.
pub const ROUNDS: usize = 10;
/// Server requests in one round, and open server requests of one legacy call.
pub const SERVER_REQUESTS_PER_ROUND: usize = 16;
/// Largest `requestState` in bytes.
pub const REQUEST_STATE_BYTES: usize = 256 * 1024;
/// Unread events of one exchange; beyond it the oldest progress and log events are dropped.
pub const UNREAD_EVENTS: usize = 256;
/// Unread notices of one listener; a slow listener gets the number of dropped notices instead.
pub const UNREAD_NOTICES: usize = 256;
/// Bytes queued for writing to one peer.
pub const UNSENT_BYTES: usize = 2 * MESSAGE_BYTES;
/// Attempts to resume a broken stream without a new event arriving.
pub const RESUMPTIONS: usize = 5;
/// Longest `retry` delay a server may set for resuming its stream, in milliseconds.
pub const RETRY_MILLIS: u64 = 60_000;
/// Redirects followed for one request, all on the same origin.
pub const REDIRECTS: usize = 3;
/// Events of one stream kept for a slow or disconnected client; see `down::stream`.
pub const STREAM_EVENTS: usize = 256;
/// Bytes of these events; one event is always kept.
pub const STREAM_BYTES: usize = 1024 * 1024;
/// Finished, unread streams kept for one session.
pub const KEPT_STREAMS: usize = 32;
/// Bytes of these streams; the newest stream is always kept.
pub const KEPT_STREAM_BYTES: usize = MESSAGE_BYTES;
/// A larger stream is dropped as soon as it was handed to its connection.
pub const TAKEN_STREAM_BYTES: usize = 16 * 1024;
/// Parked calls (waiting for the client's answers) of one downstream, or of all that share one session store.
pub const PARKED_CALLS: usize = 1_000;
/// Parked calls of one caller.
pub const PARKED_CALLS_PER_CALLER: usize = 100;
/// Legacy sessions of one downstream, or of all that share one session store.
pub const SESSIONS: usize = 4_096;
/// Legacy sessions of one caller; beyond it the caller's least recently used session is closed.
pub const SESSIONS_PER_CALLER: usize = 1_024;

/// Largest body of a request to the HTTP downstream, in bytes.
pub const REQUEST_BODY_BYTES: usize = 4 * 1024 * 1024;
/// Open connections of one principal, and of one peer address.
pub const CONNECTIONS: usize = 1_024;
/// Open connections of one peer address that have not sent a valid key; beyond it the oldest of them is closed.
pub const CONNECTIONS_WITHOUT_KEY: usize = 64;
/// Open connections of all peer addresses that have not sent a valid key; beyond it the oldest of them is closed.
pub const ALL_CONNECTIONS_WITHOUT_KEY: usize = 512;

/// The same for other gateways of the cluster: one that has lost its connections opens many at once.
pub const PEER_CONNECTIONS_WITHOUT_KEY: usize = 2_048;
/// The same for all other gateways.
pub const ALL_PEER_CONNECTIONS_WITHOUT_KEY: usize = 4_096;

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
    /// See [`REQUEST_BODY_BYTES`].
    pub request_body_bytes: usize,
    /// See [`CONNECTIONS`].
    pub connections: usize,
    /// Budget for everything that is kept of and for remote parties; unlimited by default.
    pub memory: MemoryBudget,
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
            request_body_bytes: REQUEST_BODY_BYTES,
            connections: CONNECTIONS,
            memory: MemoryBudget::default(),
        }
    }
}
