//! Every way to a service there is, so that one story can be told over each of them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::HeaderMap;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolway_wire::{
    down::{
        DownstreamOptions, Service,
        http::{HttpDownstream, HttpDownstreamOptions, serve},
    },
    exchange::{Answer, ServerRequestHandler, ServerRequestDetails},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    revision::{Era, Revision},
    up::{
        ConnectOptions, EraChoice, Peer, client::HttpClient, connector::HttpOptions, credential::NoCredentials,
        http::HttpTransport, in_process, transport::Transport,
    },
};

/// A way: a transport and an era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    LinesLegacy,
    LinesModern,
    HttpLegacy,
    HttpModern,
}

pub(crate) const ALL: [Way; 4] = [Way::LinesLegacy, Way::LinesModern, Way::HttpLegacy, Way::HttpModern];

/// A connection over one way, and the server at its end.
pub(crate) struct Connected {
    pub(crate) peer: Peer,
    _stop: tokio_util::sync::DropGuard,
}

impl Way {
    pub(crate) fn era(self) -> Era {
        match self {
            Self::LinesLegacy | Self::HttpLegacy => Era::Legacy,
            Self::LinesModern | Self::HttpModern => Era::Modern,
        }
    }

    /// Serves `service` over this way, in this era only, and connects to it.
    pub(crate) async fn connect(self, service: Arc<dyn Service>) -> Connected {
        let downstream = DownstreamOptions { revisions: Revision::of(self.era()).collect(), ..DownstreamOptions::default() };
        let stop = CancellationToken::new();
        let transport: Arc<dyn Transport> = match self {
            Self::LinesLegacy | Self::LinesModern => Arc::new(in_process::transport(service, downstream)),
            Self::HttpLegacy | Self::HttpModern => {
                let options = HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() };
                Arc::new(http(&served(service, options, &stop).await))
            }
        };
        let options = ConnectOptions { asks: Some(Arc::new(Ada)), ..ConnectOptions::default() };
        let peer = Peer::connect(transport, options).await.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        assert_eq!(peer.profile().revision.era(), self.era(), "{self:?}");
        Connected { peer, _stop: stop.drop_guard() }
    }
}

/// Serves over HTTP on a free port; gives the address.
pub(crate) async fn served(service: Arc<dyn Service>, options: HttpDownstreamOptions, stop: &CancellationToken) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let downstream = HttpDownstream::new(service, options).unwrap();
    tokio::runtime::Handle::current().spawn(serve(listener, downstream, stop.clone()));
    address
}

/// The way to an address.
pub(crate) fn http(address: &str) -> HttpTransport {
    let limits = Limits::default();
    let client = HttpClient::new(HttpOptions::default(), &limits);
    HttpTransport::new(client, address.parse().unwrap(), HeaderMap::new(), Arc::new(NoCredentials), limits)
}

/// Options for an era that is known.
pub(crate) fn pinned(era: EraChoice) -> ConnectOptions {
    ConnectOptions { asks: Some(Arc::new(Ada)), era, ..ConnectOptions::default() }
}

/// Whoever asks, it answers `Ada`.
pub(crate) struct Ada;

impl ServerRequestHandler for Ada {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "elicitation": { "form": {} }, "roots": {}, "sampling": {} })))
    }

    fn answer(&self, question: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        let answer = match question.method.as_str() {
            "elicitation/create" => json!({ "action": "accept", "content": { "name": "Ada" } }),
            "roots/list" => json!({ "roots": [] }),
            _ => json!({ "role": "assistant", "content": { "type": "text", "text": "Ada" }, "model": "none" }),
        };
        Box::pin(async move { Answer::Given(Raw::of(&answer)) })
    }
}
