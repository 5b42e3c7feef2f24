//! One session: the client of the handshake, its open server requests, requests in progress, subscriptions and streams.

mod in_flight;
mod shared_row;
mod standing_requests;
mod streams;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub(super) use self::in_flight::InFlightRequest;
use self::{in_flight::InFlightRequests, streams::SessionStreams};
use super::{
    AllowedServerRequests, Caller, Downstream, ListPage, SessionChanges, SubscriptionChange,
    accent::{self, OutgoingMessage},
    dialect,
    stream::{SessionStream, StreamLimits, StreamReader, StreamWriter},
    tasks::{self, SessionTaskReply},
};
use crate::{
    budget::{Charge, Kept, MemoryBudget, OverBudget},
    exchange::{Answer, LogLevel, Request},
    json::{JsonKind, Raw},
    message::{
        ClientCapabilities, Envelope, Id, RpcError, compose,
        splice::{self, Edit},
    },
    notice::{Notice, SubscriptionFilter},
    revision::{Era, Revision},
    seal,
};

/// State of one legacy session.
#[derive(Debug)]
pub(super) struct DownstreamSession {
    pub(super) caller: Caller,
    downstream: Arc<Downstream>,
    /// Budget of its principal.
    pub(super) memory: MemoryBudget,
    next_request: AtomicU64,
    // Nothing awaits under these locks.
    level: Arc<Mutex<Option<LogLevel>>>,
    open_requests: Mutex<HashMap<Id, oneshot::Sender<Answer>>>,
    /// The client sends nothing more, so server requests cannot be answered.
    answers_stopped: AtomicBool,
    in_flight: Mutex<InFlightRequests>,
    subscriptions: Mutex<HashMap<String, ResourceSubscription>>,
    list_changes: Mutex<Option<AbortOnDropHandle<()>>>,
    /// The stream for messages that belong to no request; it ends with the session.
    pub(super) standing: Arc<SessionStream>,
    standing_writer: Mutex<Option<StreamWriter>>,
    pub(super) streams: Mutex<SessionStreams>,
    used: Mutex<Instant>,
    /// What the row of a shared session lacks.
    changes: Mutex<SessionChanges>,
    /// When the row was last written or read.
    noted: Mutex<Instant>,
    _charge: Charge,
}

/// A resource that the client subscribed to.
#[derive(Debug)]
struct ResourceSubscription {
    _forwarding: AbortOnDropHandle<()>,
    _charge: Charge,
}

/// About what a session costs besides what its client declared: its tables and streams.
const SESSION_COST: usize = 8 * 1024;
/// About what a subscription costs besides its URI: a task and a queue.
const SUBSCRIPTION_COST: usize = 4 * 1024;

impl DownstreamSession {
    /// Answers `initialize`; returns the session and the result.
    pub(super) fn begin(
        downstream: &Arc<Downstream>,
        envelope: &Envelope,
        principal: &Arc<str>,
    ) -> Result<(Arc<Self>, Raw), RpcError> {
        let params = envelope.params().unwrap_or_else(Raw::empty_object);
        let supported_revisions = downstream.revisions(Era::Legacy);
        let requested = params.get("protocolVersion");
        let requested = requested.as_ref().and_then(Raw::as_str).unwrap_or_default();
        let revision = supported_revisions
            .iter()
            .copied()
            .find(|revision| revision.as_str() == requested)
            .or(supported_revisions.first().copied());
        let Some(revision) = revision else {
            let supported: Vec<&str> = downstream.revisions(Era::Modern).into_iter().map(Revision::as_str).collect();
            let data = json!({ "supported": supported, "requested": requested });
            return Err(RpcError::with_data(
                RpcError::UNSUPPORTED_VERSION,
                "this server supports only stateless revisions",
                data,
            ));
        };
        let capabilities = params.get("capabilities").filter(|value| value.kind() == JsonKind::Object);
        let capabilities = dialect::capabilities(&capabilities.unwrap_or_else(Raw::empty_object));
        // Copies: the body that they are parts of is not kept.
        let caller = Caller {
            revision,
            capabilities: ClientCapabilities(capabilities.0.kept(Charge::default())),
            info: params.get("clientInfo").map(|info| info.kept(Charge::default())),
            principal: Arc::clone(principal),
            session: seal::random_token().ok().map(Arc::from),
        };
        let (profile, capabilities) = accent::catch_panic(|| {
            let profile = downstream.service.profile(&caller);
            let capabilities = tasks::with_task_capabilities(downstream, &caller, &profile.capabilities);
            (profile, capabilities)
        })?;
        let mut edits = vec![
            Edit::Set("protocolVersion", Raw::of(revision.as_str())),
            Edit::Set("capabilities", capabilities),
            Edit::Set("serverInfo", dialect::info(revision, &profile.info)),
        ];
        if let Some(instructions) = profile.instructions {
            edits.push(Edit::Set("instructions", Raw::of(&instructions)));
        }
        let result = splice::edited(&Raw::empty_object(), &edits);
        let session = Self::new(downstream, caller).map_err(|error| accent::over_budget(&error))?;
        Ok((session, result))
    }

