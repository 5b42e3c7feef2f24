//! What whoever stands in front of the downstream sees of it, and the one thing they can do: send a caller away.

use super::{HttpDownstream, Responder};

impl HttpDownstream {
    /// Sessions that are open.
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// Calls that wait for their caller to come back with answers.
    pub fn parked_count(&self) -> usize {
        self.downstream.parked.count()
    }

    /// Ends everything that is kept for a caller: its sessions with what is under way in them, its parked calls, and what
    /// the service keeps for it.
    pub fn expel(&self, principal: &str) {
        self.sessions.expel(Some(principal));
        self.downstream.parked.let_go(Some(principal));
        self.downstream.service.expelled(principal);
    }

    /// Ends everything that is kept for anybody; what comes afterwards finds nothing of it.
    pub fn close(&self) {
        self.drain();
        self.sessions.expel(None);
        self.downstream.parked.let_go(None);
        self.stop.cancel();
    }
}
