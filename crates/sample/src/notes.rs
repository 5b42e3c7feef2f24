//! The notes server of `toolway demo`: reads, overwrites, asks with a form, and runs a task with progress.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;
use toolway_wire::{
    down::{Caller, HostedTaskOptions, HostedTasks, Profile, Service, ServiceSubscription, Tasks},
    exchange::{
        self, Cause, Exchange, ExchangeTimeouts, Feed, Handover, Outcome, Request, ServerRequestDetails,
        ServerRequestId,
    },
    json::Raw,
    message::RpcError,
    notice::SubscriptionFilter,
};

/// Queued events of one exchange.
const UNREAD: usize = 64;
/// Steps of `weekly_report`.
const STEPS: u64 = 8;
/// Duration of one step.
const STEP: Duration = Duration::from_millis(350);

/// The notes server. Clones share their notes.
#[derive(Clone, Debug)]
pub struct Notes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    notes: Mutex<BTreeMap<String, String>>,
    tasks: HostedTasks,
}

impl Default for Notes {
    fn default() -> Self {
        let notes = [("shopping", "bread, tea"), ("ideas", "a garden of moss")];
        let notes = notes.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let options = HostedTaskOptions { poll_interval: STEP, ..HostedTaskOptions::default() };
        Self { shared: Arc::new(Shared { notes: Mutex::new(notes.into()), tasks: HostedTasks::new(options) }) }
    }
}

impl Service for Notes {
    fn profile(&self, _caller: &Caller) -> Profile {
        let info = json!({ "name": "notes", "title": "Notes", "version": env!("CARGO_PKG_VERSION") });
        Profile {
            info: Raw::of(&info),
            capabilities: Raw::of(&json!({ "tools": {} })),
            instructions: Some("Read a note before you overwrite it.".to_owned()),
        }
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), UNREAD);
        let (notes, caller) = (self.clone(), caller.clone());
        // Ends with its exchange: when the caller leaves, the work is cancelled.
        tokio::runtime::Handle::current().spawn(async move {
            let outcome = tokio::select! {
                outcome = notes.answer(&request, &caller, &feed) => outcome,
                () = feed.cancelled() => Outcome::Cancelled,
            };
            feed.end(outcome);
        });
        exchange
    }

    fn listen<'a>(&'a self, _wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (_, notices) = mpsc::channel(1);
        let accepted = SubscriptionFilter::default();
        Box::pin(std::future::ready(ServiceSubscription { accepted, notices }))
    }

    fn tasks(&self, _caller: &Caller) -> Option<&dyn Tasks> {
        Some(&self.shared.tasks)
    }
}

impl Notes {
    async fn answer(&self, request: &Request, caller: &Caller, feed: &Feed) -> Outcome {
        let answer = match request.method() {
            "tools/list" => Ok(list()),
            "tools/call" => return self.call(request, caller, feed).await,
            other => Err(RpcError::new(RpcError::METHOD_NOT_FOUND, &format!("unknown method `{other}`"))),
        };
        answer.map_or_else(Outcome::Refused, Outcome::Answered)
    }

    async fn call(&self, request: &Request, caller: &Caller, feed: &Feed) -> Outcome {
        let arguments = request.param("arguments").unwrap_or_else(Raw::empty_object);
        let text = |key: &str| arguments.get(key).as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        let name = request.param("name");
        let answer = match name.as_ref().and_then(Raw::as_str).as_deref() {
            Some("list_notes") => {
                let names = self.notes(|notes| notes.keys().cloned().collect::<Vec<_>>());
                Ok(text_result(&names.join(", "), false))
            }
            Some("read_note") => {
                let found = self.notes(|notes| notes.get(&text("name").unwrap_or_default()).cloned());
                Ok(found.map_or_else(|| text_result("there is no such note", true), |text| text_result(&text, false)))
            }
            Some("write_note") => {
                let (note, content) = (text("name").unwrap_or_default(), text("text").unwrap_or_default());
                self.notes(|notes| notes.insert(note.clone(), content));
                Ok(text_result(&format!("the note `{note}` was written"), false))
            }
            Some("order_lunch") => order_lunch(feed).await,
            Some("weekly_report") => return self.report(request, caller, feed).await,
            _ => Err(RpcError::new(RpcError::INVALID_PARAMS, "unknown tool")),
        };
        answer.map_or_else(Outcome::Refused, Outcome::Answered)
    }

