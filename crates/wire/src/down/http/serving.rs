//! Connections of one listener, from the first byte to the last, whoever answers on them.

use std::{io, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::FaceBody;
use crate::limit::Limits;

/// Whoever answers the requests of a listener: a face, or somebody who has several of them.
pub trait Responder: Send + Sync + 'static {
    /// Answers one request. Let go of, it is no longer wanted.
    fn respond(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<FaceBody>>;

    /// The bounds on what comes in.
    fn limits(&self) -> &Limits;

    /// Ends what outlives its connection; called when the connections are gone.
    fn finish(&self) -> BoxFuture<'_, ()>;
}

/// A caller that takes longer to send its headers is not one.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// How long to wait when a connection could not be accepted.
const BREATH: Duration = Duration::from_millis(50);

/// Serves until told to stop; requests under way are let go then.
pub async fn serve<R: Responder>(listener: TcpListener, responder: Arc<R>, stop: CancellationToken) -> io::Result<()> {
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => drop(tasks.spawn(converse(stream, Arc::clone(&responder), stop.clone()))),
            // Out of file descriptors, most likely: the next connection may fare better.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
    tasks.close();
    tasks.wait().await;
    responder.finish().await;
    Ok(())
}

async fn converse<R: Responder>(stream: TcpStream, responder: Arc<R>, stop: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        return tracing::debug!(%error, "a connection was gone at once");
    }
    let answer = service_fn(|request| {
        let responder = Arc::clone(&responder);
        async move { Ok::<_, std::convert::Infallible>(responder.respond(request).await) }
    });
    let limits = responder.limits();
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_headers(limits.header_count)
        .max_buf_size(limits.header_bytes.max(8 * 1024))
        .serve_connection(TokioIo::new(stream), answer);
    tokio::select! {
        () = stop.cancelled() => {}
        served = serving => if let Err(error) = served { tracing::debug!(%error, "a connection broke") },
    }
}
