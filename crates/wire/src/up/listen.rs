//! Subscriptions to changes, for both eras.
//!
//! A stateful server announces list changes without a request and resource changes after `resources/subscribe`; a
//! stateless one needs `subscriptions/listen`. Both are an [`UpstreamSubscription`]; dropping it ends the subscription.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, broadcast, mpsc, oneshot};

use super::{
    accent::ChangeDelivery,
    call, handshake,
    router::{PendingRequest, Router},
    task_hints,
    transport::{LaneEnd, Outbound},
};
use crate::{
    budget::MemoryBudget,
    error::{TimeoutKind, WireError},
    exchange::{ExchangeTimeouts, Handover, Outcome, Request},
    json::Raw,
    message::{ClientCapabilities, RpcError},
    notice::{Notice, SubscriptionFilter, filter},
};

/// Timeout for the acknowledgement of a subscription.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(30);

/// A subscription to changes of one server. Dropping it ends the subscription.
#[derive(Debug)]
pub struct UpstreamSubscription {
    accepted: SubscriptionFilter,
    source: SubscriptionSource,
    router: Weak<Router>,
}

#[derive(Debug)]
enum SubscriptionSource {
    /// All notices of the server, filtered here.
    Announced(broadcast::Receiver<Notice>),
    /// The stream of a `subscriptions/listen` request.
    Own(SubscriptionStream),
}

/// The stream of a `subscriptions/listen` request. Dropping it ends the subscription.
#[derive(Debug)]
struct SubscriptionStream {
    /// Id of the request.
    id: u64,
    notices: mpsc::Receiver<Notice>,
    feed: Arc<SubscriptionFeed>,
    router: Weak<Router>,
}

/// A subscription to changes of one task. Dropping it ends the subscription.
#[derive(Debug)]
pub(super) struct TaskListener {
    stream: SubscriptionStream,
    id: String,
    /// Method of the notification about a task.
    method: &'static str,
    _permit: OwnedSemaphorePermit,
}

/// What a server agreed to report.
#[derive(Debug)]
struct Acknowledged {
    changes: SubscriptionFilter,
    tasks: Vec<String>,
}

/// Receives the notifications of a subscription with its own stream.
#[derive(Debug)]
pub(crate) struct SubscriptionFeed {
    // No await under this lock; `None` after the subscription has ended.
    sender: Mutex<Option<mpsc::Sender<Notice>>>,
    acknowledged: Mutex<Option<oneshot::Sender<Result<Acknowledged, WireError>>>>,
    missed: AtomicU64,
    /// Charged for what is not read yet.
    memory: MemoryBudget,
}

/// Subscribes and waits for the server's acknowledgement.
pub(crate) async fn listen(
    router: &Arc<Router>,
    wanted: SubscriptionFilter,
) -> Result<UpstreamSubscription, WireError> {
    match router.accent()?.change_delivery() {
        ChangeDelivery::Unsolicited => subscribe_announced(router, wanted).await,
        ChangeDelivery::SubscriptionStream => subscribe_stream(router, wanted).await,
    }
}

