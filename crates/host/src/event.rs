//! The closed list of things that happen in a host, and the bounded channel on which surfaces hear of them.

use std::sync::Arc;

use tokio::sync::broadcast;
use toolway_config::ServerName;
use toolway_wire::json::Raw;

use crate::{
    call::{CallId, Caller},
    catalog::{Catalog, diff::Diff},
    connection::{Applied, ServerStatus},
    record::CallRecord,
};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum HostEvent {
    /// A server is in another state, or more is known of it.
    Server(Arc<ServerStatus>),
    /// A server is no longer wanted; this is the last that is heard of it.
    ServerGone(ServerName),
    /// What is wanted has changed, and this was done about it.
    Applied(Arc<Applied>),
    /// There is a new snapshot of what all servers offer.
    Catalog {
        /// The snapshot.
        catalog: Arc<Catalog>,
        /// What is different from the one before.
        diff: Arc<Diff>,
    },
    /// A call has come to its next state.
    Call {
        /// Which.
        id: CallId,
        /// Where it is.
        stage: CallStage,
    },
    /// A server said something that belongs to no call.
    Log {
        /// Which.
        server: ServerName,
        /// `level`, `logger`, `data` as they came.
        params: Raw,
    },
    /// The listener was too slow: so many events are gone. Read the snapshots again.
    Missed(u64),
}

/// The states of a call.
#[derive(Clone, Debug)]
pub enum CallStage {
    /// It came in.
    Started {
        /// On whose behalf.
        caller: Caller,
        /// What is asked for, as it is shown.
        name: String,
    },
    /// A person is asked whether it may go on.
    Approval,
    /// It was sent.
    Sent {
        /// Where to.
        server: ServerName,
    },
    /// The server wants to know something first.
    Asked {
        /// What: `elicitation/create`, `sampling/createMessage`, `roots/list`.
        method: String,
    },
    /// Its one end.
    Ended(Arc<CallRecord>),
}

/// The telling end. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<HostEvent>,
}

/// The hearing end. It ends with the host.
#[derive(Debug)]
pub struct Listener {
    receiver: broadcast::Receiver<HostEvent>,
}

/// Events kept for a listener that is busy; one that falls further behind is told how many it missed.
pub const UNREAD_EVENTS: usize = 1_024;

// === impl Events ===

impl Events {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::Sender::new(UNREAD_EVENTS) }
    }

    /// Tells whoever listens; where nobody does, the event is not even made.
    pub(crate) fn tell(&self, event: impl FnOnce() -> HostEvent) {
        if 0 < self.sender.receiver_count() {
            // The last listener may just have left.
            drop(self.sender.send(event()));
        }
    }

    pub(crate) fn listen(&self) -> Listener {
        Listener { receiver: self.sender.subscribe() }
    }
}

// === impl Listener ===

impl Listener {
    /// The next event; `None` when the host is gone.
    pub async fn next(&mut self) -> Option<HostEvent> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(HostEvent::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// The next event that has happened already; `None` where there is none.
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
    use super::{Events, HostEvent, UNREAD_EVENTS};

    #[tokio::test]
    async fn a_slow_listener_is_told_how_many_it_missed_and_hears_the_rest() {
        let events = Events::new();
        let mut listener = events.listen();
        let gone = || HostEvent::ServerGone("files".parse().unwrap());
        (0..UNREAD_EVENTS + 5).for_each(|_| events.tell(gone));
        assert!(matches!(listener.next().await, Some(HostEvent::Missed(5))));
        assert!(matches!(listener.next().await, Some(HostEvent::ServerGone(_))));
        drop(events);
        let mut left = 0;
        while listener.next().await.is_some() {
            left += 1;
        }
        assert_eq!(left, UNREAD_EVENTS - 1);
    }

    #[test]
    fn what_nobody_hears_is_not_made() {
        Events::new().tell(|| unreachable!("nobody listens"));
    }
}
