//! Baseline for the gateway: a relay with the same two hops that does not parse messages.
//!
//! It accepts HTTP with the same library as the gateway. Each client connection has its own server connection
//! ([`raw_client::HttpConnection`]), or all share the pipes of one process that answers in order. Bodies are forwarded
//! unread. Its throughput is also compared with nginx ([`crate::nginx`]).

use std::{
    collections::VecDeque,
    io::{self, Read},
    process::{ExitCode, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, oneshot},
};

use crate::{
    peer::{Era, Way},
    raw_client,
};

/// Server of the relay.
pub(crate) enum RelayUpstream {
    Http(String),
    Stdio(Era),
}

impl RelayUpstream {
    pub(crate) fn http(address: &str) -> Self {
        Self::Http(address.to_owned())
    }

    pub(crate) fn stdio(era: Era) -> Self {
        Self::Stdio(era)
    }
}

/// Relays on a free port until the parent has ended; prints the address.
pub(crate) fn run(behind: RelayUpstream) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.spawn(serve(behind));
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(behind: RelayUpstream) -> io::Result<()> {
    let pipes = match &behind {
        RelayUpstream::Http(_) => None,
        RelayUpstream::Stdio(era) => Some(Arc::new(Pipes::open(*era)?)),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let behind = Arc::new(behind);
    loop {
        let (stream, _) = listener.accept().await?;
        let (behind, pipes) = (Arc::clone(&behind), pipes.clone());
        tokio::runtime::Handle::current().spawn(async move {
            match (&*behind, pipes) {
                (RelayUpstream::Http(address), _) => over_http(stream, address).await,
                (_, Some(pipes)) => over_pipes(stream, pipes).await,
                (RelayUpstream::Stdio(_), None) => Ok(()),
            }
        });
    }
}

/// Relays one client connection to one server connection.
async fn over_http(stream: TcpStream, address: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let line = &Mutex::new(None);
    let relay = service_fn(async move |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        // A connection has one request at a time.
        let kept = line.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut own = match kept {
            Some(own) => own,
            None => raw_client::HttpConnection::dial(address).await?,
        };
        let (head, body) = own.exchange(Request::from_parts(head, Full::new(body))).await?;
        *line.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
        io::Result::Ok(Response::from_parts(head, Full::new(Bytes::from(body))))
    });
    http1::Builder::new().serve_connection(TokioIo::new(stream), relay).await.map_err(io::Error::other)
}

async fn over_pipes(stream: TcpStream, pipes: Arc<Pipes>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let pipes = &pipes;
    let relay = service_fn(async move |request: Request<Incoming>| {
        let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        let Some(reply) = pipes.ask(&body).await? else {
            let mut taken = Response::new(Full::default());
            *taken.status_mut() = StatusCode::ACCEPTED;
            return Ok(taken);
        };
        let reply = Response::builder().header(header::CONTENT_TYPE, "application/json").body(Full::new(reply));
        reply.map_err(io::Error::other)
    });
    http1::Builder::new().serve_connection(TokioIo::new(stream), relay).await.map_err(io::Error::other)
}

/// The pipes of a process that answers in order.
struct Pipes {
    input: AsyncMutex<ChildStdin>,
    waiting: Arc<Mutex<VecDeque<oneshot::Sender<Bytes>>>>,
    _child: Child,
}

impl Pipes {
    #[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
    fn open(era: Era) -> io::Result<Self> {
        let way = if era == Era::Legacy { Way::StdioLegacy } else { Way::StdioModern };
        let mut child = Command::new(std::env::current_exe()?)
            .args(way.role(2))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the server has no pipes"));
        };
        let waiting = Arc::default();
        tokio::runtime::Handle::current().spawn(deliver_replies(output, Arc::clone(&waiting)));
        Ok(Self { input: AsyncMutex::new(input), waiting, _child: child })
    }

    /// Sends a line and returns the response; `None` for a notification.
    #[expect(clippy::await_holding_invalid_type, reason = "the order of writes must match the queue")]
    async fn ask(&self, line: &[u8]) -> io::Result<Option<Bytes>> {
        let wants_answer = memchr::memmem::find(line, b"\"id\":").is_some();
        let (sender, answer) = oneshot::channel();
        {
            let mut input = self.input.lock().await;
            if wants_answer {
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(sender);
            }
            input.write_all(&[line, b"\n"].concat()).await?;
            input.flush().await?;
        }
        if wants_answer { answer.await.map(Some).map_err(io::Error::other) } else { Ok(None) }
    }
}

/// Delivers each line to the oldest waiting request.
async fn deliver_replies(output: ChildStdout, waiting: Arc<Mutex<VecDeque<oneshot::Sender<Bytes>>>>) -> io::Result<()> {
    let mut output = BufReader::with_capacity(64 * 1024, output);
    loop {
        let mut line = Vec::new();
        if output.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        line.pop();
        let first = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Some(first) = first {
            // The client may have disconnected.
            drop(first.send(line.into()));
        }
    }
}
