//! A connection as others hold it: its state at the moment, which of its lines a request takes, and what can be ordered of
//! its supervisor. What is sent is in [`super::sent`], how a server that sleeps is woken in [`super::waking`].

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot, watch};
use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    exchange::LogLevel,
    up::{Declares, Peer},
};

use super::{
    last_words::LastWords,
    lines::{Asker, Ground, LineKey, Lines, Need, NoSeat, Trying},
    sent::Seat,
    sign_in::Account,
    state::{Phase, ServerStatus, Stopped},
    stdio::Pulse,
    supervisor::Surroundings,
    uses::{Ear, Uses},
    waking::Ready,
    wanted::WantedServer,
};
use crate::{catalog::Listing, policy::limit::ServerSlots, record::redact::Redactor};

/// One server. Cloning is cheap; every clone is the same connection.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

/// What a supervisor and everybody else share.
pub(crate) struct Shared {
    pub(crate) name: ServerName,
    pub(crate) live: watch::Sender<Arc<Live>>,
    pub(crate) last_words: LastWords,
    pub(crate) pulse: Pulse,
    wanted: watch::Sender<Arc<WantedServer>>,
    orders: mpsc::Sender<Order>,
    pub(crate) lines: Arc<Lines>,
    /// The last peer that did not answer as it should.
    suspected: AtomicU64,
    slots: Arc<ServerSlots>,
    uses: Arc<Uses>,
}

/// A connection at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) status: Arc<ServerStatus>,
    /// The peer, and the how many-th of this server it is.
    pub(crate) peer: Option<(u64, Peer)>,
    /// Dials that came to an end, good or bad.
    pub(crate) dials: u64,
    /// Whether what it lists was heard since it was last connected.
    pub(crate) listed: bool,
    /// What it listed last.
    pub(crate) listing: Option<Arc<Listing>>,
    pub(crate) redactor: Redactor,
    /// Who may use the peer.
    pub(crate) account: Account,
}

/// What a supervisor can be told. Each is answered when it is done, or under way.
#[derive(Debug)]
pub(crate) enum Order {
    /// Somebody needs it.
    Wake,
    /// A peer does not answer any more as it should.
    Suspect { generation: u64, error: WireError },
    /// A call found a session that was begun anew.
    SessionChanged { generation: u64 },
    /// Connect, whatever was before.
    Connect(oneshot::Sender<()>),
    /// Disconnect, and stay so.
    Disconnect(oneshot::Sender<()>),
    /// End the connection and begin another.
    Reconnect(oneshot::Sender<()>),
    /// Ask again for everything it lists.
    Refresh(oneshot::Sender<()>),
    /// Logs from this level up are wanted, from now on.
    LogLevel(LogLevel, oneshot::Sender<()>),
    /// Switch it on or off, whatever its entry says.
    Toggle(toolway_config::server::Standing, oneshot::Sender<()>),
}

/// What is left to do until it is known what is listed to a caller.
pub(crate) enum Hearing {
    /// Nothing: it is, or nobody finds out.
    Known,
    /// Somebody is about to find out for all of its profile.
    ByOthers(LineKey),
    /// Whoever asks finds out.
    Ours(Trying),
}

/// Orders that wait for a supervisor; it takes each at once, so more are not needed.
const ORDERS: usize = 64;
// === impl Connection ===

impl Connection {
    pub(crate) fn new(
        wanted: Arc<WantedServer>,
        live: Live,
        slots: Arc<ServerSlots>,
        (room, seed): (&Arc<Surroundings>, u64),
    ) -> (Self, mpsc::Receiver<Order>) {
        let (orders, inbox) = mpsc::channel(ORDERS);
        let uses = Uses::new();
        let shared = Shared {
            name: wanted.name.clone(),
            live: watch::Sender::new(Arc::new(live)),
            last_words: LastWords::default(),
            pulse: Pulse::default(),
            orders,
            lines: Lines::new(wanted.name.clone(), Arc::clone(room), Arc::clone(&uses), seed),
            wanted: watch::Sender::new(wanted),
            suspected: AtomicU64::new(0),
            slots,
            uses,
        };
        (Self { shared: Arc::new(shared) }, inbox)
    }

