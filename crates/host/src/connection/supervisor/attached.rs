//! A connection that stands: its peer, what it announces, and the listing that is under way.
//!
//! Lists are asked for when it is ready, when the server says that one changed, and when the time it gave is up. A
//! server that announces without end is asked again only so often.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    select,
    sync::broadcast::{self, error::RecvError},
    time::{Instant, sleep_until},
};
use toolway_wire::{
    error::WireError,
    exchange::LogLevel,
    json::Raw,
    notice::{List, Notice, Wanted},
    up::{Listening, Peer},
};

use crate::{
    catalog::{Filter, ItemKind, Listing, pace::WINDOW},
    connection::wanted::Lists,
};

pub(super) struct Attached {
    pub(super) peer: Peer,
    pub(super) since: Instant,
    filter: Arc<Filter>,
    lists: Lists,
    closed: BoxFuture<'static, WireError>,
    /// What belongs to no request; none when there is no more of it.
    notices: Option<broadcast::Receiver<Notice>>,
    ear: Ear,
    listing: Option<BoxFuture<'static, Result<Listing, WireError>>>,
    known: Option<Arc<Listing>>,
    stale: Stale,
    /// When it was last asked.
    asked: Option<Instant>,
    /// When what is stale is asked for.
    ask_at: Option<Instant>,
    /// A log level that is being set.
    setting: Option<BoxFuture<'static, ()>>,
    /// When everything is, because the server said how long it keeps.
    keeps_until: Option<Instant>,
}

/// What a connection that stands has to say.
#[derive(Debug)]
pub(super) enum Heard {
    /// It is gone.
    Lost(WireError),
    /// What it lists.
    Listed(Arc<Listing>),
    /// It cannot be listed; what was known stays.
    NotListed(WireError),
    /// A log line.
    Said(Raw),
    /// Nothing that anybody else needs to know.
    Nothing,
}

/// How changes of lists are heard.
enum Ear {
    /// The server announces none.
    None,
    Opening(BoxFuture<'static, Result<Listening, WireError>>),
    Open(Box<Listening>),
    /// It closed; it is opened again then.
    Closed(Instant),
}

/// Which lists are not what they were.
#[derive(Default)]
struct Stale {
    everything: bool,
    lists: Vec<List>,
}

/// How soon a subscription that ended is begun again.
const REOPEN: Duration = Duration::from_secs(5);

impl Attached {
    pub(super) fn new(peer: Peer, filter: Arc<Filter>, lists: Lists) -> Self {
        let mut attached = Self {
            since: Instant::now(),
            filter,
            lists,
            closed: peer.closed(),
            notices: Some(peer.notices()),
            ear: Ear::None,
            listing: None,
            known: None,
            stale: Stale::default(),
            asked: None,
            ask_at: None,
            setting: None,
            keeps_until: None,
            peer,
        };
        if lists == Lists::Followed {
            attached.open_ear();
        }
        if lists != Lists::Ignored {
            attached.refresh();
        }
        attached
    }

    /// Asks again for everything, as soon as it may.
    pub(super) fn refresh(&mut self) {
        self.stale.everything = true;
        self.ask_soon();
    }

    /// What of the server is offered changed: a kind may be wanted that was not asked for.
    pub(super) fn refilter(&mut self, filter: Arc<Filter>) {
        self.filter = filter;
        self.refresh();
    }

    /// Logs from this level up are wanted; a server that declared no logging is not told.
    pub(super) fn set_log_level(&mut self, level: LogLevel) {
        if !self.peer.profile().capabilities.has("logging") {
            return;
        }
        let peer = self.peer.clone();
        self.setting = Some(Box::pin(async move {
            if let Err(error) = peer.set_log_level(level).await {
                tracing::debug!(%error, "the log level was not set");
            }
        }));
    }

    /// What happens next. Can be dropped and asked again.
    pub(super) async fn next(&mut self) -> Heard {
        let asking = self.ask_at.filter(|_| self.listing.is_none());
        select! {
            why = &mut self.closed => Heard::Lost(why),
            result = under_way(&mut self.listing) => self.listed(result),
            notice = announced(&mut self.ear) => { self.announced(notice); Heard::Nothing }
            notice = said(&mut self.notices) => match notice {
                Some(Notice::Log(params)) => Heard::Said(params),
                _ => Heard::Nothing,
            },
            () = under_way(&mut self.setting) => { self.setting = None; Heard::Nothing }
            () = at(asking) => { self.ask(); Heard::Nothing }
            () = at(self.keeps_until) => { self.keeps_until = None; self.refresh(); Heard::Nothing }
        }
    }

