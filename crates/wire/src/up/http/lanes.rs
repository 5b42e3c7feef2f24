//! The POSTs under way: a task each, found by the request it is for and ended with it.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::AbortHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    error::{TimeoutKind, WireError},
    limit::Limits,
    up::transport::{LaneEnd, Sink},
};

/// How long a server may take to take a message that wants no answer; what wants one has clocks of its own.
const TAKEN: Duration = Duration::from_secs(30);

/// What one link has under way.
pub(super) struct ActiveLanes {
    sink: Arc<dyn Sink>,
    // Nothing awaits under this lock. A place is taken before its task is known.
    requests: Mutex<BTreeMap<u64, Option<AbortHandle>>>,
    tasks: TaskTracker,
    runtime: Handle,
    /// Messages at once that a server can make us say.
    most: usize,
    pub(super) closed: CancellationToken,
}

impl ActiveLanes {
    /// None under way, on this runtime.
    pub(super) fn new(sink: Arc<dyn Sink>, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            sink,
            requests: Mutex::default(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            most: limits.concurrent_requests.saturating_mul(2),
            closed: CancellationToken::new(),
        })
    }

    /// Who hears what comes back.
    pub(super) fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    /// Where further tasks of the link run.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether anything may begin.
    pub(super) fn check(&self) -> Result<(), WireError> {
        if self.closed.is_cancelled() { Err(WireError::Ended("closed by us".to_owned())) } else { Ok(()) }
    }

    /// Lets a POST go on by itself. How the lane of a request ends is told to the sink, unless there is nothing to tell.
    pub(super) fn begin(
        self: &Arc<Self>,
        request: Option<u64>,
        post: BoxFuture<'static, Option<LaneEnd>>,
    ) -> Result<(), WireError> {
        self.check()?;
        match request {
            Some(request) => self.begin_lane(request, post),
            // Requests are counted where they are made; what a server makes us say is counted here.
            None if self.most <= self.tasks.len() => return Err(WireError::Overloaded { limit: self.most }),
            None => drop(self.tasks.spawn_on(deliver_within_timeout(post), &self.runtime)),
        }
        Ok(())
    }

    fn begin_lane(self: &Arc<Self>, request: u64, post: BoxFuture<'static, Option<LaneEnd>>) {
        let lanes = Arc::clone(self);
        self.requests.lock().insert(request, None);
        let lane = async move {
            let end = post.await;
            lanes.requests.lock().remove(&request);
            if let Some(end) = end {
                lanes.sink.lane_ended(request, end);
            }
        };
        let task = self.tasks.spawn_on(lane, &self.runtime).abort_handle();
        match self.requests.lock().get_mut(&request) {
            Some(place) => *place = Some(task),
            // Finished, or abandoned, in the meantime.
            None => task.abort(),
        }
    }

    /// The answer to this request is no longer wanted.
    pub(super) fn abandon(&self, request: u64) {
        if let Some(Some(task)) = self.requests.lock().remove(&request) {
            task.abort();
        }
    }

    /// Nothing begins any more, and what waits for an answer waits no longer; messages under way are still delivered.
    pub(super) fn close(&self) {
        self.closed.cancel();
        let requests = std::mem::take(&mut *self.requests.lock());
        requests.into_values().flatten().for_each(|task| task.abort());
    }
}

/// A message that wants no answer, within its time: nobody else has an eye on the clock.
async fn deliver_within_timeout(post: BoxFuture<'static, Option<LaneEnd>>) {
    let late = |_| Some(LaneEnd::Failed(WireError::TimedOut { kind: TimeoutKind::Idle, limit: TAKEN }));
    match tokio::time::timeout(TAKEN, post).await.unwrap_or_else(late) {
        None | Some(LaneEnd::Accepted) => {}
        Some(end) => tracing::debug!(?end, "a message did not reach the server"),
    }
}

impl fmt::Debug for ActiveLanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveLanes").field("under_way", &self.tasks.len()).finish_non_exhaustive()
    }
}
