//! Routes every message of one server to its request, its subscription or the notices.
//!
//! A response is interpreted by the request it answers. The course of one call, with input rounds and retries, is in
//! [`super::call`]; requests from the server are handled in [`server_requests`]; messages arrive through [`sink`] from
//! [`super::transport`].

mod server_requests;
mod sink;

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, broadcast, oneshot},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{server_requests::OpenServerRequest, sink::LinkSink};
use super::{
    accent::{Accent, CancelTarget},
    call::Call,
    first_roots::FirstRoots,
    handshake::ClientProfile,
    kept_session::SessionObserver,
    legacy::Legacy,
    listen::SubscriptionFeed,
    modern::Modern,
    task_hints::MAX_LISTENERS,
    task_progress::TaskProgress,
    transport::{Flow, Lane, LaneEnd, Link, LinkKind, Outbound, Sink},
};
use crate::{
    error::WireError,
    exchange::{LogLevel, ServerRequestHandler, TimerPool},
    json::Raw,
    limit::Limits,
    message::{
        BadMessage, Envelope, Id, MessageKind, Problem, meta,
        splice::{self, Edit},
    },
    notice::Notice,
    revision::{Era, Revision},
    seal::{self, NoRandomness},
};

/// State of one server connection: pending requests, link, accent.
pub(crate) struct Router {
    pub(crate) limits: Limits,
    pub(crate) client: ClientProfile,
    pub(crate) notices: broadcast::Sender<Notice>,
    pub(crate) closed: CancellationToken,
    /// Serialises renewals of a lost session.
    pub(crate) renewal: Semaphore,
    /// Serialises subscribing and unsubscribing.
    pub(crate) subscribing: Semaphore,
    pub(crate) session_settings: Mutex<SessionSettings>,
    pub(crate) timers: TimerPool,
    pub(crate) task_progress: TaskProgress,
    pub(crate) first_roots: FirstRoots,
    /// Limits subscriptions to changes of tasks; closed when the server has refused one.
    pub(crate) task_listeners: Arc<Semaphore>,
    /// Limits server requests outside any request that are being answered.
    standing_server_requests: Arc<Semaphore>,
    next_id: AtomicU64,
    // No await under these locks.
    waiting: Mutex<HashMap<u64, PendingRequest, BuildHasherDefault<IdHasher>>>,
    server_requests: Mutex<HashMap<Id, OpenServerRequest>>,
    link: RwLock<Option<Arc<dyn Link>>>,
    accent: RwLock<Option<Arc<dyn Accent>>>,
    why_closed: Mutex<Option<WireError>>,
    /// Number of the link in use; messages of earlier links are ignored.
    generation: AtomicU64,
    request_handler: Option<Arc<dyn ServerRequestHandler>>,
    pub(crate) session_observer: Option<Arc<dyn SessionObserver>>,
    tasks: TaskTracker,
    runtime: Handle,
    me: Weak<Self>,
}

/// Settings to restore in a new session.
#[derive(Debug, Default)]
pub(crate) struct SessionSettings {
    pub(crate) log_level: Option<LogLevel>,
    /// Subscribed resources and their number of listeners.
    pub(crate) subscriptions: HashMap<String, usize>,
}

/// A request that waits for a response.
pub(crate) enum PendingRequest {
    /// One step of the handshake.
    Handshake(oneshot::Sender<HandshakeReply>),
    /// One call.
    Call(Arc<Call>),
    /// One subscription.
    Listen(Arc<SubscriptionFeed>),
}

/// Reply to a step of the handshake.
#[derive(Debug)]
pub(crate) enum HandshakeReply {
    Message(Envelope),
    Lane(LaneEnd),
    Closed(WireError),
}

/// Least first id in a resumed session, above all that count from 1. Ids stay below 2^53, which every JSON reader keeps exactly.
const RESUMED_IDS: u64 = 1 << 52;

impl Router {
    pub(crate) fn new(
        limits: Limits,
        client: ClientProfile,
        request_handler: Option<Arc<dyn ServerRequestHandler>>,
        session_observer: Option<Arc<dyn SessionObserver>>,
    ) -> Arc<Self> {
        let notices = broadcast::Sender::new(limits.unread_notices);
        let standing_server_requests =
            Arc::new(Semaphore::new(limits.server_requests_per_round.min(Semaphore::MAX_PERMITS)));
        Arc::new_cyclic(|me| Self {
            limits,
            client,
            notices,
            closed: CancellationToken::new(),
            renewal: Semaphore::new(1),
            subscribing: Semaphore::new(1),
            session_settings: Mutex::default(),
            timers: TimerPool::new(),
            task_progress: TaskProgress::default(),
            first_roots: FirstRoots::default(),
            task_listeners: Arc::new(Semaphore::new(MAX_LISTENERS)),
            standing_server_requests,
            next_id: AtomicU64::new(1),
            waiting: Mutex::default(),
            server_requests: Mutex::default(),
            link: RwLock::default(),
            accent: RwLock::default(),
            why_closed: Mutex::default(),
            generation: AtomicU64::new(0),
            request_handler,
            session_observer,
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            me: me.clone(),
        })
    }