    /// Its server's id.
    pub fn name(&self) -> &ServerName {
        &self.shared.name
    }

    /// What is known of it now, the end of its standard error included.
    pub fn status(&self) -> ServerStatus {
        let live = self.live();
        let stderr = self.shared.last_words.lines().iter().map(|line| live.redactor.text(line)).collect();
        let (ended, lines) = (self.shared.last_words.ended(), self.shared.lines.status());
        ServerStatus { stderr, ended, lines, ..ServerStatus::clone(&live.status) }
    }

    /// Chooses the connection a request goes over, and waits until it is its turn there.
    pub(crate) async fn seat(
        &self,
        ready: &Ready,
        asker: Asker<'_>,
        need: Need,
        patience: Duration,
    ) -> Result<Seat, NoSeat> {
        let (lines, wanted) = (&self.shared.lines, self.wanted());
        // One that has just closed is seen by whoever sends.
        let declares = ready.peer.declares().unwrap_or(Declares::EachTime);
        let Some(key) = LineKey::of(asker, declares, wanted.sharing, (lines.base(), &ready.account)) else {
            let account = asker.caller.client().map(|_| ready.account.clone());
            if declares == Declares::EachTime {
                return Ok(Seat::Base { turn: None, account });
            }
            let turn = lines.base_turn(need, patience).await.map_err(NoSeat::Refused)?;
            return Ok(Seat::Base { turn, account });
        };
        let listing = || self.live().listing.clone();
        let ground = Ground { wanted: &wanted, base: &ready.peer, account: &ready.account, listing: &listing };
        lines.seat(&key, need, patience, ground, asker.task).await.map(Seat::Line)
    }

    /// What it lists to this caller where everybody is listed `base`; none where that is the same, or not known.
    pub(crate) fn own_listing(&self, asker: Asker<'_>, base: &Arc<Listing>) -> Option<Arc<Listing>> {
        self.shared.lines.listing_of(&self.line_key(asker)?, base)
    }

    /// What is left to do until it is known what is listed to this caller.
    pub(crate) fn hearing(&self, asker: Asker<'_>) -> Hearing {
        let lines = &self.shared.lines;
        let Some(key) = self.line_key(asker).filter(|key| lines.is_unheard(key)) else { return Hearing::Known };
        lines.try_hearing(&key).map_or(Hearing::ByOthers(key), Hearing::Ours)
    }

    /// Finds out what is listed to this caller, by opening its line, as its first call would have to.
    pub(crate) async fn hear(&self, asker: Asker<'_>, patience: Duration, trying: Trying) {
        if let Ok(ready) = self.ready().await {
            drop(self.seat(&ready, asker, Need::Carried, patience).await);
        }
        drop(trying);
    }

    /// Waits until others have found out, or cannot.
    pub(crate) async fn heard_by_others(&self, key: &LineKey) {
        self.shared.lines.heard(key).await;
    }

    /// Whether that would have to be found out first.
    pub(crate) fn is_unheard_by(&self, asker: Asker<'_>) -> bool {
        self.live().listing.is_some() && self.line_key(asker).is_some_and(|key| self.shared.lines.is_unheard(&key))
    }

