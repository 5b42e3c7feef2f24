//! Secrets in headers, URLs and proxy settings are never printed.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue};
use tokio::net::TcpListener;
use toolway_wire::{
    error::{TimeoutKind, WireError},
    limit::Limits,
    up::{
        ConnectOptions, EraChoice, Peer, client::HttpClient, connector::HttpOptions, credential::NoCredentials,
        http::HttpTransport, transport::Transport,
    },
};

use crate::routes;

fn transport(options: HttpOptions, url: &str) -> HttpTransport {
    let limits = Limits::default();
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer hush"));
    let client = HttpClient::new(options, &limits);
    HttpTransport::new(client, url.parse().unwrap(), headers, Arc::new(NoCredentials), limits)
}

#[tokio::test]
async fn secrets_are_not_in_debug_output() {
    let proxy = Some("http://user:hush@proxy.example".to_owned());
    let options = HttpOptions { https_proxy: proxy, no_proxy: Some("localhost".to_owned()), ..HttpOptions::default() };
    let shown = format!("{options:?}");
    assert!(!shown.contains("hush") && shown.contains("localhost"), "{shown}");

    let transport = transport(options, "http://user:hush@127.0.0.1:9/mcp?key=hush#hush");
    let shown = format!("{transport:?} {}", transport.target());
    assert!(!shown.contains("hush"), "{shown}");
    assert!(shown.contains("http://127.0.0.1:9/mcp") && shown.contains("authorization"), "{shown}");
}

#[tokio::test]
async fn debug_output_of_a_peer_has_target_and_revision() {
    for way in routes::ALL {
        let connected = way.connect(crate::test_service::TestService::new()).await;
        let shown = format!("{:?}", connected.peer);
        assert!(shown.contains(&connected.peer.target()), "{way:?}: {shown}");
        assert!(shown.contains(&format!("{:?}", connected.peer.profile().revision)), "{way:?}: {shown}");
    }
}

#[tokio::test]
async fn unsupported_url_scheme_is_refused_without_showing_secrets() {
    let transport = transport(HttpOptions::default(), "ftp://user:hush@127.0.0.1/mcp?key=hush");
    let error = Peer::connect(Arc::new(transport), ConnectOptions::default()).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(matches!(error, WireError::Unreachable { .. }), "{text}");
    assert!(
        text.contains("`ftp` is not a supported URL scheme; use `http` or `https`") && !text.contains("hush"),
        "{text}"
    );
}

#[tokio::test]
async fn silent_tls_handshake_times_out() {
    // The system accepts the connection; the TLS handshake is never answered.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = HttpOptions { connect_timeout: Some(Duration::from_millis(100)), ..HttpOptions::default() };
    let transport = transport(options, &format!("https://{}/mcp", silent.local_addr().unwrap()));
    let error = Peer::connect(Arc::new(transport), routes::pinned(EraChoice::Modern)).await.unwrap_err();
    let WireError::TimedOut { kind, limit } = error else { panic!("{error:?}") };
    assert_eq!((kind, limit), (TimeoutKind::Connect, Duration::from_millis(100)));
    assert_eq!(kind.to_string(), "connect timeout");
}
