//! What is remembered of a server between connections: its protocol, and how callers with a session are reached.

use std::sync::atomic::Ordering;

use super::{
    ConnectOptions, DetectedProtocol, EraChoice, EraMemory, Peer, SessionPreference,
    probe::{ConnectedServer, Evidence},
};

impl ConnectOptions {
    /// Runs `act` on the era store, if any, on a blocking thread.
    pub(super) async fn with_memory<T: Send + 'static>(
        &self,
        act: impl FnOnce(&dyn EraMemory, &str) -> T + Send + 'static,
    ) -> Option<T> {
        let (memory, key) = self.memory.clone()?;
        let done = tokio::task::spawn_blocking(move || act(&*memory, &key)).await;
        // A cancelled task means that the program is ending.
        let failed = done.as_ref().err().filter(|error| !error.is_cancelled());
        if let Some(error) = failed {
            tracing::warn!(%error, "cannot use the stored eras of servers");
        }
        done.ok()
    }

    /// Stores the protocol of a server after its handshake. An entry that still holds keeps its expiry. Only a detected era
    /// replaces another one.
    pub(super) async fn store_protocol(&self, known: Option<DetectedProtocol>, server: &ConnectedServer) {
        let protocol = server.protocol;
        if known == Some(protocol) {
            return;
        }
        let same_era = known.is_none_or(|known| known.era == protocol.era);
        match (self.era, server.evidence) {
            (EraChoice::Auto, Evidence::Answer) => {
                self.with_memory(move |memory, key| memory.remember(key, protocol)).await;
            }
            _ if same_era => drop(self.with_memory(move |memory, key| memory.suppose(key, protocol)).await),
            _ => {}
        }
    }
}

impl Peer {
    /// How callers with a session are reached at this server. Always [`SessionPreference::Stateless`] on a connection with
    /// a session, where the question does not arise.
    pub fn session_preference(&self) -> SessionPreference {
        match self.inner.session_callers.load(Ordering::Relaxed) {
            true => SessionPreference::Session,
            false => SessionPreference::Stateless,
        }
    }

    /// Sets how callers with a session are reached at this server, here and for later connections.
    pub fn prefer_sessions(&self, preference: SessionPreference) {
        let wanted = preference == SessionPreference::Session;
        if self.inner.session_callers.swap(wanted, Ordering::Relaxed) != wanted
            && let Some((memory, key)) = self.inner.memory.clone()
        {
            // Nothing waits for it: the next connection may learn it again.
            drop(tokio::task::spawn_blocking(move || memory.prefer_sessions(&key, preference)));
        }
    }

    /// Whether the server has sent a request although its revision does not allow it.
    pub fn has_sent_disallowed_requests(&self) -> bool {
        self.inner.guard.router.disallowed_requests.load(Ordering::Relaxed)
    }
}
