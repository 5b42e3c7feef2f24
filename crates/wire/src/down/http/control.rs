//! What the embedding server can observe and do: count sessions and parked calls, expel a principal, close.

use super::{HttpDownstream, Responder};

impl HttpDownstream {
    /// Number of open sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.count() + self.sse_sessions.count()
    }

    /// Number of calls that wait for their client to retry with answers.
    pub fn parked_count(&self) -> usize {
        self.downstream.parked.count()
    }

    /// Ends everything kept for a principal: its sessions with their requests, its parked calls, and what the service
    /// keeps for it.
    pub fn expel(&self, principal: &str) {
        self.sessions.expel(Some(principal));
        self.sse_sessions.expel(Some(principal));
        self.downstream.parked.abandon_all_of(Some(principal));
        self.downstream.service.on_principal_expelled(principal);
    }

    /// Ends everything kept for any principal; later requests find none of it.
    pub fn close(&self) {
        self.drain();
        self.sessions.expel(None);
        self.sse_sessions.expel(None);
        self.downstream.parked.abandon_all_of(None);
        self.stop.cancel();
    }
}
