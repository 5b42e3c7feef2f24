//! A connection as others hold it: its state at the moment, the way to its peer, and what can be ordered of its
//! supervisor.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use toolway_config::ServerName;
use toolway_wire::{
    error::WireError,
    exchange::{Exchange, LogLevel, Request},
    task::Task,
    up::{Declares, Peer},
};

use super::{
    last_words::LastWords,
    lines::{Asker, Ground, LineKey, LineSeat, Lines, Need, NoSeat, Trying},
    sign_in::Account,
    state::{NotConnected, Phase, ServerStatus, Stopped},
    stdio::{Life, Pulse},
    supervisor::Surroundings,
    uses::{Ear, Use, Uses},
    wanted::WantedServer,
};
use crate::{
    call::{CallError, Caller},
    catalog::{Fingerprint, Listing},
    policy::{
        Permit, Refusal,
        limit::{ServerSlots, Slots},
    },
    record::redact::Redactor,
    whose_move::WhoseMove,
};

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

/// A peer that can be spoken to, and is not stopped for want of use meanwhile.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) peer: Peer,
    pub(crate) generation: u64,
    pub(crate) redactor: Redactor,
    pub(crate) account: Account,
    pub(crate) use_of: Use,
}

/// A request that was sent. It holds its permit: the slot comes back when this is gone.
#[derive(Debug)]
pub struct Sent {
    /// What happens from now on.
    pub exchange: Exchange,
    pub(crate) connection: Connection,
    pub(crate) redactor: Redactor,
    /// The definition it was decided about, where there is one.
    pub(crate) fingerprint: Option<Fingerprint>,
    permit: Permit,
    peer: Peer,
    /// The process it went to, and what that had taken before.
    life: (Arc<Life>, u64),
    via: Via,
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

/// Over which connection a request goes.
#[derive(Debug)]
pub(crate) enum Seat {
    /// The first one; in its turn, where there are turns.
    Base {
        /// Its turn.
        turn: Option<OwnedSemaphorePermit>,
        /// On whose account it was when it was chosen; nothing where that does not matter.
        account: Option<Account>,
    },
    /// One of its caller's own.
    Line(LineSeat),
}

/// Over which connection a request went.
#[derive(Debug)]
enum Via {
    Base { generation: u64, session: Option<String>, _turn: Option<OwnedSemaphorePermit>, _use: Use },
    Line(LineSeat),
}

/// Orders that wait for a supervisor; it takes each at once, so more are not needed.
const ORDERS: usize = 64;
/// How long after its time a dial that failed may take to say so.
const TO_HEAR_WHY: Duration = Duration::from_secs(2);
/// A call does not make a server be dialled again sooner than this after the last time.
const BETWEEN_WAKES: Duration = super::backoff::SHORTEST;

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

