//! One call, from the first send to its one end: rounds of questions, second chances, cancellation.

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
    accent::{InterpretedResponse, InputRound},
    handshake, modern,
    router::{Router, PendingRequest},
    transport::{LaneEnd, Link, Outbound},
};
use crate::{
    error::WireError,
    exchange::{self, ServerRequestId, PendingIo, Exchange, Feed, Outcome, ServerRequestDetails, Request, ExchangeTimeouts},
    json::{Kind, Raw},
    message::{Envelope, RpcError, splice},
};

/// The first wait before a server that only wants to be asked again is asked again; doubled each time.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// Names of questions that are remembered of one call; whoever has more to ask than this needs none.
const NAMES: usize = 256;

/// A call under way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) feed: Feed,
    request: Request,
    /// The id it goes by at the moment; each round has its own.
    id: AtomicU64,
    rounds: AtomicUsize,
    /// Questions put to the caller so far.
    asked: AtomicU64,
    // Nothing awaits under these locks.
    /// What goes back with it: the answers of the last round, kept for a second chance.
    round: Mutex<Option<Arc<InputRound>>>,
    /// The names its questions had in a session.
    keys: Mutex<HashSet<String>>,
    used: Mutex<UsedRetries>,
}

/// Second chances, each given once.
#[derive(Debug, Default)]
struct UsedRetries {
    session: bool,
    headers: bool,
    revision: bool,
}

/// Begins a call; whatever goes wrong is its outcome.
pub(crate) fn start(router: &Arc<Router>, request: Request, terms: ExchangeTimeouts) -> Exchange {
    begin(router, request, terms, UsedRetries::default())
}

/// Begins a call that belongs to the beginning of a session: when that is lost, it is not given another.
pub(crate) fn start_in_new_session(router: &Arc<Router>, request: Request, terms: ExchangeTimeouts) -> Exchange {
    begin(router, request, terms, UsedRetries { session: true, ..UsedRetries::default() })
}

