//! A session over HTTP: its id, its revision, its standing stream, and streams taken up again where they broke.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Endpoint, Shared,
    lane::{self, Broken, End},
    mark_revision,
    request::Headers,
};
use crate::{
    error::WireError,
    header as mcp,
    limit::Limits,
    revision::Revision,
    up::transport::{Lane, LaneEnd},
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
pub(super) struct Session {
    // Nothing awaits under this lock.
    state: Mutex<State>,
    standing: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Default)]
struct State {
    id: Option<HeaderValue>,
    revision: Option<Revision>,
    /// There was one, and the next handshake has not brought another yet.
    lost: bool,
}

impl Session {
    pub(super) fn id(&self) -> Option<String> {
        self.state.lock().id.as_ref().and_then(|id| id.to_str().ok()).map(str::to_owned)
    }

    pub(super) fn settle(&self, revision: Revision) {
        self.state.lock().revision = Some(revision);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state.lock().lost
    }

    /// The server no longer knows this session; a newer one is kept.
    pub(super) fn forget(&self, gone: &str) {
        let mut state = self.state.lock();
        if state.id.as_ref().is_some_and(|id| id.as_bytes() == gone.as_bytes()) {
            *state = State { lost: true, ..State::default() };
        }
    }

    /// Keeps the id the handshake brought; of several attempts the last one counts.
    pub(super) fn learn(&self, headers: &HeaderMap) {
        let mut state = self.state.lock();
        if state.revision.is_none() {
            state.id = headers.get(mcp::SESSION_ID).cloned();
        }
    }

    /// Adds session and revision to the headers; gives the session used.
    pub(super) fn mark(&self, headers: &mut Headers) -> Option<String> {
        let state = self.state.lock();
        mark_revision(headers, state.revision);
        // A handshake carries no id, whatever an earlier attempt has left.
        let id = state.id.clone().filter(|_| state.revision.is_some())?;
        headers.push((mcp::SESSION_ID, id.clone()));
        id.to_str().ok().map(str::to_owned)
    }

    /// Takes a broken stream up again, as often as it makes progress.
    pub(super) async fn take_up(&self, shared: &Arc<Shared>, request: u64, mut broken: Broken) -> LaneEnd {
        let mut attempts = 0;
        while let Some(last_event) = broken.last_event.clone() {
            attempts = if broken.progressed { 1 } else { attempts + 1 };
            if shared.endpoint.limits.resumptions < attempts {
                break;
            }
            tokio::time::sleep(wait(broken.retry, &shared.endpoint.limits)).await;
            let retry = broken.retry;
            let response = match self.get(shared, Some(&last_event)).await {
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
            match lane::read(shared.lanes.sink(), Lane::Of(request), response, &shared.endpoint.limits).await {
                End::Lane(end) => return end,
                End::Broken(next) => {
                    let last_event = next.last_event.or(Some(last_event));
                    broken = Broken { last_event, retry: next.retry.or(retry), ..next };
                }
            }
        }
        broken.for_good()
    }

    /// Opens the standing stream, in the place of an older one, and waits a while until the server has answered.
    ///
    /// Many servers drop what they want to say on it while it is not there, a question in the first call included.
    pub(super) async fn stand(&self, shared: &Arc<Shared>) {
        self.state.lock().lost = false;
        let (answered, answer) = oneshot::channel();
        let standing = keep_standing(Arc::downgrade(shared), answered);
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
        let mut headers = Headers::new();
        if self.mark(&mut headers).is_some()
            && let Err(error) = endpoint.send(Method::DELETE, &headers, Bytes::new()).await
        {
            tracing::debug!(%error, "the session was not given back");
        }
    }

    async fn get(&self, shared: &Shared, last_event: Option<&str>) -> Result<crate::up::client::Reply, WireError> {
        let mut headers = Headers::new();
        headers.push((header::ACCEPT, HeaderValue::from_static("text/event-stream")));
        self.mark(&mut headers);
        if let Some(last_event) = last_event.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.push((mcp::LAST_EVENT_ID, last_event));
        }
        shared.endpoint.send(Method::GET, &headers, Bytes::new()).await
    }
}

/// Has a standing stream as long as the server has one; drops `answered` when it first knows whether there is one.
async fn keep_standing(shared: Weak<Shared>, answered: oneshot::Sender<()>) {
    let mut answered = Some(answered);
    let mut broken = Broken::default();
    let mut failures = 0u32;
    while let Some(shared) = shared.upgrade() {
        let Some(session) = &shared.session else { return };
        let response = session.get(&shared, broken.last_event.as_deref()).await;
        answered.take();
        match response {
            Ok(response) if response.status().is_client_error() => return,
            Ok(response) => {
                match lane::read(shared.lanes.sink(), Lane::Standing, response, &shared.endpoint.limits).await {
                    End::Broken(next) => {
                        failures = if next.progressed { 0 } else { failures + 1 };
                        let last_event = next.last_event.or(broken.last_event);
                        broken = Broken { last_event, retry: next.retry.or(broken.retry), ..Broken::default() };
                    }
                    // Not a stream: this server has none.
                    End::Lane(LaneEnd::Failed(error)) => {
                        tracing::debug!(%error, "no standing stream");
                        return;
                    }
                    End::Lane(_) => failures += 1,
                }
            }
            Err(_) => failures += 1,
        }
        let pause = wait(broken.retry, &shared.endpoint.limits) * 2u32.saturating_pow(failures);
        drop(shared);
        tokio::time::sleep(pause.min(LONGEST)).await;
    }
}

fn wait(retry: Option<u64>, limits: &Limits) -> Duration {
    retry.map_or(RETRY, |millis| Duration::from_millis(millis.min(limits.retry_millis)).max(SHORTEST))
}
