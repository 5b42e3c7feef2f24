//! One call from its first send to its outcome: input rounds, retries, cancellation.

use std::{
    collections::HashSet,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use parking_lot::Mutex;

use super::{
    accent::{InputRound, InterpretedResponse},
    handshake, modern,
    router::{PendingRequest, Router},
    transport::{LaneEnd, Link, Outbound},
};
use crate::{
    error::WireError,
    exchange::{
        self, Exchange, ExchangeTimeouts, Feed, Outcome, PendingIo, Progress, Request, ServerRequestDetails,
        ServerRequestId, WriteStart,
    },
    json::{JsonKind, Raw},
    message::{Envelope, RpcError, splice},
};

/// First delay before a request is repeated for an `input_required` result without server requests; doubled each time.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// Server request keys remembered for one call; further keys are ignored.
const MAX_KEYS: usize = 256;

/// A call in progress.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) feed: Feed,
    request: Request,
    /// Request id of the current round.
    id: AtomicU64,
    rounds: AtomicUsize,
    /// Number of server requests sent to the caller so far.
    request_count: AtomicU64,
    // No await under these locks.
    /// Answers of the last round, kept for a retry.
    round: Mutex<Option<Arc<InputRound>>>,
    /// Keys of its server requests in a session.
    keys: Mutex<HashSet<String>>,
    used: Mutex<UsedRetries>,
}

/// Retries already used; each is allowed once.
#[derive(Debug, Default)]
struct UsedRetries {
    session: bool,
    headers: bool,
    revision: bool,
}

/// Starts a call; failures are reported as its outcome.
pub(crate) fn start(router: &Arc<Router>, request: Request, timeouts: ExchangeTimeouts) -> Exchange {
    begin(router, request, timeouts, UsedRetries::default())
}

/// Starts a call that belongs to the start of a session: if the session is lost, the call is not retried.
pub(crate) fn start_in_new_session(router: &Arc<Router>, request: Request, timeouts: ExchangeTimeouts) -> Exchange {
    begin(router, request, timeouts, UsedRetries { session: true, ..UsedRetries::default() })
}

fn begin(router: &Arc<Router>, request: Request, timeouts: ExchangeTimeouts, used: UsedRetries) -> Exchange {
    let (unread, timers) = (router.limits.unread_events, router.timers.clone());
    let memory = router.limits.memory.and(&request.memory);
    let (exchange, feed) = exchange::pair_with(timeouts, unread, Some(timers), memory);
    let call = Arc::new_cyclic(|me: &Weak<Call>| {
        let (me, router) = (me.clone(), Arc::downgrade(router));
        feed.when_cancelled(move |reason| {
            if let (Some(call), Some(router)) = (me.upgrade(), router.upgrade()) {
                call.handle_cancel(&router, reason);
            }
        });
        Call {
            feed,
            request,
            id: AtomicU64::new(0),
            rounds: AtomicUsize::new(0),
            request_count: AtomicU64::new(0),
            round: Mutex::default(),
            keys: Mutex::default(),
            used: Mutex::new(used),
        }
    });
    match call.start(router) {
        Some(work) => exchange.with_pending_io(work),
        None => exchange,
    }
}

impl Call {
    pub(crate) fn is_interactive(&self) -> bool {
        self.request.is_interactive()
    }

    /// Whether it is relayed for a caller with its own capabilities.
    pub(crate) fn is_relayed(&self) -> bool {
        self.request.capabilities.is_some()
    }

    /// Remembers the key of a server request; returns false if it was used before or too many are known.
    pub(crate) fn register_key(&self, key: &str) -> bool {
        let mut keys = self.keys.lock();
        keys.len() < MAX_KEYS && keys.insert(key.to_owned())
    }

    /// The answer that the caller supplied in advance under this key.
    pub(crate) fn supplied_answer(&self, key: &str) -> Option<Raw> {
        self.request.answers.as_ref().and_then(|answers| answers.get(key))
    }

    /// Whether it is the `tasks/result` of the task named in this `_meta` value.
    pub(crate) fn waits_for_task(&self, related: &Raw) -> bool {
        let task = related.get("taskId").filter(|_| self.request.method() == "tasks/result");
        task.as_ref().and_then(Raw::as_str).is_some_and(|task| {
            self.request.param("taskId").as_ref().and_then(Raw::as_str).is_some_and(|own| own == task)
        })
    }

    pub(crate) fn fail(&self, error: WireError) {
        self.feed.end(Outcome::Failed(error));
    }

