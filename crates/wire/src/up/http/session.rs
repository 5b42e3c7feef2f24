//! A session over HTTP: its id, its revision, its standing stream, and streams taken up again where they broke.

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
    request::{Headers, SessionHeaders, OutgoingHttp},
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

/// The wait before a stream is taken up again when the server names none.
const RETRY: Duration = Duration::from_secs(1);
/// The shortest wait, also where the server wants none: a stream that breaks at once would be opened without end.
const SHORTEST: Duration = Duration::from_millis(50);
/// The longest wait for a standing stream before the first request; a server that answers a GET only when it has
/// something to say costs this once for each session.
const HEAD_START: Duration = Duration::from_secs(1);
/// The longest wait between attempts to have a standing stream.
const LONGEST: Duration = Duration::from_secs(30);

/// What is known of a session.
#[derive(Default)]
pub(super) struct UpstreamSession {
    // Nothing awaits under these locks.
    state: Mutex<State>,
    standing: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// How far the session has come.
enum State {
    /// A handshake is to come, or under way; the id is what its last attempt brought.
    Handshaking { id: Option<HeaderValue>, again: bool },
    /// The handshake agreed on a revision, and the server is to hear that it is over.
    Agreed { id: Option<HeaderValue>, revision: Revision, again: bool },
    /// Requests can be made.
    Open { id: Option<HeaderValue>, revision: Revision },
}

/// What comes of an attempt to have a standing stream.
enum StandingStreamAttempt {
    /// It is there.
    Stream(HttpResponse),
    /// The server has forgotten the session.
    SessionGone,
    /// Not now.
    Later,
    /// This server has none, or not for us.
    Never,
}

impl UpstreamSession {
    pub(super) fn id(&self) -> Option<String> {
        self.state.lock().id().and_then(|id| id.to_str().ok()).map(str::to_owned)
    }

    /// A handshake begins.
    pub(super) fn begin(&self) {
        let mut state = self.state.lock();
        *state = State::Handshaking { id: None, again: state.is_lost() };
    }

    /// A session of an earlier connection goes on.
    pub(super) fn resume(&self, id: HeaderValue, revision: Revision) {
        *self.state.lock() = State::Open { id: Some(id), revision };
    }

    /// Nothing more is heard of it; on the server it goes on.
    pub(super) fn leave(&self) {
        self.standing.lock().take();
        *self.state.lock() = State::default();
    }

    /// The handshake agreed on a revision.
    pub(super) fn set_revision(&self, revision: Revision) {
        let mut state = self.state.lock();
        *state = State::Agreed { id: state.id().cloned(), revision, again: state.is_lost() };
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state.lock().is_lost()
    }

    /// The server no longer knows this session; a newer one is kept.
    pub(super) fn forget(&self, gone: &HeaderValue) {
        let mut state = self.state.lock();
        if state.id().is_some_and(|id| id == gone) {
            *state = State::Handshaking { id: None, again: true };
        }
    }

    /// Keeps the id the handshake brought; of several attempts the last one counts.
    pub(super) fn store_id(&self, headers: &HeaderMap) {
        if let State::Handshaking { id, .. } = &mut *self.state.lock() {
            *id = headers.get(mcp::SESSION_ID).cloned();
        }
    }

    /// What session_headers a request as part of it. A handshake carries neither session nor revision.
    pub(super) fn session_headers(&self) -> SessionHeaders {
        match &*self.state.lock() {
            State::Agreed { id, revision, .. } | State::Open { id, revision } => {
                SessionHeaders::new(Some(*revision), id.clone())
            }
            State::Handshaking { .. } => SessionHeaders::default(),
        }
    }

    /// Takes a broken stream of this session up again, as often as it makes progress. Where the session has been lost
    /// meanwhile, the place is nobody's, and in the next one it may be another request's.
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
                // The network, perhaps only for a moment.
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

    /// Opens the standing stream, in the place of an older one, and waits a while until the server has answered.
    ///
    /// Many servers drop what they want to say on it while it is not there, a question in the first call included.
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
        // With or without a stream: whatever the answer, there is nothing more to wait for.
        drop(tokio::time::timeout(HEAD_START, answer).await);
    }

    /// Ends the session on the server.
    pub(super) async fn give_back(&self, endpoint: &Endpoint) {
        self.standing.lock().take();
        let session_headers = self.session_headers();
        if session_headers.session.is_some()
            && let Err(error) = endpoint.send(OutgoingHttp::delete(&Headers::new(), &session_headers)).await
        {
            tracing::debug!(%error, "the session was not given back");
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

    /// There was a session, and no handshake has brought another yet.
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

/// Has a standing stream as long as the server has one; drops `answered` when it first knows whether there is one.
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
                        broken = BrokenStream { last_event, retry: next.retry.or(broken.retry), ..BrokenStream::default() };
                    }
                    // Not a stream: this server has none.
                    LaneOutcome::Lane(LaneEnd::Failed(error)) => {
                        tracing::debug!(%error, "no standing stream");
                        return;
                    }
                    LaneOutcome::Lane(_) => {}
                }
            }
            StandingStreamAttempt::SessionGone => return shared.lanes.sink().session_lost(),
            StandingStreamAttempt::Later => {}
            StandingStreamAttempt::Never => return,
        }
        let asked = wait(broken.retry, &shared.endpoint.limits);
        drop(shared);
        // What the server asked for is never cut short.
        let doubled = asked.saturating_mul(2u32.saturating_pow(failures)).min(LONGEST);
        tokio::time::sleep(doubled.max(asked)).await;
    }
}

impl UpstreamSession {
    /// Looks for a standing stream. Where there never was one, a 404 only says that there is none: many servers give it
    /// to any GET.
    async fn try_standing_stream(&self, shared: &Shared, last_event: Option<&str>, had: bool) -> StandingStreamAttempt {
        let used = self.state.lock().id().cloned();
        let response = match self.get(shared, last_event).await {
            Ok(response) => response,
            Err(WireError::Unauthorized { .. } | WireError::Redirect { .. } | WireError::Refused(_)) => {
                return StandingStreamAttempt::Never;
            }
            // The network, perhaps only for a moment.
            Err(_) => return StandingStreamAttempt::Later,
        };
        match (response.status(), used) {
            (status, _) if status.is_success() => StandingStreamAttempt::Stream(response),
            (StatusCode::NOT_FOUND, Some(used)) if had => {
                self.forget(&used);
                StandingStreamAttempt::SessionGone
            }
            (StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT, _) => StandingStreamAttempt::Later,
            (status, _) if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => StandingStreamAttempt::Later,
            _ => StandingStreamAttempt::Never,
        }
    }
}

fn wait(retry: Option<u64>, limits: &Limits) -> Duration {
    retry.map_or(RETRY, |millis| Duration::from_millis(millis.min(limits.retry_millis)).max(SHORTEST))
}
