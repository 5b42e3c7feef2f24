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
use tokio::sync::{broadcast, mpsc, oneshot};

use super::{
    accent::ChangeDelivery,
    call, handshake,
    router::{PendingRequest, Router},
    transport::{LaneEnd, Outbound},
};
use crate::{
    error::{TimeoutKind, WireError},
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    message::RpcError,
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
    /// The stream of a `subscriptions/listen` request with this id.
    Own(u64, mpsc::Receiver<Notice>, Arc<SubscriptionFeed>),
}

/// Receives the notifications of a subscription with its own stream.
#[derive(Debug)]
pub(crate) struct SubscriptionFeed {
    // No await under this lock; `None` after the subscription has ended.
    sender: Mutex<Option<mpsc::Sender<Notice>>>,
    acknowledged: Mutex<Option<oneshot::Sender<Result<SubscriptionFilter, WireError>>>>,
    missed: AtomicU64,
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
    let (sender, receiver) = mpsc::channel(router.limits.unread_notices);
    let (acknowledge, acknowledged) = oneshot::channel();
    let feed = Arc::new(SubscriptionFeed {
        sender: Mutex::new(Some(sender)),
        acknowledged: Mutex::new(Some(acknowledge)),
        missed: AtomicU64::new(0),
    });
    let id = router.new_id();
    let request = Request::trusted("subscriptions/listen", Some(filter::encode(&wanted)));
    let outbound = router.accent()?.request(id, &request, None);
    router.wait_for(id, PendingRequest::Listen(Arc::clone(&feed)))?;
    let mut listening = UpstreamSubscription {
        accepted: wanted,
        source: SubscriptionSource::Own(id, receiver, feed),
        router: Arc::downgrade(router),
    };
    router.send(outbound)?;
    match tokio::time::timeout(ACKNOWLEDGEMENT, acknowledged).await {
        Ok(Ok(Ok(accepted))) => {
            listening.accepted = listening.accepted.and(&accepted);
            Ok(listening)
        }
        Ok(Ok(Err(error))) => Err(error),
        Ok(Err(_)) => Err(WireError::Ended("the subscription ended before the server acknowledged it".to_owned())),
        Err(_) => Err(WireError::TimedOut { kind: TimeoutKind::Acknowledgement, limit: ACKNOWLEDGEMENT }),
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
                SubscriptionSource::Own(_, receiver, feed) => match feed.missed.swap(0, Ordering::Relaxed) {
                    0 => receiver.recv().await?,
                    missed => Notice::Missed(missed),
                },
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
        match &self.source {
            SubscriptionSource::Own(id, ..) => cancel_stream(&router, *id),
            SubscriptionSource::Announced(_) => {
                for uri in self.accepted.uris.drain(..) {
                    unsubscribe(&router, uri);
                }
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

    fn acknowledge(&self, result: Result<SubscriptionFilter, WireError>) {
        if let Some(acknowledge) = self.acknowledged.lock().take() {
            // The subscriber may have been dropped.
            drop(acknowledge.send(result));
        }
    }
}
