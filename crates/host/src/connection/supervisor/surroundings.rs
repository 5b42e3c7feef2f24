//! What all supervisors of a host share: how to dial, who answers servers, and who wants to hear of them.

use std::sync::Arc;

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
    /// Our face towards a server.
    pub(crate) fn face(&self, server: &ServerName) -> ClientFace {
        ClientFace {
            server: server.clone(),
            elicitor: Arc::clone(&self.ports.elicitor),
            sampler: Arc::clone(&self.ports.sampler),
            roots: Arc::clone(&self.roots),
            declared: self.declared.clone(),
        }
    }
}
