//! An HTTP session: its id, revision and standing stream, and resuming broken streams.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Endpoint, Shared,
    lane::{self, BrokenStream, LaneOutcome},
    request::{Headers, OutgoingHttp, SessionHeaders},
};
use crate::{
    error::WireError,
    header as mcp,
    limit::Limits,
    revision::Revision,
    up::{
        client::HttpResponse,
        transport::{Lane, LaneEnd},
    },
};

/// Delay before a stream is resumed, if the server sets none.
const RETRY: Duration = Duration::from_secs(1);
/// Shortest delay, even if the server sets none: otherwise a stream that breaks at once would cause a busy loop.
const SHORTEST: Duration = Duration::from_millis(50);
/// Longest wait for the standing stream before the first request. A server that responds to GET only with its first
/// message costs this once per session.
const HEAD_START: Duration = Duration::from_secs(1);
/// Longest delay between attempts to open a standing stream.
const LONGEST: Duration = Duration::from_secs(30);

/// State of an HTTP session.
#[derive(Default)]
pub(super) struct UpstreamSession {
    // No await under these locks.
    state: Mutex<State>,
    standing: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// State of the handshake.
enum State {
    /// No handshake yet, or in progress; `id` is from its last attempt, `again` means that an earlier session was lost.
    Handshaking { id: Option<HeaderValue>, again: bool },
    /// The revision is negotiated; `notifications/initialized` is not sent yet.
    Agreed { id: Option<HeaderValue>, revision: Revision, again: bool },
    /// The session is open.
    Open { id: Option<HeaderValue>, revision: Revision },
}

/// Result of an attempt to open a standing stream.
enum StandingStreamAttempt {
    /// The stream is open.
    Stream(HttpResponse),
    /// The server has lost the session.
    SessionGone,
    /// Temporary failure; try again.
    Later,
    /// The server offers no standing stream.
    Never,
}

impl UpstreamSession {
    pub(super) fn id(&self) -> Option<String> {
        self.state.lock().id().and_then(|id| id.to_str().ok()).map(str::to_owned)
    }

    /// Starts a handshake.
    pub(super) fn begin_handshake(&self) {
        let mut state = self.state.lock();
        *state = State::Handshaking { id: None, again: state.is_lost() };
    }

    /// Resumes a session of an earlier connection.
    pub(super) fn resume(&self, id: HeaderValue, revision: Revision) {
        *self.state.lock() = State::Open { id: Some(id), revision };
    }

    /// Closes the standing stream and forgets the session without deleting it on the server.
    pub(super) fn leave(&self) {
        self.standing.lock().take();
        *self.state.lock() = State::default();
    }

    /// Sets the negotiated revision.
    pub(super) fn set_revision(&self, revision: Revision) {
        let mut state = self.state.lock();
        *state = State::Agreed { id: state.id().cloned(), revision, again: state.is_lost() };
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state.lock().is_lost()
    }

    /// Marks this session as lost, unless a newer one exists.
    pub(super) fn forget(&self, gone: &HeaderValue) {
        let mut state = self.state.lock();
        if state.id().is_some_and(|id| id == gone) {
            *state = State::Handshaking { id: None, again: true };
        }
    }

    /// Stores the session id of the handshake response; the last attempt counts.
    pub(super) fn store_id(&self, headers: &HeaderMap) {
        if let State::Handshaking { id, .. } = &mut *self.state.lock() {
            *id = headers.get(mcp::SESSION_ID).cloned();
        }
    }

    /// Session headers of a request; empty during the handshake.
    pub(super) fn session_headers(&self) -> SessionHeaders {
        match &*self.state.lock() {
            State::Agreed { id, revision, .. } | State::Open { id, revision } => {
                SessionHeaders::new(Some(*revision), id.clone())
            }
            State::Handshaking { .. } => SessionHeaders::default(),
        }
    }

    /// Resumes a broken stream of this session, as long as it makes progress. If the session was lost meanwhile, it is not
    /// resumed, because the event id could belong to another request in the new session.
    pub(super) async fn resume_stream(
        &self,
        shared: &Arc<Shared>,
        request: u64,
        session: Option<&HeaderValue>,
        mut broken: BrokenStream,
    ) -> LaneEnd {
        let mut attempts = 0;
        while let Some(last_event) = broken.last_event.clone() {
            attempts = if broken.progressed { 1 } else { attempts + 1 };
            if shared.endpoint.limits.resumptions < attempts {
                break;
            }
            tokio::time::sleep(wait(broken.retry, &shared.endpoint.limits)).await;
            if self.state.lock().id() != session {
                break;
            }
            let retry = broken.retry;
            let mut response = match self.get(shared, Some(&last_event)).await {
                Ok(response) => response,
                Err(error @ (WireError::Unauthorized { .. } | WireError::Redirect { .. } | WireError::Refused(_))) => {
                    return LaneEnd::Failed(error);
                }
                // Possibly a temporary network failure.
                Err(_) => {
                    broken.progressed = false;
                    continue;
                }
            };
            match lane::read(shared.lanes.sink(), Lane::Of(request), &mut response, &shared.endpoint.limits).await {
                LaneOutcome::Lane(end) => return end,
                LaneOutcome::Broken(next) => {
                    let last_event = next.last_event.or(Some(last_event));
                    broken = BrokenStream { last_event, retry: next.retry.or(retry), ..next };
                }
            }
        }
        broken.into_lane_end()
    }

