//! Requests of sessions: they continue when the client disconnects, and their messages can be read again.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::{HttpDownstream, ResponseBody, rebuilding::NotShared, responses, sessions::NoSession};
use crate::{
    down::{
        accent::OutgoingMessage,
        legacy,
        session::{DownstreamSession, InFlightRequest},
        stream::{StreamReader, StreamWriter},
    },
    header as mcp,
    message::{Envelope, Id, MessageKind, RpcError, compose},
};

/// Seconds after which a client asks again while sessions are not available.
const RETRY_AFTER: u16 = 2;
/// Header with the id of the last received event.
const LAST_EVENT_ID: &str = "last-event-id";
/// How long a server request waits for a reader of its stream. A client that lost its connection resumes sooner; for any
/// other the server would wait, and its other clients too.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);

impl HttpDownstream {
    pub(super) async fn initialize(&self, envelope: &Envelope, principal: &Arc<str>) -> Response<ResponseBody> {
        let begun = DownstreamSession::begin(&self.downstream, envelope, principal);
        let (session, result) = match begun {
            Ok(begun) => begun,
            Err(error) => return responses::json(StatusCode::BAD_REQUEST, compose::error(envelope.id(), &error)),
        };
        let Some(id) = envelope.id() else { return responses::empty(StatusCode::BAD_REQUEST) };
        let shared = match self.begin_shared(&session).await {
            Ok(shared) => shared,
            Err(NotShared::TooLarge(error)) => {
                return responses::json(StatusCode::BAD_REQUEST, compose::error(Some(id), &error));
            }
            Err(NotShared::Unavailable) => return sessions_unavailable(Some(id)),
        };
        match self.sessions.add(Arc::clone(&session), shared) {
            Some(id_header) => {
                let mut response = responses::json(StatusCode::OK, compose::result(id, &result, &[]));
                response.headers_mut().insert(mcp::SESSION_ID, id_header);
                response
            }
            None => {
                if self.end_shared(&session).await.is_err() {
                    tracing::warn!("the row of a session that did not begin is kept until it is idle for too long");
                }
                let error = RpcError::new(RpcError::INTERNAL, "too many sessions; end one or try again later");
                responses::json(StatusCode::SERVICE_UNAVAILABLE, compose::error(Some(id), &error))
            }
        }
    }

    /// Answers one request: with one message if it comes soon, else with a stream. The request continues when the client
    /// disconnects: that does not cancel it.
    pub(super) async fn answer_legacy(
        &self,
        session: &Arc<DownstreamSession>,
        envelope: &Envelope,
        headers: &HeaderMap,
    ) -> Response<ResponseBody> {
        let pending = match UnansweredRequest::begin(session, envelope, headers) {
            Ok(pending) => pending,
            Err(message) => {
                self.save_shared(session).await;
                return responses::message(message);
            }
        };
        let mut waited = FirstMessageWait { downstream: self, pending: Some(pending) };
        let first = waited.first().await;
        self.save_shared(session).await;
        let Some(pending) = waited.pending.take() else { return responses::empty(StatusCode::ACCEPTED) };
        match first {
            FirstMessage::Message(message) if message.is_response => responses::message(message),
            // A cancelled request has no response. Of the statuses without a body, clients know 202.
            FirstMessage::Cancelled => responses::empty(StatusCode::ACCEPTED),
            FirstMessage::Message(message) => self.stream_of(session, pending, Some(message)),
            FirstMessage::Delayed => self.stream_of(session, pending, None),
        }
    }

    fn stream_of(
        &self,
        session: &Arc<DownstreamSession>,
        pending: UnansweredRequest,
        first: Option<OutgoingMessage>,
    ) -> Response<ResponseBody> {
        let (stream, writer) = session.streams.lock().begin();
        let reader = stream.read_from(0);
        session.streams.lock().announce(&stream);
        self.run(pending, first, Some(writer));
        self.events(session, reader)
    }

