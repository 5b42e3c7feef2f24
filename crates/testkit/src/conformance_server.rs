//! The server that the official suite puts to the test: every tool, prompt and resource its scenarios call, in one era.
//!
//! Names, arguments and answers are the suite's. It stands on `toolway-wire`'s down face and knows no year itself: the
//! same work asks on a stream in one era and with an unfinished result in the other.

mod asking;
mod content;
mod prompts;
mod resources;
mod schemas;
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
    down::{Asks, Caller, FaceOptions, Heard, HostedTasks, Keeping, Profile, Service, Tasks},
    exchange::{self, Exchange, Feed, Outcome, Request, Terms},
    header::{self, ParamHeader},
    json::Raw,
    message::RpcError,
    notice::{List, Notice, Wanted},
    revision::Revision,
};

/// The server. Clones are the same one.
#[derive(Clone, Debug)]
pub struct ConformanceServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    notices: broadcast::Sender<Notice>,
    /// How often the tools and the prompts were changed.
    tool_changes: AtomicUsize,
    prompt_changes: AtomicUsize,
    /// Calls whose callers have left, and addresses that were opened, by the labels they were given.
    left: Mutex<HashSet<String>>,
    opened: Mutex<HashSet<String>>,
    tasks: HostedTasks,
}

/// Happenings of one exchange, or notices, that wait for whoever reads them.
const UNREAD: usize = 64;
/// How often to look at a task.
const POLL: Duration = Duration::from_millis(100);

impl Default for ConformanceServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ConformanceServer {
    /// A new server.
    pub fn new() -> Self {
        let shared = Shared {
            notices: broadcast::Sender::new(UNREAD),
            tool_changes: AtomicUsize::new(0),
            prompt_changes: AtomicUsize::new(0),
            left: Mutex::default(),
            opened: Mutex::default(),
            tasks: HostedTasks::new(Keeping { poll: POLL, ..Keeping::default() }),
        };
        Self { shared: Arc::new(shared) }
    }

    /// How a face behaves that serves it in this revision alone. It asks whatever its tools ask, as many servers do.
    pub fn face(revision: Revision) -> FaceOptions {
        FaceOptions { revisions: vec![revision], asks: Asks::Anything, ..FaceOptions::default() }
    }

    /// Changes a list, and tells.
    fn change(&self, list: List) {
        match list {
            List::Prompts => self.shared.prompt_changes.fetch_add(1, Ordering::Relaxed),
            List::Tools | List::Resources => self.shared.tool_changes.fetch_add(1, Ordering::Relaxed),
        };
        // Nobody may be listening.
        drop(self.shared.notices.send(Notice::Changed(list)));
    }

    /// Says that a resource is not what it was.
    fn touch(&self, uri: &str) {
        let notice = Notice::Updated { uri: uri.to_owned(), params: Raw::of(&json!({ "uri": uri })) };
        // Nobody may be listening.
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
        let (exchange, feed) = exchange::pair(Terms::unbounded(), UNREAD);
        // It ends with its exchange: when the caller leaves, so does the work.
        tokio::runtime::Handle::current().spawn(self.clone().answer(request, caller.clone(), feed));
        exchange
    }

    fn listen<'a>(&'a self, wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        let (sender, notices) = mpsc::channel(UNREAD);
        let honoured = Wanted { uris: resources::known(&wanted.uris), ..wanted };
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
        Box::pin(future::ready(Heard { honoured, notices }))
    }

    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        Some(&self.shared.tasks)
    }

    fn param_headers(&self, tool: &str, _caller: &Caller) -> Vec<ParamHeader> {
        let schema = tools::schema_of(tool).map(|schema| Raw::of(&schema));
        schema.and_then(|schema| header::annotated(&schema).ok()).unwrap_or_default()
    }
}
