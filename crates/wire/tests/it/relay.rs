//! The shortest relay: whatever is asked of it, it asks of its server.

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use toolway_wire::{
    down::{Caller, Heard, Profile, Service, Tasks},
    exchange::{Exchange, Request, ExchangeTimeouts},
    json::Raw,
    notice::Wanted,
    task::{Depth, Support, Task, TaskPage, Unanswered},
    up::{Peer, PeerTasks},
};

/// A relay to one server. That nothing in it names an era is the point of the whole design.
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
        // All tools of these stories can.
        request.handover = Support::Optional.wish(request.handover);
        self.0.open(request, ExchangeTimeouts::call())
    }

    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        Some(self)
    }

    fn listen<'a>(&'a self, _wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        Box::pin(std::future::ready(Heard { honoured: Wanted::default(), notices: mpsc::channel(1).1 }))
    }
}

impl Relay {
    fn of(&self, caller: &Caller) -> PeerTasks {
        self.0.tasks(Some(caller.capabilities.clone()))
    }
}

impl Tasks for Relay {
    fn look<'a>(&'a self, id: &'a str, depth: Depth, caller: &'a Caller) -> BoxFuture<'a, Result<Task, Unanswered>> {
        Box::pin(async move { self.of(caller).look(id, depth).await })
    }

    fn see_through(&self, id: &str, caller: &Caller) -> Exchange {
        self.of(caller).see_through(id, ExchangeTimeouts::call())
    }

    fn answer<'a>(&'a self, id: &'a str, answers: Raw, caller: &'a Caller) -> BoxFuture<'a, Result<(), Unanswered>> {
        Box::pin(async move { self.of(caller).answer(id, answers).await })
    }

    fn cancel<'a>(&'a self, id: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<Task, Unanswered>> {
        Box::pin(async move { self.of(caller).cancel(id).await })
    }

    fn list<'a>(&'a self, from: Option<Raw>, caller: &'a Caller) -> BoxFuture<'a, Result<TaskPage, Unanswered>> {
        Box::pin(async move { self.of(caller).list(from).await })
    }
}
