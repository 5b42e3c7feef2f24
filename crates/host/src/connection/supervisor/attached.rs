//! An established connection: its peer, its change notifications, and the listing in progress.
//!
//! Lists are requested on connect, when the server announces a change, and when their time to live is over. Requests are
//! throttled, so that endless announcements do not cause endless requests.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    select,
    time::{Instant, sleep_until},
};
use toolway_wire::{
    error::WireError,
    exchange::LogLevel,
    notice::{List, Notice, SubscriptionFilter},
    up::{Peer, UpstreamSubscription},
};

use crate::{
    catalog::{
        Filter, ItemKind, Listing,
        listing_table::{Audience, ServerListings},
        throttle::WINDOW,
    },
    connection::wanted::Lists,
};

pub(super) struct Attached {
    pub(super) peer: Peer,
    pub(super) since: Instant,
    filter: Arc<Filter>,
    lists: Lists,
    /// Where its listings are kept.
    listings: ServerListings,
    closed: BoxFuture<'static, WireError>,
    subscription: ChangeSubscription,
    listing: Option<BoxFuture<'static, Result<Listing, WireError>>>,
    known: Option<Arc<Listing>>,
    stale: Stale,
    /// When lists were last requested.
    requested: Option<Instant>,
    /// When stale lists are requested next.
    request_at: Option<Instant>,
    /// No list is requested before this time, after one that failed, was too large or did not fit the byte budget.
    not_before: Option<Instant>,
    /// Pause before lists that were cut off are requested again.
    retry_pause: Duration,
    /// Pending `logging/setLevel` request.
    setting_level: Option<BoxFuture<'static, ()>>,
    /// When the time to live of the lists ends, if the server gave one.
    fresh_until: Option<Instant>,
}

/// What happens on an established connection.
#[derive(Debug)]
pub(super) enum AttachedEvent {
    /// The connection is lost.
    Lost(WireError),
    /// A new listing.
    Listed(Arc<Listing>),
    /// Listing failed; the last listing stays valid.
    NotListed(WireError),
    /// An internal step, without effect outside.
    Nothing,
}

/// The subscription to list changes.
enum ChangeSubscription {
    /// The server announces no changes.
    None,
    Opening(BoxFuture<'static, Result<UpstreamSubscription, WireError>>),
    Open(Box<UpstreamSubscription>),
    /// The subscription closed; it is reopened at this time.
    Closed(Instant),
}

/// The lists that may have changed.
#[derive(Default)]
struct Stale {
    everything: bool,
    lists: Vec<List>,
}

/// How soon lists that were too large or did not fit the byte budget are requested again, whatever the server announces.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// How soon lists are requested again whose connection was cut, or that took too long; doubled each time.
const SHORTEST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// How soon a closed subscription is reopened.
const REOPEN: Duration = Duration::from_secs(5);

impl Attached {
    /// An established connection. `known` is the last listing of the same server, if there is one.
    pub(super) fn new(
        peer: Peer,
        filter: Arc<Filter>,
        lists: Lists,
        listings: ServerListings,
        known: Option<Arc<Listing>>,
    ) -> Self {
        let mut attached = Self {
            since: Instant::now(),
            filter,
            lists,
            listings,
            closed: peer.closed(),
            subscription: ChangeSubscription::None,
            listing: None,
            known,
            stale: Stale::default(),
            requested: None,
            request_at: None,
            not_before: None,
            retry_pause: SHORTEST_RETRY,
            setting_level: None,
            fresh_until: None,
            peer,
        };
        if lists == Lists::Followed {
            attached.subscribe();
        }
        if lists != Lists::Ignored {
            attached.refresh();
        }
        attached
    }

    /// Requests all lists again, as soon as the throttle permits, also after a list that was refused.
    pub(super) fn refresh(&mut self) {
        (self.not_before, self.request_at) = (None, None);
        self.refresh_later();
    }

    /// Requests all lists again, as soon as the throttle and the pause after a refused list permit.
    fn refresh_later(&mut self) {
        self.stale.everything = true;
        self.schedule_request();
    }

    /// Keeps the listing as it is: the connection belongs to a client now, and its changes concern that client only.
    pub(super) fn stop_following(&mut self) {
        self.subscription = ChangeSubscription::None;
        (self.stale, self.request_at, self.fresh_until) = (Stale::default(), None, None);
    }

    /// Applies a changed filter: a kind of item may be offered now that was not requested before.
    pub(super) fn refilter(&mut self, filter: Arc<Filter>) {
        self.filter = filter;
        self.refresh();
    }

    /// Sets the log level of the server; does nothing if it declared no logging.
    pub(super) fn set_log_level(&mut self, level: LogLevel) {
        if !self.peer.profile().capabilities.has("logging") {
            return;
        }
        let peer = self.peer.clone();
        self.setting_level = Some(Box::pin(async move {
            if let Err(error) = peer.set_log_level(level).await {
                tracing::debug!(%error, "cannot set the log level");
            }
        }));
    }

    /// Waits for the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> AttachedEvent {
        let due = self.request_at.filter(|_| self.listing.is_none());
        select! {
            why = &mut self.closed => AttachedEvent::Lost(why),
            result = under_way(&mut self.listing) => self.handle_listing(result),
            event = next_change(&mut self.subscription) => { self.handle_change(event); AttachedEvent::Nothing }
            () = under_way(&mut self.setting_level) => { self.setting_level = None; AttachedEvent::Nothing }
            () = at(due) => { self.request_lists(); AttachedEvent::Nothing }
            () = at(self.fresh_until) => { self.fresh_until = None; self.refresh_later(); AttachedEvent::Nothing }
        }
    }

