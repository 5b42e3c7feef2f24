//! What whoever stands in front of the face sees of it, and the one thing they can do: send a caller away.

use super::HttpFace;

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
        self.sessions.expel(principal);
        self.face.parked.let_go(principal);
        self.face.service.expelled(principal);
    }
}