async fn subscribe_announced(
    router: &Arc<Router>,
    wanted: SubscriptionFilter,
) -> Result<UpstreamSubscription, WireError> {
    let source = SubscriptionSource::Announced(router.notices.subscribe());
    let uris = wanted.uris.clone();
    let accepted = SubscriptionFilter { uris: Vec::new(), ..wanted };
    // Created first: if this future is dropped, dropping the subscription takes back what was counted.
    let mut listening = UpstreamSubscription { accepted, source, router: Arc::downgrade(router) };
    for uri in uris {
        // Serialised with unsubscribing, so that the last message on the wire matches the count.
        let Ok(_turn) = router.subscribing.acquire().await else { return Err(router.why_closed()) };
        let first = {
            let mut settings = router.session_settings.lock();
            let listeners = settings.subscriptions.entry(uri.clone()).or_default();
            *listeners += 1;
            *listeners == 1
        };
        listening.accepted.uris.push(uri.clone());
        if !first {
            continue;
        }
        match send_subscription(router, "resources/subscribe", &uri).await {
            Ok(()) => {}
            Err(WireError::Refused(_)) => {
                router.session_settings.lock().subscriptions.remove(&uri);
                listening.accepted.uris.pop();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(listening)
}

/// Sends `resources/subscribe` or `resources/unsubscribe`.
pub(super) async fn send_subscription(router: &Arc<Router>, method: &'static str, uri: &str) -> Result<(), WireError> {
    match call::start(router, subscription_request(method, uri), ExchangeTimeouts::list()).outcome().await {
        Outcome::Answered(_) => Ok(()),
        Outcome::Failed(error) => Err(error),
        other => Err(WireError::Refused(format!("{other:?}"))),
    }
}

pub(super) fn subscription_request(method: &'static str, uri: &str) -> Request {
    Request::trusted(method, Some(Raw::of(&serde_json::json!({ "uri": uri }))))
}

async fn subscribe_stream(router: &Arc<Router>, wanted: SubscriptionFilter) -> Result<UpstreamSubscription, WireError> {
    let request = Request::trusted("subscriptions/listen", Some(filter::encode(&wanted)));
    let opened = SubscriptionStream::open(router, &request).await?;
    let accepted = wanted.and(&opened.acknowledged.changes);
    Ok(UpstreamSubscription {
        accepted,
        source: SubscriptionSource::Own(opened.stream),
        router: Arc::downgrade(router),
    })
}

/// Subscribes to changes of a task, on behalf of a caller with these capabilities; `None` uses those of the connection.
pub(super) async fn listen_to_task(
    router: &Arc<Router>,
    id: &str,
    capabilities: Option<ClientCapabilities>,
    permit: OwnedSemaphorePermit,
) -> Result<TaskListener, WireError> {
    let method = router.accent()?.task_notification();
    let wanted = filter::encode_with_tasks(&SubscriptionFilter::default(), &[id.to_owned()]);
    let mut request = Request::trusted("subscriptions/listen", Some(wanted));
    request.capabilities = capabilities;
    request.handover = Handover::Allowed;
    let OpenedStream { stream, acknowledged } = SubscriptionStream::open(router, &request).await?;
    if !acknowledged.tasks.iter().any(|accepted| accepted == id) {
        return Err(WireError::Refused("the server does not report changes of this task".to_owned()));
    }
    Ok(TaskListener { stream, id: id.to_owned(), method, _permit: permit })
}

// === impl SubscriptionStream ===

/// A stream that its server has acknowledged.
struct OpenedStream {
    stream: SubscriptionStream,
    acknowledged: Acknowledged,
}

impl SubscriptionStream {
    /// Sends the request and waits for the acknowledgement.
    async fn open(router: &Arc<Router>, request: &Request) -> Result<OpenedStream, WireError> {
        let (sender, notices) = mpsc::channel(router.limits.unread_notices);
        let (acknowledge, acknowledged) = oneshot::channel();
        let feed = Arc::new(SubscriptionFeed {
            sender: Mutex::new(Some(sender)),
            acknowledged: Mutex::new(Some(acknowledge)),
            missed: AtomicU64::new(0),
            memory: router.limits.memory.clone(),
        });
        let id = router.new_id();
        let outbound = router.accent()?.request(id, request, None);
        router.wait_for(id, PendingRequest::Listen(Arc::clone(&feed)))?;
        // Created before it is sent: if this future is dropped, dropping the stream ends the subscription.
        let stream = Self { id, notices, feed, router: Arc::downgrade(router) };
        router.send(outbound)?;
        match tokio::time::timeout(ACKNOWLEDGEMENT, acknowledged).await {
            Ok(Ok(acknowledged)) => Ok(OpenedStream { stream, acknowledged: acknowledged? }),
            Ok(Err(_)) => Err(WireError::Ended("the subscription ended before the server acknowledged it".to_owned())),
            Err(_) => Err(WireError::TimedOut { kind: TimeoutKind::Acknowledgement, limit: ACKNOWLEDGEMENT }),
        }
    }

    /// The next notice; `None` when the subscription has ended.
    async fn next(&mut self) -> Option<Notice> {
        match self.feed.missed.swap(0, Ordering::Relaxed) {
            0 => self.notices.recv().await,
            missed => Some(Notice::Missed(missed)),
        }
    }
}

impl Drop for SubscriptionStream {
    fn drop(&mut self) {
        if let Some(router) = self.router.upgrade() {
            cancel_stream(&router, self.id);
        }
    }
}

// === impl TaskListener ===

impl TaskListener {
    /// Resolves when a change of the task is announced, or may have been; `None` when the subscription has ended.
    pub(super) async fn next(&mut self) -> Option<()> {
        loop {
            let notice = self.stream.next().await?;
            if matches!(notice, Notice::Missed(_)) || task_hints::is_about(&notice, self.method, &self.id) {
                return Some(());
            }
        }
    }

    /// Forgets what was announced and not read yet.
    pub(super) fn skip(&mut self) {
        self.stream.feed.missed.store(0, Ordering::Relaxed);
        while self.stream.notices.try_recv().is_ok() {}
    }
}

// === impl UpstreamSubscription ===

impl UpstreamSubscription {
    /// Changes that the server agreed to report.
    pub fn accepted(&self) -> &SubscriptionFilter {
        &self.accepted
    }

    /// Returns the next notice; `None` when the subscription has ended.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            let notice = match &mut self.source {
                SubscriptionSource::Own(stream) => stream.next().await?,
                SubscriptionSource::Announced(receiver) => {
                    let closed = self.router.upgrade()?.closed.clone();
                    tokio::select! {
                        () = closed.cancelled() => return None,
                        notice = receiver.recv() => match notice {
                            Ok(notice) => notice,
                            Err(broadcast::error::RecvError::Lagged(missed)) => Notice::Missed(missed),
                            Err(broadcast::error::RecvError::Closed) => return None,
                        },
                    }
                }
            };
            if self.accepted.covers(&notice) {
                return Some(notice);
            }
        }
    }
}