    fn refuse(&self, error: RpcError) {
        self.feed.end(Outcome::Refused(error));
    }

    /// Sends it for the first time; returns the I/O left for the waiting task.
    fn start(self: &Arc<Self>, router: &Router) -> Option<PendingIo> {
        self.send_with(router, |link, outbound| link.start(outbound))
    }

    /// Sends it again, unless the caller has cancelled.
    fn send(self: &Arc<Self>, router: &Router) {
        self.send_with(router, |link, outbound| link.send(outbound).map(|()| None::<()>));
    }

    /// Sends it under a new id.
    fn send_with<T>(
        self: &Arc<Self>,
        router: &Router,
        send: impl FnOnce(&dyn Link, Outbound) -> Result<Option<T>, WireError>,
    ) -> Option<T> {
        if self.feed.is_cancelled() {
            return None;
        }
        let link = match router.link() {
            Ok(link) => link,
            Err(error) => {
                self.fail(error);
                return None;
            }
        };
        if link.has_lost_session() {
            self.renew_session(router);
            return None;
        }
        let id = router.new_id();
        self.id.store(id, Ordering::Relaxed);
        let round = self.round.lock().clone();
        let sent = router.accent().and_then(|accent| {
            let mut outbound = accent.request(id, &self.request, round.as_deref());
            let mark = self.feed.write_mark();
            router.wait_for(id, PendingRequest::Call(Arc::clone(self)))?;
            if !link.marks_writes() && mark.begin() == WriteStart::Refused {
                return Err(WireError::not_sent());
            }
            outbound.mark = Some(mark);
            send(&*link, outbound)
        });
        let sent = sent.unwrap_or_else(|error| {
            router.forget(id);
            self.fail(error);
            None
        });
        // Cancelled while it was being sent: the cancellation may have been sent before the request. Repeating it is
        // harmless.
        if self.feed.is_cancelled() {
            router.forget(id);
            self.send_cancellation(router, id, "the caller disconnected");
        }
        sent
    }

    /// The caller has cancelled: cancels the request at the server.
    fn handle_cancel(&self, router: &Router, reason: &str) {
        router.cancel_server_requests(self);
        let id = self.id.load(Ordering::Relaxed);
        // Between rounds there is no request to cancel.
        if router.forget(id).is_none() {
            return;
        }
        self.send_cancellation(router, id, reason);
    }

    fn send_cancellation(&self, router: &Router, id: u64, reason: &str) {
        let (Ok(link), Ok(accent)) = (router.link(), router.accent()) else { return };
        if let Some(message) = accent.cancellation(id, reason) {
            // A closed link has already cancelled everything.
            drop(link.send(Outbound::plain(message, None)));
        }
        link.abandon(id);
    }

    /// Handles the response.
    pub(crate) fn handle_response(self: &Arc<Self>, router: &Router, envelope: Envelope) {
        let accent = match router.accent() {
            Ok(accent) => accent,
            Err(error) => return self.fail(error),
        };
        let (result_type, error) = (envelope.result_type(), envelope.error());
        let response = match (envelope.into_result(), error) {
            (Some(result), _) => accent.result(&self.request, result, result_type),
            (None, Some(error)) => accent.error(&self.request, error),
            (None, None) => InterpretedResponse::Invalid("the response has neither `result` nor `error`".to_owned()),
        };
        match response {
            InterpretedResponse::Complete(result) => {
                if self.request.method() == "tools/list" {
                    accent.learn_tools(&result);
                }
                self.feed.end(Outcome::Answered(result));
            }
            InterpretedResponse::Refused(error) => self.refuse(error),
            InterpretedResponse::Task(task) => {
                if accent.keeps_progress_of_tasks() && self.request.progress == Progress::Wanted {
                    let token = self.id.load(Ordering::Relaxed);
                    router.task_progress.begin(token, &task.id, &router.limits.memory);
                }
                self.feed.end(Outcome::HandedOff(Box::new(task)));
            }
            InterpretedResponse::Invalid(problem) => self.fail(WireError::Protocol(problem)),
            InterpretedResponse::TooLarge(what, limit) => self.fail(WireError::TooLarge { what, limit }),
            InterpretedResponse::InputRequired(requests, state) => self.next_round(router, requests, state),
            InterpretedResponse::OtherRevision(_) if self.use_retry(|used| &mut used.revision) => self.send(router),
            InterpretedResponse::OtherRevision(revision) => {
                self.fail(WireError::protocol(format!("the server refuses revision {revision}, which it lists")));
            }
            InterpretedResponse::StaleHeaders(error) => self.refresh_headers(router, error),
        }
    }

