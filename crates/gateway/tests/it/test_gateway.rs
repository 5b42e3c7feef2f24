//! A running gateway for tests, with clients of either era.

use std::{net::SocketAddr, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};
use toolway_config::Secret;
use toolway_gateway::{Gateway, GatewayOptions, SseTransport, access::Access, records::Records};
use toolway_host::connection::{ServerAddress, WantedServer, Way};
use toolway_testkit::{
    fixture_server::{FixtureServer, HttpFixture},
    test_host::{TestHost, TestHostBuilder, name, within},
};
use toolway_wire::{
    error::WireError,
    exchange::{Answer, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    revision::Era,
    seal::Sealer,
    up::{
        ConnectOptions, EraChoice, HttpTransportChoice, Peer, client::HttpClient, connector::HttpOptions,
        credential::NoCredentials, http::HttpTransport,
    },
};

/// A running gateway.
pub(crate) struct TestGateway {
    pub(crate) host: TestHost,
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<Secret>,
    _serving: AbortOnDropHandle<()>,
    _stop: DropGuard,
}

/// A user that answers every form with `Ada`.
pub(crate) struct Ada;

impl ServerRequestHandler for Ada {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "elicitation": { "form": {} }, "sampling": {}, "roots": {} })))
    }

    fn answer(&self, question: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            Answer::Given(Raw::of(&match question.method.as_str() {
                "elicitation/create" => json!({ "action": "accept", "content": { "name": "Ada" } }),
                "roots/list" => json!({ "roots": [{ "uri": "file:///work" }] }),
                _ => json!({
                    "role": "assistant",
                    "model": "none",
                    "content": { "type": "text", "text": "Ada" },
                }),
            }))
        })
    }
}

/// A server for the gateway, over HTTP in one era.
pub(crate) async fn behind(server: &FixtureServer, era: Era) -> (HttpFixture, WantedServer) {
    let fixture = server.over_http(Some(era)).await.unwrap();
    let address = ServerAddress::http(fixture.url().parse().unwrap());
    let wanted = WantedServer::new(name("files"), Way::Address(address));
    (fixture, wanted)
}

impl TestGateway {
    /// Serves these servers to clients with the temporary key.
    pub(crate) async fn with(builder: TestHostBuilder) -> Self {
        let (access, key) = Access::with_keys(None).unwrap();
        Self::open_to(builder, access, key).await
    }

    pub(crate) async fn open_to(builder: TestHostBuilder, access: Access, key: Option<Secret>) -> Self {
        Self::recorded(builder, access, key, Arc::default()).await
    }

    /// The same, with these records.
    pub(crate) async fn recorded(
        mut builder: TestHostBuilder,
        access: Access,
        key: Option<Secret>,
        records: Arc<Records>,
    ) -> Self {
        builder.ports.calls = records.clone();
        let options = GatewayOptions { records, sse: SseTransport::Enabled, ..GatewayOptions::of(access) };
        Self::behind(builder, options, key).await
    }

    /// The same, with this sealer, which other gateways may share.
    pub(crate) async fn sealed(builder: TestHostBuilder, access: Access, sealer: Arc<Sealer>) -> Self {
        let options = GatewayOptions { sealer: Some(sealer), ..GatewayOptions::of(access) };
        Self::behind(builder, options, None).await
    }

    /// The same, with these limits.
    pub(crate) async fn bounded(builder: TestHostBuilder, access: Access, limits: Limits) -> Self {
        let options = GatewayOptions { limits, sse: SseTransport::Enabled, ..GatewayOptions::of(access) };
        Self::behind(builder, options, None).await
    }

    pub(crate) async fn behind(builder: TestHostBuilder, options: GatewayOptions, key: Option<Secret>) -> Self {
        Self::of_cluster(builder, options, key, None).await
    }

