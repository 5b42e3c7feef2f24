//! Recipients of change notifications.
//!
//! A handshake session gets every list change, and updates of the resources it subscribed to. In 2026-07-28 a client
//! gets notifications only on a `subscriptions/listen` stream, whose sink knows the filter.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, RoleServer, SubscriptionSink};
use tokio::sync::watch;
use tokio::time::timeout;

/// All current listeners.
#[derive(Debug, Default)]
pub(crate) struct Audience {
    listeners: Mutex<Vec<RegisteredListener>>,
    next_id: AtomicU64,
    /// Streams that were accepted and have not joined yet: the SDK acknowledges a stream before it hands it over.
    accepted: watch::Sender<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Listener {
    Session { peer: Peer<RoleServer>, subscriptions: Subscriptions },
    Stream(SubscriptionSink),
}

/// The resources one handshake session subscribed to.
pub(crate) type Subscriptions = Arc<Mutex<BTreeSet<String>>>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum News<'a> {
    ToolsChanged,
    ResourceUpdated(&'a str),
}

/// Id of a listener; released with [`Audience::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerId(u64);

#[derive(Clone, Debug)]
struct RegisteredListener {
    id: ListenerId,
    listener: Listener,
}

/// Timeout per listener: a client that does not read its stream must not block the others.
const PATIENCE: Duration = Duration::from_secs(1);

/// Longest wait for an accepted stream; one that ends before it joins never comes.
const HANDOVER: Duration = Duration::from_secs(5);

// === impl Audience ===

impl Audience {
    /// Announces a stream that will join.
    pub(crate) fn accept_stream(&self) {
        self.accepted.send_modify(|count| *count += 1);
    }

    pub(crate) fn join(&self, listener: Listener) -> ListenerId {
        let id = ListenerId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let is_stream = matches!(listener, Listener::Stream(_));
        self.listeners.lock().push(RegisteredListener { id, listener });
        if is_stream {
            self.accepted.send_modify(|count| *count = count.saturating_sub(1));
        }
        id
    }

    pub(crate) fn leave(&self, id: ListenerId) {
        self.listeners.lock().retain(|registered| registered.id != id);
    }

    /// Returns when all listeners were notified, so that a tool result follows the notification it caused.
    pub(crate) async fn tell(&self, news: News<'_>) {
        let mut accepted = self.accepted.subscribe();
        if timeout(HANDOVER, accepted.wait_for(|count| *count == 0)).await.is_err() {
            self.accepted.send_replace(0);
        }
        let listeners = {
            let mut listeners = self.listeners.lock();
            listeners.retain(|registered| !registered.listener.is_gone());
            listeners.clone()
        };
        for registered in listeners {
            // A slow listener misses this notification.
            timeout(PATIENCE, registered.listener.tell(news)).await.ok();
        }
    }
}

// === impl Listener ===

impl Listener {
    fn is_gone(&self) -> bool {
        match self {
            Self::Session { peer, .. } => peer.is_transport_closed(),
            // A stream removes itself.
            Self::Stream(_) => false,
        }
    }

    async fn tell(&self, news: News<'_>) {
        match (self, news) {
            (Self::Session { peer, .. }, News::ToolsChanged) => {
                peer.notify_tool_list_changed().await.ok();
            }
            (Self::Session { peer, subscriptions }, News::ResourceUpdated(uri)) => {
                let subscribed = subscriptions.lock().contains(uri);
                if subscribed {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.ok();
                }
            }
            (Self::Stream(sink), News::ToolsChanged) => {
                sink.notify_tool_list_changed().await.ok();
            }
            (Self::Stream(sink), News::ResourceUpdated(uri)) => {
                sink.notify_resource_updated(uri).await.ok();
            }
        }
    }
}
