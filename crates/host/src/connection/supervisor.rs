//! The task that owns one connection, from the first dial to the last close.
//!
//! One loop waits for the next [`SupervisorEvent`]; one function handles it. Each state owns its tasks ([`Activity`]), so
//! that leaving a state ends them. [`commands`] handles commands from outside, [`transitions`] changes the state,
//! [`attached`] follows an established connection, [`publish`] publishes the status.

mod attached;
mod commands;
mod context;
mod publish;
mod transitions;

use std::{future::pending, sync::Arc};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    select,
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use toolway_config::server::{Standing, Start};
use toolway_wire::{error::WireError, exchange::LogLevel, up::WeakPeer};
use tracing::Instrument;

pub(crate) use self::context::{CatalogSink, HostContext, StartLimiter};

use self::attached::{Attached, AttachedEvent};
use super::{
    backoff::Backoff,
    dial::DialOutcome,
    handle::{Connection, ConnectionSnapshot, SupervisorCommand},
    sign_in::Account,
    state::{Counts, Phase, ServerStatus, StopReason},
    wanted::WantedServer,
};
use crate::{catalog::Listing, policy::limit::ServerSlots, record::redact::Redactor, whose_move::WhoseMove};

/// Owner of one connection.
struct Supervisor {
    connection: Connection,
    context: Arc<HostContext>,
    wanted: Arc<WantedServer>,
    /// Set by a toggle command; overrides `wanted.standing` until the entry changes.
    toggled: Option<Standing>,
    activity: Activity,
    backoff: Backoff,
    generation: u64,
    dials: u64,
    listed: bool,
    listing: Option<Arc<Listing>>,
    /// Whether `listing` is of the server that the entry names now.
    listing_is_current: bool,
    log_level: Option<LogLevel>,
    redactor: Redactor,
    /// The callers that may use the connection.
    account: Account,
    status: ServerStatus,
    /// The state in the last audit note.
    noted: &'static str,
    /// Replaced connections with calls still in flight; each closes with the last of its calls.
    lingering: Vec<WeakPeer>,
    /// Connections being closed in the background: evicted caller connections, and one whose token was refused.
    closing: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// What a supervisor is doing, with the tasks of that state.
enum Activity {
    /// Not connected; the phase gives the reason.
    Resting,
    Dialling(BoxFuture<'static, DialOutcome>),
    Serving(Box<Attached>),
    /// Dials again at this time.
    Waiting(Instant),
    /// Closing a connection, then moving on to the goal.
    Closing(BoxFuture<'static, ()>, Goal),
}

/// What a supervisor does once its connection is closed.
#[derive(Debug)]
enum Goal {
    Dial,
    Rest(Phase),
    Leave,
}

impl Goal {
    /// Whether a call may wake the server from this state.
    fn is_sleep(&self) -> bool {
        matches!(self, Self::Rest(Phase::Stopped(StopReason::Idle | StopReason::NotNeededYet)))
    }
}

/// Everything a supervisor waits for.
#[derive(Debug)]
enum SupervisorEvent {
    Stop(Grace),
    EntryChanged,
    Command(SupervisorCommand),
    DialOutcome(DialOutcome),
    RetryDue,
    Closed,
    Attached(AttachedEvent),
    IdleDue,
    /// The connection pool has a connection to expire or to close.
    PoolDue,
    /// A connection in `closing` is closed.
    Ended,
}

enum Next {
    Wait,
    Leave,
}

/// How long calls in flight may continue before a connection is closed.
#[derive(Clone, Copy, Debug)]
enum Grace {
    None,
    /// Calls in flight may finish, for a short time.
    Moment,
}

/// Creates a connection and the future that supervises it until `stop` or `removed` is cancelled.
pub(crate) fn supervise(
    wanted: Arc<WantedServer>,
    slots: Arc<ServerSlots>,
    context: Arc<HostContext>,
    stop: CancellationToken,
    removed: CancellationToken,
) -> (Connection, impl Future<Output = ()> + Send + 'static) {
    let span = tracing::error_span!("server", server = %wanted.name);
    let (connection, supervisor, orders) = Supervisor::new(wanted, slots, context);
    (connection, supervisor.run(orders, stop, removed).instrument(span))
}

impl Supervisor {
    /// Creates a connection and its supervisor. Nothing is dialled before [`Self::run`].
    fn new(
        wanted: Arc<WantedServer>,
        slots: Arc<ServerSlots>,
        context: Arc<HostContext>,
    ) -> (Connection, Self, mpsc::Receiver<SupervisorCommand>) {
        let status = publish::first_status(&wanted, &context);
        let live = ConnectionSnapshot {
            status: Arc::new(status.clone()),
            peer: None,
            dials: 0,
            listed: false,
            listing: None,
            redactor: Redactor::default(),
            account: Account::Common,
        };
        let seed = context.seed ^ hash(wanted.name.as_str());
        let (connection, orders) = Connection::new(Arc::clone(&wanted), live, slots, (&context, seed));
        let backoff = Backoff::seeded(seed);
        let supervisor = Self {
            connection: connection.clone(),
            context,
            wanted,
            toggled: None,
            activity: Activity::Resting,
            backoff,
            generation: 0,
            dials: 0,
            listed: false,
            listing: None,
            listing_is_current: false,
            log_level: None,
            redactor: Redactor::default(),
            account: Account::Common,
            noted: status.phase.word(),
            status,
            lingering: Vec::new(),
            closing: FuturesUnordered::new(),
        };
        (connection, supervisor, orders)
    }

    /// Supervises the connection until it is stopped or removed.
    async fn run(
        mut self,
        mut orders: mpsc::Receiver<SupervisorCommand>,
        stop: CancellationToken,
        removed: CancellationToken,
    ) {
        let mut wanted_changes = self.connection.wanted_changes();
        self.begin();
        let mut stopping = false;
        loop {
            let (idle, pool_due) = (self.idle_at(), self.pool_due());
            let shared = Arc::clone(self.connection.shared());
            let happening = select! {
                () = stop.cancelled(), if !stopping => SupervisorEvent::Stop(Grace::None),
                () = removed.cancelled(), if !stopping => SupervisorEvent::Stop(Grace::Moment),
                Ok(()) = wanted_changes.changed(), if !stopping => SupervisorEvent::EntryChanged,
                Some(order) = orders.recv(), if !stopping => SupervisorEvent::Command(order),
                happening = self.activity.next() => happening,
                () = at(idle) => SupervisorEvent::IdleDue,
                () = shared.pool.changed() => SupervisorEvent::PoolDue,
                () = at(pool_due) => SupervisorEvent::PoolDue,
                Some(()) = self.closing.next() => SupervisorEvent::Ended,
            };
            stopping |= matches!(happening, SupervisorEvent::Stop(_));
            match self.handle(happening, &mut wanted_changes) {
                Next::Wait => {}
                Next::Leave => break,
            }
        }
    }

    fn handle(&mut self, happening: SupervisorEvent, wanted_changes: &mut watch::Receiver<Arc<WantedServer>>) -> Next {
        match happening {
            SupervisorEvent::Stop(grace) => return self.close_then(Goal::Leave, grace),
            SupervisorEvent::EntryChanged => {
                let wanted = Arc::clone(&wanted_changes.borrow_and_update());
                return self.apply_entry(wanted);
            }
            SupervisorEvent::Command(order) => return self.execute(order),
            SupervisorEvent::DialOutcome(DialOutcome { redactor, peer }) => {
                self.redactor = redactor;
                self.dials += 1;
                match peer {
                    Ok((peer, account)) => self.attach(peer, account),
                    Err(error) => self.handle_dial_error(&error),
                }
            }
            SupervisorEvent::RetryDue => self.dial(),
            SupervisorEvent::Closed => {
                if let Activity::Closing(_, goal) = std::mem::replace(&mut self.activity, Activity::Resting) {
                    return self.enter_goal(goal);
                }
            }
            SupervisorEvent::Attached(event) => return self.handle_attached(event),
            SupervisorEvent::IdleDue => return self.stop_if_idle(),
            SupervisorEvent::PoolDue => self.expire_pool(),
            SupervisorEvent::Ended => {}
        }
        Next::Wait
    }

    /// Enters the first state, as the entry or a later toggle demands.
    fn begin(&mut self) {
        match self.goal() {
            Goal::Dial => self.dial(),
            Goal::Rest(phase) => self.rest(phase),
            Goal::Leave => {}
        }
    }

    fn goal(&self) -> Goal {
        match (self.toggled.unwrap_or(self.wanted.standing), self.wanted.start) {
            (Standing::Disabled, _) => Goal::Rest(Phase::Disabled),
            (Standing::Enabled, Start::WhenNeeded) => Goal::Rest(Phase::Stopped(StopReason::NotNeededYet)),
            (Standing::Enabled, Start::AtOnce) => Goal::Dial,
        }
    }

    /// Applies a changed entry.
    fn apply_entry(&mut self, wanted: Arc<WantedServer>) -> Next {
        let old = std::mem::replace(&mut self.wanted, wanted);
        let Some(difference) = old.difference(&self.wanted) else { return Next::Wait };
        self.describe();
        if old.filter != self.wanted.filter {
            self.context.catalog.set_filter(&self.wanted.name, &self.wanted.filter);
            if let Activity::Serving(attached) = &mut self.activity {
                attached.refilter(Arc::clone(&self.wanted.filter));
            }
        }
        if old.sharing != self.wanted.sharing {
            self.connection.shared().pool.retire();
        }
        let moved = old.standing != self.wanted.standing || difference.restart;
        // A toggle applies to the old entry only.
        if moved {
            self.listing_is_current &= !difference.restart;
            self.toggled = None;
            self.backoff.succeed();
            return self.close_then(self.goal(), Grace::Moment);
        }
        if old.start != self.wanted.start
            && matches!(self.activity, Activity::Resting)
            && self.status.phase != Phase::Disabled
        {
            self.begin();
            return Next::Wait;
        }
        self.publish();
        Next::Wait
    }

    fn handle_attached(&mut self, event: AttachedEvent) -> Next {
        match event {
            AttachedEvent::Lost(why) => self.handle_loss(&why),
            AttachedEvent::Listed(listing) => {
                self.status.counts = Some(Counts::of(&listing));
                self.listed = true;
                (self.listing, self.listing_is_current) = (Some(Arc::clone(&listing)), true);
                self.context.catalog.set_listing(&self.wanted, listing);
                self.publish_profile();
            }
            // A server that accepts the handshake and refuses the listing would refuse again at once: do not redial.
            AttachedEvent::NotListed(error @ WireError::Unauthorized { .. }) => return self.handle_unauthorized(error),
            AttachedEvent::NotListed(error @ (WireError::Unreachable { .. } | WireError::NoToken(_))) => {
                self.handle_loss(&error)
            }
            AttachedEvent::NotListed(error) => {
                let message = format!("listing failed: {error}");
                let event = "cannot list the server's items";
                self.record_error(event, &message, error.code(), WhoseMove::after(&error));
                self.listed = true;
                self.publish();
            }
            AttachedEvent::Nothing => {}
        }
        Next::Wait
    }
}

// === impl Activity ===

impl Activity {
    /// Waits for the next event of this state; pending forever while resting. Cancel-safe.
    async fn next(&mut self) -> SupervisorEvent {
        match self {
            Self::Resting => pending().await,
            Self::Dialling(work) => SupervisorEvent::DialOutcome(work.await),
            Self::Serving(attached) => SupervisorEvent::Attached(attached.next().await),
            Self::Waiting(until) => {
                sleep_until(*until).await;
                SupervisorEvent::RetryDue
            }
            Self::Closing(work, _) => {
                work.await;
                SupervisorEvent::Closed
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
