//! Two gateways of one cluster in one process, over one simulated store, with the same clients.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::net::TcpListener;
use toolway_config::Secret;
use toolway_gateway::{
    GatewayOptions,
    access::{Access, KeyFile},
    cluster::{ClusterMembership, ClusterOptions},
};
use toolway_host::{
    cluster::{
        ClientSessionChanges, ClientSessionLimits, ClientSessionReply, ClientSessionRow, ClientSessionStore, Member,
    },
    record::RecordsError,
};
use toolway_testkit::{fixture_server::FixtureServer, test_host::TestHost};
use toolway_wire::{
    cluster_key::{ClusterKey, ClusterKeys},
    limit::Limits,
    peer::{PeerSilence, PeerTls},
};
use uuid::Uuid;

use crate::{
    cluster_driver::{TimedStore, joined},
    raw_client::RawClient,
    test_gateway::TestGateway,
};

/// Rows of sessions in memory.
#[derive(Debug, Default)]
pub(crate) struct MemorySessions(Mutex<BTreeMap<Uuid, ClientSessionRow>>);

impl MemorySessions {
    fn reply<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut BTreeMap<Uuid, ClientSessionRow>) -> T,
    ) -> ClientSessionReply<'static, T> {
        let reply: Result<T, RecordsError> = Ok(act(&mut self.0.lock()));
        Box::pin(std::future::ready(reply))
    }

    pub(crate) fn ids(&self) -> Vec<Uuid> {
        self.0.lock().keys().copied().collect()
    }
}

impl ClientSessionStore for MemorySessions {
    fn begin(&self, id: Uuid, row: ClientSessionRow, _: ClientSessionLimits) -> ClientSessionReply<'_, ()> {
        self.reply(|rows| drop(rows.insert(id, row)))
    }

    fn find(&self, id: Uuid, _: Duration) -> ClientSessionReply<'_, Option<ClientSessionRow>> {
        self.reply(|rows| rows.get(&id).cloned())
    }

    fn change(&self, id: Uuid, changes: ClientSessionChanges) -> ClientSessionReply<'_, bool> {
        self.reply(|rows| {
            let Some(row) = rows.get_mut(&id) else { return false };
            row.log_level = changes.log_level.or(row.log_level.take());
            true
        })
    }

    fn end(&self, id: Uuid) -> ClientSessionReply<'_, ()> {
        self.reply(|rows| drop(rows.remove(&id)))
    }
}

/// A cluster: its store, its rows of sessions and its clients.
pub(crate) struct TestCluster {
    pub(crate) store: Arc<TimedStore>,
    pub(crate) sessions: Arc<MemorySessions>,
    pub(crate) file: KeyFile,
    pub(crate) keys: [Secret; 2],
    /// Limits of the gateways that are started from now on.
    pub(crate) limits: Limits,
    /// How long another gateway may be silent.
    pub(crate) silence: PeerSilence,
    _folder: tempfile::TempDir,
}

/// One gateway of it.
pub(crate) struct ClusterGateway {
    pub(crate) gateway: TestGateway,
    pub(crate) membership: ClusterMembership,
    pub(crate) files: FixtureServer,
    pub(crate) peers: SocketAddr,
}

pub(crate) fn cluster_keys() -> ClusterKeys {
    ClusterKeys::only(ClusterKey::new("0123456789abcdef0123456789abcdef").unwrap())
}

impl TestCluster {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let keys = ["ada", "bob"].map(|name| file.add(name, None, None).unwrap());
        let silence = PeerSilence::default();
        Self {
            store: TimedStore::new(),
            sessions: Arc::default(),
            file,
            keys,
            limits: Limits::default(),
            silence,
            _folder: folder,
        }
    }

    /// Starts a gateway with these tools of a server of its own.
    pub(crate) async fn gateway(&self, files: FixtureServer) -> ClusterGateway {
        let peers = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = peers.local_addr().unwrap();
        self.gateway_at(files, Some(peers), address).await
    }

    /// Starts a gateway that others reach at this address, if there is a listener.
    pub(crate) async fn gateway_at(
        &self,
        files: FixtureServer,
        peers: Option<TcpListener>,
        address: SocketAddr,
    ) -> ClusterGateway {
        let membership = self.store.join(address.to_string().parse().unwrap());
        joined(&membership).await;
        let keys = cluster_keys();
        let sealer = Some(Arc::new(keys.sealer().unwrap()));
        let cluster = ClusterOptions {
            membership: membership.clone(),
            sessions: Arc::clone(&self.sessions) as Arc<dyn ClientSessionStore>,
            tls: PeerTls::new(&keys).unwrap().with_silence(self.silence),
            keys,
        };
        let access = Access::with_key_file(Some(self.file.clone())).unwrap();
        let options = GatewayOptions {
            cluster: Some(cluster),
            sealer,
            limits: self.limits.clone(),
            ..GatewayOptions::of(access)
        };
        let gateway = TestGateway::of_cluster(TestHost::with(&files, "files"), options, None, peers).await;
        gateway.host.ready("files").await;
        ClusterGateway { gateway, membership, files, peers: address }
    }
}

impl ClusterGateway {
    pub(crate) fn member(&self) -> Member {
        self.membership.current().unwrap()
    }

    /// A client with this key.
    pub(crate) fn client(&self, key: &Secret) -> RawClient {
        self.gateway.raw_client("/mcp", Some(key.expose()))
    }

    /// Calls of its server.
    pub(crate) fn calls(&self) -> usize {
        self.files.seen("tools/call").len()
    }
}
