//! One caller that keeps a session: what it said in the handshake, what it was asked, what it has under way.

mod streams;
mod under_way;

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

pub(super) use self::under_way::UnderWay;
use self::{streams::Streams, under_way::Requests};
use super::{
    Asks, Caller, Downstream,
    accent::{self, Said},
    dialect,
    stream::{Bounds, Reader, Stream, Writer},
    tasks::{self, InSession},
};
use crate::{
    exchange::{Answer, LogLevel, Request},
    json::{Kind, Raw},
    message::{
        Envelope, Id, RpcError, compose,
        splice::{self, Edit},
    },
    notice::{Notice, Wanted},
    revision::{Era, Revision},
    seal,
};

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) caller: Caller,
    downstream: Arc<Downstream>,
    next_ask: AtomicU64,
    // Nothing awaits under these locks.
    level: Arc<Mutex<Option<LogLevel>>>,
    asked: Mutex<HashMap<Id, oneshot::Sender<Answer>>>,
    /// Nothing more is heard of the caller.
    silent: AtomicBool,
    under_way: Mutex<Requests>,
    subscriptions: Mutex<HashMap<String, AbortOnDropHandle<()>>>,
    list_changes: Mutex<Option<AbortOnDropHandle<()>>>,
    /// The stream of what belongs to no request; nobody writes on it when the session has ended.
    pub(super) standing: Arc<Stream>,
    standing_writer: Mutex<Option<Writer>>,
    pub(super) streams: Mutex<Streams>,
    used: Mutex<Instant>,
}

