//! Connections of one listener, from the first byte to the last, whoever answers on them.

use std::{future::poll_fn, io, pin::pin, sync::Arc, task::Context, time::Duration};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{ResponseBody, head_clock::HeadClock, patient::Patient};
use crate::{limit::Limits, quiet::QuietWaker};

/// Whoever answers the requests of a listener: a downstream, or somebody who has several of them.
pub trait Responder: Send + Sync + 'static {
    /// Answers one request. Let go of, it is no longer wanted.
    fn respond(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<ResponseBody>>;

    /// The bounds on what comes in.
    fn limits(&self) -> &Limits;

    /// The end is near: nothing new comes in, and whoever only listens should be told.
    fn drain(&self) {}

    /// How long requests under way are given then to end by themselves.
    fn drain_time(&self) -> Duration {
        DRAIN_TIME
    }

    /// A connection whose reader takes nothing for this long is closed.
    fn write_time(&self) -> Duration {
        WRITE_TIME
    }

    /// Ends what outlives its connection; called when the connections are gone.
    fn finish(&self) -> BoxFuture<'_, ()>;
}

/// What requests under way are given to end by themselves, unless somebody says otherwise.
pub const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Nobody who is there takes longer to read anything at all.
pub const WRITE_TIME: Duration = Duration::from_secs(60);

/// A caller that takes longer to send its headers is not one.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// How long to wait when a connection could not be accepted.
const BREATH: Duration = Duration::from_millis(50);

/// Serves until told to stop; requests under way may end then, in the time the responder gives them.
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
    drop(listener);
    responder.drain();
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
        .timer(HeadClock::new())
        .header_read_timeout(HEADER_TIME)
        .max_headers(limits.header_count)
        .max_buf_size(limits.header_bytes.max(8 * 1024))
        .serve_connection(TokioIo::new(Patient::new(stream, responder.write_time())), answer);
    let (mut serving, mut quiet) = (pin!(serving), QuietWaker::default());
    let served = tokio::select! {
        served = poll_fn(|context| serving.as_mut().poll(&mut Context::from_waker(quiet.waker(context)))) => served,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            tokio::time::timeout(responder.drain_time(), serving).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection broke");
    }
}
