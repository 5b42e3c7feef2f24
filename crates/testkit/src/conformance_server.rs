//! Server for the official conformance suite: every tool, prompt and resource that its scenarios use, in one era.
//!
//! Names, arguments and answers are those of the suite. It uses the downstream side of `toolway-wire` and does not
//! depend on an era: the same code sends requests on a stream in one era and returns unfinished results in the other.

mod content;
mod prompts;
mod resources;
mod schemas;
mod server_requests;
mod tasks;
mod tools;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::{self, BoxFuture};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{broadcast, mpsc};
use toolway_wire::{
    down::{
        AllowedServerRequests, Caller, DownstreamOptions, HostedTaskOptions, HostedTasks, Profile, Service,
        ServiceSubscription, Tasks,
    },
    exchange::{self, Exchange, ExchangeTimeouts, Feed, Outcome, Request},
    header::{self, ParamHeader},
    json::Raw,
    message::RpcError,
    notice::{List, Notice, SubscriptionFilter},
    revision::Revision,
};

use crate::effects::EffectsFile;

/// The server. Clones share the same state.
#[derive(Clone, Debug)]
pub struct ConformanceServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    notices: broadcast::Sender<Notice>,
    /// Number of changes of tools and of prompts.
    tool_changes: AtomicUsize,
    prompt_changes: AtomicUsize,
    /// Labels of calls whose callers have disconnected, and of URLs that were opened.
    left: Mutex<HashSet<String>>,
    opened: Mutex<HashSet<String>>,
    tasks: HostedTasks,
    /// Where jobs write that they start and end.
    effects: Option<EffectsFile>,
}

/// Capacity of event and notice queues.
const UNREAD: usize = 64;
/// Poll interval of tasks.
const POLL: Duration = Duration::from_millis(100);

impl Default for ConformanceServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ConformanceServer {
    /// A new server.
    pub fn new() -> Self {
        Self::of(None)
    }

    /// A server whose tool `long_job` writes `start LABEL` and `end LABEL`, with its argument `label`.
    pub fn with_effects(effects: EffectsFile) -> Self {
        Self::of(Some(effects))
    }

    fn of(effects: Option<EffectsFile>) -> Self {
        let shared = Shared {
            notices: broadcast::Sender::new(UNREAD),
            tool_changes: AtomicUsize::new(0),
            prompt_changes: AtomicUsize::new(0),
            left: Mutex::default(),
            opened: Mutex::default(),
            tasks: HostedTasks::new(HostedTaskOptions { poll_interval: POLL, ..HostedTaskOptions::default() }),
            effects,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Options for serving this revision only. Servers may send requests that clients did not declare, as many servers
    /// do.
    pub fn downstream_options(revision: Revision) -> DownstreamOptions {
        DownstreamOptions {
            revisions: vec![revision],
            server_requests: AllowedServerRequests::Anything,
            ..DownstreamOptions::default()
        }
    }

    /// Changes a list and sends a notification.
    fn change(&self, list: List) {
        match list {
            List::Prompts => self.shared.prompt_changes.fetch_add(1, Ordering::Relaxed),
            List::Tools | List::Resources => self.shared.tool_changes.fetch_add(1, Ordering::Relaxed),
        };
        // There may be no subscriber.
        drop(self.shared.notices.send(Notice::Changed(list)));
    }

    /// Notifies that a resource has changed.
    fn touch(&self, uri: &str) {
        let notice = Notice::Updated { uri: uri.to_owned(), params: Raw::of(&json!({ "uri": uri })) };
        // There may be no subscriber.
        drop(self.shared.notices.send(notice));
    }

    async fn answer(self, request: Request, caller: Caller, feed: Feed) {
        let outcome = tokio::select! {
            outcome = self.outcome(&request, &caller, &feed) => outcome,
            () = feed.cancelled() => Outcome::Cancelled,
        };
        feed.end(outcome);
    }

    async fn outcome(&self, request: &Request, caller: &Caller, feed: &Feed) -> Outcome {
        let answer = match request.method() {
            "tools/list" => Ok(tools::list(self.shared.tool_changes.load(Ordering::Relaxed))),
            "tools/call" => return tasks::call(self, request, caller, feed).await,
            "resources/list" => Ok(resources::list()),
            "resources/templates/list" => Ok(resources::templates()),
            "resources/read" => resources::read(request),
            "prompts/list" => Ok(prompts::list(self.shared.prompt_changes.load(Ordering::Relaxed))),
            "prompts/get" => prompts::get(request, feed).await,
            "completion/complete" => Ok(prompts::complete(request)),
            other => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{other}`"))),
        };
        match answer {
            Ok(result) => Outcome::Answered(result),
            Err(error) => Outcome::Refused(error),
        }
    }
}

impl Service for ConformanceServer {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile {
            info: Raw::of(&json!({ "name": "conformance-server", "version": env!("CARGO_PKG_VERSION") })),
            capabilities: Raw::of(&json!({
                "tools": { "listChanged": true },
                "resources": { "subscribe": true, "listChanged": true },
                "prompts": { "listChanged": true },
                "completions": {},
                "logging": {},
            })),
            instructions: None,
        }
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), UNREAD);
        // The task ends with its exchange when the caller disconnects.
        tokio::runtime::Handle::current().spawn(self.clone().answer(request, caller.clone(), feed));
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (sender, notices) = mpsc::channel(UNREAD);
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
        Box::pin(future::ready(ServiceSubscription { accepted, notices }))
    }

    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        Some(&self.shared.tasks)
    }

    fn param_headers(&self, tool: &str, _caller: &Caller) -> Vec<ParamHeader> {
        let schema = tools::schema_of(tool).map(|schema| Raw::of(&schema));
        schema.and_then(|schema| header::param_headers(&schema).ok()).unwrap_or_default()
    }
}
