//! The shortest relay: whatever is asked of it, it asks of its server.

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use toolway_wire::{
    down::{Caller, Heard, Profile, Service},
    exchange::{Exchange, Request, Terms},
    notice::Wanted,
    up::Peer,
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

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        self.0.open(request, Terms::call())
    }

    fn listen<'a>(&'a self, _wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        Box::pin(std::future::ready(Heard { honoured: Wanted::default(), notices: mpsc::channel(1).1 }))
    }
}
