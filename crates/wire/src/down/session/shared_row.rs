//! What a client has set and the row of its shared session lacks, and when the two were last in touch.

use std::time::Duration;

use tokio::time::Instant;

use super::DownstreamSession;
use crate::{
    down::{SessionChanges, SubscriptionChange},
    exchange::LogLevel,
};

impl DownstreamSession {
    fn has_row(&self) -> bool {
        self.downstream.options.shared_sessions.is_some()
    }

    /// The client has set a log level.
    pub(super) fn level_changed(&self, level: LogLevel) {
        if self.has_row() {
            self.changes.lock().log_level = Some(level);
        }
    }

    /// The client has subscribed to a resource, or no longer does.
    pub(super) fn subscription_changed(&self, uri: String, change: SubscriptionChange) {
        if !self.has_row() {
            return;
        }
        let mut changes = self.changes.lock();
        if changes.subscriptions.len() < self.downstream.options.limits.concurrent_requests {
            changes.subscriptions.insert(uri, change);
        } else {
            tracing::warn!("too many changes of subscriptions wait for the rows of sessions; one is not kept");
        }
    }

    /// What the row lacks; it is written now.
    pub(in crate::down) fn take_changes(&self) -> SessionChanges {
        std::mem::take(&mut *self.changes.lock())
    }

    /// Puts back what could not be written, unless the client has set it again.
    pub(in crate::down) fn put_back(&self, unwritten: SessionChanges) {
        let mut changes = self.changes.lock();
        changes.log_level = changes.log_level.or(unwritten.log_level);
        for (uri, change) in unwritten.subscriptions {
            changes.subscriptions.entry(uri).or_insert(change);
        }
    }

    /// The row was written.
    pub(in crate::down) fn note(&self) {
        *self.noted.lock() = Instant::now();
    }

    /// Whether the row was not written for this long.
    pub(in crate::down) fn is_noted_before(&self, time: Duration) -> bool {
        time < self.noted.lock().elapsed()
    }
}