    /// The line of this caller's requests, where they go over one.
    fn line_key(&self, asker: Asker<'_>) -> Option<LineKey> {
        let live = self.live();
        let declares = live.peer.as_ref()?.1.declares().ok()?;
        LineKey::of(asker, declares, self.wanted().sharing, (self.shared.lines.base(), &live.account))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.shared.live.borrow())
    }

    pub(crate) fn wanted(&self) -> Arc<WantedServer> {
        Arc::clone(&self.shared.wanted.borrow())
    }

    pub(crate) fn slots(&self) -> &Arc<ServerSlots> {
        &self.shared.slots
    }

    /// From now on it is wanted like this.
    pub(crate) fn want(&self, wanted: Arc<WantedServer>) {
        self.shared.wanted.send_replace(wanted);
    }

    pub(crate) fn wishes(&self) -> watch::Receiver<Arc<WantedServer>> {
        self.shared.wanted.subscribe()
    }

    /// Somebody listens; until that ends it is not stopped for want of use.
    pub(crate) fn ear(&self) -> Ear {
        Ear::open(&self.shared.uses)
    }

    /// Waits until it is connected and has been asked what it lists; gives up when that is not under way.
    pub(crate) async fn listed(&self) {
        if let Ok(_ready) = self.ready().await {
            self.heard().await;
        }
    }

    /// Waits until a server that is connected has been asked what it lists; not at all for one that is not.
    pub(crate) async fn heard(&self) {
        let mut live = self.shared.live.subscribe();
        let patience = self.wanted().connect;
        let listed = live.wait_for(|live| live.listed || live.peer.is_none());
        // Whoever is not listed by then is not waited for.
        drop(tokio::time::timeout(patience, listed).await);
    }

    /// Waits until a dial that is under way has come to its end.
    pub(crate) async fn settled(&self) -> Arc<Live> {
        let mut live = self.shared.live.subscribe();
        match live.wait_for(|live| live.status.phase.is_settled()).await {
            Ok(live) => Arc::clone(&live),
            // The supervisor is gone; what it said last holds.
            Err(_) => self.live(),
        }
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.live().status.phase == Phase::Disabled
    }

    /// Whether it is being connected, or listed, for the first time.
    pub(crate) fn is_beginning(&self) -> bool {
        let live = self.live();
        let dialling = live.dials == 0 && matches!(live.status.phase, Phase::Connecting { .. });
        dialling || (live.peer.is_some() && !live.listed && live.listing.is_none())
    }

    /// Whether it is connected and has said what it lists.
    pub(crate) fn was_heard(&self) -> bool {
        let live = self.live();
        live.peer.is_some() && live.listing.is_some()
    }

    /// Whether it will not be connected again by itself or by a call.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.live().status.phase, Phase::Disabled | Phase::Stopped(Stopped::Disconnected | Stopped::Closed))
    }

    /// Tells the supervisor; whether it was told.
    pub(crate) fn order(&self, order: Order) -> bool {
        self.shared.orders.try_send(order).is_ok()
    }

    /// Tells the supervisor and waits until it has acted.
    pub(crate) async fn ask(&self, order: impl FnOnce(oneshot::Sender<()>) -> Order) {
        let (done, acted) = oneshot::channel();
        // A supervisor that is gone has nothing to act on.
        if self.shared.orders.send(order(done)).await.is_ok() {
            drop(acted.await);
        }
    }

    /// The peer, unless it has closed or is under suspicion already and its supervisor does not know yet.
    pub(super) fn open_peer(&self, live: &Live) -> Option<(u64, Peer)> {
        let suspected = self.shared.suspected.load(Ordering::SeqCst);
        live.peer.clone().filter(|(generation, peer)| suspected < *generation && !peer.is_closed())
    }

    /// A peer does not answer as it should; nobody is sent to it any more.
    pub(super) fn suspect(&self, generation: u64, error: &WireError) {
        if self.order(Order::Suspect { generation, error: error.clone() }) {
            self.shared.suspected.fetch_max(generation, Ordering::SeqCst);
        }
    }
}

// === impl Shared ===

impl Shared {
    pub(crate) fn uses(&self) -> &Arc<Uses> {
        &self.uses
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.shared.name)
            .field("phase", &self.live().status.phase)
            .finish_non_exhaustive()
    }
}
