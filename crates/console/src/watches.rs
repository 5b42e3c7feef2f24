//! Resources whose updates a person follows on a page. Each ends when no page has been open for a while.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use toolway_host::{
    Host,
    call::{Caller, CallerContext, ResourceUpdate, Subscription, Target},
    catalog::Origin,
};

use crate::{
    error::ApiError,
    feed::{self, StreamCount},
    ring::EventRing,
    view,
};

/// Resources that are followed at the same time.
const MAX_WATCHED: usize = 64;
/// Time between two events of one resource: a server may send updates as fast as it can, and all events share one ring.
const UPDATE_PAUSE: Duration = Duration::from_secs(1);

/// All of them.
pub(crate) struct Watches {
    host: Host,
    ring: EventRing,
    streams: StreamCount,
    active: Arc<Active>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Ends a watch when it is dropped. No await under its lock.
type Active = Mutex<BTreeMap<Origin, Option<DropGuard>>>;

impl Watches {
    pub(crate) fn new(host: Host, ring: EventRing, streams: StreamCount) -> Self {
        Self { host, ring, streams, active: Arc::default(), tasks: TaskTracker::new(), stop: CancellationToken::new() }
    }

    /// What is followed.
    pub(crate) fn list(&self) -> Vec<Value> {
        self.active.lock().keys().map(|one| json!({ "server": one.server.as_str(), "uri": one.raw_name })).collect()
    }

    /// Follows a resource, unless it is followed already.
    pub(crate) async fn start(&self, resource: Origin) -> Result<(), ApiError> {
        {
            let mut active = self.active.lock();
            if active.contains_key(&resource) {
                return Ok(());
            }
            if MAX_WATCHED <= active.len() || self.stop.is_cancelled() {
                let message = format!("at most {MAX_WATCHED} resources can be followed at the same time");
                return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_watched", message));
            }
            active.insert(resource.clone(), None);
        }
        let context = CallerContext::from(&Caller::Console);
        let subscribed = self.host.subscribe(context, Target::ResourceOf(resource.clone())).await;
        let subscription = match subscribed {
            Ok(subscription) => subscription,
            Err(outcome) => {
                self.active.lock().remove(&resource);
                return Err(ApiError::of_outcome(&outcome));
            }
        };
        let stop = self.stop.child_token();
        // It may have been given up meanwhile.
        match self.active.lock().get_mut(&resource) {
            Some(guard) => *guard = Some(stop.clone().drop_guard()),
            None => return Ok(()),
        }
        let watch = Watch { resource, ring: self.ring.clone(), active: Arc::clone(&self.active) };
        let streams = self.streams.clone();
        self.tasks.spawn(async move { watch.follow(subscription, stop, streams).await });
        Ok(())
    }

    /// Follows a resource no longer.
    pub(crate) fn end(&self, resource: &Origin) {
        drop(self.active.lock().remove(resource));
    }

    /// Ends all.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// Waits until all have ended.
    pub(crate) async fn wait(&self) {
        self.tasks.wait().await;
    }
}

/// One resource that is followed.
struct Watch {
    resource: Origin,
    ring: EventRing,
    active: Arc<Active>,
}

impl Watch {
    async fn follow(self, mut subscription: Subscription, stop: CancellationToken, streams: StreamCount) {
        let mut unused = std::pin::pin!(feed::unused(&streams));
        let mut change = None;
        let mut next = Instant::now();
        loop {
            tokio::select! {
                update = subscription.next() => match update {
                    Some(ResourceUpdate::Changed { .. }) => change = Some("updated"),
                    Some(ResourceUpdate::Resumed) => change = Some("resumed"),
                    None => break,
                },
                () = tokio::time::sleep_until(next), if change.is_some() => {
                    change.take().into_iter().for_each(|change| self.publish(change));
                    next = Instant::now() + UPDATE_PAUSE;
                }
                () = stop.cancelled() => return,
                () = &mut unused => break,
            }
        }
        self.active.lock().remove(&self.resource);
        self.publish("ended");
    }

    fn publish(&self, change: &'static str) {
        let Origin { server, raw_name } = &self.resource;
        let at = view::moment(std::time::SystemTime::now());
        self.ring
            .publish("resource", &json!({ "server": server.as_str(), "uri": raw_name, "change": change, "at": at }));
    }
}
