//! Lines: further connections to one server, for callers who must not share the first.
//!
//! A server that keeps a session is told once what can be asked, and nothing in what it asks says whom it means. So each
//! client of the gateway has connections of its own, by what its side can be asked; the first connection, which the
//! catalog is made from, serves everybody else. Which line a request needs is in [`key`], which it gets in [`pool`].
//!
//! Calls run side by side on a line. Where the server asks something that could be about several of them, nobody is
//! shown it, and from then on it is sent one call at a time; a call that waits for an answer keeps no other waiting, for
//! those get another line, up to a bound. A line is dialled when it is first needed, by whoever needs it ([`dialling`]); what
//! a call has of it is a [`seat`]. It ends when nobody has used it for a while, and with the connection of its server. Which
//! call gives way when all lines wait for answers is in [`parked`].

mod dialling;
mod follow;
pub(crate) mod key;
mod line;
mod offering;
mod parked;
mod pool;
mod seat;
mod tasks;
mod trouble;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use toolway_config::ServerName;
use toolway_wire::{json::Raw, task::Task, up::Peer};

pub use self::key::CapabilityProfile;
pub(crate) use self::{
    follow::Trying,
    key::{Asker, LineKey},
    pool::Need,
    seat::LineSeat,
};
use self::{
    line::Line,
    offering::Offering,
    pool::{Manners, Pick, Pool, Turn},
};
use super::{
    client_face::ClientFace,
    sign_in::{Account, SignIns},
    state::NotConnected,
    supervisor::Surroundings,
    uses::Uses,
    wanted::WantedServer,
};
use crate::{call::Caller, catalog::Listing, policy::Refusal, whose_move::WhoseMove};

/// The lines of one server.
pub(crate) struct Lines {
    server: ServerName,
    room: Arc<Surroundings>,
    // Nothing awaits under this lock.
    pool: Mutex<Pool>,
    /// There is a line to look after that there was not before, or one to close.
    begun: Notify,
    /// The server asked something that could have been about several calls.
    asks: Arc<AtomicBool>,
    /// What the first connection declares.
    base: CapabilityProfile,
    /// One call at a time on the first connection, once the server is known to ask.
    base_turn: Arc<Semaphore>,
    uses: Arc<Uses>,
    /// What it lists to whom. Nothing awaits under this lock.
    offering: Mutex<Offering>,
    /// More is known of that.
    learnt: Notify,
}

/// What a line is dialled with: how the server is wanted, its first connection, and what it lists there.
pub(crate) struct Ground<'a> {
    pub(crate) wanted: &'a WantedServer,
    pub(crate) base: &'a Peer,
    /// Who may use that connection.
    pub(crate) account: &'a Account,
    pub(crate) listing: &'a (dyn Fn() -> Option<Arc<Listing>> + Sync),
}

/// Why there is no seat.
#[derive(Debug)]
pub(crate) enum NoSeat {
    /// The server cannot be reached, or not like this.
    NotConnected(NotConnected),
    /// It is too busy.
    Refused(Refusal),
}

/// A line, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineStatus {
    /// Whose it is.
    pub caller: Caller,
    /// What the server was told that this side can be asked.
    pub profile: CapabilityProfile,
    /// Calls under way on it.
    pub calls: usize,
    /// Of them, those that the server has asked something about.
    pub parked: usize,
    /// The number of its process, where it has one.
    pub process: Option<u32>,
}

/// What a server lists to some callers is not what it was, without being another list for everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnChange {
    /// Whose list.
    pub server: ServerName,
    /// Who has the connection on which it changed; none: it became known what is listed to all of one profile.
    pub caller: Option<Caller>,
}

/// A line that a server logged on a connection of one caller's, and that belongs to no call.
#[derive(Clone, Debug)]
pub struct OwnLog {
    /// Who logged it.
    pub server: ServerName,
    /// Whose connection it is.
    pub caller: Caller,
    /// Which of that caller's sessions, where each has its own.
    pub session: Option<Arc<str>>,
    /// `level`, `logger`, `data` as they came.
    pub params: Raw,
}

