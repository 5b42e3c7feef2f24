//! The same traffic through `toolway-wire`.

use std::{fmt, io, sync::Arc};

use http::HeaderMap;
use tokio::{process::ChildStdin, sync::Mutex, task::JoinSet};
use toolway_wire::{
    error::WireError,
    exchange::{Outcome, Request, Terms},
    json::Raw,
    limit::Limits,
    up::{
        ConnectOptions, EraChoice, Peer,
        client::HttpClient,
        connector::HttpOptions,
        credential::NoCredentials,
        http::HttpTransport,
        stdio::{OpenStreams, StdioTransport, Streams},
        transport::Transport,
    },
};

use crate::{
    allocation,
    peer::{BIG, Era, Started},
};

pub(crate) struct Client {
    peer: Peer,
}

impl Client {
    pub(crate) async fn connect(server: &mut Started) -> io::Result<Self> {
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
        let count = allocation::counted();
        done.map(|()| count)
    }
}

/// What is asked, prepared once as it is for the raw loop; none for the list.
fn params(what: &str) -> io::Result<Option<Raw>> {
    if what == "list" {
        return Ok(None);
    }
    let params = format!(r#"{{"name":"{what}","arguments":{{"path":"/srv/demo","limit":10}}}}"#);
    Raw::parse(params).map(Some).map_err(io::Error::other)
}

async fn round_trip(peer: &Peer, params: Option<Raw>) -> io::Result<()> {
    let (method, terms) = match params {
        Some(_) => ("tools/call", Terms::call()),
        None => ("tools/list", Terms::list()),
    };
    let exchange = peer.open(Request::new(method, params).map_err(io::Error::other)?, terms);
    match exchange.outcome().await {
        Outcome::Answered(_) => Ok(()),
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}

type Ends = (ChildStdin, tokio::io::BufReader<tokio::process::ChildStdout>);

struct Pipes(Mutex<Option<Ends>>);

impl OpenStreams for Pipes {
    fn target(&self) -> String {
        "the bench's own server".to_owned()
    }

    fn open(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<Streams, WireError>> + Send + '_>> {
        Box::pin(async move {
            let (stdin, stdout) =
                self.0.lock().await.take().ok_or_else(|| WireError::Ended("opened already".to_owned()))?;
            Ok(Streams { read: Box::new(stdout.into_inner()), write: Box::new(stdin), keeper: None })
        })
    }
}

impl fmt::Debug for Pipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pipes")
    }
}
