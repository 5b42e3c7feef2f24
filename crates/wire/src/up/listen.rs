//! Hearing of changes: one form for both eras.
//!
//! A stateful server announces list changes by itself and resources after `resources/subscribe`; a stateless one is
//! asked with `subscriptions/listen`. Either way there is a [`UpstreamSubscription`], and dropping it ends the subscription.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::{
    accent::ChangeDelivery,
    call, handshake,
    router::{Router, PendingRequest},
    transport::{LaneEnd, Outbound},
};
use crate::{
    error::{TimeoutKind, WireError},
    exchange::{Outcome, Request, ExchangeTimeouts},
    json::Raw,
    message::RpcError,
    notice::{Notice, Wanted, filter},
};

/// How long a server may take to acknowledge a subscription.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(30);

/// A subscription. Dropping it ends it.
#[derive(Debug)]
pub struct UpstreamSubscription {
    honoured: Wanted,
    source: Source,
    router: Weak<Router>,
}

#[derive(Debug)]
enum Source {
    /// Everything the server announces, filtered here.
    Announced(broadcast::Receiver<Notice>),
    /// A stream of its own, under this request id.
    Own(u64, mpsc::Receiver<Notice>, Arc<SubscriptionFeed>),
}

/// The answering end of a subscription that has its own stream.
#[derive(Debug)]
pub(crate) struct SubscriptionFeed {
    // Nothing awaits under this lock; the sender goes when the subscription ends.
    sender: Mutex<Option<mpsc::Sender<Notice>>>,
    acknowledged: Mutex<Option<oneshot::Sender<Result<Wanted, WireError>>>>,
    missed: AtomicU64,
}

/// Subscribes, and waits until the server has acknowledged it.
pub(crate) async fn listen(router: &Arc<Router>, wanted: Wanted) -> Result<UpstreamSubscription, WireError> {
    match router.accent()?.change_delivery() {
        ChangeDelivery::Unsolicited => announced(router, wanted).await,
        ChangeDelivery::SubscriptionStream => own_stream(router, wanted).await,
    }
}