/// How long a line lasts that nobody uses, where the server's entry says nothing.
pub(crate) const IDLE: Duration = Duration::from_secs(5 * 60);
/// Calls that may wait for a seat on one line; one more is refused at once.
const WAITING: usize = 256;

// === impl Lines ===

impl Lines {
    pub(crate) fn new(server: ServerName, room: Arc<Surroundings>, uses: Arc<Uses>, seed: u64) -> Arc<Self> {
        let declared = toolway_wire::exchange::AskHandler::capabilities(&room.face(&server));
        Arc::new(Self {
            server,
            room,
            pool: Mutex::new(Pool::new(seed)),
            begun: Notify::new(),
            asks: Arc::default(),
            base: CapabilityProfile::of(&declared),
            base_turn: Arc::new(Semaphore::new(1)),
            uses,
            offering: Mutex::default(),
            learnt: Notify::new(),
        })
    }

    /// What the first connection declares.
    pub(crate) fn base(&self) -> CapabilityProfile {
        self.base
    }

    /// What its connections sign in with.
    pub(crate) fn sign_ins(&self) -> &SignIns {
        &self.room.dialler.sign_ins
    }

    /// Our face towards the server on the first connection.
    pub(crate) fn base_face(&self) -> ClientFace {
        ClientFace { asks: Some(Arc::clone(&self.asks)), ..self.room.face(&self.server) }
    }

