//! A way between two sockets that is cut at random bytes, in either direction, in one of three manners.

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

use super::dice::Dice;

/// A listener whose connections lead elsewhere.
pub(super) struct Cutter {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    _serving: AbortOnDropHandle<()>,
}

struct Shared {
    // Nothing awaits under these locks.
    target: Mutex<Option<SocketAddr>>,
    dice: Mutex<Dice>,
    hang_up: Mutex<CancellationToken>,
    /// One connection in so many is cut; none at zero.
    one_in: AtomicU64,
    cuts: AtomicUsize,
}

/// Where and how a connection ends before its time.
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
    /// Both sides are told that nothing more comes.
    Close,
    /// Both sides are told that it was torn down.
    Reset,
    /// One side is told that nothing more comes, the other can go on.
    HalfClose,
}

/// How passing bytes on ended.
enum Passed {
    All,
    Cut,
}

/// A request with its headers, or an answer and part of the next.
const FURTHEST: u64 = 1_200;

impl Cutter {
    /// A way that leads nowhere yet.
    pub(super) async fn start(dice: Dice) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            target: Mutex::default(),
            dice: Mutex::new(dice),
            hang_up: Mutex::default(),
            one_in: AtomicU64::new(0),
            cuts: AtomicUsize::new(0),
        });
        let serving = tokio::runtime::Handle::current().spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, _serving: AbortOnDropHandle::new(serving) }
    }

    /// From now on connections lead there.
    pub(super) fn lead_to(&self, authority: &str) {
        *self.shared.target.lock() = Some(authority.parse().unwrap());
    }

    /// From now on one connection in so many is cut.
    pub(super) fn cut_one_in(&self, many: u64) {
        self.shared.one_in.store(many, Ordering::Relaxed);
    }

    /// From now on nothing is cut; what is open is closed.
    pub(super) fn heal(&self) {
        self.cut_one_in(0);
        let was = std::mem::take(&mut *self.shared.hang_up.lock());
        was.cancel();
    }

    /// How many connections were cut.
    pub(super) fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn cut(&self) -> Option<Cut> {
        let one_in = self.one_in.load(Ordering::Relaxed);
        let mut dice = self.dice.lock();
        (one_in != 0 && dice.below(one_in) == 0).then(|| Cut {
            way: *dice.one(&[Way::Up, Way::Down]),
            after: dice.below(FURTHEST),
            manner: *dice.one(&[Manner::Close, Manner::Reset, Manner::HalfClose]),
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
        // Half closed, or simply done in one direction: the other one goes on.
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
            // They may be closed already.
            drop((near.set_zero_linger(), far.set_zero_linger()));
        }
    }
}

/// Passes bytes on until they end, or until so many have passed; then nothing more comes.
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
    // Whoever is told may have left.
    drop(to.shutdown().await);
    if left == 0 { Passed::Cut } else { Passed::All }
}
