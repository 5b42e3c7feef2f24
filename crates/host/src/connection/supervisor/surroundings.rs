//! What all supervisors of a host share: how to dial, who answers servers, and who wants to hear of them.

use std::{sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use toolway_config::ServerName;

use crate::{
    catalog::{Filter, Listing},
    connection::{
        client_face::{ClientFace, Root},
        dial::Dialler,
        wanted::WantedServer,
    },
    event::Events,
    ports::HostPorts,
};

/// What all supervisors of a host share.
pub(crate) struct Surroundings {
    pub(crate) dialler: Dialler,
    pub(crate) ports: HostPorts,
    pub(crate) roots: Arc<[Root]>,
    pub(crate) declared: Option<toolway_wire::message::ClientCapabilities>,
    pub(crate) events: Events,
    /// Servers that may be starting at the same moment.
    pub(crate) starting: Arc<Semaphore>,
    pub(crate) cataloguing: Arc<dyn Cataloguing>,
    /// What the waits of a server follow from.
    pub(crate) seed: u64,
}

/// How long a server may take of the number that may be starting; one that hangs holds up no other.
const STARTING: Duration = Duration::from_secs(2);

/// Hears what each server lists.
pub(crate) trait Cataloguing: Send + Sync {
    /// A server was heard.
    fn listed(&self, server: &WantedServer, listing: Arc<Listing>);
    /// A server's filter changed.
    fn filtered(&self, server: &ServerName, filter: &Arc<Filter>);
    /// A server offers nothing any more.
    fn withdrawn(&self, server: &ServerName);
}

// === impl Surroundings ===

impl Surroundings {
    /// Only so many servers start at a time; whoever takes long lets the next one start meanwhile.
    pub(crate) async fn in_turn<T>(&self, work: impl Future<Output = T>) -> T {
        let turn = self.starting.acquire().await;
        let mut work = std::pin::pin!(work);
        if let Ok(done) = tokio::time::timeout(STARTING, &mut work).await {
            return done;
        }
        drop(turn);
        work.await
    }

    /// Our face towards a server.
    pub(crate) fn face(&self, server: &ServerName) -> ClientFace {
        ClientFace {
            server: server.clone(),
            elicitor: Arc::clone(&self.ports.elicitor),
            sampler: Arc::clone(&self.ports.sampler),
            roots: Arc::clone(&self.roots),
            declared: self.declared.clone(),
            asks: None,
        }
    }
}
