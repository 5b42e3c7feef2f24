//! What the embedding server can observe and do: count sessions and parked calls, expel a principal, close.

use super::{HttpDownstream, Responder};
use crate::message::Envelope;

impl HttpDownstream {
    /// Number of open sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.count() + self.sse_sessions.count()
    }

    /// Number of calls that wait for their client to retry with answers.
    pub fn parked_count(&self) -> usize {
        self.downstream.parked.count()
    }

    /// The gateway of a cluster that has the parked call which a stateless request continues; `None` if it continues none.
    pub fn holder_of_parked(&self, request: &Envelope) -> Option<String> {
        let state = request.params()?.get("requestState")?;
        self.downstream.parked.holder_of(&state.as_str()?)
    }

    /// Ends everything kept for a principal: its sessions with their requests, its parked calls, and what the service
    /// keeps for it.
    pub fn expel(&self, principal: &str) {
        self.sessions.expel(Some(principal));
        self.sse_sessions.expel(Some(principal));
        self.downstream.parked.abandon_all_of(Some(principal));
        self.downstream.service.on_principal_expelled(principal);
    }

    /// Gives up the sessions that this gateway shares with others, all or the one of a row: another one has them now. Requests in
    /// progress go on to their end, and the rows are left as they are.
    pub fn release_sessions(&self, row: Option<&str>) {
        self.sessions.release(row);
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