    fn new(downstream: &Arc<Downstream>, caller: Caller) -> Result<Arc<Self>, OverBudget> {
        let limits = &downstream.options.limits;
        let stream_limits = StreamLimits { events: limits.stream_events, bytes: limits.stream_bytes };
        let memory = limits.memory.of_principal(&caller.principal);
        let info = caller.info.as_ref().map_or(0, |info| info.as_bytes().len());
        let declared = info + caller.capabilities.0.as_bytes().len();
        let charge = memory.keeping(Kept::Session).charge(SESSION_COST + declared)?;
        let (standing, writer) = SessionStream::new(0, stream_limits, memory.clone());
        Ok(Arc::new(Self {
            _charge: charge,
            caller,
            downstream: Arc::clone(downstream),
            next_request: AtomicU64::new(1),
            level: Arc::default(),
            open_requests: Mutex::default(),
            answers_stopped: AtomicBool::new(false),
            in_flight: Mutex::default(),
            subscriptions: Mutex::default(),
            list_changes: Mutex::default(),
            standing,
            standing_writer: Mutex::new(Some(writer)),
            streams: Mutex::new(SessionStreams::new(stream_limits, memory.clone())),
            memory,
            used: Mutex::new(Instant::now()),
            changes: Mutex::default(),
            noted: Mutex::new(Instant::now()),
        }))
    }

    /// A session that began at another gateway.
    pub(super) fn rebuild(
        downstream: &Arc<Downstream>,
        caller: Caller,
        level: Option<LogLevel>,
    ) -> Result<Arc<Self>, OverBudget> {
        let session = Self::new(downstream, caller)?;
        *session.level.lock() = level;
        Ok(session)
    }

    /// Ends the session: cancels requests in progress and closes the standing stream.
    pub(super) fn end(&self) {
        let requests = self.in_flight.lock().close();
        requests.iter().for_each(CancellationToken::cancel);
        self.close_streams();
        self.downstream.service.on_session_end(&self.caller);
    }

    /// The session is at another gateway now: closes the standing stream. Requests in progress go on.
    pub(super) fn release(&self) {
        self.close_streams();
        self.downstream.service.on_session_end(&self.caller);
    }

    /// Whether the session belongs to this downstream.
    pub(super) fn is_of(&self, downstream: &Arc<Downstream>) -> bool {
        Arc::ptr_eq(&self.downstream, downstream)
    }

    /// Ends all subscriptions and the standing stream.
    pub(super) fn close_streams(&self) {
        self.subscriptions.lock().clear();
        self.list_changes.lock().take();
        self.standing_writer.lock().take();
    }

