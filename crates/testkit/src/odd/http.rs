//! A scripted HTTP/1.1 server on a plain socket, which can send what no library would.
//!
//! The script is a function from a request to a [`Reply`]; all requests are recorded in order. [`compliant_http`] is a
//! script that follows the specification.

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
pub use seen::RecordedRequest;

use super::compliant::SupportedEras;

/// A server on a port of its own. Dropping it closes everything.
#[derive(Debug)]
pub struct OddHttp {
    address: SocketAddr,
    seen: watch::Receiver<Vec<RecordedRequest>>,
    connections: Arc<Connections>,
    _serving: AbortOnDropHandle<()>,
}

/// Connection counters.
#[derive(Debug, Default)]
struct Connections {
    ever: AtomicUsize,
    open: AtomicUsize,
    most: AtomicUsize,
}

/// Maps each request to a reply.
pub type Script = Arc<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>;

/// State of all connections.
struct Shared {
    script: Script,
    seen: watch::Sender<Vec<RecordedRequest>>,
}

impl OddHttp {
    /// Starts a server with this script.
    pub async fn start(script: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (sender, seen) = watch::channel(Vec::new());
        let connections = Arc::new(Connections::default());
        let shared = Arc::new(Shared { script: Arc::new(script), seen: sender });
        let serving = serve(listener, shared, Arc::clone(&connections));
        let serving = tokio::runtime::Handle::current().spawn(serving);
        Ok(Self { address, seen, connections, _serving: AbortOnDropHandle::new(serving) })
    }

    /// URL of its `/mcp` path.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Host and port.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Summaries of all requests so far.
    pub fn briefs(&self) -> Vec<String> {
        self.seen.borrow().iter().map(RecordedRequest::brief).collect()
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<RecordedRequest> {
        self.seen.borrow().clone()
    }

    /// Number of connections that were opened.
    pub fn connections(&self) -> usize {
        self.connections.ever.load(Ordering::Relaxed)
    }

    /// Maximum number of simultaneous connections.
    pub fn most_connections(&self) -> usize {
        self.connections.most.load(Ordering::Relaxed)
    }

    /// Waits until at most this many connections are open.
    pub async fn until_open(&self, most: usize) {
        while most < self.connections.open.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until the recorded requests satisfy `such`.
    pub async fn until(&self, such: impl Fn(&[RecordedRequest]) -> bool) {
        // The sender lives as long as the server.
        drop(self.seen.clone().wait_for(|seen| such(seen)).await);
    }
}

/// Reply of a server that follows the specification; its session id is `compliant`.
pub fn compliant_http(speaks: SupportedEras, seen: &RecordedRequest) -> Reply {
    match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => Reply::empty(405),
        ("DELETE", _) => Reply::empty(200),
        (_, "") => Reply::empty(202),
        (_, method) => match speaks.answer(seen.message()) {
            Some(answer) if method == "initialize" && answer.get("result").is_some() => {
                Reply::json(200, &answer).header("Mcp-Session-Id", "compliant")
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
            // Connection errors are part of the script.
            drop(converse(stream, &shared).await);
            connections.open.fetch_sub(1, Ordering::Relaxed);
        });
        while open.try_join_next().is_some() {}
    }
}

/// Reads requests and executes the replies until one ends the connection.
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
            // Reads, to notice that the client disconnects.
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

/// Next request; `None` if the client has disconnected.
async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<Option<RecordedRequest>> {
    loop {
        if let Some((seen, length)) = RecordedRequest::parse(unread) {
            unread.drain(..length);
            return Ok(Some(seen));
        }
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    }
}
