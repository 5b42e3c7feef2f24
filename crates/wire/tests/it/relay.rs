//! A minimal relay: forwards every request to its server.

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription, Tasks},
    exchange::{Exchange, ExchangeTimeouts, Request},
    json::Raw,
    notice::SubscriptionFilter,
    task::{Task, TaskDetail, TaskError, TaskPage, TaskSupport},
    up::{Peer, PeerTasks},
};

/// A relay to one server. It names no era, which is the point of the design.
pub(crate) struct Relay(pub(crate) Peer);

impl Service for Relay {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile {
            info: self.0.profile().info.clone(),
            capabilities: self.0.profile().capabilities.0.clone(),
            instructions: None,
        }
    }

    fn open(&self, mut request: Request, _caller: &Caller) -> Exchange {
        // All tools in these tests support tasks.
        request.handover = TaskSupport::Optional.handover_for(request.handover);
        self.0.open(request, ExchangeTimeouts::call())
    }

    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        Some(self)
    }

    fn listen<'a>(&'a self, _wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        Box::pin(std::future::ready(ServiceSubscription {
            accepted: SubscriptionFilter::default(),
            notices: mpsc::channel(1).1,
        }))
    }
}

impl Relay {
    fn of(&self, caller: &Caller) -> PeerTasks {
        self.0.tasks(Some(caller.capabilities.clone()))
    }
}

impl Tasks for Relay {
    fn get<'a>(&'a self, id: &'a str, depth: TaskDetail, caller: &'a Caller) -> BoxFuture<'a, Result<Task, TaskError>> {
        Box::pin(async move { self.of(caller).get(id, depth).await })
    }

    fn follow(&self, id: &str, caller: &Caller) -> Exchange {
        self.of(caller).follow(id, ExchangeTimeouts::call())
    }

    fn answer<'a>(&'a self, id: &'a str, answers: Raw, caller: &'a Caller) -> BoxFuture<'a, Result<(), TaskError>> {
        Box::pin(async move { self.of(caller).answer(id, answers).await })
    }

    fn cancel<'a>(&'a self, id: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<Task, TaskError>> {
        Box::pin(async move { self.of(caller).cancel(id).await })
    }

    fn list<'a>(&'a self, from: Option<Raw>, caller: &'a Caller) -> BoxFuture<'a, Result<TaskPage, TaskError>> {
        Box::pin(async move { self.of(caller).list(from).await })
    }
}