    pub(crate) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Continues with ids that no earlier connection of the same session has used: its requests may still be in progress.
    pub(crate) fn begin_resumed_ids(&self) -> Result<(), NoRandomness> {
        self.next_id.store(RESUMED_IDS | (seal::random_number()? >> 13), Ordering::Relaxed);
        Ok(())
    }

    /// Creates the sink for the next link; messages of earlier links are ignored from now on.
    pub(crate) fn next_sink(self: &Arc<Self>) -> Arc<dyn Sink> {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        *self.why_closed.lock() = None;
        Arc::new(LinkSink::new(Arc::clone(self), generation))
    }

    pub(crate) fn use_link(&self, link: Arc<dyn Link>) {
        *self.link.write() = Some(link);
    }

    pub(crate) fn link(&self) -> Result<Arc<dyn Link>, WireError> {
        self.link.read().clone().ok_or_else(|| self.why_closed())
    }

    pub(crate) fn take_link(&self) -> Option<Arc<dyn Link>> {
        self.link.write().take()
    }

    /// Sets the accent for the negotiated revision.
    pub(crate) fn set_accent(&self, revision: Revision, kind: LinkKind) {
        let accent: Arc<dyn Accent> = match revision.era() {
            Era::Legacy => Arc::new(Legacy { revision, capabilities: self.client.capabilities.clone() }),
            Era::Modern => Arc::new(Modern::new(revision, kind, &self.client, self.limits.clone())),
        };
        *self.accent.write() = Some(accent);
        // The link may have ended between the handshake and now.
        let already = self.why_closed.lock().clone();
        if let Some(why) = already {
            self.shut_down(why);
        }
    }

    pub(crate) fn accent(&self) -> Result<Arc<dyn Accent>, WireError> {
        self.accent.read().clone().ok_or_else(|| WireError::protocol("the handshake is not complete"))
    }

    pub(crate) fn request_handler(&self) -> Option<&Arc<dyn ServerRequestHandler>> {
        self.request_handler.as_ref()
    }

