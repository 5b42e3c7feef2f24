//! Streamable HTTP on a free loopback port, both eras behind `/mcp`.
//!
//! The SDK brings the service; the accept loop is ours, because a socket without `TCP_NODELAY` delays every small
//! event on a reused connection by tens of milliseconds.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

use crate::args::Era;
use crate::server::{Server, World};

type Service = StreamableHttpService<Server, LocalSessionManager>;

/// Serves until the process ends.
pub(crate) async fn serve(era: Era) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let mut out = io::stdout();
    writeln!(out, "listening on http://{}/mcp", listener.local_addr()?)?;
    out.flush()?;

    let service = service(era);
    let connections = TaskTracker::new();
    loop {
        let (stream, _) = listener.accept().await?;
        if stream.set_nodelay(true).is_ok() {
            connections.spawn(serve_connection(stream, service.clone()));
        }
    }
}

fn service(era: Era) -> Service {
    // Shared by all sessions: a session is notified of changes in another, and a 2026-07-28 call has no session.
    let world = Arc::new(World::default());
    // Without the second switch the SDK would serve a request that names no version as one of 2025-03-26.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(era != Era::Modern)
        .with_stateless_protocol_metadata_required(era == Era::Modern)
        .enforce_origin_validation();
    StreamableHttpService::new(move || Ok(Server::new(era, world.clone())), Arc::default(), config)
}

async fn serve_connection(stream: TcpStream, service: Service) {
    let answer = service_fn(|request: Request<Incoming>| {
        let service = service.clone();
        async move {
            Ok::<_, Infallible>(match request.uri().path() {
                "/mcp" => service.handle(request).await,
                _ => not_found(),
            })
        }
    });
    // A client may disconnect at any time.
    http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await.ok();
}

fn not_found() -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Empty::new().boxed());
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
