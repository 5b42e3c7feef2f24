//! Calls that a person makes on a page: a tool that is run, a resource that is read, a prompt that is previewed. Each takes
//! the path of a call, goes on when the page is left, and is kept for a while with its whole result.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolway_host::{
    Host,
    call::{CallEvent, CallId, CallKind, CallOutcome, CallRequest, Caller, Relay, Target},
    catalog::Origin,
    policy::Refusal,
    validation::check::{self, LocatedProblem},
};
use toolway_wire::{
    budget::{Charge, MemoryBudget},
    json::Raw,
};
use uuid::Uuid;

use crate::{error::ApiError, ring::EventRing, view::run};

/// Runs at the same time.
const MAX_OPEN: usize = 16;
/// Runs that are kept, with those that go on.
const MAX_KEPT: usize = 64;
/// Bytes of the results of all runs that are kept.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Time between two events of the progress of a run.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a message of progress.
const MAX_MESSAGE: usize = 1_000;

/// All runs of a console.
pub(crate) struct Runs {
    host: Host,
    ring: EventRing,
    kept: Arc<Mutex<VecDeque<Run>>>,
    memory: MemoryBudget,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A run as it is now. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Id of its call.
    pub(crate) id: Uuid,
    pub(crate) kind: CallKind,
    pub(crate) origin: Origin,
    pub(crate) arguments: Option<Raw>,
    pub(crate) started_at: SystemTime,
    pub(crate) progress: Option<RunProgress>,
    /// `None` while it goes on.
    pub(crate) end: Option<Arc<RunEnd>>,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunProgress {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct RunEnd {
    /// State of its call.
    pub(crate) state: &'static str,
    /// Time of the server.
    pub(crate) took: Duration,
    /// Time of the person who was asked.
    pub(crate) waited: Duration,
    pub(crate) result: Option<Raw>,
    /// Size of the result, also where it is not kept.
    pub(crate) bytes: usize,
    pub(crate) error: Option<String>,
    /// Problems of arguments by their JSON pointer.
    pub(crate) fields: Map<String, Value>,
    /// What does not match the schemas of the tool.
    pub(crate) validation: Vec<String>,
    /// Charge for the result.
    _charge: Charge,
}

impl Runs {
    pub(crate) fn new(host: Host, ring: EventRing, memory: &MemoryBudget) -> Self {
        Self {
            host,
            ring,
            kept: Arc::default(),
            memory: memory.clone(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Starts a run and returns its id.
    pub(crate) fn start(&self, kind: CallKind, origin: Origin, arguments: Option<Raw>) -> Result<Uuid, ApiError> {
        if self.stop.is_cancelled() {
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the console is shutting down"));
        }
        let mut kept = self.kept.lock();
        if MAX_OPEN <= kept.iter().filter(|run| run.end.is_none()).count() {
            let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", "too many calls are running");
            return Err(error.hint("wait for one of them, or cancel it"));
        }
        let target = match kind {
            CallKind::Prompt => Target::PromptOf(origin.clone()),
            CallKind::Resource => Target::ResourceOf(origin.clone()),
            CallKind::Tool | CallKind::Method => Target::ToolOf(origin.clone()),
        };
        let request = CallRequest { arguments: arguments.clone(), ..CallRequest::new(Caller::Console, target) };
        let relay = self.host.open(request);
        let id = relay.id().uuid();
        let run = Run { id, kind, origin, arguments, started_at: SystemTime::now(), progress: None, end: None };
        kept.push_back(run.clone());
        drop(kept);
        let driver = Driver {
            host: self.host.clone(),
            ring: self.ring.clone(),
            kept: Arc::clone(&self.kept),
            memory: self.memory.clone(),
            run,
        };
        let stop = self.stop.clone();
        self.tasks.spawn(async move { driver.drive(relay, stop).await });
        Ok(id)
    }

    /// A run that is kept.
    pub(crate) fn find(&self, id: Uuid) -> Option<Run> {
        self.kept.lock().iter().find(|run| run.id == id).cloned()
    }

    /// Cancels all runs.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
    }

    /// Waits until all runs have ended.
    pub(crate) async fn wait(&self) {
        self.tasks.wait().await;
    }
}

/// Carries out one run.
struct Driver {
    host: Host,
    ring: EventRing,
    kept: Arc<Mutex<VecDeque<Run>>>,
    memory: MemoryBudget,
    run: Run,
}

impl Driver {
    async fn drive(self, mut relay: Relay, stop: CancellationToken) {
        let began = Instant::now();
        let mut published: Option<Instant> = None;
        let see = |event: &CallEvent| {
            let CallEvent::Progress(params) = event else { return };
            let Some(progress) = RunProgress::of(params) else { return };
            self.change(|run| run.progress = Some(progress.clone()));
            let now = Instant::now();
            if published.is_none_or(|before| PROGRESS_PAUSE <= now - before) {
                published = Some(now);
                self.ring.publish("run", &run::progress(self.run.id, &progress));
            }
        };
        let stopped = async {
            stop.cancelled().await;
            ("the console is shutting down", ())
        };
        let outcome = relay.outcome_until(see, stopped).await.unwrap_or(CallOutcome::Cancelled);
        let waited = relay.person_wait().total();
        let end = self.end(outcome, began.elapsed().saturating_sub(waited), waited).await;
        self.change(|run| run.end = Some(Arc::clone(&end)));
        self.forget_old();
        self.ring.publish("run", &json!({ "id": self.run.id.to_string(), "state": end.state, "progress": null }));
    }

    async fn end(&self, outcome: CallOutcome, took: Duration, waited: Duration) -> Arc<RunEnd> {
        let call = CallId::from_u128(self.run.id.as_u128());
        let report = self.host.take_validation_report(call);
        let bytes = outcome.result().map_or(0, |result| result.as_bytes().len());
        let charge = self.memory.charge(bytes);
        // As the record has it: a server may write a message of any length, with a secret that it was given.
        let mut error = outcome.message().map(|message| self.host.redactor().text(message.as_str()));
        let mut result = outcome.result().cloned();
        if let Err(over) = &charge {
            result = None;
            error.get_or_insert_with(|| format!("the result is not kept: {over}"));
        }
        let fields = match &outcome {
            CallOutcome::Refused(Refusal::InvalidArguments { .. }) => self.wrong_fields().await,
            _ => Map::new(),
        };
        Arc::new(RunEnd {
            state: outcome.state().as_str(),
            took,
            waited,
            result,
            bytes,
            error,
            fields,
            validation: report.map(|report| report.lines()).unwrap_or_default(),
            _charge: charge.unwrap_or_default(),
        })
    }

    /// Which arguments do not match the schema, by their place.
    async fn wrong_fields(&self) -> Map<String, Value> {
        let Origin { server, raw_name } = &self.run.origin;
        let catalog = self.host.own_catalog();
        let Some(tool) = catalog.tool_at(server, raw_name) else { return Map::new() };
        let schema = tool.item.input_schema.clone();
        let arguments = self.run.arguments.clone().unwrap_or_else(Raw::empty_object);
        // A hostile schema takes long, within bounds.
        let checking = tokio::task::spawn_blocking(move || check::located_problems(&schema, &arguments));
        let field = |problem: LocatedProblem| (problem.pointer, Value::from(problem.message));
        checking.await.map(|problems| problems.into_iter().map(field).collect()).unwrap_or_default()
    }

    fn change(&self, change: impl FnOnce(&mut Run)) {
        if let Some(run) = self.kept.lock().iter_mut().find(|run| run.id == self.run.id) {
            change(run);
        }
    }

    /// Forgets the oldest runs that have ended, until the others are within their bounds. The newest one stays.
    fn forget_old(&self) {
        let mut kept = self.kept.lock();
        let size = |run: &Run| run.end.as_ref().map_or(0, |end| end.result.as_ref().map_or(0, |_| end.bytes));
        let mut bytes: usize = kept.iter().map(size).sum();
        while MAX_KEPT < kept.len() || MAX_BYTES < bytes {
            let oldest = kept.iter().position(|run| run.end.is_some() && run.id != self.run.id);
            let Some(forgotten) = oldest.and_then(|at| kept.remove(at)) else { return };
            bytes -= size(&forgotten);
        }
    }
}

impl RunProgress {
    fn of(params: &Raw) -> Option<Self> {
        let number = |key: &str| params.get(key).and_then(|value| value.as_f64());
        let message = params.get("message");
        let message = message.as_ref().and_then(Raw::as_str);
        let message = message.map(|text| text[..text.floor_char_boundary(MAX_MESSAGE)].to_owned());
        Some(Self { done: number("progress")?, total: number("total"), message })
    }
}