    /// A strong reference for spawned work; `None` during teardown.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Spawns work that is aborted when the connection ends.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let closed = self.closed.clone();
        let work = async move {
            tokio::select! {
                () = closed.cancelled() => {}
                () = work => {}
            }
        };
        self.tasks.spawn_on(work, &self.runtime);
    }

    /// Spawns work that is finished even after the connection has ended.
    pub(crate) fn spawn_last(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(work, &self.runtime);
    }

    pub(crate) fn wait_for(&self, id: u64, waiting: PendingRequest) -> Result<(), WireError> {
        let mut map = self.waiting.lock();
        if self.why_closed.lock().is_some() {
            drop(map);
            return Err(self.why_closed());
        }
        if self.limits.concurrent_requests <= map.len() {
            return Err(WireError::Overloaded { limit: self.limits.concurrent_requests });
        }
        map.insert(id, waiting);
        Ok(())
    }

    pub(crate) fn forget(&self, id: u64) -> Option<PendingRequest> {
        self.waiting.lock().remove(&id)
    }

    pub(crate) fn send(&self, outbound: Outbound) -> Result<(), WireError> {
        self.link()?.send(outbound)
    }

    /// Sends a step of the handshake; the receiver gets the reply.
    pub(crate) fn handshake(
        &self,
        id: u64,
        outbound: Outbound,
    ) -> Result<oneshot::Receiver<HandshakeReply>, WireError> {
        let (sender, receiver) = oneshot::channel();
        self.wait_for(id, PendingRequest::Handshake(sender))?;
        if let Err(error) = self.send(outbound) {
            self.forget(id);
            return Err(error);
        }
        Ok(receiver)
    }

    pub(crate) fn why_closed(&self) -> WireError {
        self.why_closed.lock().clone().unwrap_or_else(|| WireError::Ended("closed locally".to_owned()))
    }

    pub(crate) fn fail_everything(&self, why: &WireError) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for (_, waiting) in waiting {
            match waiting {
                // The handshake may have been dropped.
                PendingRequest::Handshake(sender) => drop(sender.send(HandshakeReply::Closed(why.clone()))),
                PendingRequest::Call(call) => call.fail(why.clone()),
                PendingRequest::Listen(listen) => listen.fail(why.clone()),
            }
        }
    }

    pub(crate) fn shut_down(&self, why: WireError) {
        self.why_closed.lock().get_or_insert(why);
        self.closed.cancel();
        self.fail_everything(&self.why_closed());
    }

    fn dispatch(&self, lane: Lane, envelope: Envelope) -> Flow {
        match envelope.kind() {
            MessageKind::Result | MessageKind::Error => self.handle_response(lane, envelope),
            MessageKind::Notification => {
                self.handle_notification(lane, &envelope);
                Flow::Continue
            }
            MessageKind::Request => {
                self.handle_request(lane, &envelope);
                Flow::Continue
            }
        }
    }

    fn handle_response(&self, lane: Lane, envelope: Envelope) -> Flow {
        let Some(id) = self.request_answered_by(lane, &envelope) else { return Flow::Continue };
        match self.forget(id) {
            Some(PendingRequest::Handshake(sender)) => drop(sender.send(HandshakeReply::Message(envelope))),
            Some(PendingRequest::Call(call)) => call.handle_response(self, envelope),
            Some(PendingRequest::Listen(listen)) => listen.ended(envelope.error()),
            None if id < self.next_id.load(Ordering::Relaxed) => {
                self.fault(WireError::protocol(format!("response to request {id}, which is finished or cancelled")));
            }
            None => self.fault(WireError::protocol(format!("response to unknown request {id}"))),
        }
        Flow::Done
    }

    /// Returns the id of the request that a response answers. On the lane of a request, only that request is accepted.
    fn request_answered_by(&self, lane: Lane, envelope: &Envelope) -> Option<u64> {
        let id = envelope.id().map(|id| (id, id.as_u64()));
        match (lane, id) {
            (Lane::Of(request), None) if envelope.kind() == MessageKind::Error => Some(request),
            (Lane::Of(request), Some((id, number))) if number != Some(request) => {
                self.fault(WireError::protocol(format!("response to request {id} on the stream of request {request}")));
                None
            }
            (_, Some((_, Some(number)))) => Some(number),
            (_, Some((id, None))) => {
                self.fault(WireError::protocol(format!("response to unknown request {id}")));
                None
            }
            (_, None) => self.pending_handshake_step(envelope).or_else(|| {
                let message = envelope.error().map(|error| error.to_string()).unwrap_or_default();
                self.fault(WireError::protocol(format!("response without an id: {message}")));
                None
            }),
        }
    }

    /// Returns the newest handshake step for an error without an id, if only handshake steps are pending.
    fn pending_handshake_step(&self, envelope: &Envelope) -> Option<u64> {
        let waiting = self.waiting.lock();
        // An earlier step may still wait for a late response.
        let handshaking = waiting.values().all(|waiting| matches!(waiting, PendingRequest::Handshake(_)));
        let newest = waiting.keys().max().copied();
        newest.filter(|_| handshaking && envelope.kind() == MessageKind::Error)
    }

    fn handle_notification(&self, lane: Lane, envelope: &Envelope) {
        let params = envelope.params();
        match envelope.method() {
            "notifications/progress" => self.forward_progress(params),
            "notifications/message" => self.forward_log(lane, params.unwrap_or_else(Raw::empty_object)),
            "notifications/cancelled" => self.handle_cancelled(params.as_ref()),
            method => {
                let tag = meta::value(params.as_ref(), meta::SUBSCRIPTION_ID).and_then(|tag| tag.as_u64());
                match (tag.or_else(|| lane_request(lane)), method) {
                    (Some(id), _)
                        if self
                            .listener(id)
                            .is_some_and(|listener| listener.deliver_notification(method, params.clone())) => {}
                    (_, "notifications/subscriptions/acknowledged") => {
                        self.fault(WireError::protocol("unexpected subscription acknowledgement"));
                    }
                    _ => self.announce(method, params),
                }
            }
        }
    }

    /// Passes a notification to all who listen now.
    fn announce(&self, method: &str, params: Option<Raw>) {
        if self.notices.receiver_count() == 0 {
            return;
        }
        let accent = self.accent().ok();
        let notice = Notice::kept(method, params, &self.limits.memory, |method, params| match &accent {
            Some(accent) => accent.notice(method, params),
            None => Notice::read(method, params),
        });
        // The last receiver may have gone.
        drop(self.notices.send(notice));
    }

    fn forward_progress(&self, params: Option<Raw>) {
        let Some(params) = params else { return };
        let Some(token) = params.get("progressToken").and_then(|token| token.as_u64()) else { return };
        let params = splice::edited(&params, &[Edit::Remove("progressToken")]);
        match self.call(token) {
            Some(call) => call.feed.progress(params),
            // Progress may arrive after the response; that is not a violation.
            None if !self.task_progress.report(token, params) => tracing::debug!("progress of a finished request"),
            None => {}
        }
    }

    /// Forwards a log message to the request of its lane, or to the only pending call; otherwise as a notice.
    fn forward_log(&self, lane: Lane, params: Raw) {
        let owner = match lane {
            Lane::Of(request) => self.call(request),
            Lane::Shared => self.only_call(|_| true),
            Lane::Standing => None,
        };
        match owner {
            Some(call) => call.feed.log(params),
            None => self.announce("notifications/message", Some(params)),
        }
    }

    /// The server cancels a server request or ends a subscription. Ids of both sides may collide, so the accent decides
    /// whose id it is.
    fn handle_cancelled(&self, params: Option<&Raw>) {
        let Some(id) = params.and_then(|params| params.get("requestId")).and_then(Id::from_raw) else { return };
        let Ok(accent) = self.accent() else { return };
        match accent.cancel_target() {
            CancelTarget::ServerRequests => {
                let open = self.server_requests.lock().remove(&id);
                if let Some((Some(call), id)) = open.map(|open| (open.call.upgrade(), open.id)) {
                    call.feed.withdraw(id);
                }
            }
            CancelTarget::Subscriptions => {
                if let Some(listen) = id.as_u64().and_then(|id| self.listener(id)) {
                    id.as_u64().and_then(|id| self.forget(id));
                    listen.ended(None);
                }
            }
        }
    }

    fn call(&self, id: u64) -> Option<Arc<Call>> {
        match self.waiting.lock().get(&id) {
            Some(PendingRequest::Call(call)) => Some(Arc::clone(call)),
            _ => None,
        }
    }

    fn listener(&self, id: u64) -> Option<Arc<SubscriptionFeed>> {
        match self.waiting.lock().get(&id) {
            Some(PendingRequest::Listen(listen)) => Some(Arc::clone(listen)),
            _ => None,
        }
    }

    /// The only pending call that matches; `None` if several do.
    fn only_call(&self, matches: impl Fn(&Call) -> bool) -> Option<Arc<Call>> {
        let waiting = self.waiting.lock();
        let mut candidates = waiting.values().filter_map(|waiting| match waiting {
            PendingRequest::Call(call) if matches(call) => Some(call),
            _ => None,
        });
        match (candidates.next(), candidates.next()) {
            (Some(call), None) => Some(Arc::clone(call)),
            _ => None,
        }
    }

    /// Number of pending calls during which a server may send server requests.
    fn interactive_calls(&self) -> usize {
        let is_one = |waiting: &&PendingRequest| matches!(waiting, PendingRequest::Call(call) if call.is_interactive());
        self.waiting.lock().values().filter(is_one).count()
    }

    fn handle_bad_message(&self, lane: Lane, bad: BadMessage) -> Flow {
        let named = bad.id.as_ref().and_then(Id::as_u64);
        let answered = match lane {
            _ if bad.is_request => None,
            // On the lane of a request, only that request is accepted.
            Lane::Of(request) => Some(request).filter(|_| bad.id.is_none() || named == Some(request)),
            Lane::Shared | Lane::Standing => named,
        };
        match answered.and_then(|id| self.forget(id)) {
            Some(PendingRequest::Call(call)) => call.fail(bad.into()),
            Some(PendingRequest::Listen(listen)) => listen.fail(bad.into()),
            Some(PendingRequest::Handshake(sender)) => {
                drop(sender.send(HandshakeReply::Lane(LaneEnd::Failed(bad.into()))))
            }
            None => {
                self.fault(bad.into());
                return Flow::Continue;
            }
        }
        Flow::Done
    }

    /// Fails the request answered in a batch, where the revision has no batches.
    fn handle_unexpected_batch(&self, lane: Lane, part: Bytes) -> Option<Flow> {
        let envelope = Envelope::read(part, &self.limits).ok()?;
        let answer = matches!(envelope.kind(), MessageKind::Result | MessageKind::Error)
            .then(|| envelope.id().cloned())
            .flatten()?;
        Some(self.handle_bad_message(lane, BadMessage { problem: Problem::Batch, id: Some(answer), is_request: false }))
    }

    fn accepts_batches(&self) -> bool {
        self.accent.read().as_ref().is_some_and(|accent| accent.revision().has_batches())
    }
}

/// Hasher for our request ids, which count up and cannot be chosen by a peer to collide.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, id: u64) {
        // Fibonacci hashing: 2^64 divided by the golden ratio, rounded to an odd number.
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

fn lane_request(lane: Lane) -> Option<u64> {
    match lane {
        Lane::Of(request) => Some(request),
        Lane::Shared | Lane::Standing => None,
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").finish_non_exhaustive()
    }
}