    /// Opens the standing stream, replacing an older one, and waits a limited time for the server's response.
    ///
    /// Many servers drop messages for the standing stream while it is not open, including server requests of the first call.
    pub(super) async fn open_standing_stream(&self, shared: &Arc<Shared>) {
        self.state.lock().open();
        let (answered, answer) = oneshot::channel();
        let standing = keep_standing_stream(Arc::downgrade(shared), answered);
        let closed = shared.lanes.closed.clone();
        let task = shared.lanes.runtime().spawn(async move {
            tokio::select! {
                () = closed.cancelled() => {}
                () = standing => {}
            }
        });
        *self.standing.lock() = Some(AbortOnDropHandle::new(task));
        // Any response, or the timeout, ends the wait.
        drop(tokio::time::timeout(HEAD_START, answer).await);
    }

    /// Deletes the session on the server.
    pub(super) async fn delete(&self, endpoint: &Endpoint) {
        self.standing.lock().take();
        let session_headers = self.session_headers();
        if session_headers.session.is_some()
            && let Err(error) = endpoint.send(OutgoingHttp::delete(&Headers::new(), &session_headers)).await
        {
            tracing::debug!(%error, "could not delete the session");
        }
    }

    async fn get(&self, shared: &Shared, last_event: Option<&str>) -> Result<HttpResponse, WireError> {
        let mut headers = Headers::new();
        headers.push((header::ACCEPT, HeaderValue::from_static("text/event-stream")));
        if let Some(last_event) = last_event.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.push((mcp::LAST_EVENT_ID, last_event));
        }
        shared.endpoint.send(OutgoingHttp::get(&headers, &self.session_headers())).await
    }
}

impl State {
    fn id(&self) -> Option<&HeaderValue> {
        let (Self::Handshaking { id, .. } | Self::Agreed { id, .. } | Self::Open { id, .. }) = self;
        id.as_ref()
    }

    /// Whether a session was lost and no handshake has completed since.
    fn is_lost(&self) -> bool {
        matches!(self, Self::Handshaking { again: true, .. } | Self::Agreed { again: true, .. })
    }

    fn open(&mut self) {
        if let Self::Agreed { id, revision, .. } = self {
            *self = Self::Open { id: id.take(), revision: *revision };
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Handshaking { id: None, again: false }
    }
}

/// Keeps the standing stream open; drops `answered` after the first response.
async fn keep_standing_stream(shared: Weak<Shared>, answered: oneshot::Sender<()>) {
    let mut answered = Some(answered);
    let mut broken = BrokenStream::default();
    let (mut failures, mut had) = (0u32, false);
    while let Some(shared) = shared.upgrade() {
        let Some(session) = &shared.session else { return };
        let attempt = session.try_standing_stream(&shared, broken.last_event.as_deref(), had).await;
        answered.take();
        failures += 1;
        match attempt {
            StandingStreamAttempt::Stream(mut response) => {
                had = true;
                let limits = &shared.endpoint.limits;
                match lane::read(shared.lanes.sink(), Lane::Standing, &mut response, limits).await {
                    LaneOutcome::Broken(next) => {
                        failures = if next.progressed { 0 } else { failures };
                        let last_event = next.last_event.or(broken.last_event);
                        broken =
                            BrokenStream { last_event, retry: next.retry.or(broken.retry), ..BrokenStream::default() };
                    }
                    // Not an event stream: the server offers none.
                    LaneOutcome::Lane(LaneEnd::Failed(error)) => {
                        tracing::debug!(%error, "no standing stream");
                        return;
                    }
                    LaneOutcome::Lane(_) => {}
                }
            }
            StandingStreamAttempt::SessionGone => return shared.lanes.sink().on_session_lost(),
            StandingStreamAttempt::Later => {}
            StandingStreamAttempt::Never => return,
        }
        let delay = wait(broken.retry, &shared.endpoint.limits);
        drop(shared);
        // Never shorter than the delay that the server set.
        let doubled = delay.saturating_mul(2u32.saturating_pow(failures)).min(LONGEST);
        tokio::time::sleep(doubled.max(delay)).await;
    }
}

impl UpstreamSession {
    /// Tries to open the standing stream. If there never was one (`had`), a 404 does not mean a lost session: many servers
    /// answer any GET with 404.
    async fn try_standing_stream(&self, shared: &Shared, last_event: Option<&str>, had: bool) -> StandingStreamAttempt {
        let used = self.state.lock().id().cloned();
        let response = match self.get(shared, last_event).await {
            Ok(response) => response,
            Err(WireError::Unauthorized { .. } | WireError::Redirect { .. } | WireError::Refused(_)) => {
                return StandingStreamAttempt::Never;
            }
            // Possibly a temporary network failure.
            Err(_) => return StandingStreamAttempt::Later,
        };
        match (response.status(), used) {
            (status, _) if status.is_success() => StandingStreamAttempt::Stream(response),
            (StatusCode::NOT_FOUND, Some(used)) if had => {
                self.forget(&used);
                StandingStreamAttempt::SessionGone
            }
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT, _) => StandingStreamAttempt::Later,
            (status, _) if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                StandingStreamAttempt::Later
            }
            _ => StandingStreamAttempt::Never,
        }
    }
}

fn wait(retry: Option<u64>, limits: &Limits) -> Duration {
    retry.map_or(RETRY, |millis| Duration::from_millis(millis.min(limits.retry_millis)).max(SHORTEST))
}
