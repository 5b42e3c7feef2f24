//! Serves the connections of one listener with a [`Responder`].

use std::{future::poll_fn, io, pin::pin, sync::Arc, task::Context, time::Duration};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::server::TlsStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    ResponseBody,
    connections::{Connections, PEER_PRINCIPAL, PeerConnection},
    header_timer::HeaderTimer,
    tls::ServerTls,
    write_timeout::WriteTimeout,
};
use crate::{limit::Limits, peer::PeerTls, quiet::QuietWaker};

/// Answers the HTTP requests of a listener: one downstream, or a server with several of them.
pub trait Responder: Send + Sync + 'static {
    /// Answers one request. Dropping the future cancels it.
    fn respond<'a>(
        &'a self,
        request: Request<Incoming>,
        connection: &'a PeerConnection,
    ) -> BoxFuture<'a, Response<ResponseBody>>;

    /// Limits for incoming requests.
    fn limits(&self) -> &Limits;

    /// Called at shutdown, before requests in progress are awaited: ends subscriptions.
    fn drain(&self) {}

    /// How long requests in progress may take to finish at shutdown.
    fn drain_timeout(&self) -> Duration {
        DRAIN_TIMEOUT
    }

    /// A connection whose client reads nothing for this long is closed.
    fn write_timeout(&self) -> Duration {
        WRITE_TIMEOUT
    }

    /// Ends what outlives connections; called after all connections are closed.
    fn finish(&self) -> BoxFuture<'_, ()>;
}

/// Default time for requests in progress to finish at shutdown.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Default write timeout of a connection.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time for request headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay after a failed `accept`.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Serves until `stop` is cancelled; requests in progress may then finish within the responder's drain timeout.
pub async fn serve<R: Responder>(listener: TcpListener, responder: Arc<R>, stop: CancellationToken) -> io::Result<()> {
    accept_all(listener, Security::Plain, responder, stop).await
}

/// Like [`serve`], over TLS if `tls` is given. Its files are read again when they change.
pub async fn serve_with_tls<R: Responder>(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    responder: Arc<R>,
    stop: CancellationToken,
) -> io::Result<()> {
    let watching = async {
        match &tls {
            Some(tls) => tls.watch().await,
            None => std::future::pending().await,
        }
    };
    let security = tls.clone().map_or(Security::Plain, Security::Tls);
    tokio::select! {
        served = accept_all(listener, security, responder, stop) => served,
        () = watching => Ok(()),
    }
}

/// Like [`serve`], for other gateways of the cluster: a request is read only from a peer that has proven the key.
pub async fn serve_peers<R: Responder>(
    listener: TcpListener,
    tls: PeerTls,
    responder: Arc<R>,
    stop: CancellationToken,
) -> io::Result<()> {
    accept_all(listener, Security::Peers(tls), responder, stop).await
}

/// How the connections of a listener are protected.
#[derive(Clone)]
enum Security {
    Plain,
    Tls(Arc<ServerTls>),
    Peers(PeerTls),
}

impl Security {
    /// Performs the handshake; `None` if there is no connection to serve.
    async fn accept(self, stream: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
        match self {
            Self::Plain => Ok(None),
            Self::Tls(tls) => tls.accept(stream).await,
            Self::Peers(tls) => tls.accept(stream).await.map(Some),
        }
    }
}

async fn accept_all<R: Responder>(
    listener: TcpListener,
    security: Security,
    responder: Arc<R>,
    stop: CancellationToken,
) -> io::Result<()> {
    let tasks = TaskTracker::new();
    let connections = match &security {
        Security::Peers(_) => Connections::of_peers(responder.limits().connections),
        Security::Plain | Security::Tls(_) => Connections::new(responder.limits().connections),
    };
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection = connections.accept(peer);
                let (responder, stop) = (Arc::clone(&responder), stop.clone());
                match &security {
                    Security::Plain => tasks.spawn(serve_plain(stream, connection, responder, stop)),
                    secure => tasks.spawn(serve_secure(stream, secure.clone(), connection, responder, stop)),
                };
            }
            // Most likely out of file descriptors: the next connection may succeed.
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    responder.drain();
    tasks.close();
    tasks.wait().await;
    responder.finish().await;
    Ok(())
}

async fn serve_plain<R: Responder>(
    stream: TcpStream,
    connection: Arc<PeerConnection>,
    responder: Arc<R>,
    stop: CancellationToken,
) {
    match stream.set_nodelay(true) {
        Ok(()) => serve_connection(stream, connection, responder, stop).await,
        Err(error) => tracing::debug!(%error, "a new connection was already closed"),
    }
}

async fn serve_secure<R: Responder>(
    stream: TcpStream,
    security: Security,
    connection: Arc<PeerConnection>,
    responder: Arc<R>,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        return tracing::debug!(%error, "a new connection was already closed");
    }
    let is_proof = matches!(security, Security::Peers(_));
    let accepted = tokio::select! {
        accepted = security.accept(stream) => accepted,
        () = connection.closing() => return tracing::debug!(peer = %connection.peer(), "no TLS handshake in time"),
        () = stop.cancelled() => return,
    };
    if is_proof && matches!(accepted, Ok(Some(_))) && connection.authenticated(&Arc::from(PEER_PRINCIPAL)).is_err() {
        tracing::debug!(peer = %connection.peer(), "too many connections of other gateways; its requests are refused");
    }
    match accepted {
        // Allocated: the state of a TLS session is large, and the task is moved when it is spawned.
        Ok(Some(stream)) => Box::pin(serve_connection(stream, connection, responder, stop)).await,
        Ok(None) => tracing::debug!(peer = %connection.peer(), "a client speaks plain HTTP to an HTTPS address"),
        Err(error) => tracing::debug!(peer = %connection.peer(), %error, "the TLS handshake failed"),
    }
}

async fn serve_connection<R: Responder>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    connection: Arc<PeerConnection>,
    responder: Arc<R>,
    stop: CancellationToken,
) {
    let answer = service_fn(|request| {
        let (responder, connection) = (Arc::clone(&responder), Arc::clone(&connection));
        async move {
            connection.begin();
            Ok::<_, std::convert::Infallible>(responder.respond(request, &connection).await)
        }
    });
    let limits = responder.limits();
    let serving = http1::Builder::new()
        .timer(HeaderTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(limits.header_count)
        .max_buf_size(limits.header_bytes.max(8 * 1024))
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, responder.write_timeout())), answer);
    let (mut serving, mut quiet) = (pin!(serving), QuietWaker::default());
    let served = tokio::select! {
        served = poll_fn(|context| serving.as_mut().poll(&mut Context::from_waker(quiet.waker(context)))) => served,
        () = connection.closing() => return tracing::debug!(peer = %connection.peer(), "closed a connection without a key"),
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(responder.drain_timeout(), serving).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection failed");
    }
}