    /// A task where the client supports tasks, else a slow call.
    async fn report(&self, request: &Request, caller: &Caller, feed: &Feed) -> Outcome {
        let keeps = match request.handover {
            Handover::Never => return Outcome::Answered(work(feed).await),
            Handover::Allowed => None,
            Handover::Wanted(keeps) => keeps,
        };
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), UNREAD);
        tokio::runtime::Handle::current().spawn(async move {
            let outcome = tokio::select! {
                report = work(&feed) => Outcome::Answered(report),
                () = feed.cancelled() => Outcome::Cancelled,
            };
            feed.end(outcome);
        });
        match self.shared.tasks.start(exchange, keeps, caller) {
            Ok(task) => Outcome::HandedOff(Box::new(task)),
            Err(error) => Outcome::Refused(error),
        }
    }

    fn notes<T>(&self, act: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        act(&mut self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn list() -> Raw {
    let name = json!({ "type": "string", "description": "Name of the note" });
    let named = json!({ "type": "object", "properties": { "name": name }, "required": ["name"] });
    let reads = json!({ "readOnlyHint": true });
    Raw::of(&json!({ "tools": [
        { "name": "list_notes", "title": "List notes", "description": "List the names of all notes",
          "inputSchema": { "type": "object" }, "annotations": reads },
        { "name": "read_note", "title": "Read a note", "description": "Return the text of a note",
          "inputSchema": named, "annotations": reads },
        { "name": "write_note", "title": "Overwrite a note", "description": "Write a note and replace its text",
          "inputSchema": { "type": "object", "required": ["name", "text"], "properties": {
            "name": name, "text": { "type": "string", "description": "New text" } } },
          "annotations": { "readOnlyHint": false, "destructiveHint": true, "openWorldHint": false } },
        { "name": "order_lunch", "title": "Order lunch", "description": "Order lunch; asks what you want to eat",
          "inputSchema": { "type": "object" }, "annotations": reads },
        { "name": "weekly_report", "title": "Weekly report", "description": "Compile a report; runs as a task",
          "inputSchema": { "type": "object" }, "annotations": reads, "execution": { "taskSupport": "optional" } },
    ] }))
}

async fn order_lunch(feed: &Feed) -> Result<Raw, RpcError> {
    let form = json!({
        "message": "What would you like for lunch?",
        "requestedSchema": { "type": "object", "required": ["dish"], "properties": {
            "dish": { "type": "string", "title": "Dish", "enum": ["soup", "curry", "salad"], "default": "soup" },
            "portions": { "type": "integer", "title": "Portions", "minimum": 1, "maximum": 4, "default": 1 },
        } },
    });
    let question = ServerRequestDetails {
        id: ServerRequestId(1),
        key: Some("lunch".to_owned()),
        method: "elicitation/create".to_owned(),
        params: Some(Raw::of(&form)),
        cause: Cause::Request,
    };
    let answer = feed.ask(question).await.into_result()?;
    let accepted = answer.get("action").as_ref().and_then(Raw::as_str).is_some_and(|action| action == "accept");
    let content = answer.get("content").filter(|_| accepted);
    let Some(content) = content else { return Ok(text_result("nothing was ordered", false)) };
    let dish = content.get("dish");
    let dish = dish.as_ref().and_then(Raw::as_str).unwrap_or_default();
    let portions = content.get("portions").and_then(|portions| portions.as_u64()).unwrap_or(1);
    Ok(text_result(&format!("ordered: {portions} × {dish}"), false))
}

async fn work(feed: &Feed) -> Raw {
    for step in 1..=STEPS {
        let message = format!("section {step} of {STEPS}");
        feed.progress(Raw::of(&json!({ "progress": step, "total": STEPS, "message": message })));
        tokio::time::sleep(STEP).await;
    }
    text_result("The weekly report has 8 sections.", false)
}

fn text_result(text: &str, is_error: bool) -> Raw {
    Raw::of(&json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
}