impl Drop for UpstreamSubscription {
    fn drop(&mut self) {
        let Some(router) = self.router.upgrade() else { return };
        if let SubscriptionSource::Announced(_) = &self.source {
            for uri in self.accepted.uris.drain(..) {
                unsubscribe(&router, uri);
            }
        }
    }
}

fn cancel_stream(router: &Router, id: u64) {
    if router.forget(id).is_none() {
        return;
    }
    let (Ok(link), Ok(accent)) = (router.link(), router.accent()) else { return };
    if let Some(message) = accent.cancellation(id, "no longer listening") {
        // A closed link has already ended the subscription.
        drop(link.send(Outbound::plain(message, None)));
    }
    link.abandon(id);
}

fn unsubscribe(router: &Arc<Router>, uri: String) {
    let shared = Arc::clone(router);
    router.spawn(async move {
        let Ok(_turn) = shared.subscribing.acquire().await else { return };
        let last = {
            let mut settings = shared.session_settings.lock();
            let listeners = settings.subscriptions.entry(uri.clone()).or_default();
            *listeners = listeners.saturating_sub(1);
            *listeners == 0 && settings.subscriptions.remove(&uri).is_some()
        };
        if last && let Err(error) = send_subscription(&shared, "resources/unsubscribe", &uri).await {
            tracing::debug!(%error, "cannot unsubscribe");
        }
    });
}

// === impl SubscriptionFeed ===

impl SubscriptionFeed {
    /// Delivers a notification; returns whether it belongs to this subscription.
    pub(crate) fn deliver_notification(&self, method: &str, params: Option<Raw>) -> bool {
        if method == "notifications/subscriptions/acknowledged" {
            let changes = filter::read(params.as_ref());
            self.acknowledge(Ok(Acknowledged { changes, tasks: filter::tasks(params.as_ref()) }));
            return true;
        }
        if let Some(sender) = &*self.sender.lock() {
            // A place first: what has none is not copied.
            match sender.try_reserve() {
                Ok(place) => place.send(Notice::kept(method, params, &self.memory, Notice::read)),
                Err(_) => drop(self.missed.fetch_add(1, Ordering::Relaxed)),
            }
        }
        true
    }

    /// The server ended the subscription, with an error or without.
    pub(crate) fn ended(&self, error: Option<RpcError>) {
        let why = error.map_or_else(|| "the server ended the subscription".to_owned(), |error| error.to_string());
        self.fail(WireError::Refused(why));
    }

    pub(crate) fn fail(&self, why: WireError) {
        self.acknowledge(Err(why));
        self.sender.lock().take();
    }

    pub(crate) fn on_lane_end(&self, end: LaneEnd) {
        self.fail(match end {
            LaneEnd::Failed(error) => error,
            LaneEnd::Status { status, body } => match handshake::json_rpc_error(&body) {
                Some(error) => WireError::Refused(error.to_string()),
                None => WireError::Status { status, body: String::from_utf8_lossy(&body).into_owned() },
            },
            LaneEnd::Over | LaneEnd::Accepted | LaneEnd::SessionGone => {
                WireError::Ended("the subscription's stream closed".to_owned())
            }
        });
    }

    fn acknowledge(&self, result: Result<Acknowledged, WireError>) {
        if let Some(acknowledge) = self.acknowledged.lock().take() {
            // The subscriber may have been dropped.
            drop(acknowledge.send(result));
        }
    }
}
