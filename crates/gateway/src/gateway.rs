//! Everything behind one address: its faces, the keys it watches, and how it ends. One request is [`answering`]'s.

mod answering;

use std::{collections::HashMap, fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_config::ServerName;
use toolway_host::{Host, call::Caller};
use toolway_wire::{
    down::{
        self, FaceOptions, HostedTasks, Keeping, Premises,
        http::{FaceBody, HostGuard, HttpFace, HttpFaceOptions, Incoming, Responder},
    },
    exchange::LogLevel,
    limit::Limits,
    seal::{NoRandomness, Sealer},
};

use crate::{
    access::{Access, Client},
    records::{Records, figures::Standing},
    service::{HostService, Scope},
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
    /// Where figures and lines about requests go; the host writes its calls to the same.
    pub records: Arc<Records>,
    /// Whether the oldest clients come in.
    pub oldest: Oldest,
    /// How long a question in the middle of a call waits for its answer.
    pub answer_within: Duration,
    /// Which logs a caller gets that keeps a session and never said, of servers that log only when told to.
    pub usual_log_level: Option<LogLevel>,
}

/// Whether clients of 2024-11-05 come in over the transport of their time, a stream and a path beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oldest {
    /// They do not.
    #[default]
    TurnedAway,
    /// They do.
    LetIn,
}

/// Many servers behind one address.
pub struct Gateway {
    host: Host,
    access: Arc<Access>,
    guard: HostGuard,
    face: FaceOptions,
    sealer: Arc<Sealer>,
    records: Arc<Records>,
    /// Tasks that are kept here for callers, of all faces.
    hosted: HostedTasks,
    whole: Arc<HttpFace>,
    // Nothing awaits under this lock.
    alone: Mutex<HashMap<ServerName, Arc<HttpFace>>>,
    /// Held by whoever ends what was kept for a key: nobody goes on under its name meanwhile. Nothing awaits under it.
    turning_out: Mutex<()>,
    /// The end is near; a face that is made after that is told so too.
    draining: CancellationToken,
    oldest: Oldest,
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

/// How often keys are looked at while nobody comes: one that is taken back is good for less than a second.
const LOOK_AT_KEYS: Duration = Duration::from_millis(250);

/// How often servers are looked at: what was open at one that is no longer wanted ends soon after.
const LOOK_AT_SERVERS: Duration = Duration::from_millis(250);

// === impl GatewayOptions ===

impl GatewayOptions {
    /// The usual ones, for these callers.
    pub fn of(access: Access) -> Self {
        Self {
            access,
            hosts: Vec::new(),
            sealer: None,
            limits: Limits::default(),
            records: Arc::default(),
            oldest: Oldest::TurnedAway,
            answer_within: FaceOptions::default().park,
            usual_log_level: FaceOptions::default().usual_log_level,
        }
    }
}

// === impl Gateway ===

impl Gateway {
    /// A gateway to what `host` offers.
    pub fn new(host: Host, options: GatewayOptions) -> Result<Arc<Self>, NoRandomness> {
        let sealer = match options.sealer {
            Some(given) => given,
            None => Arc::new(Sealer::generated()?),
        };
        let face = FaceOptions {
            limits: options.limits,
            sealer: Some(Arc::clone(&sealer)),
            park: options.answer_within,
            usual_log_level: options.usual_log_level,
            premises: Some(Premises::default()),
            ..FaceOptions::default()
        };
        let (access, guard) = (Arc::new(options.access), HostGuard::and_hosts(options.hosts));
        let hosted = HostedTasks::new(Keeping::default());
        let service = HostService::keeping(
            host.clone(),
            Arc::clone(&access),
            Scope::All,
            Arc::clone(&sealer),
            hosted.another_shelf(),
        );
        let whole = face_of(service, &face)?;
        Ok(Arc::new(Self {
            host,
            access,
            guard,
            face,
            sealer,
            records: options.records,
            hosted,
            whole,
            alone: Mutex::default(),
            turning_out: Mutex::default(),
            draining: CancellationToken::new(),
            oldest: options.oldest,
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
        let gateway = Arc::clone(&self);
        let watching = async move {
            let records = gateway.records.watch_servers(&gateway.host);
            tokio::join!(gateway.watch_keys(), gateway.watch_removed(), records)
        };
        let _watching = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(watching));
        down::http::serve(listener, self, stop).await
    }

    /// Ends what is open for clients whose keys are no longer good, also while they say nothing.
    async fn watch_keys(&self) {
        loop {
            tokio::time::sleep(LOOK_AT_KEYS).await;
            let _turning_out = self.turning_out.lock();
            self.access.gone().iter().for_each(|client| self.turn_out(client));
        }
    }

    /// Ends what is kept under the name of a client that comes in and belongs to a key that had it before.
    fn turn_out_namesakes(&self, client: &Client) {
        let _turning_out = self.turning_out.lock();
        self.access.gone_before(client).iter().for_each(|gone| self.turn_out(gone));
    }

    fn turn_out(&self, client: &Client) {
        tracing::info!(client = &*client.name, "its key is no longer good");
        self.faces().iter().for_each(|face| face.expel(&client.name));
        // The key may be the same, and see other servers.
        if self.access.client(&client.name).is_none_or(|now| now.identity != client.identity) {
            self.host.end_caller(&Caller::Client(Arc::clone(&client.name)));
        }
    }

    /// Ends what is open at the paths of servers that are no longer wanted.
    async fn watch_removed(&self) {
        loop {
            tokio::time::sleep(LOOK_AT_SERVERS).await;
            for (server, face) in self.removed() {
                tracing::info!(%server, "it is no longer wanted; its path is gone");
                face.close();
            }
        }
    }

    /// Takes out the faces of servers that are not there any more.
    fn removed(&self) -> Vec<(ServerName, Arc<HttpFace>)> {
        self.alone.lock().extract_if(|server, _| !self.host.has(server)).collect()
    }

    /// How it stands at this moment.
    fn standing(&self) -> Standing {
        let faces = self.faces();
        Standing {
            sessions: faces.iter().map(|face| face.session_count()).sum(),
            parked: faces.iter().map(|face| face.parked_count()).sum(),
            tasks: self.hosted.count(),
            under_way: self.host.calls_under_way(),
            lost_lines: self.records.lost_lines(),
        }
    }

    fn face(&self, server: ServerName) -> Result<Arc<HttpFace>, NoRandomness> {
        let mut alone = self.alone.lock();
        if let Some(face) = alone.get(&server) {
            return Ok(Arc::clone(face));
        }
        let service = HostService::keeping(
            self.host.clone(),
            Arc::clone(&self.access),
            Scope::One(server.clone()),
            Arc::clone(&self.sealer),
            self.hosted.another_shelf(),
        );
        let face = face_of(service, &self.face)?;
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

fn face_of(service: HostService, face: &FaceOptions) -> Result<Arc<HttpFace>, NoRandomness> {
    // Path and guard are the gateway's own.
    let guard = HostGuard::in_front();
    HttpFace::new(
        Arc::new(service),
        HttpFaceOptions { face: face.clone(), path: None, guard, ..HttpFaceOptions::default() },
    )
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("access", &self.access).finish_non_exhaustive()
    }
}
