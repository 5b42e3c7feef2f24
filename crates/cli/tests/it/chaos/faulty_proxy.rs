//! A TCP proxy that cuts connections at random bytes, in either direction, in one of three ways.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::rng::SeededRng;

/// TCP proxy that cuts connections.
pub(super) struct FaultyProxy {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    _serving: AbortOnDropHandle<()>,
}

struct Shared {
    target: Mutex<Option<SocketAddr>>,
    rng: Mutex<SeededRng>,
    hang_up: Mutex<CancellationToken>,
    /// One of this many connections is cut; zero cuts none.
    one_in: AtomicU64,
    cuts: AtomicUsize,
}

/// Where and how a connection is cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    way: Way,
    after: u64,
    manner: Manner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Both sides get an end of stream.
    Close,
    /// Both sides get a reset.
    Reset,
    /// One direction ends, the other continues.
    HalfClose,
}

/// How forwarding ended.
enum Passed {
    All,
    Cut,
}

/// Range of the cut position: a request with headers, or a response and part of the next.
const FURTHEST: u64 = 1_200;

impl FaultyProxy {
    /// Starts a proxy without a target.
    pub(super) async fn start(rng: SeededRng) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::default(),
            rng: Mutex::new(rng),
            hang_up: Mutex::default(),
            one_in: AtomicU64::new(0),
            cuts: AtomicUsize::new(0),
        });
        let serving = tokio::runtime::Handle::current().spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Sets the target of new connections.
    pub(super) fn set_target(&self, authority: &str) {
        *self.shared.target.lock() = Some(authority.parse().unwrap());
    }

    /// Cuts one of this many new connections.
    pub(super) fn cut_one_in(&self, many: u64) {
        self.shared.one_in.store(many, Ordering::Relaxed);
    }

    /// Stops the proxy and closes open connections.
    pub(super) fn heal(&self) {
        self.cut_one_in(0);
        let was = std::mem::take(&mut *self.shared.hang_up.lock());
        was.cancel();
    }

    /// Number of cut connections.
    pub(super) fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn cut(&self) -> Option<Cut> {
        let one_in = self.one_in.load(Ordering::Relaxed);
        let mut rng = self.rng.lock();
        (one_in != 0 && rng.below(one_in) == 0).then(|| Cut {
            way: *rng.one(&[Way::Up, Way::Down]),
            after: rng.below(FURTHEST),
            manner: *rng.one(&[Manner::Close, Manner::Reset, Manner::HalfClose]),
        })
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut open = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let Some(target) = *shared.target.lock() else { continue };
        let hang_up = shared.hang_up.lock().clone();
        let shared = Arc::clone(&shared);
        open.spawn(async move {
            tokio::select! {
                () = lead(stream, target, &shared) => {}
                () = hang_up.cancelled() => {}
            }
        });
        while open.try_join_next().is_some() {}
    }
}

async fn lead(mut near: TcpStream, target: SocketAddr, shared: &Shared) {
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    let cut = shared.cut();
    let limit = |way: Way| cut.filter(|cut| cut.way == way).map(|cut| cut.after);
    let manner = cut.map(|cut| cut.manner);
    let was_cut = {
        let ((near_read, near_write), (far_read, far_write)) = (near.split(), far.split());
        let up = pass(near_read, far_write, limit(Way::Up));
        let down = pass(far_read, near_write, limit(Way::Down));
        tokio::pin!(up, down);
        let (first, other_is_up) = tokio::select! {
            passed = &mut up => (passed, false),
            passed = &mut down => (passed, true),
        };
        let cut_short = matches!(first, Passed::Cut);
        // Half-closed: the other direction continues.
        let goes_on = !cut_short || manner == Some(Manner::HalfClose);
        let second = match (goes_on, other_is_up) {
            (false, _) => Passed::All,
            (true, true) => up.await,
            (true, false) => down.await,
        };
        cut_short || matches!(second, Passed::Cut)
    };
    if was_cut {
        shared.cuts.fetch_add(1, Ordering::Relaxed);
        if manner == Some(Manner::Reset) {
            // The sockets may be closed already.
            drop((near.set_zero_linger(), far.set_zero_linger()));
        }
    }
}

/// Forwards bytes up to the end of the stream or up to `limit`.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, limit: Option<u64>) -> Passed {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut chunk = [0; 8 * 1024];
    while 0 < left {
        let Ok(length @ 1..) = from.read(&mut chunk).await else { break };
        let length = length.min(usize::try_from(left).unwrap_or(usize::MAX));
        if to.write_all(&chunk[..length]).await.is_err() {
            return Passed::All;
        }
        left -= u64::try_from(length).unwrap();
    }
    // The peer may be gone.
    drop(to.shutdown().await);
    if left == 0 { Passed::Cut } else { Passed::All }
}
