//! A server with sessions and scripted results that records subscriptions.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolway_host::connection::{WantedServer, Way};
use toolway_testkit::test_host::name;
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{Exchange, Outcome, Request},
    json::Raw,
    message::RpcError,
    notice::{Notice, SubscriptionFilter},
    up::EraChoice,
};

type Answer = Box<dyn Fn(&Request, &Caller) -> Option<Value> + Send + Sync>;

/// The scripted server.
pub(crate) struct Scripted {
    capabilities: Value,
    answer: Answer,
    /// Subscribed URIs with their notice senders.
    subscribed: Mutex<Vec<(String, mpsc::Sender<Notice>)>>,
}

impl Scripted {
    /// Declares these capabilities and answers with `answer`; `None` means not found.
    pub(crate) fn new(
        capabilities: Value,
        answer: impl Fn(&Request, &Caller) -> Option<Value> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { capabilities, answer: Box::new(answer), subscribed: Mutex::default() })
    }

    /// The in-process server under this name.
    pub(crate) fn wanted(self: &Arc<Self>, server: &str) -> WantedServer {
        let wanted = WantedServer::new(name(server), Way::InProcess(Arc::clone(self) as _));
        WantedServer { era: EraChoice::Legacy, ..wanted }
    }

    pub(crate) fn subscribed(&self) -> Vec<String> {
        self.subscribed.lock().iter().map(|(uri, _)| uri.clone()).collect()
    }
}

impl Service for Scripted {
    fn profile(&self, _caller: &Caller) -> Profile {
        let info = Raw::of(&json!({ "name": "scripted", "version": "1" }));
        Profile { info, capabilities: Raw::of(&self.capabilities), instructions: None }
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        let unknown = || {
            Outcome::Refused(match request.param("uri") {
                Some(uri) => {
                    RpcError::with_data(RpcError::RESOURCE_NOT_FOUND, "not found", json!({ "uri": uri.as_str() }))
                }
                None => RpcError::new(RpcError::METHOD_NOT_FOUND, "unknown"),
            })
        };
        let answered = (self.answer)(&request, caller).map(|result| Outcome::Answered(Raw::of(&result)));
        Exchange::ended(answered.unwrap_or_else(unknown))
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (sender, notices) = mpsc::channel(8);
        self.subscribed.lock().extend(wanted.uris.iter().map(|uri| (uri.clone(), sender.clone())));
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}
