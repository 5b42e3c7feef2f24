//! Tracks active POSTs: each has a task, registered by its request id and aborted with it.

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

/// Timeout for a message without response; requests have their own timeouts.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Active POSTs of one link.
pub(super) struct ActiveLanes {
    sink: Arc<dyn Sink>,
    // No await under this lock. An entry is inserted before its task is spawned.
    requests: Mutex<BTreeMap<u64, Option<AbortHandle>>>,
    tasks: TaskTracker,
    runtime: Handle,
    /// Largest number of active messages without response, which a server can cause.
    max_messages: usize,
    pub(super) closed: CancellationToken,
}

impl ActiveLanes {
    /// Creates an empty set for the current runtime.
    pub(super) fn new(sink: Arc<dyn Sink>, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            sink,
            requests: Mutex::default(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            max_messages: limits.concurrent_requests.saturating_mul(2),
            closed: CancellationToken::new(),
        })
    }

    /// Receiver of incoming messages.
    pub(super) fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    /// Runtime of the link's tasks.
    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Fails if the link is closed.
    pub(super) fn check(&self) -> Result<(), WireError> {
        if self.closed.is_cancelled() { Err(WireError::Ended("closed locally".to_owned())) } else { Ok(()) }
    }

    /// Spawns a POST. For a request, the end of its lane is reported to the sink, unless it is `None`.
    pub(super) fn begin(
        self: &Arc<Self>,
        request: Option<u64>,
        post: BoxFuture<'static, Option<LaneEnd>>,
    ) -> Result<(), WireError> {
        self.check()?;
        match request {
            Some(request) => self.begin_lane(request, post),
            // Requests are limited by the router; messages that a server causes are limited here.
            None if self.max_messages <= self.tasks.len() => {
                return Err(WireError::Overloaded { limit: self.max_messages });
            }
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
                lanes.sink.on_lane_end(request, end);
            }
        };
        let task = self.tasks.spawn_on(lane, &self.runtime).abort_handle();
        match self.requests.lock().get_mut(&request) {
            Some(entry) => *entry = Some(task),
            // Finished or abandoned meanwhile.
            None => task.abort(),
        }
    }

    /// Aborts the POST of a cancelled request.
    pub(super) fn abandon(&self, request: u64) {
        if let Some(Some(task)) = self.requests.lock().remove(&request) {
            task.abort();
        }
    }

    /// Rejects new POSTs and aborts requests; active messages without response are still delivered.
    pub(super) fn close(&self) {
        self.closed.cancel();
        let requests = std::mem::take(&mut *self.requests.lock());
        requests.into_values().flatten().for_each(|task| task.abort());
    }
}

/// Delivers a message without response, within the timeout.
async fn deliver_within_timeout(post: BoxFuture<'static, Option<LaneEnd>>) {
    let late = |_| Some(LaneEnd::Failed(WireError::TimedOut { kind: TimeoutKind::Idle, limit: DELIVERY_TIMEOUT }));
    match tokio::time::timeout(DELIVERY_TIMEOUT, post).await.unwrap_or_else(late) {
        None | Some(LaneEnd::Accepted) => {}
        // Without the body, which may repeat the message.
        Some(LaneEnd::Status { status, .. }) => tracing::debug!(error = %status, "message not delivered"),
        Some(error) => tracing::debug!(?error, "message not delivered"),
    }
}

impl fmt::Debug for ActiveLanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveLanes").field("active", &self.tasks.len()).finish_non_exhaustive()
    }
}
