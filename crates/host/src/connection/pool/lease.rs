//! A lease on a caller connection: held by a call until its end.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use toolway_wire::{
    exchange::{CancelHandle, LogLevel},
    task::Task,
    up::Peer,
};

use super::{ConnectionPool, caller_connection::CallerConnection, parked::ParkedCall, state::Interactivity};
use crate::{
    connection::{
        stdio::ProcessInstance,
        usage::{CallGuard, ListenerGuard},
    },
    record::redact::Redactor,
};

/// The right to use a caller connection for one call; dropping it returns the connection.
pub(crate) struct CallerLease {
    pool: Arc<ConnectionPool>,
    pub(super) connection: Arc<CallerConnection>,
    interactivity: Interactivity,
    parked: Option<Arc<ParkedCall>>,
    _hold: Hold,
}

/// How a leased connection is used.
#[derive(Debug)]
enum Hold {
    /// By a call, which is awaited before the server is closed.
    Call { _guard: CallGuard },
    /// By a listener, which is not awaited.
    Listener { _guard: ListenerGuard },
}

// === impl CallerLease ===

impl CallerLease {
    pub(super) fn new(
        pool: &Arc<ConnectionPool>,
        connection: Arc<CallerConnection>,
        interactivity: Interactivity,
    ) -> Self {
        let hold = Hold::Call { _guard: CallGuard::new(&pool.uses) };
        Self { pool: Arc::clone(pool), connection, interactivity, parked: None, _hold: hold }
    }

    /// The peer and its redactor. `None` only before the connection is established.
    pub(crate) fn peer(&self) -> Option<(&Peer, &Redactor)> {
        self.connection.established.get().map(|established| (&established.peer, &established.redactor))
    }

    /// Makes the server log from this level on.
    pub(crate) async fn raise_log_level(&self, level: Option<LogLevel>) {
        if let Some(level) = level {
            Box::pin(self.connection.raise_log_level(level)).await;
        }
    }

    pub(crate) fn process(&self) -> Arc<ProcessInstance> {
        self.connection.monitor().current()
    }

    /// Notes that a request is sent: a connection that only listed is closed sooner.
    pub(crate) fn mark_called(&self) {
        if let Some(entry) = self.pool.state.lock().entry(&self.connection) {
            entry.called = true;
        }
    }

    /// Records a server request: other calls do not wait for the answer, and may end this call if none comes.
    pub(crate) fn park(&mut self, cancel: CancelHandle) {
        if self.interactivity == Interactivity::NonInteractive {
            return;
        }
        match &self.parked {
            Some(parked) => parked.restart_wait(Instant::now()),
            None => {
                let parked = Arc::new(ParkedCall::new(cancel, Instant::now()));
                if let Some(entry) = self.pool.state.lock().entry(&self.connection) {
                    entry.parked.push(Arc::clone(&parked));
                }
                self.parked = Some(parked);
            }
        }
        self.connection.queue.moved.notify_waiters();
    }

    /// How long a server request was unanswered when the call was ended to free the connection; `None` if it was not.
    pub(crate) fn preempted_after(&self) -> Option<Duration> {
        self.parked.as_ref().and_then(|parked| parked.preempted_after())
    }

    /// Turns the lease into one of a listener, which is not awaited before the server is closed.
    pub(crate) fn into_listener(mut self) -> Self {
        self._hold = Hold::Listener { _guard: ListenerGuard::new(&self.pool.uses) };
        self
    }

    /// Resolves when the connection is removed from the pool.
    pub(crate) async fn ended(&self) {
        self.connection.ended.cancelled().await;
    }

    /// Records a task on this connection, which is kept as long as the task.
    pub(crate) fn keep_task(&self, task: &Task) {
        self.pool.state.lock().keep_task(task.id.clone(), task.ttl, &self.connection, Instant::now());
    }

    /// Removes the connection from the pool.
    pub(crate) fn discard(&self) {
        self.pool.state.lock().remove(&self.connection);
    }
}

impl Drop for CallerLease {
    fn drop(&mut self) {
        if let Some(entry) = self.pool.state.lock().entry(&self.connection) {
            entry.release(self.interactivity, self.parked.as_ref(), Instant::now());
        }
        self.connection.queue.moved.notify_waiters();
    }
}

impl std::fmt::Debug for CallerLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallerLease").field("key", &self.connection.key).finish_non_exhaustive()
    }
}
