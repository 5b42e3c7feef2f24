//! Turns events of the host into events for the pages.
//!
//! Calls are followed only while a stream is open and for a while after, because each event costs the call a copy of its
//! record.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        watch,
    },
    time::Instant,
};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::Caller,
    connection::CallerListChange,
    event::{CallStage, CallStageEvent, EventListener, StateEvent, TaskEvent},
    record::Delivery,
};

use crate::{
    ring::EventRing,
    view::{call, task},
};

/// How long calls are followed after the last stream has closed, so that it can be resumed.
const LINGER: Duration = Duration::from_secs(60);
/// Events of calls, or of tasks, in one second; beyond it pages are told to read the list again.
const MAX_CALL_EVENTS: u32 = 300;

/// The number of open streams. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StreamCount(watch::Sender<usize>);

/// An open stream.
#[derive(Debug)]
pub(crate) struct OpenStream(StreamCount);

impl Default for StreamCount {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl StreamCount {
    /// Counts a stream, unless there are `most` already.
    pub(crate) fn open(&self, most: usize) -> Option<OpenStream> {
        let is_open = self.0.send_if_modified(|count| {
            let is_free = *count < most;
            *count += usize::from(is_free);
            is_free
        });
        is_open.then(|| OpenStream(self.clone()))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Follows the host until the future is dropped.
pub(crate) async fn run(host: Host, ring: EventRing, streams: StreamCount) {
    tokio::join!(
        follow_states(host.listen_states(), &ring),
        follow_own_lists(host.caller_list_changes(), &ring),
        follow_inbox(&host, &ring),
        follow_calls(&host, &ring, streams.0.subscribe()),
        follow_tasks(host.listen_tasks(), &ring),
    );
}

async fn follow_states(mut states: EventListener<StateEvent>, ring: &EventRing) {
    let changed = |server: &ServerName| ring.publish("servers", &json!({ "name": server.as_str() }));
    while let Some(event) = states.next().await {
        match event {
            StateEvent::Server(status) => changed(&status.server),
            StateEvent::ServerGone(server) => changed(&server),
            StateEvent::Applied(applied) => applied.results.keys().for_each(changed),
            StateEvent::Catalog { diff, .. } => {
                let servers: BTreeSet<&ServerName> = diff.changes.iter().map(|change| &change.server).collect();
                servers.into_iter().for_each(changed);
            }
            StateEvent::Missed(_) => reset(ring),
        }
    }
}

/// What servers list to the user of this process, once that is known.
async fn follow_own_lists(mut changes: broadcast::Receiver<CallerListChange>, ring: &EventRing) {
    loop {
        match changes.recv().await {
            Ok(CallerListChange { server, caller: None | Some(Caller::Console) }) => {
                ring.publish("servers", &json!({ "name": server.as_str() }));
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => reset(ring),
            Err(RecvError::Closed) => return,
        }
    }
}

async fn follow_inbox(host: &Host, ring: &EventRing) {
    let mut changes = host.inbox().changes();
    while changes.changed().await.is_ok() {
        ring.publish("inbox", &json!({ "waiting": host.inbox().list().len() }));
    }
}

async fn follow_calls(host: &Host, ring: &EventRing, mut streams: watch::Receiver<usize>) {
    while streams.wait_for(|open| 0 < *open).await.is_ok() {
        let mut calls = host.listen_calls();
        tokio::select! {
            () = publish_calls(&mut calls, ring) => return,
            unused = until_unused(&mut streams) => if unused.is_err() {
                return;
            },
        }
        // What happens until the next stream opens is not seen.
        ring.interrupt();
    }
}

/// Resolves when no stream has been open for a while.
pub(crate) async fn unused(streams: &StreamCount) {
    drop(until_unused(&mut streams.0.subscribe()).await);
}

/// Resolves when no stream has been open for a while; fails when the console is dropped.
async fn until_unused(streams: &mut watch::Receiver<usize>) -> Result<(), watch::error::RecvError> {
    loop {
        streams.wait_for(|open| *open == 0).await?;
        if let Ok(opened) = tokio::time::timeout(LINGER, streams.wait_for(|open| 0 < *open)).await {
            opened?;
        } else {
            return Ok(());
        }
    }
}

async fn publish_calls(calls: &mut EventListener<CallStageEvent>, ring: &EventRing) {
    let mut rate = Rate::new(Instant::now());
    loop {
        let event = tokio::select! {
            event = calls.next() => event,
            () = rate.over(), if rate.has_dropped() => {
                reset(ring);
                rate = Rate::new(Instant::now());
                continue;
            }
        };
        match event {
            Some(CallStageEvent::Stage { stage, record, .. }) => {
                if rate.admit(Instant::now()) {
                    ring.publish("call", &call::of_stage(&record, &stage));
                }
                if matches!(stage, CallStage::Ended) && record.outcome == Some(Delivery::Unknown) {
                    // A person is to find out whether it happened.
                    ring.publish("inbox", &json!({}));
                }
            }
            Some(CallStageEvent::Missed(_)) => reset(ring),
            None => return,
        }
    }
}

async fn follow_tasks(mut tasks: EventListener<TaskEvent>, ring: &EventRing) {
    let mut rate = Rate::new(Instant::now());
    loop {
        let event = tokio::select! {
            event = tasks.next() => event,
            () = rate.over(), if rate.has_dropped() => {
                reset(ring);
                rate = Rate::new(Instant::now());
                continue;
            }
        };
        let view = match event {
            Some(TaskEvent::Changed(row)) => task::view(&row),
            Some(TaskEvent::Ended { task, outcome }) => task::ended(&task, &outcome),
            Some(TaskEvent::Missed(_)) => {
                reset(ring);
                continue;
            }
            None => return,
        };
        if rate.admit(Instant::now()) {
            ring.publish("task", &view);
        }
    }
}

/// Tells pages to read everything again.
fn reset(ring: &EventRing) {
    ring.publish("reset", &json!({}));
}

/// Counts the events of one second.
struct Rate {
    began: Instant,
    count: u32,
}

impl Rate {
    fn new(began: Instant) -> Self {
        Self { began, count: 0 }
    }

    fn admit(&mut self, now: Instant) -> bool {
        if Duration::from_secs(1) <= now - self.began && !self.has_dropped() {
            *self = Self::new(now);
        }
        self.count = self.count.saturating_add(1);
        self.count <= MAX_CALL_EVENTS
    }

    fn has_dropped(&self) -> bool {
        MAX_CALL_EVENTS < self.count
    }

    /// Resolves at the end of the second.
    async fn over(&self) {
        tokio::time::sleep_until(self.began + Duration::from_secs(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{MAX_CALL_EVENTS, Rate, StreamCount};

    #[test]
    fn streams_are_counted_within_a_bound() {
        let streams = StreamCount::default();
        let first = streams.open(2);
        let second = streams.open(2);
        assert!(first.is_some() && second.is_some() && streams.open(2).is_none());
        drop(first);
        assert!(streams.open(2).is_some());
    }

    #[tokio::test]
    async fn only_so_many_calls_are_published_in_a_second() {
        let now = Instant::now();
        let mut rate = Rate::new(now);
        assert!((0..MAX_CALL_EVENTS).all(|_| rate.admit(now)));
        assert!(!rate.admit(now) && rate.has_dropped());
        let mut rate = Rate::new(now);
        assert!(rate.admit(now + Duration::from_secs(2)) && !rate.has_dropped());
    }
}
