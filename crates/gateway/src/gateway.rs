//! Everything behind one address: who is let in, which path leads where, and how it ends.

use std::{collections::HashMap, fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolway_config::ServerName;
use toolway_host::{Host, catalog::Freshness};
use toolway_wire::{
    down::{
        self, FaceOptions,
        http::{FaceBody, HostGuard, HttpFace, HttpFaceOptions, Incoming, Principal, Responder},
    },
    limit::Limits,
    seal::{NoRandomness, Sealer},
};

use crate::{
    access::{Access, Client},
    reply,
    route::Route,
    service::{HostService, Scope},
    view,
};

/// How a gateway behaves.
#[derive(Debug)]
pub struct GatewayOptions {
    /// Who may come in.
    pub access: Access,
    /// Names under which it is reached, beside those of this machine.
    pub hosts: Vec<String>,
    /// What seals handles; without one, a key that lives as long as the gateway.
    pub sealer: Option<Arc<Sealer>>,
    /// The bounds on callers.
    pub limits: Limits,
}

/// Many servers behind one address.
pub struct Gateway {
    host: Host,
    access: Arc<Access>,
    guard: HostGuard,
    face: FaceOptions,
    sealer: Arc<Sealer>,
    whole: Arc<HttpFace>,
    // Nothing awaits under this lock.
    alone: Mutex<HashMap<ServerName, Arc<HttpFace>>>,
    /// The end is near; a face that is made after that is told so too.
    draining: CancellationToken,
}

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {problem}")]
    Address {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        problem: io::Error,
    },
    /// Everybody on the network could come in.
    #[error("`{0}` can be reached from other machines, and access is open: use keys, or an address of this machine")]
    OpenToAll(SocketAddr),
    /// Nothing can be sealed.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

// === impl Gateway ===

impl Gateway {
    /// A gateway to what `host` offers.
    pub fn new(host: Host, options: GatewayOptions) -> Result<Arc<Self>, NoRandomness> {
        let sealer = match options.sealer {
            Some(given) => given,
            None => Arc::new(Sealer::generated()?),
        };
        let face = FaceOptions { limits: options.limits, sealer: Some(Arc::clone(&sealer)), ..FaceOptions::default() };
        let (access, guard) = (Arc::new(options.access), HostGuard::and_hosts(options.hosts));
        let whole = face_of(&host, &access, Scope::All, (&face, &sealer), &guard)?;
        Ok(Arc::new(Self {
            host,
            access,
            guard,
            face,
            sealer,
            whole,
            alone: Mutex::default(),
            draining: CancellationToken::new(),
        }))
    }

    /// Listens; refused where everybody on the network could come in.
    pub async fn bind(&self, address: SocketAddr) -> Result<TcpListener, GatewayError> {
        if !address.ip().is_loopback() && matches!(*self.access, Access::Open) {
            return Err(GatewayError::OpenToAll(address));
        }
        TcpListener::bind(address).await.map_err(|problem| GatewayError::Address { address, problem })
    }

    /// Serves until told to stop.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        down::http::serve(listener, self, stop).await
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Response<FaceBody> {
        // Before anything is looked at: a page in somebody's browser may have sent this.
        if let Err(reason) = self.guard.admit(request.headers()) {
            return reply::text(StatusCode::FORBIDDEN, reason);
        }
        let Some(route) = Route::of(request.uri().path()) else {
            return reply::text(StatusCode::NOT_FOUND, "nothing here; MCP is at /mcp");
        };
        if route == Route::Health {
            return read_only(&request).unwrap_or_else(|| reply::text(StatusCode::OK, "ok"));
        }
        let client = match self.access.admit(request.headers()) {
            Ok(client) => client,
            Err(stranger) => return reply::stranger(stranger.to_string()),
        };
        request.extensions_mut().insert(Principal(Arc::clone(&client.name)));
        match route {
            Route::Health => reply::text(StatusCode::OK, "ok"),
            Route::Mcp => self.whole.respond(request).await,
            Route::Server(server) => self.alone(server, &client, request).await,
            Route::Ready => read_only(&request).unwrap_or_else(|| view::ready(&self.host)),
            Route::Servers => read_only(&request).unwrap_or_else(|| view::servers(&self.host, &client)),
        }
    }

    /// One server under its own names.
    async fn alone(&self, server: ServerName, client: &Client, request: Request<Incoming>) -> Response<FaceBody> {
        let known = client.sees(&server) && self.host.status(&server).is_ok();
        if !known {
            return reply::text(StatusCode::NOT_FOUND, "there is no such server");
        }
        // What it offers is its own word: the first caller waits until it has been heard.
        if self.host.catalog().freshness_of(&server) != Some(Freshness::Verified) {
            drop(self.host.list(&server).await);
        }
        match self.face(server) {
            Ok(face) => face.respond(request).await,
            Err(problem) => reply::text(StatusCode::INTERNAL_SERVER_ERROR, problem.to_string()),
        }
    }

    fn face(&self, server: ServerName) -> Result<Arc<HttpFace>, NoRandomness> {
        let mut alone = self.alone.lock();
        if let Some(face) = alone.get(&server) {
            return Ok(Arc::clone(face));
        }
        let face =
            face_of(&self.host, &self.access, Scope::One(server.clone()), (&self.face, &self.sealer), &self.guard)?;
        if self.draining.is_cancelled() {
            face.drain();
        }
        alone.insert(server, Arc::clone(&face));
        Ok(face)
    }

    /// Every face there is.
    fn faces(&self) -> Vec<Arc<HttpFace>> {
        let alone = self.alone.lock();
        alone.values().chain([&self.whole]).cloned().collect()
    }
}

impl Responder for Gateway {
    fn respond(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<FaceBody>> {
        Box::pin(self.answer(request))
    }

    fn limits(&self) -> &Limits {
        &self.face.limits
    }

    fn drain(&self) {
        self.draining.cancel();
        self.faces().iter().for_each(|face| face.drain());
    }

    fn drain_time(&self) -> Duration {
        self.face.drain
    }

    fn write_time(&self) -> Duration {
        self.whole.write_time()
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let faces = self.faces();
            futures_util::future::join_all(faces.iter().map(|face| face.finish())).await;
        })
    }
}

fn face_of(
    host: &Host,
    access: &Arc<Access>,
    scope: Scope,
    (face, sealer): (&FaceOptions, &Arc<Sealer>),
    guard: &HostGuard,
) -> Result<Arc<HttpFace>, NoRandomness> {
    let service = HostService::new(host.clone(), Arc::clone(access), scope, Arc::clone(sealer));
    HttpFace::new(
        Arc::new(service),
        HttpFaceOptions { face: face.clone(), path: None, guard: guard.clone(), ..HttpFaceOptions::default() },
    )
}

/// The refusal of a method that would change something where nothing can be changed.
fn read_only(request: &Request<Incoming>) -> Option<Response<FaceBody>> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    (!reads).then(|| reply::text(StatusCode::METHOD_NOT_ALLOWED, "GET"))
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("access", &self.access).finish_non_exhaustive()
    }
}