    /// Waits for its turn on the first connection, where the server is known to ask.
    pub(crate) async fn base_turn(
        &self,
        need: Need,
        patience: Duration,
    ) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        if need == Need::Carried || self.base == CapabilityProfile::NOTHING || !self.asks.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let turn = tokio::time::timeout(patience, Arc::clone(&self.base_turn).acquire_owned()).await;
        // Nobody closes it; if somebody did, there would be no turn.
        turn.ok().and_then(Result::ok).map(Some).ok_or_else(|| one_at_a_time(patience))
    }

    /// From now on there may be lines.
    pub(crate) fn open(&self) {
        self.pool.lock().open = true;
    }

    /// Ends all lines, until they are opened again; gives what has to be closed.
    pub(crate) fn close(&self) -> Vec<Peer> {
        self.offering.lock().forget();
        self.pool.lock().close()
    }

    /// Lets all lines end as soon as the calls on them have ended.
    pub(crate) fn retire(&self) {
        let mut pool = self.pool.lock();
        let lines: Vec<_> = pool.lines.iter().map(|entry| Arc::clone(&entry.line)).collect();
        lines.iter().for_each(|line| pool.end(line));
    }

    /// Ends the lines that nobody has used for so long.
    pub(crate) fn reap(&self, idle: Duration) {
        self.pool.lock().reap(idle, Instant::now());
    }

    /// When there may be one to end.
    pub(crate) fn due(&self, idle: Duration) -> Option<Instant> {
        self.pool.lock().due(idle, Instant::now())
    }

    /// Resolves when there is a line to look after that there was not before, or one to close.
    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Those there are.
    pub(crate) fn status(&self) -> Vec<LineStatus> {
        let pool = self.pool.lock();
        let shown = |entry: &pool::Entry| LineStatus {
            caller: entry.line.key.caller.clone(),
            profile: entry.line.key.profile,
            calls: entry.calls,
            parked: entry.parked.len(),
            process: entry.line.pulse.process().filter(|_| entry.line.peer().is_some()),
        };
        pool.lines.iter().map(shown).collect()
    }

    /// A seat on a line of this key, connected.
    pub(crate) async fn seat(
        self: &Arc<Self>,
        key: &LineKey,
        need: Need,
        patience: Duration,
        ground: Ground<'_>,
        task: Option<&str>,
    ) -> Result<LineSeat, NoSeat> {
        // Whoever cannot be asked need not be the only one.
        let need = if key.profile == CapabilityProfile::NOTHING { Need::Carried } else { need };
        let at_task = task.and_then(|task| self.pool.lock().seat_at_task(task, key, need));
        let seat = match at_task {
            Some(line) => self.seat_on(line, need),
            None => match self.pick(key, need, Turn::JustCame)? {
                Ok(seat) => seat,
                // In a box, as below: few have to wait.
                Err(queue) => {
                    let waiting = Box::pin(tokio::time::timeout(patience, self.waited(key, need, queue))).await;
                    waiting.unwrap_or_else(|_| Err(NoSeat::Refused(one_at_a_time(patience))))?
                }
            },
        };
        // In a box: it is large, done once, and every call would carry it about otherwise.
        let dialled = seat.line.stands.get_or_try_init(|| Box::pin(self.dial(&seat.line, &ground))).await;
        dialled.map_err(NoSeat::NotConnected)?;
        Ok(seat)
    }

    /// A seat for somebody who has to wait in this queue.
    async fn waited(
        self: &Arc<Self>,
        key: &LineKey,
        need: Need,
        mut queue: Arc<line::Queue>,
    ) -> Result<LineSeat, NoSeat> {
        let first = Arc::clone(&queue);
        let _place = first.join(WAITING).ok_or_else(|| NoSeat::Refused(one_at_a_time(Duration::ZERO)))?;
        let _front = first.front.acquire().await;
        loop {
            let here = Arc::clone(&queue);
            // Listened for before it is looked at: nothing that moves in between is missed.
            let moved = here.moved.notified();
            match self.pick(key, need, Turn::Waited)? {
                Ok(seat) => return Ok(seat),
                Err(other) if !Arc::ptr_eq(&other, &here) => queue = other,
                Err(_) => tokio::select! {
                    () = moved => {}
                    () = self.one_to_give_way(key) => self.make_way(key),
                },
            }
        }
    }

    fn pick(
        self: &Arc<Self>,
        key: &LineKey,
        need: Need,
        turn: Turn,
    ) -> Result<Result<LineSeat, Arc<line::Queue>>, NoSeat> {
        let manners = if self.asks.load(Ordering::SeqCst) { Manners::Asks } else { Manners::Unknown };
        let mut pool = self.pool.lock();
        let before = pool.lines.len();
        let pick = pool.pick(key, need, manners, turn, Instant::now());
        if before < pool.lines.len() || !pool.given_up.is_empty() {
            self.begun.notify_one();
        }
        match pick {
            Pick::Seat(line) => Ok(Ok(self.seat_on(line, need))),
            Pick::Wait(queue) => Ok(Err(queue)),
            Pick::Full(limit, whose) => Err(NoSeat::Refused(Refusal::Busy { limit, whose, waited: Duration::ZERO })),
            Pick::Closed => Err(NoSeat::NotConnected(disconnected())),
        }
    }

    fn seat_on(self: &Arc<Self>, line: Arc<Line>, need: Need) -> LineSeat {
        LineSeat::new(self, line, need)
    }

    /// Whether a caller began this task, or any, and it goes on.
    pub(crate) fn keeps_for(&self, caller: &Caller, task: Option<&str>) -> bool {
        self.pool.lock().tasks.has(caller, task, Instant::now())
    }

    /// A caller's task goes on on the connection that all share.
    pub(crate) fn keep_on_base(&self, task: &Task, caller: &Caller) {
        self.pool.lock().tasks.keep_on_base(task.id.clone(), task.keeps, caller, Instant::now());
    }

    /// Lets the lines of a caller, or of one session of it, end as soon as the calls on them have ended. From now on nobody
    /// is given a seat on one, or has the caller's tasks: whoever has its name later is somebody else.
    pub(crate) fn leave(&self, caller: &Caller, session: Option<&str>) {
        let mut pool = self.pool.lock();
        if session.is_none() {
            pool.tasks.forget(caller);
        }
        let theirs = |key: &LineKey| {
            key.caller == *caller && session.is_none_or(|session| key.session.as_deref() == Some(session))
        };
        let lines: Vec<_> = pool.lines.iter().map(|entry| Arc::clone(&entry.line)).collect();
        lines.iter().filter(|line| theirs(&line.key)).for_each(|line| pool.let_go(line, Instant::now()));
        self.begun.notify_one();
    }
}

fn one_at_a_time(waited: Duration) -> Refusal {
    Refusal::Busy { limit: 1, whose: "to a server that asks", waited }
}

fn disconnected() -> NotConnected {
    NotConnected { because: "disconnected meanwhile".to_owned(), whose_move: WhoseMove::Operator, error: None }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("server", &self.server).finish_non_exhaustive()
    }
}
