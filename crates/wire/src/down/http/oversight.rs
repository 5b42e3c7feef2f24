//! What whoever stands in front of the face sees of it, and the one thing they can do: send a caller away.

use super::{HttpFace, Responder};

impl HttpFace {
    /// Sessions that are open.
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// Calls that wait for their caller to come back with answers.
    pub fn parked_count(&self) -> usize {
        self.face.parked.count()
    }

    /// Ends everything that is kept for a caller: its sessions with what is under way in them, its parked calls, and what
    /// the service keeps for it.
    pub fn expel(&self, principal: &str) {
        self.sessions.expel(Some(principal));
        self.face.parked.let_go(Some(principal));
        self.face.service.expelled(principal);
    }

    /// Ends everything that is kept for anybody; what comes afterwards finds nothing of it.
    pub fn close(&self) {
        self.drain();
        self.sessions.expel(None);
        self.face.parked.let_go(None);
        self.stop.cancel();
    }
}