    /// Sends a request; only a permit opens this way. Waits until there is a connection.
    pub async fn send(&self, permit: Permit, request: Request) -> Result<Sent, NotConnected> {
        let terms = self.wanted().terms();
        self.send_over(Seat::Base { turn: None, account: None }, permit, request, terms).await
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

    /// Sends a request over the connection that was chosen for it.
    pub(crate) async fn send_over(
        &self,
        seat: Seat,
        permit: Permit,
        request: Request,
        terms: toolway_wire::exchange::Terms,
    ) -> Result<Sent, NotConnected> {
        let (peer, redactor, life, via) = match seat {
            Seat::Base { turn, account: chosen } => {
                let Ready { peer, generation, redactor, use_of, account, .. } = self.ready().await?;
                // Somebody has signed in meanwhile, or no longer is: what was chosen for a client is not there any more.
                if chosen.is_some_and(|chosen| chosen.is_nobodys() != account.is_nobodys()) {
                    let because = "it was connected anew, on another account, while the call waited".to_owned();
                    return Err(NotConnected { because, whose_move: WhoseMove::Supervisor, error: None });
                }
                let via = Via::Base { generation, session: peer.session(), _turn: turn, _use: use_of };
                (peer, redactor, self.shared.pulse.now(), via)
            }
            Seat::Line(seat) => {
                seat.log_from(request.log_level).await;
                let (peer, redactor) = seat.peer().ok_or_else(|| self.live().status.why_not())?;
                (peer.clone(), redactor.clone(), seat.life(), Via::Line(seat))
            }
        };
        let life = (Arc::clone(&life), life.taken());
        let exchange = peer.open(request, terms);
        Ok(Sent { exchange, connection: self.clone(), redactor, fingerprint: None, permit, peer, life, via })
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

    /// The peer, as soon as there is one; a server that waits or sleeps is woken.
    pub(crate) async fn ready(&self) -> Result<Ready, NotConnected> {
        let use_of = Use::begin(&self.shared.uses);
        let live = self.live();
        if let Some((generation, peer)) = self.open_peer(&live) {
            let (redactor, account) = (live.redactor.clone(), live.account.clone());
            return Ok(Ready { peer, generation, redactor, account, use_of });
        }
        drop(live);
        // Whoever is being connected has that long; a little more, so that it is said why it was not.
        let patience = self.wanted().connect + TO_HEAR_WHY;
        let live = tokio::time::timeout(patience, self.woken()).await.unwrap_or_else(|_| {
            let because = format!("not connected within {patience:?} (connect timeout)");
            Err(NotConnected { because, whose_move: WhoseMove::Supervisor, error: None })
        })?;
        match self.open_peer(&live) {
            Some((generation, peer)) => {
                let (redactor, account) = (live.redactor.clone(), live.account.clone());
                Ok(Ready { peer, generation, redactor, account, use_of })
            }
            None => Err(live.status.why_not()),
        }
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
    fn open_peer(&self, live: &Live) -> Option<(u64, Peer)> {
        let suspected = self.shared.suspected.load(Ordering::SeqCst);
        live.peer.clone().filter(|(generation, peer)| suspected < *generation && !peer.is_closed())
    }

    /// A peer does not answer as it should; nobody is sent to it any more.
    fn suspect(&self, generation: u64, error: &WireError) {
        if self.order(Order::Suspect { generation, error: error.clone() }) {
            self.shared.suspected.fetch_max(generation, Ordering::SeqCst);
        }
    }

    async fn woken(&self) -> Result<Arc<Live>, NotConnected> {
        let mut changes = self.shared.live.subscribe();
        let seen = changes.borrow_and_update().dials;
        let live = self.live();
        // One that has closed and is still said to be ready is being seen to.
        if live.status.phase.is_settled() && live.peer.is_none() {
            match wake(&live.status) {
                Wake::Now => drop(self.order(Order::Wake)),
                Wake::Soon => {}
                Wake::No => return Err(live.status.why_not()),
            }
        }
        let over =
            |live: &Arc<Live>| self.open_peer(live).is_some() || seen < live.dials && live.status.phase.is_settled();
        match changes.wait_for(over).await {
            Ok(live) => Ok(Arc::clone(&live)),
            Err(_) => Err(self.live().status.why_not()),
        }
    }
}

/// What a call does about a server that is not connected.
enum Wake {
    /// Has it dialled.
    Now,
    /// It was dialled just now and is again by itself: that is waited for.
    Soon,
    /// Takes no for an answer.
    No,
}

fn wake(status: &ServerStatus) -> Wake {
    let rested = BETWEEN_WAKES <= status.since.elapsed().unwrap_or(BETWEEN_WAKES);
    match &status.phase {
        Phase::Stopped(Stopped::NotNeededYet | Stopped::Idle) => Wake::Now,
        Phase::Waiting { crash_loop: false, .. } if rested => Wake::Now,
        Phase::Waiting { crash_loop: false, .. } => Wake::Soon,
        Phase::Failed { .. } if rested => Wake::Now,
        Phase::Waiting { .. }
        | Phase::Failed { .. }
        | Phase::Stopped(Stopped::Disconnected | Stopped::Closed)
        | Phase::SignInNeeded { .. }
        | Phase::Disabled
        | Phase::Connecting { .. }
        | Phase::Ready => Wake::No,
    }
}

// === impl Shared ===

impl Shared {
    pub(crate) fn uses(&self) -> &Arc<Uses> {
        &self.uses
    }
}

// === impl Seat ===

impl Seat {
    /// The peer it is a seat with.
    pub(crate) fn peer<'a>(&'a self, base: &'a Ready) -> &'a Peer {
        match self {
            Self::Base { .. } => &base.peer,
            Self::Line(seat) => seat.peer().map_or(&base.peer, |(peer, _)| peer),
        }
    }
}

// === impl Sent ===

impl Sent {
    /// What the permit was given for.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// It is over; what it was permitted by is left.
    pub(crate) fn into_permit(self) -> Permit {
        self.permit
    }

    /// A task goes on in its place.
    pub(crate) fn handed_off(&self, task: &Task, caller: &Caller) {
        match &self.via {
            Via::Line(seat) => seat.keep_task(task),
            Via::Base { .. } => self.connection.shared.lines.keep_on_base(task, caller),
        }
    }

    /// The server asked something: from here on it waits for its caller's side, and keeps no slot from the others.
    pub(crate) fn park(&mut self, slots: &Slots, caller: &Caller) -> Result<(), Refusal> {
        self.permit.park(slots, caller)?;
        if let Via::Line(seat) = &mut self.via {
            seat.park(self.exchange.call_off());
        }
        Ok(())
    }

    /// For how long nobody had answered when it was ended for the sake of another call; nothing where it was not.
    pub(crate) fn gave_way(&self) -> Option<Duration> {
        match &self.via {
            Via::Line(seat) => seat.gave_way(),
            Via::Base { .. } => None,
        }
    }

    /// It ended in a way that speaks against the peer it went to.
    pub(crate) fn suspect(&self, error: &WireError) {
        match &self.via {
            Via::Base { generation, .. } => self.connection.suspect(*generation, error),
            Via::Line(seat) => seat.discard(),
        }
    }

    /// Whether it certainly reached nobody: there was nobody there, or whoever was has taken nothing since.
    pub(crate) fn reached_nobody(&self, error: &WireError) -> bool {
        let (life, before) = &self.life;
        match error {
            WireError::Unreachable { .. } => true,
            WireError::Ended(_) => 0 < *before && life.taken() == *before,
            _ => false,
        }
    }

    /// Who has to do what if the server wanted to see more of this caller; none where nobody can.
    pub(crate) fn sign_in_needed(&self, caller: &Caller) -> Option<CallError> {
        let how = self.connection.shared.lines.sign_ins().how(&self.connection.wanted(), caller.client())?;
        Some(CallError::SignInNeeded { server: self.connection.name().clone(), how })
    }

    /// It has ended: a session that was begun anew meanwhile means that what is listed may be old.
    pub(crate) fn look_at_session(&self) {
        if let Via::Base { generation, session, .. } = &self.via
            && session.is_some()
            && self.peer.session() != *session
        {
            self.connection.order(Order::SessionChanged { generation: *generation });
        }
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
