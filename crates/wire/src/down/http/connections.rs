//! Open connections of one listener, counted by peer address and principal.
//!
//! A connection has no key until a request on it is authenticated, or until another gateway has proven that of the cluster. Only few of those are kept: a new one closes the
//! oldest of its address, so that silent connections shut no client out.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::limit::{
    ALL_CONNECTIONS_WITHOUT_KEY, ALL_PEER_CONNECTIONS_WITHOUT_KEY, CONNECTIONS_WITHOUT_KEY,
    PEER_CONNECTIONS_WITHOUT_KEY,
};

/// Connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    /// Limit for one principal and one peer address.
    limit: usize,
    without_key: WithoutKey,
    // Nothing awaits under this lock.
    open: Mutex<OpenConnections>,
}

/// Limits on connections that have not sent a valid key.
#[derive(Clone, Copy, Debug)]
struct WithoutKey {
    of_address: usize,
    of_all: usize,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// Connections without a key, oldest first.
    without_key: BTreeMap<u64, (IpAddr, CancellationToken)>,
    by_principal: HashMap<Arc<str>, usize>,
    /// Connections with a key.
    by_peer: HashMap<IpAddr, usize>,
}

/// The connection on which a request arrived.
#[derive(Debug)]
pub struct PeerConnection {
    connections: Arc<Connections>,
    number: u64,
    peer: SocketAddr,
    /// Set when the first request head has arrived.
    begun: AtomicBool,
    has_key: AtomicBool,
    principal: Mutex<Option<Arc<str>>>,
    /// Cancelled to close the connection.
    pub(super) evicted: CancellationToken,
}

/// A principal or an address has too many connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many connections of this client or address; close some, or raise `limits.connections` ({limit})")]
pub struct TooManyConnections {
    /// Largest number of connections.
    pub limit: usize,
}

/// The principal of connections of other gateways. No client has this name.
pub const PEER_PRINCIPAL: &str = "(gateway)";
/// Maximum time between the start of a connection and its first request head.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(5);

// === impl Connections ===

impl Connections {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let without_key = WithoutKey { of_address: CONNECTIONS_WITHOUT_KEY, of_all: ALL_CONNECTIONS_WITHOUT_KEY };
        Arc::new(Self { limit, without_key, open: Mutex::default() })
    }

    /// Those of other gateways.
    pub(super) fn of_peers(limit: usize) -> Arc<Self> {
        let without_key =
            WithoutKey { of_address: PEER_CONNECTIONS_WITHOUT_KEY, of_all: ALL_PEER_CONNECTIONS_WITHOUT_KEY };
        Arc::new(Self { limit, without_key, open: Mutex::default() })
    }

    /// Registers a new connection; closes the oldest ones without a key if there are too many.
    pub(super) fn accept(self: &Arc<Self>, peer: SocketAddr) -> Arc<PeerConnection> {
        let (address, evicted) = (peer.ip(), CancellationToken::new());
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        open.without_key.insert(number, (address, evicted.clone()));
        let of_address = open.without_key.values().filter(|(other, _)| *other == address).count();
        if self.without_key.of_address < of_address {
            open.evict_oldest(|other| other == address);
        } else if self.without_key.of_all < open.without_key.len() {
            open.evict_oldest(|_| true);
        }
        drop(open);
        Arc::new(PeerConnection {
            connections: Arc::clone(self),
            number,
            peer,
            begun: AtomicBool::new(false),
            has_key: AtomicBool::new(false),
            principal: Mutex::default(),
            evicted,
        })
    }
}

impl OpenConnections {
    fn evict_oldest(&mut self, of: impl Fn(IpAddr) -> bool) {
        let oldest = self.without_key.iter().find(|(_, (address, _))| of(*address)).map(|(number, _)| *number);
        if let Some((_, evicted)) = oldest.and_then(|oldest| self.without_key.remove(&oldest)) {
            evicted.cancel();
        }
    }
}

// === impl PeerConnection ===

