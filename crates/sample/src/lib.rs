//! The embedded sample server: enough of everything to show what a server can do, and nothing to install.
//!
//! [`Sample`] is a `Service` of `toolway-wire`: the faces there serve it over stdio or HTTP, in every revision. Its
//! tools are in [`tools`], what can be read in [`shelf`]. Nothing here knows an era.

mod shelf;
mod tools;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::{broadcast, mpsc};
use toolway_wire::{
    down::{Caller, Heard, Profile, Service},
    exchange::{self, Exchange, Feed, Outcome, Request, Terms},
    json::Raw,
    message::RpcError,
    notice::{Notice, Wanted},
};

/// The sample server. Clones share their memo and their listeners.
#[derive(Clone, Debug)]
pub struct Sample {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    notices: broadcast::Sender<Notice>,
    memo: shelf::Memo,
}

/// Happenings of one exchange that wait for its caller.
const UNREAD: usize = 64;
/// Notices that wait for a listener.
const NOTICES: usize = 64;

impl Default for Sample {
    fn default() -> Self {
        Self::new()
    }
}

impl Sample {
    /// A new sample server.
    pub fn new() -> Self {
        Self { shared: Arc::new(Shared { notices: broadcast::Sender::new(NOTICES), memo: shelf::Memo::default() }) }
    }

    async fn answer(self, request: Request, feed: Feed) {
        let work = async {
            match request.method() {
                "tools/list" => Ok(tools::list()),
                "tools/call" => tools::call(&self, &request, &feed).await,
                "resources/list" => Ok(shelf::list()),
                "resources/templates/list" => Ok(shelf::templates()),
                "resources/read" => self.shared.memo.read(&request),
                "prompts/list" => Ok(shelf::prompts()),
                "prompts/get" => shelf::prompt(&request),
                "completion/complete" => Ok(shelf::complete(&request)),
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
                "A small workshop to try things in. `greet` asks who you are; `count` shows progress.".to_owned(),
            ),
        }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(Terms::unbounded(), UNREAD);
        // It ends with its exchange: when the caller leaves, so does the work.
        tokio::runtime::Handle::current().spawn(self.clone().answer(request, feed));
        exchange
    }

    fn listen<'a>(&'a self, wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        let (sender, notices) = mpsc::channel(NOTICES);
        let honoured = Wanted { uris: shelf::known(&wanted.uris), ..wanted };
        let (mut source, filter) = (self.shared.notices.subscribe(), honoured.clone());
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
        Box::pin(std::future::ready(Heard { honoured, notices }))
    }
}

#[cfg(test)]
mod tests;