    /// Answers the requests of a batch on one stream, each when it is ready.
    fn answer_batch(
        &self,
        session: &Arc<DownstreamSession>,
        envelopes: &[&Envelope],
        headers: &HeaderMap,
    ) -> Response<ResponseBody> {
        let (stream, writer) = session.streams.lock().begin();
        let reader = stream.read_from(0);
        session.streams.lock().announce(&stream);
        for envelope in envelopes {
            self.pump(session, envelope, headers, writer.clone());
        }
        drop(writer);
        self.events(session, reader)
    }

    fn events(&self, session: &Arc<DownstreamSession>, reader: StreamReader) -> Response<ResponseBody> {
        responses::stream(ResponseBody::stream(Arc::clone(session), reader, self.downstream.options.keep_alive))
    }

    /// Answers a request on this stream.
    pub(super) fn pump(
        &self,
        session: &Arc<DownstreamSession>,
        envelope: &Envelope,
        headers: &HeaderMap,
        writer: StreamWriter,
    ) {
        match UnansweredRequest::begin(session, envelope, headers) {
            Ok(pending) => self.run(pending, None, Some(writer)),
            // A batch can have more of these responses than the stream has space for.
            Err(message) => self.send_later(writer, message),
        }
    }

    /// Runs a request in a task of its own: on this stream, or detached.
    fn run(&self, pending: UnansweredRequest, first: Option<OutgoingMessage>, writer: Option<StreamWriter>) {
        let UnansweredRequest { mut answer, in_flight } = pending;
        let stop = self.stop.clone();
        let sending = async move {
            let mut next = first;
            loop {
                if let (Some(message), Some(writer)) = (next, &writer) {
                    writer.send(message).await;
                }
                next = next_message(&mut answer, writer.as_ref()).await;
                if next.is_none() {
                    return;
                }
            }
        };
        // Cancellation also works while the client does not read.
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = in_flight.cancelled.cancelled() => {}
                () = sending => {}
            }
        });
    }

    /// Sends a message as soon as the stream has space.
    pub(super) fn send_later(&self, writer: StreamWriter, message: OutgoingMessage) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = writer.send(message) => {}
            }
        });
    }

    /// Handles a batch; `None` if there is no session whose revision has batches.
    pub(super) async fn batch(
        &self,
        headers: &HeaderMap,
        text: &Bytes,
        principal: &Arc<str>,
    ) -> Option<Response<ResponseBody>> {
        let session = match self.session(headers, principal).await {
            Ok(session) if session.caller.revision.has_batches() => session,
            Ok(_) | Err(NoSession::Unnamed) => return None,
            Err(none) => return Some(responses::json(none.status(), compose::error(None, &none.error()))),
        };
        let limits = &self.downstream.options.limits;
        let parts = Envelope::split_batch(text, limits)?.ok()?;
        let read = parts.into_iter().map(|part| Envelope::read(part, limits)).collect::<Result<Vec<_>, _>>();
        let envelopes = match read {
            Ok(envelopes) => envelopes,
            Err(problem) => return Some(responses::refusal(&problem, StatusCode::BAD_REQUEST)),
        };
        let (requests, others): (Vec<_>, Vec<_>) = envelopes.iter().partition(|one| one.kind() == MessageKind::Request);
        others.into_iter().for_each(|envelope| session.take(envelope));
        if requests.is_empty() {
            return Some(responses::empty(StatusCode::ACCEPTED));
        }
        Some(self.answer_batch(&session, &requests, headers))
    }

    /// Opens the standing stream of a session, or resumes a stream after `Last-Event-ID`.
    pub(super) async fn open_stream(&self, headers: &HeaderMap, principal: &Arc<str>) -> Response<ResponseBody> {
        let session = match self.session(headers, principal).await {
            Ok(session) => session,
            Err(none) => return without_session(none),
        };
        let last = headers.get(LAST_EVENT_ID).map(|last| last.to_str().unwrap_or_default());
        let reader = match last {
            None => session.standing.read().ok_or((StatusCode::CONFLICT, "the stream of this session is already open")),
            Some(last) => {
                session.resume(last).ok_or((StatusCode::GONE, "the events after this id are no longer available"))
            }
        };
        match reader {
            Ok(reader) => self.events(&session, reader),
            Err((status, why)) => responses::plain(status, why),
        }
    }

    pub(super) async fn end_session(&self, headers: &HeaderMap, principal: &Arc<str>) -> Response<ResponseBody> {
        let session = match self.session(headers, principal).await {
            Ok(session) => session,
            Err(none) => return without_session(none),
        };
        // The row first: if it cannot be ended, the session goes on everywhere, and the client is told.
        match self.end_shared(&session).await {
            Ok(()) => {
                self.sessions.forget(&session);
                responses::empty(StatusCode::OK)
            }
            Err(none) => without_session(none),
        }
    }
}

