//! The embedded sample server: demonstrates the features of an MCP server without installation.
//!
//! [`Sample`] is a `Service` of `toolway-wire`, whose downstreams serve it over stdio or HTTP in every revision. Its
//! tools are in [`tools`], its resources and prompts in [`resources`]. [`Notes`] is the server of the demo. Nothing here
//! depends on the era.

mod notes;
mod resources;
mod tools;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::{broadcast, mpsc};
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{self, Exchange, ExchangeTimeouts, Feed, Outcome, Request},
    json::Raw,
    message::RpcError,
    notice::{Notice, SubscriptionFilter},
};

pub use notes::Notes;

/// The sample server. Clones share their memo and their listeners.
#[derive(Clone, Debug)]
pub struct Sample {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    notices: broadcast::Sender<Notice>,
    memo: resources::Memo,
}

/// Queued events of one exchange.
const UNREAD: usize = 64;
/// Queued notices per listener.
const NOTICES: usize = 64;

impl Default for Sample {
    fn default() -> Self {
        Self::new()
    }
}

impl Sample {
    /// A new sample server.
    pub fn new() -> Self {
        Self { shared: Arc::new(Shared { notices: broadcast::Sender::new(NOTICES), memo: resources::Memo::default() }) }
    }

    async fn answer(self, request: Request, feed: Feed) {
        let work = async {
            match request.method() {
                "tools/list" => Ok(tools::list()),
                "tools/call" => tools::call(&self, &request, &feed).await,
                "resources/list" => Ok(resources::list()),
                "resources/templates/list" => Ok(resources::templates()),
                "resources/read" => self.shared.memo.read(&request),
                "prompts/list" => Ok(resources::prompts()),
                "prompts/get" => resources::prompt(&request),
                "completion/complete" => Ok(resources::complete(&request)),
                other => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{other}`"))),
            }
        };
        let outcome = tokio::select! {
            answer = work => match answer {
                Ok(result) => Outcome::Answered(result),
                Err(error) => Outcome::Refused(error),
            },
            () = feed.cancelled() => Outcome::Cancelled,
        };
        feed.end(outcome);
    }
}

impl Service for Sample {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile {
            info: Raw::of(
                &json!({ "name": "toolway-sample", "title": "Toolway sample", "version": env!("CARGO_PKG_VERSION") }),
            ),
            capabilities: Raw::of(&json!({
                "tools": { "listChanged": true },
                "resources": { "subscribe": true, "listChanged": true },
                "prompts": { "listChanged": true },
                "completions": {},
                "logging": {},
            })),
            instructions: Some(
                "A sample server to try things out. `greet` asks for your name; `count` reports progress.".to_owned(),
            ),
        }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), UNREAD);
        // Ends with its exchange: when the caller leaves, the work is cancelled.
        tokio::runtime::Handle::current().spawn(self.clone().answer(request, feed));
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (sender, notices) = mpsc::channel(NOTICES);
        let accepted = SubscriptionFilter { uris: resources::known(&wanted.uris), ..wanted };
        let (mut source, filter) = (self.shared.notices.subscribe(), accepted.clone());
        tokio::runtime::Handle::current().spawn(async move {
            loop {
                let notice = tokio::select! {
                    () = sender.closed() => return,
                    notice = source.recv() => notice,
                };
                match notice {
                    Ok(notice) if filter.covers(&notice) => drop(sender.send(notice).await),
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        });
        Box::pin(std::future::ready(ServiceSubscription { accepted, notices }))
    }
}

#[cfg(test)]
mod tests;