async fn announced(router: &Arc<Router>, wanted: Wanted) -> Result<UpstreamSubscription, WireError> {
    let source = Source::Announced(router.notices.subscribe());
    let uris = wanted.uris.clone();
    let honoured = Wanted { uris: Vec::new(), ..wanted };
    // Made first: should this be given up half-way, what was counted is taken back.
    let mut listening = UpstreamSubscription { honoured, source, router: Arc::downgrade(router) };
    for uri in uris {
        // One after the other with those who unsubscribe, so that the last word on the wire is the right one.
        let Ok(_turn) = router.subscribing.acquire().await else { return Err(router.why_closed()) };
        let first = {
            let mut settings = router.session_settings.lock();
            let listeners = settings.subscriptions.entry(uri.clone()).or_default();
            *listeners += 1;
            *listeners == 1
        };
        listening.honoured.uris.push(uri.clone());
        if !first {
            continue;
        }
        match subscription(router, "resources/subscribe", &uri).await {
            Ok(()) => {}
            Err(WireError::Refused(_)) => {
                router.session_settings.lock().subscriptions.remove(&uri);
                listening.honoured.uris.pop();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(listening)
}

/// Says `resources/subscribe` or `resources/unsubscribe`.
pub(super) async fn subscription(router: &Arc<Router>, method: &'static str, uri: &str) -> Result<(), WireError> {
    match call::start(router, subscription_request(method, uri), ExchangeTimeouts::list()).outcome().await {
        Outcome::Answered(_) => Ok(()),
        Outcome::Failed(error) => Err(error),
        other => Err(WireError::Refused(format!("{other:?}"))),
    }
}

pub(super) fn subscription_request(method: &'static str, uri: &str) -> Request {
    Request::trusted(method, Some(Raw::of(&serde_json::json!({ "uri": uri }))))
}

async fn own_stream(router: &Arc<Router>, wanted: Wanted) -> Result<UpstreamSubscription, WireError> {
    let (sender, receiver) = mpsc::channel(router.limits.unread_notices);
    let (acknowledge, acknowledged) = oneshot::channel();
    let feed = Arc::new(SubscriptionFeed {
        sender: Mutex::new(Some(sender)),
        acknowledged: Mutex::new(Some(acknowledge)),
        missed: AtomicU64::new(0),
    });
    let id = router.new_id();
    let request = Request::trusted("subscriptions/listen", Some(filter::written(&wanted)));
    let outbound = router.accent()?.request(id, &request, None);
    router.wait_for(id, PendingRequest::Listen(Arc::clone(&feed)))?;
    let mut listening =
        UpstreamSubscription { honoured: wanted, source: Source::Own(id, receiver, feed), router: Arc::downgrade(router) };
    router.send(outbound)?;
    match tokio::time::timeout(ACKNOWLEDGEMENT, acknowledged).await {
        Ok(Ok(Ok(honoured))) => {
            listening.honoured = listening.honoured.and(&honoured);
            Ok(listening)
        }
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(_)) => Err(WireError::Ended("the subscription ended before it began".to_owned())),
        Err(_) => Err(WireError::TimedOut { kind: TimeoutKind::Acknowledgement, limit: ACKNOWLEDGEMENT }),
    }
}

// === impl UpstreamSubscription ===

impl UpstreamSubscription {
    /// What the server will tell of.
    pub fn honoured(&self) -> &Wanted {
        &self.honoured
    }

    /// The next notice; `None` when the subscription has ended.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            let notice = match &mut self.source {
                Source::Own(_, receiver, feed) => match feed.missed.swap(0, Ordering::Relaxed) {
                    0 => receiver.recv().await?,
                    missed => Notice::Missed(missed),
                },
                Source::Announced(receiver) => {
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
            if self.honoured.covers(&notice) {
                return Some(notice);
            }
        }
    }
}

impl Drop for UpstreamSubscription {
    fn drop(&mut self) {
        let Some(router) = self.router.upgrade() else { return };
        match &self.source {
            Source::Own(id, ..) => stop(&router, *id),
            Source::Announced(_) => {
                for uri in self.honoured.uris.drain(..) {
                    unsubscribe(&router, uri);
                }
            }
        }
    }
}

fn stop(router: &Router, id: u64) {
    if router.forget(id).is_none() {
        return;
    }
    let (Ok(link), Ok(accent)) = (router.link(), router.accent()) else { return };
    if let Some(message) = accent.cancellation(id, "no longer listening") {
        // A link that is gone has ended the subscription already.
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
        if last && let Err(error) = subscription(&shared, "resources/unsubscribe", &uri).await {
            tracing::debug!(%error, "cannot unsubscribe");
        }
    });
}

// === impl SubscriptionFeed ===

impl SubscriptionFeed {
    /// A notification on this subscription; false when it is none of its.
    pub(crate) fn deliver_notification(&self, method: &str, params: Option<Raw>) -> bool {
        if method == "notifications/subscriptions/acknowledged" {
            self.acknowledge(Ok(filter::read(params.as_ref())));
            return true;
        }
        let notice = Notice::read(method, params);
        if let Some(sender) = &*self.sender.lock()
            && sender.try_send(notice).is_err()
        {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// The server ended it, in good order or with an error.
    pub(crate) fn ended(&self, error: Option<RpcError>) {
        let why = error.map_or_else(|| "the server ended the subscription".to_owned(), |error| error.to_string());
        self.fail(WireError::Refused(why));
    }

    pub(crate) fn fail(&self, why: WireError) {
        self.acknowledge(Err(why));
        self.sender.lock().take();
    }

    pub(crate) fn lane_ended(&self, end: LaneEnd) {
        self.fail(match end {
            LaneEnd::Failed(error) => error,
            LaneEnd::Status { status, body } => match handshake::json_rpc_error(&body) {
                Some(error) => WireError::Refused(error.to_string()),
                None => WireError::Status { status, body: String::from_utf8_lossy(&body).into_owned() },
            },
            LaneEnd::Over | LaneEnd::Accepted | LaneEnd::SessionGone => {
                WireError::Ended("the stream of the subscription closed".to_owned())
            }
        });
    }

    fn acknowledge(&self, verdict: Result<Wanted, WireError>) {
        if let Some(acknowledge) = self.acknowledged.lock().take() {
            // Whoever subscribed may have left meanwhile.
            drop(acknowledge.send(verdict));
        }
    }
}
