//! The task that owns one connection, from the first dial to the last close.
//!
//! One loop waits for one of a closed list of happenings; one function handles it. What belongs to a state is in the
//! state ([`Doing`]), so that leaving it ends it. What it is told to do is in [`ordering`], where it goes from there in
//! [`course`], what a connection that stands hears and lists in [`attached`], what everybody sees of it in [`showing`].

mod attached;
mod course;
mod ordering;
mod showing;
mod surroundings;

use std::{future::pending, sync::Arc};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    select,
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use toolway_config::server::{Standing, Start};
use toolway_wire::{error::WireError, exchange::LogLevel, json::Raw, up::WeakPeer};
use tracing::Instrument;

pub(crate) use self::surroundings::{Cataloguing, Surroundings, Turns};

use self::attached::{Attached, Heard};
use super::{
    backoff::Backoff,
    dial::Dialled,
    live::{Connection, Live, Order},
    sign_in::Account,
    state::{Counts, Phase, ServerStatus, Stopped},
    wanted::WantedServer,
};
use crate::{
    catalog::Listing, event::HostEvent, policy::limit::ServerSlots, record::redact::Redactor, whose_move::WhoseMove,
};

/// Owns one connection.
struct Supervisor {
    connection: Connection,
    room: Arc<Surroundings>,
    wanted: Arc<WantedServer>,
    /// What somebody said about it after its entry.
    toggled: Option<Standing>,
    doing: Doing,
    backoff: Backoff,
    generation: u64,
    dials: u64,
    listed: bool,
    listing: Option<Arc<Listing>>,
    log_level: Option<LogLevel>,
    redactor: Redactor,
    /// Who may use the connection.
    account: Account,
    status: ServerStatus,
    /// Connections that were given up while calls were under way on them; they end with the last of those.
    lingering: Vec<WeakPeer>,
    /// Connections that are being closed while something else is done: lines whose place was taken, one that was refused.
    closing: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// What a supervisor is doing, and what belongs to it.
enum Doing {
    /// Nothing; the phase says why.
    Resting,
    Dialling(BoxFuture<'static, Dialled>),
    Serving(Box<Attached>),
    /// It dials again then.
    Waiting(Instant),
    /// A connection is being ended.
    Closing(BoxFuture<'static, ()>, Aim),
}

/// Where to go when a connection has been ended.
#[derive(Debug)]
enum Aim {
    Dial,
    Rest(Phase),
    Leave,
}

impl Aim {
    /// Whether somebody who needs the server may have it woken.
    fn is_sleep(&self) -> bool {
        matches!(self, Self::Rest(Phase::Stopped(Stopped::Idle | Stopped::NotNeededYet)))
    }
}

/// Everything that can wake a supervisor.
#[derive(Debug)]
enum Happening {
    Stop(Grace),
    Rewritten,
    Ordered(Order),
    Dialled(Dialled),
    RetryDue,
    Closed,
    Heard(Heard),
    IdleDue,
    /// There is a line to look after, or one that may have to end.
    LinesDue,
    /// A connection that was closed meanwhile has ended.
    Ended,
}

enum Next {
    Wait,
    Leave,
}

/// What calls under way are given before a connection is ended.
#[derive(Clone, Copy, Debug)]
enum Grace {
    None,
    /// Calls under way may finish, for a moment.
    Moment,
}

/// A new connection, and the work that supervises it until the host stops or it is no longer wanted.
pub(crate) fn supervise(
    wanted: Arc<WantedServer>,
    slots: Arc<ServerSlots>,
    room: Arc<Surroundings>,
    stop: CancellationToken,
    removed: CancellationToken,
) -> (Connection, impl Future<Output = ()> + Send + 'static) {
    let span = tracing::info_span!("server", name = %wanted.name);
    let (connection, supervisor, orders) = Supervisor::new(wanted, slots, room);
    (connection, supervisor.run(orders, stop, removed).instrument(span))
}

impl Supervisor {
    /// A new connection and what supervises it; nothing happens before it is run.
    fn new(
        wanted: Arc<WantedServer>,
        slots: Arc<ServerSlots>,
        room: Arc<Surroundings>,
    ) -> (Connection, Self, mpsc::Receiver<Order>) {
        let status = showing::first_status(&wanted, &room);
        let live = Live {
            status: Arc::new(status.clone()),
            peer: None,
            dials: 0,
            listed: false,
            listing: None,
            redactor: Redactor::default(),
            account: Account::Common,
        };
        let seed = room.seed ^ hash(wanted.name.as_str());
        let (connection, orders) = Connection::new(Arc::clone(&wanted), live, slots, (&room, seed));
        let backoff = Backoff::seeded(seed);
        let supervisor = Self {
            connection: connection.clone(),
            room,
            wanted,
            toggled: None,
            doing: Doing::Resting,
            backoff,
            generation: 0,
            dials: 0,
            listed: false,
            listing: None,
            log_level: None,
            redactor: Redactor::default(),
            account: Account::Common,
            status,
            lingering: Vec::new(),
            closing: FuturesUnordered::new(),
        };
        (connection, supervisor, orders)
    }

    /// Supervises until told to stop.
    async fn run(mut self, mut orders: mpsc::Receiver<Order>, stop: CancellationToken, removed: CancellationToken) {
        let mut wishes = self.connection.wishes();
        self.begin();
        let mut stopping = false;
        loop {
            let (idle, lines_due) = (self.idle_at(), self.lines_due());
            let shared = Arc::clone(self.connection.shared());
            let happening = select! {
                () = stop.cancelled(), if !stopping => Happening::Stop(Grace::None),
                () = removed.cancelled(), if !stopping => Happening::Stop(Grace::Moment),
                Ok(()) = wishes.changed(), if !stopping => Happening::Rewritten,
                Some(order) = orders.recv(), if !stopping => Happening::Ordered(order),
                happening = self.doing.next() => happening,
                () = at(idle) => Happening::IdleDue,
                () = shared.lines.begun() => Happening::LinesDue,
                () = at(lines_due) => Happening::LinesDue,
                Some(()) = self.closing.next() => Happening::Ended,
            };
            stopping |= matches!(happening, Happening::Stop(_));
            match self.handle(happening, &mut wishes) {
                Next::Wait => {}
                Next::Leave => break,
            }
        }
    }

    fn handle(&mut self, happening: Happening, wishes: &mut watch::Receiver<Arc<WantedServer>>) -> Next {
        match happening {
            Happening::Stop(grace) => return self.go(Aim::Leave, grace),
            Happening::Rewritten => {
                let wanted = Arc::clone(&wishes.borrow_and_update());
                return self.rewritten(wanted);
            }
            Happening::Ordered(order) => return self.ordered(order),
            Happening::Dialled(Dialled { redactor, peer }) => {
                self.redactor = redactor;
                self.dials += 1;
                match peer {
                    Ok((peer, account)) => self.attach(peer, account),
                    Err(error) => self.not_dialled(&error),
                }
            }
            Happening::RetryDue => self.dial(),
            Happening::Closed => {
                if let Doing::Closing(_, aim) = std::mem::replace(&mut self.doing, Doing::Resting) {
                    return self.arrive(aim);
                }
            }
            Happening::Heard(heard) => return self.heard(heard),
            Happening::IdleDue => return self.stop_if_idle(),
            Happening::LinesDue => self.end_lines(),
            Happening::Ended => {}
        }
        Next::Wait
    }

    /// What its entry, or somebody since, says about when it is connected.
    fn begin(&mut self) {
        match self.aim() {
            Aim::Dial => self.dial(),
            Aim::Rest(phase) => self.rest(phase),
            Aim::Leave => {}
        }
    }

    fn aim(&self) -> Aim {
        match (self.toggled.unwrap_or(self.wanted.standing), self.wanted.start) {
            (Standing::Disabled, _) => Aim::Rest(Phase::Disabled),
            (Standing::Enabled, Start::WhenNeeded) => Aim::Rest(Phase::Stopped(Stopped::NotNeededYet)),
            (Standing::Enabled, Start::AtOnce) => Aim::Dial,
        }
    }

    /// It is wanted otherwise.
    fn rewritten(&mut self, wanted: Arc<WantedServer>) -> Next {
        let old = std::mem::replace(&mut self.wanted, wanted);
        let Some(difference) = old.difference(&self.wanted) else { return Next::Wait };
        self.describe();
        if old.filter != self.wanted.filter {
            self.room.cataloguing.filtered(&self.wanted.name, &self.wanted.filter);
            if let Doing::Serving(attached) = &mut self.doing {
                attached.refilter(Arc::clone(&self.wanted.filter));
            }
        }
        if old.sharing != self.wanted.sharing {
            self.connection.shared().lines.retire();
        }
        let moved = old.standing != self.wanted.standing || difference.restart;
        // What somebody said about the old entry does not hold for another one.
        if moved {
            self.toggled = None;
            self.backoff.succeed();
            return self.go(self.aim(), Grace::Moment);
        }
        if old.start != self.wanted.start
            && matches!(self.doing, Doing::Resting)
            && self.status.phase != Phase::Disabled
        {
            self.begin();
            return Next::Wait;
        }
        self.publish();
        Next::Wait
    }

    fn heard(&mut self, heard: Heard) -> Next {
        match heard {
            Heard::Lost(why) => self.lost(&why),
            Heard::Listed(listing) => {
                self.status.counts = Some(Counts::of(&listing));
                self.listed = true;
                self.listing = Some(Arc::clone(&listing));
                self.room.cataloguing.listed(&self.wanted, listing);
                self.tell_profile();
            }
            // Whoever shakes hands and then wants to know who asks would do so again at once.
            Heard::NotListed(error @ WireError::Unauthorized { .. }) => return self.turned_away(error),
            Heard::NotListed(error @ (WireError::Unreachable { .. } | WireError::NoToken(_))) => self.lost(&error),
            Heard::NotListed(error) => {
                self.note(&format!("cannot be listed: {error}"), error.code(), WhoseMove::after(&error));
                self.listed = true;
                self.publish();
            }
            Heard::Said(params) => self.log(params),
            Heard::Nothing => {}
        }
        Next::Wait
    }

    fn log(&self, params: Raw) {
        let server = self.wanted.name.clone();
        self.room.events.tell(|| HostEvent::Log { server, params });
    }
}

// === impl Doing ===

impl Doing {
    /// What happens next in this state; for ever nothing in one where nothing does. Can be dropped and asked again.
    async fn next(&mut self) -> Happening {
        match self {
            Self::Resting => pending().await,
            Self::Dialling(work) => Happening::Dialled(work.await),
            Self::Serving(attached) => Happening::Heard(attached.next().await),
            Self::Waiting(until) => {
                sleep_until(*until).await;
                Happening::RetryDue
            }
            Self::Closing(work, _) => {
                work.await;
                Happening::Closed
            }
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