    /// The same, with the listener for other gateways of its cluster.
    pub(crate) async fn of_cluster(
        builder: TestHostBuilder,
        options: GatewayOptions,
        key: Option<Secret>,
        peers: Option<TcpListener>,
    ) -> Self {
        let host = builder.start().await;
        let gateway = Gateway::new(host.host.clone(), options).unwrap();
        let listener = gateway.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn({
            let stop = stop.clone();
            async move {
                let serving_peers = async {
                    if let Some(peers) = peers {
                        Arc::clone(&gateway).serve_peers(peers, stop.clone()).await.unwrap();
                    }
                };
                tokio::join!(serving_peers, async {
                    Arc::clone(&gateway).serve(listener, stop.clone()).await.unwrap()
                });
            }
        }));
        Self { host, address, key, _serving: serving, _stop: stop.drop_guard() }
    }

    /// A client of one era at this path.
    pub(crate) async fn client(&self, path: &str, era: Era) -> Peer {
        self.client_with(path, era, self.key.as_ref().map(Secret::expose)).await.unwrap()
    }

    /// A client of one era at this path, with this handler for server requests.
    pub(crate) async fn client_of(&self, path: &str, era: Era, asks: Arc<dyn ServerRequestHandler>) -> Peer {
        self.connect(path, era, self.key.as_ref().map(Secret::expose), Some(asks)).await.unwrap()
    }

    /// A client with a session and this key that answers `roots/list`.
    pub(crate) async fn client_with_roots(&self, key: &str, roots: Arc<dyn ServerRequestHandler>) -> Peer {
        self.connect("/mcp", Era::Legacy, Some(key), Some(roots)).await.unwrap()
    }

    /// A client of one era at this path without capabilities.
    pub(crate) async fn client_without_user(&self, path: &str, era: Era) -> Peer {
        self.connect(path, era, self.key.as_ref().map(Secret::expose), None).await.unwrap()
    }

    /// The same, with its own key.
    pub(crate) async fn connect_without_user(&self, path: &str, era: Era, key: &str) -> Peer {
        self.connect(path, era, Some(key), None).await.unwrap()
    }

    /// A client of one era with its own key and this handler for server requests.
    pub(crate) async fn connect_answering(&self, era: Era, key: &str, asks: Arc<dyn ServerRequestHandler>) -> Peer {
        self.connect("/mcp", era, Some(key), Some(asks)).await.unwrap()
    }

    pub(crate) async fn client_with(&self, path: &str, era: Era, key: Option<&str>) -> Result<Peer, WireError> {
        self.connect(path, era, key, Some(Arc::new(Ada))).await
    }

    /// A client with the HTTP+SSE transport.
    pub(crate) async fn sse_client(&self, path: &str) -> Peer {
        let options = ConnectOptions {
            era: EraChoice::Legacy,
            http: HttpTransportChoice::EventStream,
            ..ConnectOptions::default()
        };
        self.connect_with(path, self.key.as_ref().map(Secret::expose), options).await.unwrap()
    }

    async fn connect(
        &self,
        path: &str,
        era: Era,
        key: Option<&str>,
        asks: Option<Arc<dyn ServerRequestHandler>>,
    ) -> Result<Peer, WireError> {
        let era = if era == Era::Legacy { EraChoice::Legacy } else { EraChoice::Modern };
        self.connect_with(path, key, ConnectOptions { era, request_handler: asks, ..ConnectOptions::default() }).await
    }

    async fn connect_with(&self, path: &str, key: Option<&str>, options: ConnectOptions) -> Result<Peer, WireError> {
        let limits = Limits::default();
        let client = HttpClient::new(HttpOptions::default(), &limits);
        let mut headers = http::HeaderMap::new();
        if let Some(key) = key {
            headers.insert("authorization", format!("Bearer {key}").parse().unwrap());
        }
        let url = format!("http://{}{path}", self.address).parse().unwrap();
        let transport = HttpTransport::new(client, url, headers, Arc::new(NoCredentials), limits);
        within("a handshake", Peer::connect(Arc::new(transport), options)).await
    }
}
