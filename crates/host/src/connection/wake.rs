//! A server that somebody needs: its peer where there is one, and how one that sleeps or waits is woken.

use std::{sync::Arc, time::Duration};

use toolway_wire::up::Peer;

use super::{
    live::{Connection, Live, Order},
    sign_in::Account,
    state::{NotConnected, Phase, ServerStatus, Stopped},
    uses::Use,
};
use crate::{record::redact::Redactor, whose_move::WhoseMove};

/// A peer that can be spoken to, and is not stopped for want of use meanwhile.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) peer: Peer,
    pub(crate) generation: u64,
    pub(crate) redactor: Redactor,
    pub(crate) account: Account,
    pub(crate) use_of: Use,
}

/// How long after its time a dial that failed may take to say so.
const TO_HEAR_WHY: Duration = Duration::from_secs(2);
/// A call does not make a server be dialled again sooner than this after the last time.
const BETWEEN_WAKES: Duration = super::backoff::SHORTEST;

// === impl Connection ===

impl Connection {
    /// The peer, as soon as there is one; a server that waits or sleeps is woken.
    pub(crate) async fn ready(&self) -> Result<Ready, NotConnected> {
        let use_of = Use::begin(self.shared().uses());
        let live = self.live();
        let open = self.open_peer(&live);
        let (live, (generation, peer)) = match open {
            Some(open) => (live, open),
            None => {
                drop(live);
                self.opened().await?
            }
        };
        Ok(Ready { peer, generation, redactor: live.redactor.clone(), account: live.account.clone(), use_of })
    }

    /// Waits until there is a peer, for as long as it takes to be connected.
    async fn opened(&self) -> Result<(Arc<Live>, (u64, Peer)), NotConnected> {
        // Whoever is being connected has that long; a little more, so that it is said why it was not.
        let patience = self.wanted().connect + TO_HEAR_WHY;
        let live = tokio::time::timeout(patience, self.woken()).await.unwrap_or_else(|_| {
            let because = format!("not connected within {patience:?} (connect timeout)");
            Err(NotConnected { because, whose_move: WhoseMove::Supervisor, error: None })
        })?;
        let open = self.open_peer(&live).ok_or_else(|| live.status.why_not())?;
        Ok((live, open))
    }

    async fn woken(&self) -> Result<Arc<Live>, NotConnected> {
        let mut changes = self.shared().live.subscribe();
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
