//! An odd server over HTTP/1.1: a plain socket and hand-written replies, so that it can send what no library would.
//!
//! A test says what it does as a function from a request to a [`Reply`]; what it saw is kept in order. With manners
//! it speaks through [`polite_http`].

mod reply;
mod seen;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

pub use reply::{Act, Reply, event};
pub use seen::Seen;

use super::polite::Speaks;

/// A server on a port of its own. Dropping it closes everything.
#[derive(Debug)]
pub struct OddHttp {
    address: SocketAddr,
    seen: watch::Receiver<Vec<Seen>>,
    connections: Arc<Connections>,
    _serving: AbortOnDropHandle<()>,
}

/// How many connections there are.
#[derive(Debug, Default)]
struct Connections {
    ever: AtomicUsize,
    open: AtomicUsize,
    most: AtomicUsize,
}

/// What is done with each request.
pub type Script = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// What all connections share.
struct Shared {
    script: Script,
    seen: watch::Sender<Vec<Seen>>,
}

impl OddHttp {
    /// Starts a server that follows `script`.
    pub async fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (sender, seen) = watch::channel(Vec::new());
        let connections = Arc::new(Connections::default());
        let shared = Arc::new(Shared { script: Arc::new(script), seen: sender });
        let serving = serve(listener, shared, Arc::clone(&connections));
        let serving = tokio::runtime::Handle::current().spawn(serving);
        Ok(Self { address, seen, connections, _serving: AbortOnDropHandle::new(serving) })
    }

    /// Its address; everything but `/mcp` is written out in [`Seen::brief`].
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Every request so far, in a few words each.
    pub fn briefs(&self) -> Vec<String> {
        self.seen.borrow().iter().map(Seen::brief).collect()
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        self.connections.ever.load(Ordering::Relaxed)
    }

    /// How many were open at the same time, at most.
    pub fn most_connections(&self) -> usize {
        self.connections.most.load(Ordering::Relaxed)
    }

    /// Waits until no more than so many are open.
    pub async fn until_open(&self, most: usize) {
        while most < self.connections.open.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until the requests so far are such.
    pub async fn until(&self, such: impl Fn(&[Seen]) -> bool) {
        // The sender lives as long as the server, and the server as long as this.
        drop(self.seen.clone().wait_for(|seen| such(seen)).await);
    }
}

/// What a server with manners replies, in the eras it speaks; its session is called `polite`.
pub fn polite_http(speaks: Speaks, seen: &Seen) -> Reply {
    match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => Reply::empty(405),
        ("DELETE", _) => Reply::empty(200),
        (_, "") => Reply::empty(202),
        (_, method) => match speaks.answer(seen.message()) {
            Some(answer) if method == "initialize" && answer.get("result").is_some() => {
                Reply::json(200, &answer).header("Mcp-Session-Id", "polite")
            }
            Some(answer) => Reply::json(200, &answer),
            None => Reply::empty(202),
        },
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, connections: Arc<Connections>) {
    let mut open = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.ever.fetch_add(1, Ordering::Relaxed);
        let now = connections.open.fetch_add(1, Ordering::Relaxed) + 1;
        connections.most.fetch_max(now, Ordering::Relaxed);
        let (shared, connections) = (Arc::clone(&shared), Arc::clone(&connections));
        open.spawn(async move {
            // What becomes of a connection is the script's and the test's business.
            drop(converse(stream, &shared).await);
            connections.open.fetch_sub(1, Ordering::Relaxed);
        });
        while open.try_join_next().is_some() {}
    }
}

/// Reads requests and acts out the replies, until one of them ends the connection.
async fn converse(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut unread = Vec::new();
    while let Some(mut seen) = read(&mut stream, &mut unread).await? {
        shared.seen.send_modify(|all| {
            seen.before = all.iter().filter(|earlier| earlier.brief() == seen.brief()).count();
            all.push(seen.clone());
        });
        for act in (shared.script)(&seen).into_acts() {
            perform(act, &mut stream).await?;
        }
    }
    Ok(())
}

async fn perform(act: Act, stream: &mut TcpStream) -> io::Result<()> {
    match act {
        Act::Say(bytes) => stream.write_all(&bytes).await,
        Act::SayForEver(bytes) => loop {
            stream.write_all(&bytes).await?;
        },
        Act::Relay(mut source) => {
            while let Some(bytes) = source.recv().await {
                stream.write_all(&bytes).await?;
            }
            Ok(())
        }
        Act::Wait(time) => {
            tokio::time::sleep(time).await;
            Ok(())
        }
        Act::Until(event) => {
            event.notified().await;
            Ok(())
        }
        Act::Hang => {
            // Reads, so that the other side's leaving is noticed.
            while 0 < stream.read(&mut [0; 1024]).await? {}
            Err(io::ErrorKind::ConnectionAborted.into())
        }
        Act::HalfClose => stream.shutdown().await,
        Act::Close => Err(io::ErrorKind::ConnectionAborted.into()),
        Act::Reset => {
            stream.set_zero_linger()?;
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
}

/// The next request, or none when the other side has left.
async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<Option<Seen>> {
    loop {
        if let Some((seen, length)) = Seen::parse(unread) {
            unread.drain(..length);
            return Ok(Some(seen));
        }
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
}
