//! A request that was sent: over which connection it went, what it holds until its end, and what its end says of that
//! connection.

use std::{sync::Arc, time::Duration};

use tokio::sync::OwnedSemaphorePermit;
use toolway_wire::{
    error::WireError,
    exchange::{Exchange, Request},
    task::Task,
    up::Peer,
};

use super::{
    lines::LineSeat,
    live::{Connection, Order},
    sign_in::Account,
    state::NotConnected,
    stdio::Life,
    uses::Use,
    waking::Ready,
};
use crate::{
    call::{CallError, Caller},
    catalog::Fingerprint,
    policy::{Permit, Refusal, limit::Slots},
    record::redact::Redactor,
    whose_move::WhoseMove,
};

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

// === impl Connection ===

impl Connection {
    /// Sends a request; only a permit opens this way. Waits until there is a connection.
    pub async fn send(&self, permit: Permit, request: Request) -> Result<Sent, NotConnected> {
        let terms = self.wanted().terms();
        self.send_over(Seat::Base { turn: None, account: None }, permit, request, terms).await
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
                (peer, redactor, self.shared().pulse.now(), via)
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
            Via::Base { .. } => self.connection.shared().lines.keep_on_base(task, caller),
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
        let how = self.connection.shared().lines.sign_ins().how(&self.connection.wanted(), caller.client())?;
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
