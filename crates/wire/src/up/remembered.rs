//! What is remembered of a server between connections: its protocol, and how one of both eras is asked.

use std::collections::HashSet;

use super::{
    ConnectOptions, DetectedProtocol, EraChoice, EraMemory, Peer, SessionSupport,
    probe::{ConnectedServer, Evidence},
    transport::{HttpMode, LinkKind},
};
use crate::revision::Era;

/// What is known of a server that speaks both eras.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Whether it has sessions beside the stateless era.
    pub(super) support: SessionSupport,
    /// Whether it answers without a session.
    also_stateless: bool,
    /// Tools that can ask the client only without a session.
    asking_by_result: HashSet<String>,
}

/// Tools remembered as asking by their results; further ones are called as others.
const TOOLS: usize = 1_024;

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

    /// What is stored of the sessions of a stateless server.
    pub(super) async fn recall_sessions(&self) -> Sessions {
        let recall = |memory: &dyn EraMemory, key: &str| Sessions {
            support: memory.session_support(key),
            also_stateless: false,
            asking_by_result: memory.tools_asking_by_result(key).into_iter().collect(),
        };
        match self.era {
            EraChoice::Auto | EraChoice::Modern => self.with_memory(recall).await.unwrap_or_default(),
            EraChoice::Legacy => Sessions::default(),
        }
    }

    /// Stores the protocol of a server after its handshake. An entry that still holds keeps its expiry. Only a detected era
    /// replaces another one.
    pub(super) async fn store_protocol(&self, known: Option<DetectedProtocol>, server: &ConnectedServer) {
        let found = server.sessions;
        if found != SessionSupport::Unknown {
            self.with_memory(move |memory, key| memory.remember_sessions(key, found)).await;
            return;
        }
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

impl Sessions {
    /// Adds what the handshake showed.
    pub(super) fn update(&mut self, server: &ConnectedServer) {
        if server.sessions != SessionSupport::Unknown {
            self.support = server.sessions;
        }
        self.also_stateless = server.protocol.era == Era::Modern || self.support == SessionSupport::Offered;
    }
}

impl Peer {
    /// Whether the server has sessions beside the stateless era. Unknown on a connection with a session to a server of
    /// which no stateless era is known.
    pub fn session_support(&self) -> SessionSupport {
        let sessions = self.inner.sessions.lock();
        if sessions.also_stateless { sessions.support } else { SessionSupport::Unknown }
    }

    /// Whether the server can send requests on this connection. Over Streamable HTTP that needs a session id: without one, no
    /// answer of ours finds the process that asked.
    pub fn carries_server_requests(&self) -> bool {
        let DetectedProtocol { era, http_mode } = self.protocol();
        let is_http = self.inner.transport.link_kind() == LinkKind::Http;
        era == Era::Legacy && (!is_http || http_mode == HttpMode::EventStream || self.session().is_some())
    }

    /// Notes that the server has no sessions for callers, here and for later connections.
    pub fn note_absent_sessions(&self) {
        self.inner.sessions.lock().support = SessionSupport::Absent;
        self.store(|memory, key| memory.remember_sessions(key, SessionSupport::Absent));
    }

    /// Whether the server is known to answer without a session.
    pub fn is_stateless_too(&self) -> bool {
        self.inner.sessions.lock().also_stateless
    }

    /// Whether this tool can ask the client only without a session.
    pub fn asks_by_result(&self, tool: &str) -> bool {
        self.inner.sessions.lock().asking_by_result.contains(tool)
    }

    /// Notes such a tool, here and for later connections.
    pub fn note_asking_by_result(&self, tool: &str) {
        let mut sessions = self.inner.sessions.lock();
        if sessions.asking_by_result.len() < TOOLS && sessions.asking_by_result.insert(tool.to_owned()) {
            let tool = tool.to_owned();
            self.store(move |memory, key| memory.remember_asking_by_result(key, &tool));
        }
    }

    /// Changes the store, if any. Nothing waits for it: the next connection may learn it again.
    fn store(&self, act: impl FnOnce(&dyn EraMemory, &str) + Send + 'static) {
        if let Some((memory, key)) = self.inner.memory.clone() {
            drop(tokio::task::spawn_blocking(move || act(&*memory, &key)));
        }
    }
}