impl Session {
    /// Answers `initialize`: the session and the result, or the refusal.
    pub(super) fn begin(
        downstream: &Arc<Downstream>,
        envelope: &Envelope,
        principal: &Arc<str>,
    ) -> Result<(Arc<Self>, Raw), RpcError> {
        let params = envelope.params().unwrap_or_else(Raw::empty_object);
        let spoken = downstream.revisions(Era::Legacy);
        let wanted = params.get("protocolVersion");
        let wanted = wanted.as_ref().and_then(Raw::as_str).unwrap_or_default();
        let revision = spoken.iter().copied().find(|revision| revision.as_str() == wanted).or(spoken.first().copied());
        let Some(revision) = revision else {
            let supported: Vec<&str> = downstream.revisions(Era::Modern).into_iter().map(Revision::as_str).collect();
            let data = json!({ "supported": supported, "requested": wanted });
            return Err(RpcError::with_data(RpcError::UNSUPPORTED_VERSION, "this server keeps no sessions", data));
        };
        let capabilities = params.get("capabilities").filter(|value| value.kind() == Kind::Object);
        let caller = Caller {
            revision,
            capabilities: dialect::capabilities(revision, &capabilities.unwrap_or_else(Raw::empty_object)),
            info: params.get("clientInfo"),
            principal: Arc::clone(principal),
            session: seal::random_token().ok().map(Arc::from),
        };
        let (profile, capabilities) = accent::guarded(|| {
            let profile = downstream.service.profile(&caller);
            let capabilities = tasks::offered(downstream, &caller, &profile.capabilities);
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
        Ok((Self::new(downstream, caller), result))
    }

    fn new(downstream: &Arc<Downstream>, caller: Caller) -> Arc<Self> {
        let limits = &downstream.options.limits;
        let bounds = Bounds { events: limits.stream_events, bytes: limits.stream_bytes };
        let (standing, writer) = Stream::new(0, bounds);
        Arc::new(Self {
            caller,
            downstream: Arc::clone(downstream),
            next_ask: AtomicU64::new(1),
            level: Arc::default(),
            asked: Mutex::default(),
            silent: AtomicBool::new(false),
            under_way: Mutex::default(),
            subscriptions: Mutex::default(),
            list_changes: Mutex::default(),
            standing,
            standing_writer: Mutex::new(Some(writer)),
            streams: Mutex::new(Streams::new(bounds)),
            used: Mutex::new(Instant::now()),
        })
    }

    /// Ends it: what is under way is cancelled, what stands is closed.
    pub(super) fn end(&self) {
        let requests = self.under_way.lock().close();
        requests.iter().for_each(CancellationToken::cancel);
        self.rest();
        self.downstream.service.left(&self.caller);
    }

    /// Whether it was begun at this downstream.
    pub(super) fn is_of(&self, downstream: &Arc<Downstream>) -> bool {
        Arc::ptr_eq(&self.downstream, downstream)
    }

    /// Tells of no more changes; the standing stream ends.
    pub(super) fn rest(&self) {
        self.subscriptions.lock().clear();
        self.list_changes.lock().take();
        self.standing_writer.lock().take();
    }

    /// The caller was heard of.
    pub(super) fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// When the caller was last heard of; none while something is under way.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let idle = self.under_way.lock().is_empty();
        idle.then(|| *self.used.lock())
    }

    /// Whether the caller reads a stream.
    pub(super) fn is_read(&self) -> bool {
        self.standing.has_reader() || self.streams.lock().has_reader()
    }

    /// Puts a request to the service.
    pub(super) fn open(&self, request: crate::exchange::Request) -> crate::exchange::Exchange {
        self.downstream.service.open(request, &self.caller)
    }

    /// Takes up the stream that this event was the last one of; none where it is gone.
    pub(super) fn resume(&self, last: &str) -> Option<Reader> {
        let (name, number) = last.split_once('-')?;
        let (name, number) = (name.parse().ok()?, number.parse::<u64>().ok()?);
        let stream = match name {
            0 => Arc::clone(&self.standing),
            name => self.streams.lock().find(name)?,
        };
        stream.knows(number).then(|| stream.read_from(number))
    }

    /// From which level on the caller wants logs; everything until it says.
    pub(super) fn wants(&self, level: LogLevel) -> bool {
        covers(&self.level, level)
    }

    /// What the downstream itself answers at once: `ping`, the log level, the end of a subscription.
    pub(super) fn answer_here(&self, envelope: &Envelope) -> Option<Result<Raw, RpcError>> {
        let params = envelope.params();
        match envelope.method() {
            "ping" => Some(Ok(Raw::empty_object())),
            "logging/setLevel" => Some(self.set_level(params.as_ref())),
            "resources/unsubscribe" => Some(self.unsubscribe(params.as_ref())),
            _ => None,
        }
    }

    /// What its caller may be asked.
    pub(super) fn asks(&self) -> Asks {
        self.downstream.options.asks
    }

    /// The answer to a request about tasks; `None` for everything else.
    pub(super) fn about_tasks(&self, request: &Request) -> Option<Result<InSession, RpcError>> {
        tasks::is_about(request.method()).then(|| tasks::in_session(&self.downstream, &self.caller, request))
    }

    /// Takes a notification or a response of the caller's.
    pub(super) fn take(self: &Arc<Self>, envelope: &Envelope) {
        match envelope.method() {
            "notifications/cancelled" => self.cancel(envelope.params().as_ref()),
            "notifications/initialized" => self.tell_of_lists(),
            _ => self.answered(envelope),
        }
    }

    /// A new question to the caller: its id, and where the answer will come.
    pub(super) fn ask(&self) -> (Id, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let id = Id::string(&format!("ask-{}", self.next_ask.fetch_add(1, Ordering::Relaxed)));
        let mut asked = self.asked.lock();
        if !self.silent.load(Ordering::Relaxed) {
            asked.insert(id.clone(), sender);
        }
        drop(asked);
        (id, receiver)
    }

    /// The caller answers nothing any more: what it was asked, and what it will be, is answered by nobody.
    pub(super) fn no_more_answers(&self) {
        let mut asked = self.asked.lock();
        self.silent.store(true, Ordering::Relaxed);
        asked.clear();
    }

    /// The question is no longer of interest; whether it was still open.
    pub(super) fn forget_ask(&self, id: &Id) -> bool {
        self.asked.lock().remove(id).is_some()
    }

    /// How long a question waits for the caller's answer.
    pub(super) fn patience(&self) -> Duration {
        self.downstream.options.park
    }

    fn answered(&self, envelope: &Envelope) {
        let Some(sender) = envelope.id().and_then(|id| self.asked.lock().remove(id)) else { return };
        let answer = match (envelope.result(), envelope.error()) {
            (Some(result), _) => Answer::Given(result),
            (None, Some(error)) => Answer::Refused(error),
            (None, None) => Answer::Unavailable,
        };
        // The call may be over.
        drop(sender.send(answer));
    }

    fn cancel(&self, params: Option<&Raw>) {
        let id = params.and_then(|params| params.get("requestId")).and_then(Id::from_raw);
        if let Some(token) = id.and_then(|id| self.under_way.lock().token(&id)) {
            token.cancel();
        }
    }

    fn set_level(&self, params: Option<&Raw>) -> Result<Raw, RpcError> {
        let level = params.and_then(|params| params.get("level"));
        match level.as_ref().and_then(Raw::as_str).and_then(|level| level.parse().ok()) {
            Some(level) => {
                *self.level.lock() = Some(level);
                Ok(Raw::empty_object())
            }
            None => Err(RpcError::new(RpcError::INVALID_PARAMS, "unknown log level")),
        }
    }

    /// Answers `resources/subscribe`: with what the service honours.
    pub(super) async fn subscribe(self: Arc<Self>, params: Option<Raw>) -> Result<Raw, RpcError> {
        let uri = uri(params.as_ref())?;
        let limit = self.downstream.options.limits.concurrent_requests;
        if limit <= self.subscriptions.lock().len() {
            return Err(accent::too_many(limit));
        }
        let heard = self.downstream.service.listen(Wanted::resource(&uri), &self.caller).await;
        if !heard.honoured.uris.contains(&uri) {
            let message = format!("`{uri}` cannot be subscribed to");
            return Err(RpcError::new(RpcError::INVALID_PARAMS, &message));
        }
        let forwarding = forward(heard.notices, self.standing_writer.lock().clone(), Arc::clone(&self.level));
        let forwarding = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(forwarding));
        self.subscriptions.lock().insert(uri, forwarding);
        Ok(Raw::empty_object())
    }

