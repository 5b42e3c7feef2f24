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
    accent::{Reply, Round},
    handshake, modern,
    router::{Router, Waiting},
    transport::{LaneEnd, Link, Outbound},
};
use crate::{
    error::WireError,
    exchange::{self, AskId, Errand, Exchange, Feed, Outcome, Question, Request, Terms},
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
    round: Mutex<Option<Arc<Round>>>,
    /// The names its questions had in a session.
    keys: Mutex<HashSet<String>>,
    used: Mutex<Used>,
}

/// Second chances, each given once.
#[derive(Debug, Default)]
struct Used {
    session: bool,
    headers: bool,
    revision: bool,
}

/// Begins a call; whatever goes wrong is its outcome.
pub(crate) fn start(router: &Arc<Router>, request: Request, terms: Terms) -> Exchange {
    begin(router, request, terms, Used::default())
}

/// Begins a call that belongs to the beginning of a session: when that is lost, it is not given another.
pub(crate) fn start_in_new_session(router: &Arc<Router>, request: Request, terms: Terms) -> Exchange {
    begin(router, request, terms, Used { session: true, ..Used::default() })
}

fn begin(router: &Arc<Router>, request: Request, terms: Terms, used: Used) -> Exchange {
    let (exchange, feed) = exchange::pair_with(terms, router.limits.unread_happenings, Some(router.alarms.clone()));
    let call = Arc::new_cyclic(|me: &Weak<Call>| {
        let (me, router) = (me.clone(), Arc::downgrade(router));
        feed.when_cancelled(move |reason| {
            if let (Some(call), Some(router)) = (me.upgrade(), router.upgrade()) {
                call.cancelled(&router, reason);
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
        Some(work) => exchange.with_errand(work),
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
    pub(crate) fn first_use(&self, key: &str) -> bool {
        let mut keys = self.keys.lock();
        keys.len() < NAMES && keys.insert(key.to_owned())
    }

    /// The answer its caller brought along to the question of this name.
    pub(crate) fn answer_brought(&self, key: &str) -> Option<Raw> {
        self.request.answers.as_ref().and_then(|answers| answers.get(key))
    }

    /// Whether it waits for the result of this task, as a message of that task names it.
    pub(crate) fn follows(&self, related: &Raw) -> bool {
        let task = related.get("taskId").filter(|_| self.request.method() == "tasks/result");
        task.as_ref().and_then(Raw::as_str).is_some_and(|task| {
            self.request.param("taskId").as_ref().and_then(Raw::as_str).is_some_and(|own| own == task)
        })
    }

    pub(crate) fn fail(&self, error: WireError) {
        self.feed.end(Outcome::Failed(error));
    }

    fn refused(&self, error: RpcError) {
        self.feed.end(Outcome::Refused(error));
    }

    /// Puts it on the wire for the first time; what is left to do is for whoever waits for it.
    fn start(self: &Arc<Self>, router: &Router) -> Option<Errand> {
        self.put(router, |link, outbound| link.start(outbound))
    }

    /// Puts it on the wire again, unless the caller has left in the meantime.
    fn send(self: &Arc<Self>, router: &Router) {
        self.put(router, |link, outbound| link.send(outbound).map(|()| None::<()>));
    }

    /// Puts it on the wire under a new id.
    fn put<T>(
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
            router.wait_for(id, Waiting::Call(Arc::clone(self)))?;
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
            self.call_off(router, id, "the caller went away");
        }
        sent
    }

    /// The caller has left: the server is told in the way it wants to be told.
    fn cancelled(&self, router: &Router, reason: &str) {
        router.call_off_questions(self);
        let id = self.id.load(Ordering::Relaxed);
        // Between rounds nothing is under way, and nothing needs to be said.
        if router.forget(id).is_none() {
            return;
        }
        self.call_off(router, id, reason);
    }

    fn call_off(&self, router: &Router, id: u64, reason: &str) {
        let (Ok(link), Ok(accent)) = (router.link(), router.accent()) else { return };
        if let Some(message) = accent.cancellation(id, reason) {
            // A link that is gone has cancelled everything already.
            drop(link.send(Outbound::plain(message, None)));
        }
        link.abandon(id);
    }

    /// An answer came.
    pub(crate) fn replied(self: &Arc<Self>, router: &Router, envelope: Envelope) {
        let accent = match router.accent() {
            Ok(accent) => accent,
            Err(error) => return self.fail(error),
        };
        let (said, error) = (envelope.result_type(), envelope.error());
        let reply = match (envelope.into_result(), error) {
            (Some(result), _) => accent.result(&self.request, result, said),
            (None, Some(error)) => accent.error(&self.request, error),
            (None, None) => Reply::Invalid("neither result nor error".to_owned()),
        };
        match reply {
            Reply::Complete(result) => {
                if self.request.method() == "tools/list" {
                    accent.learn_tools(&result);
                }
                self.feed.end(Outcome::Answered(result));
            }
            Reply::Refused(error) => self.refused(error),
            Reply::Task(task) => {
                self.feed.end(Outcome::HandedOff(Box::new(task)));
            }
            Reply::Invalid(problem) => self.fail(WireError::Protocol(problem)),
            Reply::TooLarge(what, limit) => self.fail(WireError::TooLarge { what, limit }),
            Reply::Questions(questions, state) => self.next_round(router, questions, state),
            Reply::OtherRevision(_) if self.first_time(|used| &mut used.revision) => self.send(router),
            Reply::OtherRevision(revision) => {
                self.fail(WireError::protocol(format!("the server refuses the revision it lists, {revision}")));
            }
            Reply::StaleHeaders(error) => self.refresh_headers(router, error),
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
                Some(answer) => self.replied(router, answer),
                None => {
                    let body = String::from_utf8_lossy(&body).into_owned();
                    self.fail(WireError::Status { status, body });
                }
            },
        }
    }

    /// Collects the answers of one round, then asks again with them.
    fn next_round(self: &Arc<Self>, router: &Router, questions: Vec<Question>, state: Option<Raw>) {
        let round = self.rounds.fetch_add(1, Ordering::Relaxed);
        if router.limits.rounds <= round {
            return self.fail(WireError::TooLarge { what: "number of rounds", limit: router.limits.rounds });
        }
        let put = |question: &Question| Some((question.key.clone()?, question.method.clone()));
        let put: Vec<(String, String)> = questions.iter().filter_map(put).collect();
        // No two questions of one call go by the same number, whatever their round.
        let numbered = |question| Question { id: AskId(self.asked.fetch_add(1, Ordering::Relaxed)), ..question };
        let answers: Vec<_> = questions.into_iter().map(numbered).map(|question| self.feed.ask(question)).collect();
        let call = Arc::clone(self);
        self.go_on(router, async move |router| {
            if answers.is_empty() {
                tokio::time::sleep(FIRST_BACKOFF * 2u32.saturating_pow(u32::try_from(round).unwrap_or(u32::MAX))).await;
            }
            match modern::gathered(&put, join_all(answers).await) {
                Ok(answers) => {
                    *call.round.lock() = Some(Arc::new(Round { answers, state }));
                    call.send(&router);
                }
                Err(refusal) => call.fail(WireError::Refused(format!("a question was not answered: {refusal}"))),
            }
        });
    }

    /// The schemas we know may be old: read them again and repeat once.
    fn refresh_headers(self: &Arc<Self>, router: &Router, error: RpcError) {
        if self.request.method() != "tools/call" || !self.first_time(|used| &mut used.headers) {
            return self.refused(error);
        }
        let call = Arc::clone(self);
        self.go_on(router, async move |router| match read_tools(&router).await {
            Ok(()) => call.send(&router),
            Err(_) => call.refused(error),
        });
    }

    /// The session is gone and the request was not processed: a new session, then the same once more.
    fn renew_session(self: &Arc<Self>, router: &Router) {
        if !self.first_time(|used| &mut used.session) {
            return self.fail(WireError::Ended("the server forgot the session twice".to_owned()));
        }
        let call = Arc::clone(self);
        self.go_on(router, async move |router| match handshake::renew(&router).await {
            Ok(()) => call.send(&router),
            Err(error) => call.fail(error),
        });
    }

    fn go_on<F>(&self, router: &Router, work: impl FnOnce(Arc<Router>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match router.shared() {
            Some(shared) => router.spawn(work(shared)),
            None => self.fail(router.why_closed()),
        }
    }

    fn first_time(&self, chance: impl FnOnce(&mut Used) -> &mut bool) -> bool {
        let mut used = self.used.lock();
        !std::mem::replace(chance(&mut used), true)
    }
}

/// Reads all pages of the tools; the accent learns from each as it goes by.
async fn read_tools(router: &Arc<Router>) -> Result<(), Outcome> {
    let mut cursor = None;
    for _ in 0..router.limits.listing_pages {
        let params = cursor.map(|cursor| splice::object([("cursor", &cursor)]));
        let page = start(router, Request::trusted("tools/list", params), Terms::list()).outcome().await;
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