    /// Handles the end of the lane without a response.
    pub(crate) fn on_lane_end(self: &Arc<Self>, router: &Router, end: LaneEnd) {
        match end {
            LaneEnd::Over => self.fail(WireError::Ended("the stream closed before the response".to_owned())),
            LaneEnd::Accepted => {
                self.fail(WireError::protocol("the server accepted the request but did not answer it"))
            }
            LaneEnd::Failed(error) => self.fail(error),
            LaneEnd::SessionGone => self.renew_session(router),
            LaneEnd::Status { status, body } => match handshake::json_rpc_answer(&body) {
                Some(answer) => self.handle_response(router, answer),
                None => {
                    let body = String::from_utf8_lossy(&body).into_owned();
                    self.fail(WireError::Status { status, body });
                }
            },
        }
    }

    /// Collects the answers of one round, then repeats the request with them.
    fn next_round(self: &Arc<Self>, router: &Router, requests: Vec<ServerRequestDetails>, state: Option<Raw>) {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        if router.limits.rounds <= round {
            return self.fail(WireError::TooLarge { what: "number of rounds", limit: router.limits.rounds });
        }
        let keyed = |request: &ServerRequestDetails| Some((request.key.clone()?, request.method.clone()));
        let keyed: Vec<(String, String)> = requests.iter().filter_map(keyed).collect();
        // Ids are unique within the call, over all rounds.
        let numbered = |request| ServerRequestDetails {
            id: ServerRequestId(self.request_count.fetch_add(1, Ordering::Relaxed)),
            ..request
        };
        let answers: Vec<_> = requests.into_iter().map(numbered).map(|request| self.feed.ask(request)).collect();
        let call = Arc::clone(self);
        self.spawn_with_router(router, async move |router| {
            if answers.is_empty() {
                tokio::time::sleep(FIRST_BACKOFF * 2u32.saturating_pow(u32::try_from(round).unwrap_or(u32::MAX))).await;
            }
            match modern::gather_answers(&keyed, join_all(answers).await) {
                Ok(answers) => {
                    *call.round.lock() = Some(Arc::new(InputRound { answers, state }));
                    call.send(&router);
                }
                Err(refusal) => call.fail(WireError::Refused(format!("a server request was not answered: {refusal}"))),
            }
        });
    }

    /// The known tool schemas may be outdated: reads them again and retries once.
    fn refresh_headers(self: &Arc<Self>, router: &Router, error: RpcError) {
        if self.request.method() != "tools/call" || !self.use_retry(|used| &mut used.headers) {
            return self.refuse(error);
        }
        let call = Arc::clone(self);
        self.spawn_with_router(router, async move |router| match read_tools(&router).await {
            Ok(()) => call.send(&router),
            Err(_) => call.refuse(error),
        });
    }

    /// The session is lost and the request was not processed: starts a new session and retries once.
    fn renew_session(self: &Arc<Self>, router: &Router) {
        if !self.use_retry(|used| &mut used.session) {
            return self.fail(WireError::Ended("the server lost the session twice".to_owned()));
        }
        let call = Arc::clone(self);
        self.spawn_with_router(router, async move |router| match handshake::renew_session(&router).await {
            Ok(()) => call.send(&router),
            Err(error) => call.fail(error),
        });
    }

    fn spawn_with_router<F>(&self, router: &Router, work: impl FnOnce(Arc<Router>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match router.shared() {
            Some(shared) => router.spawn(work(shared)),
            None => self.fail(router.why_closed()),
        }
    }

    /// Marks a retry as used; returns false if it was used before.
    fn use_retry(&self, retry: impl FnOnce(&mut UsedRetries) -> &mut bool) -> bool {
        let mut used = self.used.lock();
        !std::mem::replace(retry(&mut used), true)
    }
}

/// Reads all pages of `tools/list`; the accent records the headers of each page.
async fn read_tools(router: &Arc<Router>) -> Result<(), Outcome> {
    let mut cursor = None;
    for _ in 0..router.limits.listing_pages {
        let params = cursor.map(|cursor| splice::object([("cursor", &cursor)]));
        let page = start(router, Request::trusted("tools/list", params), ExchangeTimeouts::list()).outcome().await;
        cursor = match page {
            Outcome::Answered(page) => page.get("nextCursor").filter(|next| next.kind() == JsonKind::String),
            other => return Err(other),
        };
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}