impl PeerConnection {
    /// Address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// A request of this principal was authenticated: counts the connection for it. Later principals on the same
    /// connection, as behind a proxy, are not counted.
    pub fn authenticated(&self, principal: &Arc<str>) -> Result<(), TooManyConnections> {
        if self.has_key.load(Ordering::Relaxed) {
            return Ok(());
        }
        let limit = self.connections.limit;
        let mut open = self.connections.open.lock();
        let of_principal = open.by_principal.get(principal).copied().unwrap_or_default();
        let of_peer = open.by_peer.get(&self.peer.ip()).copied().unwrap_or_default();
        if limit <= of_principal || limit <= of_peer {
            return Err(TooManyConnections { limit });
        }
        *open.by_principal.entry(Arc::clone(principal)).or_default() += 1;
        *open.by_peer.entry(self.peer.ip()).or_default() += 1;
        open.without_key.remove(&self.number);
        *self.principal.lock() = Some(Arc::clone(principal));
        self.has_key.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The head of a request has arrived.
    pub(super) fn begin(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Resolves when the connection is to be closed: evicted, or without a request for too long.
    pub(super) async fn closing(&self) {
        tokio::select! {
            () = self.evicted.cancelled() => return,
            () = tokio::time::sleep(FIRST_HEAD_TIMEOUT) => {}
        }
        if self.begun.load(Ordering::Relaxed) {
            self.evicted.cancelled().await;
        }
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.without_key.remove(&self.number);
        let Some(principal) = self.principal.lock().take() else { return };
        release(&mut open.by_principal, &principal);
        release(&mut open.by_peer, &self.peer.ip());
    }
}

fn release<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, sync::Arc};

    use super::{CONNECTIONS_WITHOUT_KEY, Connections, FIRST_HEAD_TIMEOUT, TooManyConnections};

    fn peer(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 1000))
    }

    #[test]
    fn new_connection_without_a_key_closes_the_oldest_of_its_address() {
        let connections = Connections::new(4);
        let other = connections.accept(peer(2));
        let with_key = connections.accept(peer(1));
        with_key.authenticated(&Arc::from("ada")).unwrap();
        let silent: Vec<_> = (0..CONNECTIONS_WITHOUT_KEY).map(|_| connections.accept(peer(1))).collect();
        assert!(silent.iter().all(|one| !one.evicted.is_cancelled()));
        let newest = connections.accept(peer(1));
        assert!(silent[0].evicted.is_cancelled() && !silent[1].evicted.is_cancelled());
        assert!([&other, &with_key, &newest].iter().all(|one| !one.evicted.is_cancelled()));
    }

    #[test]
    fn gateway_that_opens_many_connections_at_once_keeps_them() {
        let connections = Connections::of_peers(4);
        let burst: Vec<_> = (0..2 * CONNECTIONS_WITHOUT_KEY).map(|_| connections.accept(peer(1))).collect();
        assert!(burst.iter().all(|one| !one.evicted.is_cancelled()));
    }

    #[test]
    fn connections_of_one_principal_are_limited() {
        let (connections, ada) = (Connections::new(2), Arc::from("ada"));
        let mut open: Vec<_> = (1..=3).map(|last| connections.accept(peer(last))).collect();
        assert!(open[0].authenticated(&ada).is_ok() && open[1].authenticated(&ada).is_ok());
        assert!(open[0].authenticated(&ada).is_ok(), "counted once");
        assert_eq!(open[2].authenticated(&ada), Err(TooManyConnections { limit: 2 }));
        open[2].authenticated(&Arc::from("bob")).unwrap();
        open.remove(0);
        connections.accept(peer(1)).authenticated(&ada).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connection_is_closed_and_one_with_a_request_is_not() {
        let connections = Connections::new(2);
        let (silent, begun) = (connections.accept(peer(1)), connections.accept(peer(1)));
        begun.begin();
        let began = tokio::time::Instant::now();
        silent.closing().await;
        assert_eq!(began.elapsed(), FIRST_HEAD_TIMEOUT);
        assert!(tokio::time::timeout(FIRST_HEAD_TIMEOUT * 2, begun.closing()).await.is_err());
    }
}
