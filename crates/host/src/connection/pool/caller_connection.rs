//! One line: a further connection to a server, for the calls of one key.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OnceCell, Semaphore},
    time::{Duration, Instant},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_wire::{exchange::LogLevel, up::Peer};

use super::key::LineKey;
use crate::{
    catalog::Listing,
    connection::{last_words::LastWords, state::NotConnected, stdio::Pulse},
    record::redact::Redactor,
    whose_move::WhoseMove,
};

/// A further connection.
#[derive(Debug)]
pub(crate) struct Line {
    pub(super) key: LineKey,
    /// There is none before somebody has dialled it.
    pub(super) stands: OnceCell<Stands>,
    pub(super) ended: CancellationToken,
    /// Why it never stood.
    pub(super) why_not: OnceLock<NotConnected>,
    pub(super) last_words: LastWords,
    pub(super) pulse: Pulse,
    /// Shared by all lines of the key.
    pub(super) queue: Arc<Queue>,
    /// What it lists, since its server said that that has changed.
    pub(super) listing: Arc<OwnList>,
    /// From which level on the server was told to log. Nothing awaits under this lock.
    level: Mutex<Option<LogLevel>>,
}

/// A connection that stands.
#[derive(Debug)]
pub(super) struct Stands {
    pub(super) peer: Peer,
    pub(super) redactor: Redactor,
    since: Instant,
    _watching: AbortOnDropHandle<()>,
}

/// What one line lists, where that is not what everybody is listed.
#[derive(Debug)]
pub(super) struct OwnList {
    // Nothing awaits under this lock.
    listing: Mutex<Option<Arc<Listing>>>,
    /// Items of all such lists of the server.
    items: Arc<AtomicUsize>,
}

/// Those who wait for a seat on one of the lines of a key, in the order in which they came.
#[derive(Debug)]
pub(super) struct Queue {
    /// Held by the one at the front.
    pub(super) front: Semaphore,
    /// Somebody left, or waits for an answer.
    pub(super) moved: Notify,
    waiting: AtomicUsize,
}

/// A place in the queue; dropping it leaves the queue.
pub(super) struct Place(Arc<Queue>);

impl Line {
    pub(super) fn new(key: LineKey, queue: Arc<Queue>, items: &Arc<AtomicUsize>) -> Self {
        Self {
            key,
            stands: OnceCell::new(),
            ended: CancellationToken::new(),
            why_not: OnceLock::new(),
            last_words: LastWords::default(),
            pulse: Pulse::default(),
            queue,
            listing: Arc::new(OwnList { listing: Mutex::default(), items: Arc::clone(items) }),
            level: Mutex::default(),
        }
    }

    pub(super) fn peer(&self) -> Option<&Peer> {
        self.stands.get().map(|stands| &stands.peer)
    }

    /// Whether it stood and does no more.
    pub(super) fn is_gone(&self) -> bool {
        self.peer().is_some_and(Peer::is_closed)
    }

    /// For how long it has.
    pub(super) fn stood(&self, now: Instant) -> Option<Duration> {
        self.stands.get().map(|stands| now.saturating_duration_since(stands.since))
    }

    pub(super) fn why_gone(&self) -> NotConnected {
        let why = self.peer().and_then(|peer| peer.closed().now_or_never());
        let whose_move = why.as_ref().map_or(WhoseMove::Supervisor, WhoseMove::after);
        let because = why.map(|why| why.to_string()).unwrap_or_default();
        let because = self.stands.get().map_or_else(String::new, |stands| stands.redactor.text(&because));
        NotConnected { because, whose_move, error: None }
    }

    /// Sees to it that the server logs from this level on; never from a less verbose one than before.
    pub(super) async fn log_from(&self, level: LogLevel) {
        let Some(peer) = self.peer().filter(|peer| peer.profile().capabilities.has("logging")) else { return };
        {
            let mut told = self.level.lock();
            if told.is_some_and(|told| told <= level) {
                return;
            }
            *told = Some(level);
        }
        if let Err(error) = peer.set_log_level(level).await {
            tracing::debug!(%error, "the log level was not set");
        }
    }
}

impl Stands {
    pub(super) fn new(peer: Peer, redactor: Redactor, watching: AbortOnDropHandle<()>) -> Self {
        Self { peer, redactor, since: Instant::now(), _watching: watching }
    }
}

impl OwnList {
    pub(super) fn get(&self) -> Option<Arc<Listing>> {
        self.listing.lock().clone()
    }

    /// Keeps this; not where all of them together would have more items than that. Whether it does.
    pub(super) fn keep(&self, listing: Listing, most: usize) -> bool {
        let mut kept = self.listing.lock();
        let (new, old) = (listing.count(), kept.as_ref().map_or(0, |known| known.count()));
        let fits = self.items.load(Ordering::SeqCst) + new <= most + old;
        if fits {
            self.items.fetch_add(new, Ordering::SeqCst);
            self.items.fetch_sub(old, Ordering::SeqCst);
            *kept = Some(Arc::new(listing));
        }
        fits
    }
}

impl Drop for OwnList {
    fn drop(&mut self) {
        let kept = self.listing.lock().as_ref().map_or(0, |known| known.count());
        self.items.fetch_sub(kept, Ordering::SeqCst);
    }
}

impl Queue {
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// A place at the end; none where it is as long as it may be.
    pub(super) fn join(self: &Arc<Self>, most: usize) -> Option<Place> {
        let place = Place(Arc::clone(self));
        (self.waiting.fetch_add(1, Ordering::SeqCst) < most).then_some(place)
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self { front: Semaphore::new(1), moved: Notify::new(), waiting: AtomicUsize::new(0) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicUsize, atomic::Ordering};

    use parking_lot::Mutex;
    use serde_json::json;
    use toolway_wire::{
        json::Raw,
        message::item::{Item, Tool},
    };

    use super::OwnList;
    use crate::catalog::{Listing, entry::Listed};

    fn listing(items: usize) -> Listing {
        let tool = |_| Listed::new(Tool::view(&Raw::of(&json!({ "name": "one" }))).unwrap());
        Listing { tools: (0..items).map(tool).collect(), ..Listing::empty() }
    }

    #[test]
    fn lists_of_lines_are_kept_as_long_as_all_of_them_together_are_not_too_long() {
        let items = Arc::new(AtomicUsize::new(0));
        let [one, other] = [(); 2].map(|()| OwnList { listing: Mutex::default(), items: Arc::clone(&items) });
        assert!(one.keep(listing(6), 10));
        assert!(!other.keep(listing(6), 10) && other.get().is_none());
        assert!(one.keep(listing(10), 10), "its own old list makes room");
        assert!(!one.keep(listing(11), 10) && one.get().unwrap().count() == 10);
        drop(one);
        assert_eq!(items.load(Ordering::SeqCst), 0);
        assert!(other.keep(listing(6), 10));
    }
}