    /// Notes activity of the client.
    pub(super) fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Time of the client's last activity; `None` while a request is in progress.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let idle = self.in_flight.lock().is_empty();
        idle.then(|| *self.used.lock())
    }

    /// Whether the client reads a stream.
    pub(super) fn is_read(&self) -> bool {
        self.standing.has_reader() || self.streams.lock().has_reader()
    }

    /// Opens a request at the service.
    pub(super) fn open(&self, request: crate::exchange::Request) -> crate::exchange::Exchange {
        self.downstream.service.open(request, &self.caller)
    }

    /// The prepared page of a list request, if the service has one.
    pub(super) fn prepared_page(&self, request: &Request) -> Option<ListPage> {
        self.downstream.service.prepared_page(request, &self.caller)
    }

    /// A message to the client, charged to its budget; see [`OutgoingMessage::charged`]. Finished streams that are only
    /// kept to be resumed make room first.
    pub(super) fn charged(&self, message: OutgoingMessage, id: Option<&Id>) -> Option<OutgoingMessage> {
        message.charged(&self.memory, id, || self.streams.lock().forget_oldest())
    }

    /// Resumes the stream after this event id; `None` if it is gone.
    pub(super) fn resume(&self, last: &str) -> Option<StreamReader> {
        let (name, number) = last.split_once('-')?;
        let (name, number) = (name.parse().ok()?, number.parse::<u64>().ok()?);
        let stream = match name {
            0 => Arc::clone(&self.standing),
            name => self.streams.lock().find(name)?,
        };
        stream.knows(number).then(|| stream.read_from(number))
    }

    /// Whether the client wants logs of this level; all until it sets a level.
    pub(super) fn wants(&self, level: LogLevel) -> bool {
        covers(&self.level, level)
    }

    /// Answers `ping`, `logging/setLevel` and `resources/unsubscribe` at once; `None` for other methods.
    pub(super) fn answer_here(&self, envelope: &Envelope) -> Option<Result<Raw, RpcError>> {
        let params = envelope.params();
        match envelope.method() {
            "ping" => Some(Ok(Raw::empty_object())),
            "logging/setLevel" => Some(self.set_level(params.as_ref())),
            "resources/unsubscribe" => Some(self.unsubscribe(params.as_ref())),
            _ => None,
        }
    }

    /// Server requests that the client may receive.
    pub(super) fn server_requests(&self) -> AllowedServerRequests {
        self.downstream.options.server_requests
    }

    /// Answers a tasks request; `None` for other methods.
    pub(super) fn about_tasks(&self, request: &Request) -> Option<Result<SessionTaskReply, RpcError>> {
        tasks::is_about(request.method()).then(|| tasks::in_session(&self.downstream, &self.caller, request))
    }

    /// Handles a notification or a response of the client.
    pub(super) fn take(self: &Arc<Self>, envelope: &Envelope) {
        match envelope.method() {
            "notifications/cancelled" => self.cancel(envelope.params().as_ref()),
            "notifications/initialized" => {
                self.resume_lists();
            }
            "notifications/roots/list_changed" => self.forward_roots_changed(),
            _ => self.take_answer(envelope),
        }
    }

    /// Registers a new server request; returns its id and the receiver of the answer.
    pub(super) fn register_server_request(&self) -> (Id, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let id = Id::string(&format!("ask-{}", self.next_request.fetch_add(1, Ordering::Relaxed)));
        let mut open_requests = self.open_requests.lock();
        if !self.answers_stopped.load(Ordering::Relaxed) {
            open_requests.insert(id.clone(), sender);
        }
        drop(open_requests);
        (id, receiver)
    }

    /// Fails open and future server requests, because the client can no longer answer.
    pub(super) fn stop_answers(&self) {
        let mut open_requests = self.open_requests.lock();
        self.answers_stopped.store(true, Ordering::Relaxed);
        open_requests.clear();
    }

    /// Removes a server request; returns whether it was still open.
    pub(super) fn forget_server_request(&self, id: &Id) -> bool {
        self.open_requests.lock().remove(id).is_some()
    }

    /// How long a server request waits for its answer.
    pub(super) fn answer_timeout(&self) -> Duration {
        self.downstream.options.answer_timeout
    }

    fn take_answer(&self, envelope: &Envelope) {
        let Some(sender) = envelope.id().and_then(|id| self.open_requests.lock().remove(id)) else { return };
        let answer = match (envelope.result(), envelope.error()) {
            (Some(result), _) => Answer::Given(result),
            (None, Some(error)) => Answer::Refused(error),
            (None, None) => Answer::Unavailable,
        };
        // The call may have ended.
        drop(sender.send(answer));
    }

    fn cancel(&self, params: Option<&Raw>) {
        let id = params.and_then(|params| params.get("requestId")).and_then(Id::from_raw);
        if let Some(token) = id.and_then(|id| self.in_flight.lock().token(&id)) {
            token.cancel();
        }
    }

    fn set_level(&self, params: Option<&Raw>) -> Result<Raw, RpcError> {
        let level = params.and_then(|params| params.get("level"));
        match level.as_ref().and_then(Raw::as_str).and_then(|level| level.parse().ok()) {
            Some(level) => {
                *self.level.lock() = Some(level);
                self.level_changed(level);
                Ok(Raw::empty_object())
            }
            None => Err(RpcError::new(RpcError::INVALID_PARAMS, "unknown log level")),
        }
    }

    /// Answers `resources/subscribe` after the service has accepted it.
    pub(super) async fn subscribe(self: Arc<Self>, params: Option<Raw>) -> Result<Raw, RpcError> {
        self.subscribe_to(uri(params.as_ref())?).await
    }

    /// Subscribes to a resource.
    pub(super) async fn subscribe_to(self: Arc<Self>, uri: String) -> Result<Raw, RpcError> {
        let limit = self.downstream.options.limits.concurrent_requests;
        if limit <= self.subscriptions.lock().len() {
            return Err(accent::too_many(limit));
        }
        let charge = self.memory.keeping(Kept::Session).charge(SUBSCRIPTION_COST + uri.len());
        let charge = charge.map_err(|error| accent::over_budget(&error))?;
        let subscription = self.downstream.service.listen(SubscriptionFilter::resource(&uri), &self.caller).await;
        if !subscription.accepted.uris.contains(&uri) {
            let message = format!("resource `{uri}` does not support subscriptions");
            return Err(RpcError::new(RpcError::INVALID_PARAMS, &message));
        }
        let forwarding = forward(subscription.notices, self.standing_writer.lock().clone(), Arc::clone(&self.level));
        let forwarding = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(forwarding));
        let subscription = ResourceSubscription { _forwarding: forwarding, _charge: charge };
        self.subscriptions.lock().insert(uri.clone(), subscription);
        self.subscription_changed(uri, SubscriptionChange::Added);
        Ok(Raw::empty_object())
    }

    fn unsubscribe(&self, params: Option<&Raw>) -> Result<Raw, RpcError> {
        let uri = uri(params)?;
        self.subscriptions.lock().remove(&uri);
        self.subscription_changed(uri, SubscriptionChange::Removed);
        Ok(Raw::empty_object())
    }

    /// Follows list changes, and lets the service send requests: the handshake is complete.
    pub(super) fn resume_lists(self: &Arc<Self>) {
        self.subscribe_to_lists();
        self.announce_to_service();
    }

    /// Subscribes to list changes when the handshake is complete.
    fn subscribe_to_lists(&self) {
        let (downstream, caller, standing) =
            (Arc::clone(&self.downstream), self.caller.clone(), self.standing_writer.lock().clone());
        let level = Arc::clone(&self.level);
        let mut listening = Box::pin(async move {
            let Ok(subscription) =
                accent::catch_panic_async(downstream.service.listen(SubscriptionFilter::lists(), &caller)).await
            else {
                return;
            };
            forward(subscription.notices, standing, level).await;
        });
        // Subscribed here and not in the spawned task: the client's next request may change a list.
        if (&mut listening).now_or_never().is_some() {
            return;
        }
        let listening = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(listening));
        *self.list_changes.lock() = Some(listening);
    }
}

