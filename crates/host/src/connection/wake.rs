//! Gets the peer of a server, waking one that is stopped or waits for a retry.

use std::{sync::Arc, time::Duration};

use toolway_wire::up::Peer;

use super::{
    handle::{Connection, ConnectionSnapshot, SupervisorCommand},
    sign_in::Account,
    state::{NotConnected, Phase, ServerStatus, StopReason},
    usage::CallGuard,
};
use crate::{record::redact::Redactor, whose_move::WhoseMove};

/// An open peer; holding this keeps it from being stopped as idle.
#[derive(Debug)]
pub(crate) struct ReadyPeer {
    pub(crate) peer: Peer,
    pub(crate) generation: u64,
    pub(crate) redactor: Redactor,
    pub(crate) account: Account,
    pub(crate) use_of: CallGuard,
}

/// How long after the connect timeout the dial error may take to arrive.
const ERROR_DELAY: Duration = Duration::from_secs(2);
/// The shortest time between two dials caused by calls.
const BETWEEN_WAKES: Duration = toolway_config::server::reconnect::INITIAL_DELAY;

// === impl Connection ===

impl Connection {
    /// Returns the peer once it is connected; wakes a server that is stopped or waits for a retry.
    pub(crate) async fn ready(&self) -> Result<ReadyPeer, NotConnected> {
        let use_of = CallGuard::new(self.shared().uses());
        let live = self.live();
        let open = self.open_peer(&live);
        let (live, (generation, peer), use_of) = match open {
            Some(open) => (live, open, use_of),
            None => {
                // A connection that is being replaced waits until it is unused: this call waits for the next one.
                drop((live, use_of));
                // Boxed: the future is large and rarely needed, and every call would carry it otherwise.
                let (live, open) = Box::pin(self.wait_for_peer()).await?;
                (live, open, CallGuard::new(self.shared().uses()))
            }
        };
        Ok(ReadyPeer { peer, generation, redactor: live.redactor.clone(), account: live.account.clone(), use_of })
    }

    /// Wakes the server and waits for its peer, at most the connect timeout.
    async fn wait_for_peer(&self) -> Result<(Arc<ConnectionSnapshot>, (u64, Peer)), NotConnected> {
        // A little longer than the connect timeout, so that the dial error arrives first.
        let patience = self.wanted().connect + ERROR_DELAY;
        let live = tokio::time::timeout(patience, self.wake()).await.unwrap_or_else(|_| {
            let because = format!("not connected within {patience:?} (connect timeout)");
            Err(NotConnected::known(because, WhoseMove::Supervisor))
        })?;
        let open = self.open_peer(&live).ok_or_else(|| live.status.not_connected())?;
        Ok((live, open))
    }

    async fn wake(&self) -> Result<Arc<ConnectionSnapshot>, NotConnected> {
        let mut changes = self.shared().live.subscribe();
        let seen = changes.borrow_and_update().dials;
        let live = self.live();
        // If the phase is still ready but the peer has closed, the supervisor is about to handle it.
        if live.status.phase.is_settled() && live.peer.is_none() {
            match decide(&live.status) {
                WakeDecision::Dial => drop(self.send_command(SupervisorCommand::Wake)),
                WakeDecision::Wait => {}
                WakeDecision::Fail => return Err(live.status.not_connected()),
            }
        }
        let finished = |live: &Arc<ConnectionSnapshot>| {
            self.open_peer(live).is_some() || seen < live.dials && live.status.phase.is_settled()
        };
        match changes.wait_for(finished).await {
            Ok(live) => Ok(Arc::clone(&live)),
            Err(_) => Err(self.live().status.not_connected()),
        }
    }
}

/// What a call does about a server that is not connected.
enum WakeDecision {
    /// Dials now.
    Dial,
    /// Waits for the retry that is due soon.
    Wait,
    /// Fails at once.
    Fail,
}

fn decide(status: &ServerStatus) -> WakeDecision {
    let rested = BETWEEN_WAKES <= status.since.elapsed().unwrap_or(BETWEEN_WAKES);
    match &status.phase {
        Phase::Stopped(StopReason::NotNeededYet | StopReason::Idle) => WakeDecision::Dial,
        Phase::Waiting { crash_loop: false, .. } if rested => WakeDecision::Dial,
        Phase::Waiting { crash_loop: false, .. } => WakeDecision::Wait,
        Phase::Failed { .. } if rested => WakeDecision::Dial,
        Phase::Waiting { .. }
        | Phase::Failed { .. }
        | Phase::Stopped(StopReason::Disconnected | StopReason::Closed)
        | Phase::SignInRequired { .. }
        | Phase::Disabled
        | Phase::Connecting { .. }
        | Phase::Ready => WakeDecision::Fail,
    }
}
