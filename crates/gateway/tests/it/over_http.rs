//! The conformance server on a port, in one revision.

use std::{net::SocketAddr, sync::Arc};

use tokio::net::TcpListener;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};
use toolway_testkit::conformance_server::ConformanceServer;
use toolway_wire::{
    down::{
        self,
        http::{HttpDownstream, HttpDownstreamOptions},
    },
    revision::Revision,
};

/// The running server; stops on drop.
pub(crate) struct OverHttp {
    pub(crate) address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
    _stop: DropGuard,
}

impl OverHttp {
    pub(crate) async fn serve(revision: Revision) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let options = HttpDownstreamOptions {
            downstream: ConformanceServer::downstream_options(revision),
            ..HttpDownstreamOptions::default()
        };
        let downstream = HttpDownstream::new(Arc::new(ConformanceServer::new()), options).unwrap();
        let stop = CancellationToken::new();
        let serving = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn({
            let stop = stop.clone();
            async move { down::http::serve(listener, downstream, stop).await.unwrap() }
        }));
        Self { address, _serving: serving, _stop: stop.drop_guard() }
    }
}