/// Whether logs of this level are wanted; all are if no level is set.
fn covers(wanted: &Mutex<Option<LogLevel>>, level: LogLevel) -> bool {
    wanted.lock().is_none_or(|wanted| wanted <= level)
}

/// Writes notices to the standing stream; drops those for which a slow reader leaves no space.
async fn forward(
    mut notices: mpsc::Receiver<Notice>,
    standing: Option<StreamWriter>,
    wanted: Arc<Mutex<Option<LogLevel>>>,
) {
    while let Some(notice) = notices.recv().await {
        if matches!(&notice, Notice::Log(params) if !covers(&wanted, LogLevel::of(params))) {
            continue;
        }
        let (Some(message), Some(standing)) = (notification_of(&notice), &standing) else { continue };
        if !standing.try_send(OutgoingMessage::notification(message)) {
            tracing::warn!("a client does not read its standing stream; dropped a notification");
        }
    }
}

fn uri(params: Option<&Raw>) -> Result<String, RpcError> {
    let uri = params.and_then(|params| params.get("uri"));
    let uri = uri.as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
    uri.ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, "`uri` is missing"))
}

/// The notification for a notice; `None` if it is not forwarded.
fn notification_of(notice: &Notice) -> Option<Bytes> {
    Some(match notice {
        Notice::Changed(list) => compose::notification(list.changed_method(), None, &[]),
        Notice::Updated { params, .. } => compose::notification("notifications/resources/updated", Some(params), &[]),
        Notice::Log(params) => compose::notification("notifications/message", Some(params), &[]),
        Notice::UrlCompleted { params, .. } => {
            compose::notification("notifications/elicitation/complete", Some(params), &[])
        }
        Notice::Other { method, params } => compose::notification(method, params.as_ref(), &[]),
        Notice::Fault(_) | Notice::Missed(_) => return None,
    })
}

/// Error for a request without a session.
pub(super) fn no_session() -> RpcError {
    RpcError::new(
        RpcError::INVALID_REQUEST,
        "unknown protocol revision: the request has neither a session (send `initialize` first) nor stateless metadata",
    )
}

/// The era-neutral request of a session; refuses an ambiguous one.
pub(super) fn neutral(session: &DownstreamSession, envelope: &Envelope) -> Result<Request, RpcError> {
    let mut request = accent::neutral(envelope)?;
    request.capabilities = Some(session.caller.capabilities.clone());
    request.log_level = *session.level.lock();
    request.memory = session.memory.clone();
    request.default_log_level = session.downstream.options.default_log_level;
    tasks::allow(&session.downstream, &session.caller, &mut request);
    Ok(request)
}
