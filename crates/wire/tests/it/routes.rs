//! All routes to a service (transport and era), so that one test can run over each of them.

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
    exchange::{Answer, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    revision::{Era, Revision},
    up::{
        ConnectOptions, EraChoice, Peer, client::HttpClient, connector::HttpOptions, credential::NoCredentials,
        http::HttpTransport, in_process, transport::Transport,
    },
};

/// A transport and an era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    LinesLegacy,
    LinesModern,
    HttpLegacy,
    HttpModern,
}

pub(crate) const ALL: [Route; 4] = [Route::LinesLegacy, Route::LinesModern, Route::HttpLegacy, Route::HttpModern];

/// A connection over one route, and its server.
pub(crate) struct Connected {
    pub(crate) peer: Peer,
    _stop: tokio_util::sync::DropGuard,
}

impl Route {
    pub(crate) fn era(self) -> Era {
        match self {
            Self::LinesLegacy | Self::HttpLegacy => Era::Legacy,
            Self::LinesModern | Self::HttpModern => Era::Modern,
        }
    }

    /// Serves `service` over this route, in this era only, and connects to it.
    pub(crate) async fn connect(self, service: Arc<dyn Service>) -> Connected {
        let downstream =
            DownstreamOptions { revisions: Revision::of(self.era()).collect(), ..DownstreamOptions::default() };
        let stop = CancellationToken::new();
        let transport: Arc<dyn Transport> = match self {
            Self::LinesLegacy | Self::LinesModern => Arc::new(in_process::transport(service, downstream)),
            Self::HttpLegacy | Self::HttpModern => {
                let options = HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() };
                Arc::new(http(&served(service, options, &stop).await))
            }
        };
        let options = ConnectOptions { request_handler: Some(Arc::new(Ada)), ..ConnectOptions::default() };
        let peer = Peer::connect(transport, options).await.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        assert_eq!(peer.profile().revision.era(), self.era(), "{self:?}");
        Connected { peer, _stop: stop.drop_guard() }
    }
}

/// Serves over HTTP on a free port; returns the URL.
pub(crate) async fn served(
    service: Arc<dyn Service>,
    options: HttpDownstreamOptions,
    stop: &CancellationToken,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let downstream = HttpDownstream::new(service, options).unwrap();
    tokio::runtime::Handle::current().spawn(serve(listener, downstream, stop.clone()));
    address
}

/// HTTP transport to a URL.
pub(crate) fn http(address: &str) -> HttpTransport {
    let limits = Limits::default();
    let client = HttpClient::new(HttpOptions::default(), &limits);
    HttpTransport::new(client, address.parse().unwrap(), HeaderMap::new(), Arc::new(NoCredentials), limits)
}

/// Connect options with a fixed era.
pub(crate) fn pinned(era: EraChoice) -> ConnectOptions {
    ConnectOptions { request_handler: Some(Arc::new(Ada)), era, ..ConnectOptions::default() }
}

/// Answers every server request with `Ada`.
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