    fn unsubscribe(&self, params: Option<&Raw>) -> Result<Raw, RpcError> {
        self.subscriptions.lock().remove(&uri(params)?);
        Ok(Raw::empty_object())
    }

    /// From the end of the handshake on, changes of lists are told without being asked for.
    fn tell_of_lists(&self) {
        let (downstream, caller, standing) =
            (Arc::clone(&self.downstream), self.caller.clone(), self.standing_writer.lock().clone());
        let level = Arc::clone(&self.level);
        let mut telling = Box::pin(async move {
            let Ok(heard) = accent::guarded_future(downstream.service.listen(Wanted::lists(), &caller)).await else { return };
            forward(heard.notices, standing, level).await;
        });
        // Begun here and not when the task has its first turn: the caller's next request may be what changes a list.
        if (&mut telling).now_or_never().is_some() {
            return;
        }
        let telling = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(telling));
        *self.list_changes.lock() = Some(telling);
    }
}

/// Whether logs of this level are wanted; all are until somebody says.
fn covers(wanted: &Mutex<Option<LogLevel>>, level: LogLevel) -> bool {
    wanted.lock().is_none_or(|wanted| wanted <= level)
}

/// Puts notices on the standing stream; those that a slow reader leaves no room for are dropped.
async fn forward(mut notices: mpsc::Receiver<Notice>, standing: Option<Writer>, wanted: Arc<Mutex<Option<LogLevel>>>) {
    while let Some(notice) = notices.recv().await {
        if matches!(&notice, Notice::Log(params) if !covers(&wanted, LogLevel::of(params))) {
            continue;
        }
        let (Some(message), Some(standing)) = (announced(&notice), &standing) else { continue };
        if !standing.try_say(Said::more(message)) {
            tracing::warn!("a caller does not read its standing stream; a notice was dropped");
        }
    }
}

fn uri(params: Option<&Raw>) -> Result<String, RpcError> {
    let uri = params.and_then(|params| params.get("uri"));
    let uri = uri.as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
    uri.ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, "`uri` is missing"))
}

/// A notice as a session hears it.
fn announced(notice: &Notice) -> Option<Bytes> {
    Some(match notice {
        Notice::Changed(list) => compose::notification(list.changed_method(), None, &[]),
        Notice::Updated { params, .. } => compose::notification("notifications/resources/updated", Some(params), &[]),
        Notice::Log(params) => compose::notification("notifications/message", Some(params), &[]),
        Notice::Other { method, params } => compose::notification(method, params.as_ref(), &[]),
        Notice::Fault(_) | Notice::Missed(_) => return None,
    })
}

/// The error for a request outside any session.
pub(super) fn no_session() -> RpcError {
    RpcError::new(
        RpcError::INVALID_REQUEST,
        "neither a session (send `initialize` first) nor per-request metadata: cannot tell which revision this is",
    )
}

/// Reads the request of a session; refused where it is ambiguous.
pub(super) fn neutral(session: &Session, envelope: &Envelope) -> Result<Request, RpcError> {
    let mut request = accent::neutral(envelope)?;
    request.capabilities = Some(session.caller.capabilities.clone());
    request.log_level = *session.level.lock();
    request.usual_log_level = session.downstream.options.usual_log_level;
    tasks::allow(&session.downstream, &session.caller, &mut request);
    Ok(request)
}
