//! Idle HTTP connections are closed in time, also if no further request is made.

use std::{sync::Arc, time::Duration};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use toolway_wire::{
    down::http::HttpDownstreamOptions,
    up::{EraChoice, Peer},
};

use crate::{routes, test_service::TestService};

#[tokio::test]
async fn idle_connection_is_closed_without_a_further_request() {
    let stop = CancellationToken::new();
    let url = routes::served(TestService::new(), HttpDownstreamOptions::default(), &stop).await;
    let server = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    // Ends when the client closes its connection, not when the server does.
    let client_end = tokio::runtime::Handle::current().spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(server).await.unwrap();
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.into_split(), server.into_split());
        let responses = async move {
            drop(tokio::io::copy(&mut from_server, &mut to_client).await);
            // Not closed with the server.
            std::future::pending::<()>().await;
            drop(to_client);
        };
        tokio::select! {
            end = tokio::io::copy(&mut from_client, &mut to_server) => end,
            () = responses => unreachable!(),
        }
    });
    let transport = Arc::new(routes::http(&address));
    let peer = Peer::connect(transport, routes::pinned(EraChoice::Modern)).await.unwrap();
    peer.list_tools().await.unwrap();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(51)).await;
    tokio::time::resume();
    let end = tokio::time::timeout(Duration::from_secs(10), client_end);
    assert!(end.await.expect("in time").unwrap().is_ok());
    assert!(!peer.is_closed());
    drop(stop);
}