    /// Hears of changes, where the server declared that it tells of any.
    fn open_ear(&mut self) {
        let capabilities = &self.peer.profile().capabilities;
        let tells = |capability| capabilities.flag(capability, "listChanged");
        let wanted = Wanted {
            tools: tells("tools"),
            prompts: tells("prompts"),
            resources: tells("resources"),
            uris: Vec::new(),
        };
        self.ear = if wanted == Wanted::default() {
            Ear::None
        } else {
            let peer = self.peer.clone();
            Ear::Opening(Box::pin(async move { peer.listen(wanted).await }))
        };
    }

    fn announced(&mut self, announcement: Announcement) {
        match announcement {
            Announcement::Opened(Ok(listening)) => self.ear = Ear::Open(Box::new(listening)),
            Announcement::Opened(Err(WireError::Refused(_) | WireError::Unsupported(_))) => self.ear = Ear::None,
            Announcement::Opened(Err(error)) => {
                tracing::debug!(%error, "changes are not heard for a while");
                self.ear = Ear::Closed(Instant::now() + REOPEN);
            }
            Announcement::Ended => self.ear = Ear::Closed(Instant::now() + REOPEN),
            Announcement::Reopen => {
                self.open_ear();
                // What changed meanwhile was not heard.
                self.refresh();
            }
            Announcement::Notice(Notice::Changed(list)) => {
                if !self.stale.lists.contains(&list) {
                    self.stale.lists.push(list);
                }
                self.ask_soon();
            }
            Announcement::Notice(Notice::Missed(_)) => self.refresh(),
            Announcement::Notice(_) => {}
        }
    }

    /// At once, unless it was asked just now.
    fn ask_soon(&mut self) {
        let now = Instant::now();
        let at = self.asked.map_or(now, |asked| now.max(asked + WINDOW));
        self.ask_at.get_or_insert(at);
    }

    fn ask(&mut self) {
        let stale = std::mem::take(&mut self.stale);
        let (peer, filter, lists) = (self.peer.clone(), Arc::clone(&self.filter), self.lists);
        (self.ask_at, self.asked) = (None, Some(Instant::now()));
        let known = self.known.clone().filter(|_| !stale.everything);
        self.listing = Some(Box::pin(async move {
            let Some(known) = known else { return Listing::take_some(&peer, &filter, |kind| lists.want(kind)).await };
            let mut listing = Listing::clone(&known);
            for list in stale.lists {
                listing = listing.again(&peer, &filter, list).await?;
            }
            Ok(listing)
        }));
    }

    fn listed(&mut self, result: Result<Listing, WireError>) -> Heard {
        self.listing = None;
        match result {
            Ok(listing) => {
                let keeps = ItemKind::ALL.into_iter().filter_map(|kind| listing.keeps_for(kind)).min();
                self.keeps_until = keeps.map(|keeps| Instant::now() + keeps);
                let listing = Arc::new(listing);
                self.known = Some(Arc::clone(&listing));
                Heard::Listed(listing)
            }
            Err(error) => Heard::NotListed(error),
        }
    }
}

/// What the ear hears.
enum Announcement {
    Opened(Result<Listening, WireError>),
    Notice(Notice),
    Ended,
    Reopen,
}

async fn announced(ear: &mut Ear) -> Announcement {
    match ear {
        Ear::None => std::future::pending().await,
        Ear::Opening(opening) => Announcement::Opened(opening.await),
        Ear::Open(listening) => listening.next().await.map_or(Announcement::Ended, Announcement::Notice),
        Ear::Closed(until) => {
            sleep_until(*until).await;
            Announcement::Reopen
        }
    }
}

async fn under_way<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

async fn said(notices: &mut Option<broadcast::Receiver<Notice>>) -> Option<Notice> {
    let Some(receiver) = notices else { return std::future::pending().await };
    match receiver.recv().await {
        Ok(notice) => Some(notice),
        Err(RecvError::Lagged(_)) => None,
        Err(RecvError::Closed) => {
            *notices = None;
            None
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
