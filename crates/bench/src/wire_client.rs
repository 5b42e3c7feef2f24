//! The same traffic through `toolway-wire`.

use std::{fmt, io, sync::Arc};

use http::HeaderMap;
use tokio::{process::ChildStdin, sync::Mutex, task::JoinSet};
use toolway_wire::{
    error::WireError,
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    limit::Limits,
    up::{
        ConnectOptions, EraChoice, Peer,
        client::HttpClient,
        connector::HttpOptions,
        credential::NoCredentials,
        http::HttpTransport,
        stdio::{ServerStreams, StdioTransport, StreamOpener},
        transport::Transport,
    },
};

use crate::{
    allocation,
    peer::{BIG, Era, PeerProcess},
};

pub(crate) struct WireClient {
    peer: Peer,
}

impl WireClient {
    pub(crate) async fn connect(server: &mut PeerProcess) -> io::Result<Self> {
        let limits = Limits::default();
        let transport: Arc<dyn Transport> = if server.way.is_http() {
            let url = format!("http://{}/mcp", server.address).parse().map_err(io::Error::other)?;
            let client = HttpClient::new(HttpOptions::default(), &limits);
            Arc::new(HttpTransport::new(client, url, HeaderMap::new(), Arc::new(NoCredentials), limits))
        } else {
            Arc::new(StdioTransport::new(Arc::new(Pipes(Mutex::new(server.pipes.take()))), limits))
        };
        let era = match server.way.era() {
            Era::Legacy => EraChoice::Legacy,
            Era::Modern => EraChoice::Modern,
        };
        let options = ConnectOptions { era, ..ConnectOptions::default() };
        let peer = Peer::connect(transport, options).await.map_err(io::Error::other)?;
        Ok(Self { peer })
    }

    /// Makes `count` round trips in each of `width` tasks.
    pub(crate) async fn round_trips(&self, what: &'static str, count: usize, width: usize) -> io::Result<()> {
        let mut tasks = JoinSet::new();
        for _ in 0..width {
            let (peer, params) = (self.peer.clone(), params(what)?);
            tasks.spawn(async move {
                for _ in 0..count {
                    round_trip(&peer, params.clone()).await?;
                }
                io::Result::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(io::Error::other)??;
        }
        Ok(())
    }

    /// Allocations of at least half the body while one large result is received, after the first.
    pub(crate) async fn large_allocations(&self) -> io::Result<usize> {
        let params = params("big")?;
        round_trip(&self.peer, params.clone()).await?;
        allocation::count_from(BIG / 2);
        let done = round_trip(&self.peer, params).await;
        let count = allocation::stop_counting();
        done.map(|()| count)
    }
}

/// Params of the request, prepared once as for the raw loop; `None` for the list.
fn params(what: &str) -> io::Result<Option<Raw>> {
    if what == "list" {
        return Ok(None);
    }
    let params = format!(r#"{{"name":"{what}","arguments":{{"path":"/srv/demo","limit":10}}}}"#);
    Raw::parse(params).map(Some).map_err(io::Error::other)
}

async fn round_trip(peer: &Peer, params: Option<Raw>) -> io::Result<()> {
    let (method, terms) = match params {
        Some(_) => ("tools/call", ExchangeTimeouts::call()),
        None => ("tools/list", ExchangeTimeouts::list()),
    };
    let exchange = peer.open(Request::new(method, params).map_err(io::Error::other)?, terms);
    match exchange.outcome().await {
        Outcome::Answered(_) => Ok(()),
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}

type Ends = (ChildStdin, tokio::io::BufReader<tokio::process::ChildStdout>);

struct Pipes(Mutex<Option<Ends>>);

impl StreamOpener for Pipes {
    fn target(&self) -> String {
        "bench peer".to_owned()
    }

    fn open(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<ServerStreams, WireError>> + Send + '_>> {
        Box::pin(async move {
            let (stdin, stdout) =
                self.0.lock().await.take().ok_or_else(|| WireError::Ended("already opened".to_owned()))?;
            Ok(ServerStreams { read: Box::new(stdout.into_inner()), write: Box::new(stdin), process: None })
        })
    }
}

impl fmt::Debug for Pipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pipes")
    }
}
