//! Subscriptions that a server refuses, shares between listeners, or ends.

use http::StatusCode;
use serde_json::{Value, json};
use toolway_wire::{error::WireError, notice::SubscriptionFilter, up::EraChoice};

use crate::scripted_server::{ScriptedReply, ScriptedServer};

/// A server of this era whose subscriptions `answer` answers.
async fn server(era: EraChoice, answer: impl Fn(&Value) -> ScriptedReply + Send + Sync + 'static) -> ScriptedServer {
    let legacy = era == EraChoice::Legacy;
    ScriptedServer::start(move |message| {
        let capabilities = json!({ "resources": { "subscribe": true } });
        let said = match message["method"].as_str() {
            Some("initialize") if legacy => ScriptedReply::Result(
                json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {} }),
            ),
            Some("server/discover") if !legacy => {
                ScriptedReply::Result(json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities }))
            }
            Some("resources/subscribe" | "subscriptions/listen") => answer(&message["params"]),
            Some("GET") => ScriptedReply::EmptyStream,
            _ => ScriptedReply::Result(json!({})),
        };
        Box::pin(async { said })
    })
    .await
}

fn both() -> SubscriptionFilter {
    SubscriptionFilter {
        uris: vec!["memo://open".to_owned(), "memo://secret".to_owned()],
        ..SubscriptionFilter::default()
    }
}

#[tokio::test]
async fn stateful_server_may_refuse_one_of_several_resources() {
    let server = server(EraChoice::Legacy, |params| match params["uri"].as_str() {
        Some("memo://open") => ScriptedReply::Result(json!({})),
        _ => ScriptedReply::Error(StatusCode::OK, json!({ "code": -32602, "message": "not this one" })),
    })
    .await;
    let peer = server.connect(EraChoice::Legacy).await;
    let listening = peer.listen(both()).await.unwrap();
    assert_eq!(listening.accepted().uris, ["memo://open"]);

    // The refused one is requested again by the next listener; the accepted one is not.
    let again = peer.listen(both()).await.unwrap();
    assert_eq!(again.accepted().uris, ["memo://open"]);
    let asked: Vec<_> = server.params("resources/subscribe").into_iter().map(|params| params["uri"].clone()).collect();
    assert_eq!(asked, ["memo://open", "memo://secret", "memo://secret"]);
}

#[tokio::test]
async fn last_listener_unsubscribes_at_a_stateful_server() {
    let server = server(EraChoice::Legacy, |_| ScriptedReply::Result(json!({}))).await;
    let peer = server.connect(EraChoice::Legacy).await;
    let first = peer.listen(SubscriptionFilter::resource("memo://open")).await.unwrap();
    let last = peer.listen(SubscriptionFilter::resource("memo://open")).await.unwrap();
    drop(first);
    peer.ping().await.unwrap();
    assert!(server.params("resources/unsubscribe").is_empty(), "there is another listener");
    drop(last);
    while server.params("resources/unsubscribe").is_empty() {
        peer.ping().await.unwrap();
    }
    assert_eq!(server.params("resources/unsubscribe"), [json!({ "uri": "memo://open" })]);
    assert_eq!(server.params("resources/subscribe").len(), 1);
}

#[tokio::test]
async fn failing_stateful_server_is_an_error() {
    let server = server(EraChoice::Legacy, |_| ScriptedReply::Status(StatusCode::INTERNAL_SERVER_ERROR)).await;
    let peer = server.connect(EraChoice::Legacy).await;
    let listening = peer.listen(SubscriptionFilter::resource("memo://open")).await;
    assert!(matches!(&listening, Err(WireError::Status { status, .. }) if *status == 500), "{listening:?}");
}

#[tokio::test]
async fn stateless_server_may_refuse_fail_or_disconnect() {
    type Answer = fn(&Value) -> ScriptedReply;
    type Expected = fn(&WireError) -> bool;
    let cases: [(Answer, Expected); 4] = [
        (
            |_| ScriptedReply::Error(StatusCode::OK, json!({ "code": -32601, "message": "unknown" })),
            |error| matches!(error, WireError::Refused(why) if why.contains("unknown")),
        ),
        (
            |_| ScriptedReply::Error(StatusCode::NOT_FOUND, json!({ "code": -32601, "message": "unknown" })),
            |error| matches!(error, WireError::Refused(why) if why.contains("unknown")),
        ),
        (
            |_| ScriptedReply::Status(StatusCode::BAD_GATEWAY),
            |error| matches!(error, WireError::Status { status, .. } if *status == 502),
        ),
        (|_| ScriptedReply::EmptyStream, |error| matches!(error, WireError::Ended(_))),
    ];
    for (index, (answer, expected)) in cases.into_iter().enumerate() {
        let server = server(EraChoice::Modern, answer).await;
        let peer = server.connect(EraChoice::Modern).await;
        let error = peer.listen(SubscriptionFilter::lists()).await.unwrap_err();
        assert!(expected(&error), "{index}: {error:?}");
        peer.ping().await.unwrap();
    }
}