/// A request of a session in progress.
struct UnansweredRequest {
    answer: legacy::LegacyReply,
    in_flight: InFlightRequest,
}

/// A request whose client waits for the first message; when dropped, the request continues detached.
struct FirstMessageWait<'a> {
    downstream: &'a HttpDownstream,
    pending: Option<UnansweredRequest>,
}

/// Result of that wait.
enum FirstMessage {
    Message(OutgoingMessage),
    /// No message within the keep-alive interval.
    Delayed,
    Cancelled,
}

impl UnansweredRequest {
    fn begin(
        session: &Arc<DownstreamSession>,
        envelope: &Envelope,
        headers: &HeaderMap,
    ) -> Result<Self, OutgoingMessage> {
        let missing_id = || RpcError::new(RpcError::INVALID_REQUEST, "a request must have an `id`");
        let id = envelope.id().ok_or_else(|| OutgoingMessage::error(None, &missing_id(), StatusCode::BAD_REQUEST))?;
        let in_flight =
            session.begin_request(id).map_err(|error| OutgoingMessage::error(Some(id), &error, StatusCode::OK))?;
        let charged = |message: OutgoingMessage| session.charged(message.clone(), Some(id)).unwrap_or(message);
        let answer = legacy::LegacyReply::begin(session, envelope, Some(headers)).map_err(charged)?;
        Ok(Self { answer, in_flight })
    }
}

impl FirstMessageWait<'_> {
    async fn first(&mut self) -> FirstMessage {
        let Some(UnansweredRequest { answer, in_flight }) = &mut self.pending else { return FirstMessage::Cancelled };
        tokio::select! {
            // The message is usually ready when this is polled again, and then nothing else need be polled.
            biased;
            message = self.downstream.first_message(answer.next()) => match message {
                // A cancelled request gets no response.
                Some(_) if in_flight.cancelled.is_cancelled() => FirstMessage::Cancelled,
                Some(Some(message)) => FirstMessage::Message(message),
                Some(None) => FirstMessage::Cancelled,
                None => FirstMessage::Delayed,
            },
            () = in_flight.cancelled.cancelled() => FirstMessage::Cancelled,
            () = self.downstream.stop.cancelled() => FirstMessage::Cancelled,
        }
    }
}

impl Drop for FirstMessageWait<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            // Nothing was sent yet, so there is no stream that the client could resume.
            self.downstream.run(UnansweredRequest { answer: pending.answer.detached(), ..pending }, None, None);
        }
    }
}

/// The next message. Server requests on a stream without a reader for [`UNREAD_TIMEOUT`] are left unanswered.
async fn next_message(answer: &mut legacy::LegacyReply, writer: Option<&StreamWriter>) -> Option<OutgoingMessage> {
    if let Some(writer) = writer.filter(|_| answer.has_open_requests()) {
        tokio::select! {
            message = answer.next() => return message,
            () = writer.unread_for(UNREAD_TIMEOUT) => answer.abandon_requests(),
        }
    }
    answer.next().await
}

/// Response while the rows of sessions cannot be used.
pub(super) fn sessions_unavailable(id: Option<&Id>) -> Response<ResponseBody> {
    let none = NoSession::Unavailable;
    let mut response = responses::json(none.status(), compose::error(id, &none.error()));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER));
    response
}

/// Response to a GET or DELETE without a valid session.
fn without_session(none: NoSession) -> Response<ResponseBody> {
    match none {
        NoSession::Unnamed => responses::not_allowed("POST"),
        NoSession::Unknown => responses::plain(none.status(), "session not found"),
        NoSession::Unavailable => sessions_unavailable(None),
        NoSession::ForeignVersion => {
            responses::plain(none.status(), "this protocol revision is not supported for sessions")
        }
    }
}
