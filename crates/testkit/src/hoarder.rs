//! A hostile server with sessions: it lists much, other items in each session, and announces a change after each list.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_wire::{
    down::{
        self, Caller, DownstreamOptions, Profile, Service, ServiceSubscription,
        http::{HttpDownstream, HttpDownstreamOptions},
    },
    exchange::{Exchange, Outcome, Request},
    json::Raw,
    message::RpcError,
    notice::{List, Notice, SubscriptionFilter},
    revision::{Era, Revision},
};

/// The server. Its tool `small` does nothing.
#[derive(Debug)]
pub struct Hoarder {
    tools: usize,
    bytes: usize,
    lists: AtomicUsize,
}

/// The server on a port of this machine; stopped on drop.
#[derive(Debug)]
pub struct HoarderOverHttp {
    address: SocketAddr,
    server: Arc<Hoarder>,
    _serving: AbortOnDropHandle<()>,
}

/// Pause between two announcements of a change.
const PAUSE: Duration = Duration::from_millis(20);

impl Hoarder {
    /// A server that lists this many tools with descriptions of `bytes`.
    pub fn new(tools: usize, bytes: usize) -> Arc<Self> {
        Arc::new(Self { tools, bytes, lists: AtomicUsize::new(0) })
    }

    /// How often its tools were listed.
    pub fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }

    /// Serves on a port of this machine, with sessions.
    pub async fn over_http(self: Arc<Self>) -> io::Result<HoarderOverHttp> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let revisions = Revision::of(Era::Legacy).collect();
        let downstream = DownstreamOptions { revisions, drain: Duration::ZERO, ..DownstreamOptions::default() };
        let options = HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() };
        let service = Arc::clone(&self) as Arc<dyn Service>;
        let downstream = HttpDownstream::new(service, options).map_err(io::Error::other)?;
        let serving = down::http::serve(listener, downstream, CancellationToken::new());
        let task = tokio::runtime::Handle::current().spawn(async move { drop(serving.await) });
        Ok(HoarderOverHttp { address, server: self, _serving: AbortOnDropHandle::new(task) })
    }

    fn list(&self) -> Value {
        let list = self.lists.fetch_add(1, Ordering::Relaxed);
        let mut tools = vec![json!({ "name": "small", "inputSchema": { "type": "object" } })];
        let more =
            |number: usize| json!({ "name": format!("t{list}x{number}"), "description": "x".repeat(self.bytes) });
        tools.extend((0..self.tools).map(more));
        json!({ "tools": tools })
    }
}

impl HoarderOverHttp {
    /// URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The server.
    pub fn server(&self) -> &Hoarder {
        &self.server
    }
}

impl Service for Hoarder {
    fn profile(&self, _caller: &Caller) -> Profile {
        Profile {
            info: Raw::of(&json!({ "name": "hoarder", "version": "1" })),
            capabilities: Raw::of(&json!({ "tools": { "listChanged": true } })),
            instructions: None,
        }
    }

    fn open(&self, request: Request, _caller: &Caller) -> Exchange {
        let result = match request.method() {
            "tools/list" => self.list(),
            "tools/call" => json!({ "content": [], "isError": false }),
            _ => return Exchange::ended(Outcome::Refused(RpcError::new(RpcError::METHOD_NOT_FOUND, "unknown"))),
        };
        Exchange::ended(Outcome::Answered(Raw::of(&result)))
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        let (sender, notices) = mpsc::channel(1);
        tokio::runtime::Handle::current().spawn(async move {
            while sender.send(Notice::Changed(List::Tools)).await.is_ok() {
                tokio::time::sleep(PAUSE).await;
            }
        });
        Box::pin(std::future::ready(ServiceSubscription { accepted: wanted, notices }))
    }
}
