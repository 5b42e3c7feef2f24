//! The events of a host, and the bounded channel over which surfaces receive them.

use std::sync::Arc;

use tokio::sync::broadcast;
use toolway_config::ServerName;
use toolway_wire::json::Raw;

use crate::{
    call::{CallId, Caller},
    catalog::{Catalog, diff::Diff},
    connection::{AppliedPlan, ServerStatus},
    record::CallRecord,
};

/// An event of a host.
#[derive(Clone, Debug)]
pub enum HostEvent {
    /// The state or the details of a server changed.
    Server(Arc<ServerStatus>),
    /// A server was removed. No further event concerns it.
    ServerGone(ServerName),
    /// A changed configuration was applied.
    Applied(Arc<AppliedPlan>),
    /// A new catalog snapshot was published.
    Catalog {
        /// The new snapshot.
        catalog: Arc<Catalog>,
        /// Differences from the previous snapshot.
        diff: Arc<Diff>,
    },
    /// A call reached its next stage.
    Call {
        /// Id of the call.
        id: CallId,
        /// The stage reached.
        stage: CallStage,
    },
    /// A server logged a message outside any call.
    Log {
        /// Server that sent the message.
        server: ServerName,
        /// `level`, `logger` and `data`, unchanged.
        params: Raw,
    },
    /// The listener was too slow and lost this number of events. Read the snapshots again.
    Missed(u64),
}

/// The stages of a call.
#[derive(Clone, Debug)]
pub enum CallStage {
    /// The host accepted the call request.
    Started {
        /// Identity on whose behalf the call is made.
        caller: Caller,
        /// Requested name or URI, in its redacted form.
        name: String,
    },
    /// The call waits for an approval.
    Approval,
    /// The call was sent.
    Sent {
        /// Server the call was sent to.
        server: ServerName,
    },
    /// The server sent a server request during the call.
    Asked {
        /// Method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
        method: String,
    },
    /// The call ended. This is its last event.
    Ended(Arc<CallRecord>),
}

/// Sends events to all listeners. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct EventSender {
    sender: broadcast::Sender<HostEvent>,
}

/// Receives the events of a host, until the host is dropped.
#[derive(Debug)]
pub struct EventListener {
    receiver: broadcast::Receiver<HostEvent>,
}

/// Events buffered for each listener. A listener that falls further behind receives [`HostEvent::Missed`].
pub const EVENT_CAPACITY: usize = 1_024;

// === impl EventSender ===

impl EventSender {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::Sender::new(EVENT_CAPACITY) }
    }

    /// Sends an event to all listeners. Without listeners `event` is not called.
    pub(crate) fn send(&self, event: impl FnOnce() -> HostEvent) {
        if 0 < self.sender.receiver_count() {
            // The last listener may just have left.
            drop(self.sender.send(event()));
        }
    }

    pub(crate) fn listen(&self) -> EventListener {
        EventListener { receiver: self.sender.subscribe() }
    }
}

// === impl EventListener ===

impl EventListener {
    /// Waits for the next event; `None` after the host was dropped.
    pub async fn next(&mut self) -> Option<HostEvent> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(HostEvent::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// Returns the next buffered event without waiting.
    pub fn try_next(&mut self) -> Option<HostEvent> {
        match self.receiver.try_recv() {
            Ok(event) => Some(event),
            Err(broadcast::error::TryRecvError::Lagged(missed)) => Some(HostEvent::Missed(missed)),
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENT_CAPACITY, EventSender, HostEvent};

    #[tokio::test]
    async fn slow_listener_receives_the_number_of_missed_events_and_the_rest() {
        let events = EventSender::new();
        let mut listener = events.listen();
        let gone = || HostEvent::ServerGone("files".parse().unwrap());
        (0..EVENT_CAPACITY + 5).for_each(|_| events.send(gone));
        assert!(matches!(listener.next().await, Some(HostEvent::Missed(5))));
        assert!(matches!(listener.next().await, Some(HostEvent::ServerGone(_))));
        drop(events);
        let mut left = 0;
        while listener.next().await.is_some() {
            left += 1;
        }
        assert_eq!(left, EVENT_CAPACITY - 1);
    }

    #[test]
    fn event_is_not_built_without_listeners() {
        EventSender::new().send(|| unreachable!("there are no listeners"));
    }
}