    /// Subscribes to list changes, if the server declared them.
    fn subscribe(&mut self) {
        let capabilities = &self.peer.profile().capabilities;
        let announces = |capability| capabilities.flag(capability, "listChanged");
        let wanted = SubscriptionFilter {
            tools: announces("tools"),
            prompts: announces("prompts"),
            resources: announces("resources"),
            uris: Vec::new(),
        };
        self.subscription = if wanted == SubscriptionFilter::default() {
            ChangeSubscription::None
        } else {
            let peer = self.peer.clone();
            ChangeSubscription::Opening(Box::pin(async move { peer.listen(wanted).await }))
        };
    }

    fn handle_change(&mut self, event: SubscriptionEvent) {
        match event {
            SubscriptionEvent::Opened(Ok(listening)) => {
                self.subscription = ChangeSubscription::Open(Box::new(listening))
            }
            SubscriptionEvent::Opened(Err(WireError::Refused(_) | WireError::Unsupported(_))) => {
                self.subscription = ChangeSubscription::None
            }
            SubscriptionEvent::Opened(Err(error)) => {
                tracing::debug!(%error, "subscription to list changes failed; retrying");
                self.subscription = ChangeSubscription::Closed(Instant::now() + REOPEN);
            }
            SubscriptionEvent::Ended => self.subscription = ChangeSubscription::Closed(Instant::now() + REOPEN),
            SubscriptionEvent::Reopen => {
                self.subscribe();
                // Changes in between were missed.
                self.refresh_later();
            }
            SubscriptionEvent::Notice(Notice::Changed(list)) => {
                if !self.stale.lists.contains(&list) {
                    self.stale.lists.push(list);
                }
                self.schedule_request();
            }
            SubscriptionEvent::Notice(Notice::Missed(_)) => self.refresh_later(),
            SubscriptionEvent::Notice(_) => {}
        }
    }

    /// Schedules a request: at once, or after the throttle window.
    fn schedule_request(&mut self) {
        let now = Instant::now();
        let at = self.requested.map_or(now, |requested| now.max(requested + WINDOW));
        let at = self.not_before.map_or(at, |not_before| at.max(not_before));
        self.request_at.get_or_insert(at);
    }

    /// Requests no list for this time, also if a change was announced.
    fn pause(&mut self, time: Duration) {
        self.not_before = Some(Instant::now() + time);
        if self.request_at.take().is_some() {
            self.schedule_request();
        }
    }

    fn request_lists(&mut self) {
        let stale = std::mem::take(&mut self.stale);
        let (peer, filter, lists) = (self.peer.clone(), Arc::clone(&self.filter), self.lists);
        let listings = self.listings.clone();
        (self.request_at, self.requested) = (None, Some(Instant::now()));
        let known = self.known.clone();
        self.listing = Some(Box::pin(async move {
            let Some(known) = known.as_ref().filter(|_| !stale.everything) else {
                let listing = Listing::take_some(&peer, &filter, |kind| lists.want(kind), &listings).await?;
                return Ok(match &known {
                    Some(before) => listing.with_lists_before(before),
                    None => listing,
                });
            };
            let mut listing = Listing::clone(known);
            for list in stale.lists {
                listing = listing.again_in(&peer, &filter, list, &listings).await?;
            }
            Ok(listing)
        }));
    }

    fn handle_listing(&mut self, result: Result<Listing, WireError>) -> AttachedEvent {
        self.listing = None;
        let keep = |listing| self.listings.listing(listing, Audience::Everyone).map_err(WireError::from);
        match result.and_then(keep) {
            Ok(listing) => {
                self.not_before = None;
                self.retry_pause = SHORTEST_RETRY;
                if listing.is_too_large() {
                    self.pause(REFUSED_PAUSE);
                }
                let keeps = ItemKind::ALL.into_iter().filter_map(|kind| listing.refresh_interval(kind)).min();
                self.fresh_until = keeps.map(|keeps| Instant::now() + keeps);
                self.known = Some(Arc::clone(&listing));
                AttachedEvent::Listed(listing)
            }
            Err(error) => {
                match &error {
                    // The same server answers the same.
                    WireError::TooLarge { .. } => self.pause(REFUSED_PAUSE),
                    // What did not fit now may fit later.
                    WireError::OverBudget(_) => {
                        self.pause(REFUSED_PAUSE);
                        self.refresh_later();
                    }
                    error if may_succeed_later(error) => {
                        self.pause(self.retry_pause);
                        self.retry_pause = (self.retry_pause * 2).min(LONGEST_RETRY);
                        self.refresh_later();
                    }
                    _ => {}
                }
                AttachedEvent::NotListed(error)
            }
        }
    }
}

/// Whether a list that failed so may be answered the next time, on the same connection: it was cut off or the server is
/// busy. A server that refuses it refuses it again.
fn may_succeed_later(error: &WireError) -> bool {
    match error {
        WireError::Ended(_) | WireError::TimedOut { .. } | WireError::Overloaded { .. } => true,
        WireError::Status { status, .. } => status.is_server_error(),
        _ => false,
    }
}

/// An event of the subscription.
enum SubscriptionEvent {
    Opened(Result<UpstreamSubscription, WireError>),
    Notice(Notice),
    Ended,
    Reopen,
}

async fn next_change(subscription: &mut ChangeSubscription) -> SubscriptionEvent {
    match subscription {
        ChangeSubscription::None => std::future::pending().await,
        ChangeSubscription::Opening(opening) => SubscriptionEvent::Opened(opening.await),
        ChangeSubscription::Open(listening) => {
            listening.next().await.map_or(SubscriptionEvent::Ended, SubscriptionEvent::Notice)
        }
        ChangeSubscription::Closed(until) => {
            sleep_until(*until).await;
            SubscriptionEvent::Reopen
        }
    }
}

async fn under_way<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
