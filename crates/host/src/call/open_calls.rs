//! Calls that have not ended, by id, so that an operator can cancel one.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Context,
};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::CallId;
use crate::host::Host;

/// The open calls of a host. A relay adds its call and removes it when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct OpenCalls {
    // Nothing awaits under this lock.
    calls: Mutex<BTreeMap<CallId, Arc<CancelSwitch>>>,
}

/// Asks a relay to cancel its call.
#[derive(Debug, Default)]
pub(super) struct CancelSwitch {
    is_requested: AtomicBool,
    reason: Mutex<Option<String>>,
    /// The task that polls the relay.
    task: AtomicWaker,
}

impl OpenCalls {
    pub(super) fn add(&self, id: CallId) -> Arc<CancelSwitch> {
        let switch = Arc::<CancelSwitch>::default();
        self.calls.lock().insert(id, Arc::clone(&switch));
        switch
    }

    pub(super) fn remove(&self, id: CallId) {
        self.calls.lock().remove(&id);
    }
}

impl CancelSwitch {
    /// The reason of a cancellation that was not taken yet. The task of `context` is woken by a later one.
    pub(super) fn take(&self, context: &Context<'_>) -> Option<String> {
        self.task.register(context.waker());
        if !self.is_requested.load(Ordering::Acquire) {
            return None;
        }
        self.reason.lock().take()
    }

    fn request(&self, reason: &str) {
        *self.reason.lock() = Some(reason.to_owned());
        self.is_requested.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl Host {
    /// Cancels an open call of this host, of any caller. Returns whether there is such a call.
    pub fn cancel_call(&self, id: CallId, reason: &str) -> bool {
        let switch = self.inner().open_calls.calls.lock().get(&id).cloned();
        switch.inspect(|switch| switch.request(reason)).is_some()
    }

    /// Cancels all open calls of this host.
    pub fn cancel_all_calls(&self, reason: &str) {
        self.inner().open_calls.calls.lock().values().for_each(|switch| switch.request(reason));
    }
}
