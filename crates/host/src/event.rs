//! The events of a host, and the bounded channels over which surfaces receive them: states, calls and tasks are separate streams,
//! so that a listener of states neither wakes for nor loses events to busy calls.

use std::sync::Arc;

use tokio::sync::broadcast;
use toolway_config::ServerName;

use crate::{
    call::{CallId, CallOutcome, Caller},
    catalog::{Catalog, diff::Diff},
    connection::{AppliedPlan, ServerStatus},
    record::CallRecord,
    task::TaskRow,
};

/// A change in the state of a host: its servers, its configuration or its catalog.
#[derive(Clone, Debug)]
pub enum StateEvent {
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
    /// The listener was too slow and lost this number of events. Read the snapshots again.
    Missed(u64),
}

/// The progress of a call.
#[derive(Clone, Debug)]
pub enum CallStageEvent {
    /// A call reached its next stage.
    Stage {
        /// Id of the call.
        id: CallId,
        /// The stage reached.
        stage: CallStage,
        /// The call as far as it is known.
        record: Arc<CallRecord>,
    },
    /// The listener was too slow and lost this number of events.
    Missed(u64),
}

/// A change of a task that this host follows.
#[derive(Clone, Debug)]
pub enum TaskEvent {
    /// The task began, or its status, message or progress changed.
    Changed(Arc<TaskRow>),
    /// The task ended. This is its last event.
    Ended {
        /// The task at its end.
        task: Arc<TaskRow>,
        /// The outcome of its call.
        outcome: Arc<CallOutcome>,
    },
    /// The listener was too slow and lost this number of events. Read the tasks again.
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
    /// The call ended, with the record of the event. This is its last event.
    Ended,
}

/// Sends events to all listeners of each stream. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct EventSender {
    states: broadcast::Sender<StateEvent>,
    calls: broadcast::Sender<CallStageEvent>,
    tasks: broadcast::Sender<TaskEvent>,
}

/// Receives one stream of events, until the host is dropped.
#[derive(Debug)]
pub struct EventListener<E> {
    receiver: broadcast::Receiver<E>,
}

/// An event that a listener can miss.
pub trait Event: Clone {
    /// The event that reports `count` lost events.
    fn missed(count: u64) -> Self;
}

/// Events buffered for each listener. A listener that falls further behind receives `Missed`.
pub const EVENT_CAPACITY: usize = 1_024;

// === impl EventSender ===

impl EventSender {
    pub(crate) fn new() -> Self {
        Self {
            states: broadcast::Sender::new(EVENT_CAPACITY),
            calls: broadcast::Sender::new(EVENT_CAPACITY),
            tasks: broadcast::Sender::new(EVENT_CAPACITY),
        }
    }

    /// Sends a state event. Without listeners of states `event` is not called.
    pub(crate) fn send_state(&self, event: impl FnOnce() -> StateEvent) {
        send(&self.states, event);
    }

    /// Sends a call event. Without listeners of calls `event` is not called.
    pub(crate) fn send_call(&self, event: impl FnOnce() -> CallStageEvent) {
        send(&self.calls, event);
    }

    /// Sends a task event. Without listeners of tasks `event` is not called.
    pub(crate) fn send_task(&self, event: impl FnOnce() -> TaskEvent) {
        send(&self.tasks, event);
    }

    pub(crate) fn listen_tasks(&self) -> EventListener<TaskEvent> {
        EventListener { receiver: self.tasks.subscribe() }
    }

    pub(crate) fn listen_states(&self) -> EventListener<StateEvent> {
        EventListener { receiver: self.states.subscribe() }
    }

    pub(crate) fn listen_calls(&self) -> EventListener<CallStageEvent> {
        EventListener { receiver: self.calls.subscribe() }
    }
}

fn send<E>(sender: &broadcast::Sender<E>, event: impl FnOnce() -> E) {
    if 0 < sender.receiver_count() {
        // The last listener may just have left.
        drop(sender.send(event()));
    }
}

// === impl EventListener ===

impl<E: Event> EventListener<E> {
    /// Waits for the next event; `None` after the host was dropped.
    pub async fn next(&mut self) -> Option<E> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(E::missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// Returns the next buffered event without waiting.
    pub fn try_next(&mut self) -> Option<E> {
        match self.receiver.try_recv() {
            Ok(event) => Some(event),
            Err(broadcast::error::TryRecvError::Lagged(missed)) => Some(E::missed(missed)),
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => None,
        }
    }
}

impl Event for StateEvent {
    fn missed(count: u64) -> Self {
        Self::Missed(count)
    }
}

impl Event for TaskEvent {
    fn missed(count: u64) -> Self {
        Self::Missed(count)
    }
}

impl Event for CallStageEvent {
    fn missed(count: u64) -> Self {
        Self::Missed(count)
    }
}

#[cfg(test)]
mod tests {
    use super::{CallStageEvent, EVENT_CAPACITY, EventSender, StateEvent};

    #[tokio::test]
    async fn slow_listener_receives_the_number_of_missed_events_and_the_rest() {
        let events = EventSender::new();
        let mut listener = events.listen_states();
        let gone = || StateEvent::ServerGone("files".parse().unwrap());
        (0..EVENT_CAPACITY + 5).for_each(|_| events.send_state(gone));
        assert!(matches!(listener.next().await, Some(StateEvent::Missed(5))));
        assert!(matches!(listener.next().await, Some(StateEvent::ServerGone(_))));
        drop(events);
        let mut left = 0;
        while listener.next().await.is_some() {
            left += 1;
        }
        assert_eq!(left, EVENT_CAPACITY - 1);
    }

    #[test]
    fn event_is_not_built_without_listeners_of_its_stream() {
        let events = EventSender::new();
        let _states = events.listen_states();
        events.send_call(|| unreachable!("there are no listeners of calls"));
    }

    #[test]
    fn many_calls_displace_no_state() {
        let events = EventSender::new();
        let (mut states, mut calls) = (events.listen_states(), events.listen_calls());
        events.send_state(|| StateEvent::ServerGone("files".parse().unwrap()));
        (0..=EVENT_CAPACITY).for_each(|_| events.send_call(|| CallStageEvent::Missed(0)));
        assert!(matches!(states.try_next(), Some(StateEvent::ServerGone(_))));
        assert!(states.try_next().is_none());
        assert!(matches!(calls.try_next(), Some(CallStageEvent::Missed(1))));
    }
}
