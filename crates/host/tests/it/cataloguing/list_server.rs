//! A test server with configurable lists, which records the requested lists.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};
use toolway_wire::{
    down::{Caller, DownstreamOptions, Profile, Service, ServiceSubscription},
    exchange::{self, Exchange, ExchangeTimeouts, Outcome, Request},
    json::Raw,
    message::RpcError,
    notice::{List, Notice, SubscriptionFilter},
    up::{ConnectOptions, EraChoice, Peer, in_process},
};

/// The test server. Clones share their state.
#[derive(Clone)]
pub(crate) struct ListServer {
    shared: Arc<Shared>,
}

struct Shared {
    /// Lists by the key of the list result.
    lists: Mutex<BTreeMap<&'static str, Value>>,
    refused: Mutex<Vec<&'static str>>,
    asked: Mutex<Vec<String>>,
    notices: broadcast::Sender<Notice>,
}

impl ListServer {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                lists: Mutex::default(),
                refused: Mutex::default(),
                asked: Mutex::default(),
                notices: broadcast::Sender::new(16),
            }),
        }
    }

    pub(crate) fn tools(self, names: &[&str]) -> Self {
        self.raw(
            "tools",
            names.iter().map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect(),
        )
    }

    pub(crate) fn prompts(self, names: &[&str]) -> Self {
        self.raw("prompts", names.iter().map(|name| json!({ "name": name })).collect())
    }

    pub(crate) fn resources(self, uris: &[&str]) -> Self {
        self.raw("resources", uris.iter().map(|uri| json!({ "uri": uri, "name": uri })).collect())
    }

    pub(crate) fn templates(self, templates: &[&str]) -> Self {
        self.raw("resourceTemplates", templates.iter().map(|uri| json!({ "uriTemplate": uri, "name": uri })).collect())
    }

    pub(crate) fn raw(self, key: &'static str, list: Value) -> Self {
        self.change(key, list);
        self
    }

    pub(crate) fn refusing(self, method: &'static str) -> Self {
        self.shared.refused.lock().push(method);
        self
    }

    pub(crate) fn change(&self, key: &'static str, list: Value) {
        self.shared.lists.lock().insert(key, list);
    }

    pub(crate) fn announce(&self, list: List) {
        self.shared.notices.send(Notice::Changed(list)).expect("a subscription is open");
    }

    /// The requested list methods, sorted.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut asked = self.shared.asked.lock().clone();
        asked.sort();
        asked
    }

    pub(crate) async fn connect(&self, era: EraChoice) -> Peer {
        let transport = in_process::transport(Arc::new(self.clone()), DownstreamOptions::default());
        let options = ConnectOptions { era, ..ConnectOptions::default() };
        Peer::connect(Arc::new(transport), options).await.expect("in-process server")
    }

    fn answer(&self, method: &str) -> Outcome {
        let key = match method {
            "tools/list" => "tools",
            "prompts/list" => "prompts",
            "resources/list" => "resources",
            "resources/templates/list" => "resourceTemplates",
            _ => return unknown(method),
        };
        self.shared.asked.lock().push(method.to_owned());
        if self.shared.refused.lock().contains(&method) {
            return unknown(method);
        }
        let list = self.shared.lists.lock().get(key).cloned().unwrap_or_else(|| json!([]));
        Outcome::Answered(Raw::of(&json!({ key: list })))
    }
}

fn unknown(method: &str) -> Outcome {
    Outcome::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{method}`")))
}

impl Service for ListServer {
    fn profile(&self, _caller: &Caller) -> Profile {
        let lists = self.shared.lists.lock();
        let mut capabilities = json!({});
        for (key, capability) in
            [("tools", "tools"), ("prompts", "prompts"), ("resources", "resources"), ("resourceTemplates", "resources")]
        {
            if lists.contains_key(key) {
                capabilities[capability] = json!({ "listChanged": true });
            }
        }
        Profile {
            info: Raw::of(&json!({ "name": "list_server", "version": "1" })),
            capabilities: Raw::of(&capabilities),
            instructions: Some("handle with care".to_owned()),
        }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 16);
        feed.end(self.answer(request.method()));
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (sender, notices) = mpsc::channel(16);
        let (mut source, filter) = (self.shared.notices.subscribe(), wanted.clone());
        tokio::runtime::Handle::current().spawn(async move {
            loop {
                let notice = tokio::select! {
                    () = sender.closed() => return,
                    notice = source.recv() => notice,
                };
                match notice {
                    Ok(notice) if filter.covers(&notice) => drop(sender.send(notice).await),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}
