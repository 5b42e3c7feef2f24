//! What a server lists on a line: learnt when it is greeted, and again when it says that that has changed.

use std::{sync::Arc, time::Instant};

use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::Duration,
};
use tokio_util::task::AbortOnDropHandle;
use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    notice::{List, Notice},
    up::Peer,
};

use super::{
    Lines, OwnChange, OwnLog,
    key::{CapabilityProfile, LineKey},
    line::{Line, OwnList},
};
use crate::{
    call::Caller,
    catalog::{Filter, Listing, pace::WINDOW},
};

/// A server that takes longer to list is called without: it is not known then what it lists to others.
const TO_LIST: Duration = Duration::from_secs(2);
/// Items that are kept of all lines of one server together; of one that lists more, everybody is listed the same.
const MOST_ITEMS: usize = 100_000;

/// What follows the lists of one line.
struct Follower {
    server: ServerName,
    caller: Caller,
    peer: Peer,
    listing: Arc<OwnList>,
    told: broadcast::Sender<OwnChange>,
    session: Option<Arc<str>>,
    logged: broadcast::Sender<OwnLog>,
}

/// Somebody is about to find out what is listed to a profile; those who wait for it go on when this is dropped, however
/// it came to that.
pub(crate) struct Trying {
    lines: Arc<Lines>,
    profile: CapabilityProfile,
}

impl Drop for Trying {
    fn drop(&mut self) {
        self.lines.offering.lock().tried(self.profile);
        self.lines.learnt.notify_waiters();
    }
}

impl Lines {
    /// What is listed on the lines of this key where everybody is listed `base`.
    pub(crate) fn listing_of(&self, key: &LineKey, base: &Arc<Listing>) -> Option<Arc<Listing>> {
        let own = self.own_listing(key);
        let own = own.or_else(|| self.offering.lock().to(key.profile, base).filter(|_| key.profile != self.base));
        own.filter(|own| !Arc::ptr_eq(own, base))
    }

    /// Whether it is not known what a server lists on lines of this key, and may be soon.
    pub(crate) fn is_unheard(&self, key: &LineKey) -> bool {
        key.profile != self.base
            && self.own_listing(key).is_none()
            && self.offering.lock().may_come(key.profile, Instant::now())
    }

    /// Whether whoever asks is to find out: one at a time for each profile. They have when they let go of this.
    pub(crate) fn try_hearing(self: &Arc<Self>, key: &LineKey) -> Option<Trying> {
        let tries = self.offering.lock().try_now(key.profile, Instant::now());
        tries.then(|| Trying { lines: Arc::clone(self), profile: key.profile })
    }

    /// Waits until somebody has found out, or cannot.
    pub(crate) async fn heard(&self, key: &LineKey) {
        loop {
            // Listened for before it is looked at.
            let learnt = self.learnt.notified();
            if !self.offering.lock().is_trying(key.profile) {
                return;
            }
            learnt.await;
        }
    }

    /// What the oldest line of a key lists that has a list of its own: what a server keeps in a session is kept there.
    fn own_listing(&self, key: &LineKey) -> Option<Arc<Listing>> {
        let pool = self.pool.lock();
        let mut own = pool.lines.iter().filter(|entry| entry.line.key == *key && !entry.line.is_gone());
        own.find_map(|entry| entry.line.listing.get())
    }

    /// Finds out what is listed to a profile, on a line that nobody has called anything on yet.
    pub(super) async fn learn(&self, peer: &Peer, profile: CapabilityProfile, beside: Option<Arc<Listing>>) {
        let Some(beside) = beside.filter(|_| profile != self.base && !self.offering.lock().knows(profile)) else {
            return;
        };
        match tokio::time::timeout(TO_LIST, Listing::take(peer, &Filter::default())).await {
            Ok(Ok(listing)) => {
                if self.offering.lock().learn(profile, listing, &beside) {
                    // Nobody may be listening.
                    drop(self.room.own_changes.send(OwnChange { server: self.server.clone(), caller: None }));
                }
            }
            Ok(Err(error)) => tracing::debug!(server = %self.server, %error, "a caller's own list cannot be had"),
            Err(_) => tracing::debug!(server = %self.server, "a caller's own list does not come"),
        }
    }

    /// From now on, what changes of the lists of a line is known.
    pub(super) fn follow(&self, peer: &Peer, line: &Line) -> AbortOnDropHandle<()> {
        let follower = Follower {
            server: self.server.clone(),
            caller: line.key.caller.clone(),
            peer: peer.clone(),
            listing: Arc::clone(&line.listing),
            told: self.room.own_changes.clone(),
            session: line.key.session.clone(),
            logged: self.room.own_logs.clone(),
        };
        let notices = peer.notices();
        AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(follower.run(notices)))
    }
}

impl Follower {
    /// The first change is followed at once, those within a moment after it together.
    async fn run(self, mut notices: broadcast::Receiver<Notice>) {
        loop {
            let mut changed = match notices.recv().await {
                Ok(Notice::Changed(list)) => vec![list],
                Ok(notice) => {
                    self.pass_on(notice);
                    continue;
                }
                Err(RecvError::Lagged(_)) => vec![List::Tools, List::Prompts, List::Resources],
                Err(RecvError::Closed) => return,
            };
            while let Ok(notice) = notices.try_recv() {
                match notice {
                    Notice::Changed(list) if changed.contains(&list) => {}
                    Notice::Changed(list) => changed.push(list),
                    other => self.pass_on(other),
                }
            }
            match self.listed(&changed).await {
                Ok(listing) => self.keep(listing),
                Err(error) => tracing::debug!(server = %self.server, %error, "a list that changed cannot be had"),
            }
            tokio::time::sleep(WINDOW).await;
        }
    }

    async fn listed(&self, changed: &[List]) -> Result<Listing, WireError> {
        // Filters of the configuration are applied when it is shown.
        let everything = Filter::default();
        let Some(known) = self.listing.get() else { return Listing::take(&self.peer, &everything).await };
        let mut listing = Listing::clone(&known);
        for list in changed {
            listing = listing.again(&self.peer, &everything, *list).await?;
        }
        Ok(listing)
    }

    /// A line that belongs to no call is its caller's.
    fn pass_on(&self, notice: Notice) {
        let Notice::Log(params) = notice else { return };
        let (server, caller, session) = (self.server.clone(), self.caller.clone(), self.session.clone());
        // Nobody may be listening.
        drop(self.logged.send(OwnLog { server, caller, session, params }));
    }

    fn keep(&self, listing: Listing) {
        if !self.listing.keep(listing, MOST_ITEMS) {
            tracing::warn!(server = %self.server, "a caller's own list is too long to be kept beside the others");
            return;
        }
        drop(self.told.send(OwnChange { server: self.server.clone(), caller: Some(self.caller.clone()) }));
    }
}