fn begin(router: &Arc<Router>, request: Request, terms: ExchangeTimeouts, used: UsedRetries) -> Exchange {
    let (exchange, feed) = exchange::pair_with(terms, router.limits.unread_events, Some(router.timers.clone()));
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
            asked: AtomicU64::new(0),
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

    /// Whether it is made on behalf of somebody whose capabilities are known.
    pub(crate) fn is_relayed(&self) -> bool {
        self.request.capabilities.is_some()
    }

    /// Whether no question of this call had this name before.
    pub(crate) fn register_key(&self, key: &str) -> bool {
        let mut keys = self.keys.lock();
        keys.len() < NAMES && keys.insert(key.to_owned())
    }

    /// The answer its caller brought along to the question of this name.
    pub(crate) fn supplied_answer(&self, key: &str) -> Option<Raw> {
        self.request.answers.as_ref().and_then(|answers| answers.get(key))
    }

    /// Whether it waits for the result of this task, as a message of that task names it.
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

    /// Puts it on the wire for the first time; what is left to do is for whoever waits for it.
    fn start(self: &Arc<Self>, router: &Router) -> Option<PendingIo> {
        self.send_with(router, |link, outbound| link.start(outbound))
    }

    /// Puts it on the wire again, unless the caller has left in the meantime.
    fn send(self: &Arc<Self>, router: &Router) {
        self.send_with(router, |link, outbound| link.send(outbound).map(|()| None::<()>));
    }

    /// Puts it on the wire under a new id.
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
            let outbound = accent.request(id, &self.request, round.as_deref());
            router.wait_for(id, PendingRequest::Call(Arc::clone(self)))?;
            send(&*link, outbound)
        });
        let sent = sent.unwrap_or_else(|error| {
            router.forget(id);
            self.fail(error);
            None
        });
        // Left while it was being sent: whoever left may have spoken before the request did. Twice does no harm.
        if self.feed.is_cancelled() {
            router.forget(id);
            self.send_cancellation(router, id, "the caller went away");
        }
        sent
    }

    /// The caller has left: the server is told in the way it wants to be told.
    fn handle_cancel(&self, router: &Router, reason: &str) {
        router.cancel_server_requests(self);
        let id = self.id.load(Ordering::Relaxed);
        // Between rounds nothing is under way, and nothing needs to be said.
        if router.forget(id).is_none() {
            return;
        }
        self.send_cancellation(router, id, reason);
    }

    fn send_cancellation(&self, router: &Router, id: u64, reason: &str) {
        let (Ok(link), Ok(accent)) = (router.link(), router.accent()) else { return };
        if let Some(message) = accent.cancellation(id, reason) {
            // A link that is gone has cancelled everything already.
            drop(link.send(Outbound::plain(message, None)));
        }
        link.abandon(id);
    }

    /// An answer came.
    pub(crate) fn handle_response(self: &Arc<Self>, router: &Router, envelope: Envelope) {
        let accent = match router.accent() {
            Ok(accent) => accent,
            Err(error) => return self.fail(error),
        };
        let (said, error) = (envelope.result_type(), envelope.error());
        let reply = match (envelope.into_result(), error) {
            (Some(result), _) => accent.result(&self.request, result, said),
            (None, Some(error)) => accent.error(&self.request, error),
            (None, None) => InterpretedResponse::Invalid("neither result nor error".to_owned()),
        };
        match reply {
            InterpretedResponse::Complete(result) => {
                if self.request.method() == "tools/list" {
                    accent.learn_tools(&result);
                }
                self.feed.end(Outcome::Answered(result));
            }
            InterpretedResponse::Refused(error) => self.refuse(error),
            InterpretedResponse::Task(task) => {
                self.feed.end(Outcome::HandedOff(Box::new(task)));
            }
            InterpretedResponse::Invalid(problem) => self.fail(WireError::Protocol(problem)),
            InterpretedResponse::TooLarge(what, limit) => self.fail(WireError::TooLarge { what, limit }),
            InterpretedResponse::InputRequired(questions, state) => self.next_round(router, questions, state),
            InterpretedResponse::OtherRevision(_) if self.use_retry(|used| &mut used.revision) => self.send(router),
            InterpretedResponse::OtherRevision(revision) => {
                self.fail(WireError::protocol(format!("the server refuses the revision it lists, {revision}")));
            }
            InterpretedResponse::StaleHeaders(error) => self.refresh_headers(router, error),
        }
    }

    /// The lane ended without an answer on it.
    pub(crate) fn lane_ended(self: &Arc<Self>, router: &Router, end: LaneEnd) {
        match end {
            LaneEnd::Over => self.fail(WireError::Ended("the stream closed before the answer".to_owned())),
            LaneEnd::Accepted => self.fail(WireError::protocol("the request was accepted but not answered")),
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

    /// Collects the answers of one round, then asks again with them.
    fn next_round(self: &Arc<Self>, router: &Router, questions: Vec<ServerRequestDetails>, state: Option<Raw>) {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        if router.limits.rounds <= round {
            return self.fail(WireError::TooLarge { what: "number of rounds", limit: router.limits.rounds });
        }
        let put = |question: &ServerRequestDetails| Some((question.key.clone()?, question.method.clone()));
        let put: Vec<(String, String)> = questions.iter().filter_map(put).collect();
        // No two questions of one call go by the same number, whatever their round.
        let numbered = |question| ServerRequestDetails { id: ServerRequestId(self.asked.fetch_add(1, Ordering::Relaxed)), ..question };
        let answers: Vec<_> = questions.into_iter().map(numbered).map(|question| self.feed.ask(question)).collect();
        let call = Arc::clone(self);
        self.spawn_with_router(router, async move |router| {
            if answers.is_empty() {
                tokio::time::sleep(FIRST_BACKOFF * 2u32.saturating_pow(u32::try_from(round).unwrap_or(u32::MAX))).await;
            }
            match modern::gather_answers(&put, join_all(answers).await) {
                Ok(answers) => {
                    *call.round.lock() = Some(Arc::new(InputRound { answers, state }));
                    call.send(&router);
                }
                Err(refusal) => call.fail(WireError::Refused(format!("a question was not answered: {refusal}"))),
            }
        });
    }

    /// The schemas we know may be old: read them again and repeat once.
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

    /// The session is gone and the request was not processed: a new session, then the same once more.
    fn renew_session(self: &Arc<Self>, router: &Router) {
        if !self.use_retry(|used| &mut used.session) {
            return self.fail(WireError::Ended("the server forgot the session twice".to_owned()));
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

    fn use_retry(&self, chance: impl FnOnce(&mut UsedRetries) -> &mut bool) -> bool {
        let mut used = self.used.lock();
        !std::mem::replace(chance(&mut used), true)
    }
}

/// Reads all pages of the tools; the accent learns from each as it goes by.
async fn read_tools(router: &Arc<Router>) -> Result<(), Outcome> {
    let mut cursor = None;
    for _ in 0..router.limits.listing_pages {
        let params = cursor.map(|cursor| splice::object([("cursor", &cursor)]));
        let page = start(router, Request::trusted("tools/list", params), ExchangeTimeouts::list()).outcome().await;
        cursor = match page {
            Outcome::Answered(page) => page.get("nextCursor").filter(|next| next.kind() == Kind::String),
            other => return Err(other),
        };
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}
