//! Subscriptions that a server refuses, shares between listeners, or ends.

use http::StatusCode;
use serde_json::{Value, json};
use toolway_wire::{error::WireError, notice::Wanted, up::EraChoice};

use crate::by_hand::{ByHand, Said};

/// A server of this era that answers every subscription with `answer`.
async fn server(era: EraChoice, answer: impl Fn(&Value) -> Said + Send + Sync + 'static) -> ByHand {
    let legacy = era == EraChoice::Legacy;
    ByHand::start(move |message| {
        let capabilities = json!({ "resources": { "subscribe": true } });
        let said = match message["method"].as_str() {
            Some("initialize") if legacy => {
                Said::Result(json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {} }))
            }
            Some("server/discover") if !legacy => {
                Said::Result(json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities }))
            }
            Some("resources/subscribe" | "subscriptions/listen") => answer(&message["params"]),
            Some("GET") => Said::EmptyStream,
            _ => Said::Result(json!({})),
        };
        Box::pin(async { said })
    })
    .await
}

fn both() -> Wanted {
    Wanted { uris: vec!["memo://open".to_owned(), "memo://secret".to_owned()], ..Wanted::default() }
}

#[tokio::test]
async fn a_stateful_server_may_refuse_one_of_several() {
    let server = server(EraChoice::Legacy, |params| match params["uri"].as_str() {
        Some("memo://open") => Said::Result(json!({})),
        _ => Said::Error(StatusCode::OK, json!({ "code": -32602, "message": "not this one" })),
    })
    .await;
    let peer = server.connect(EraChoice::Legacy).await;
    let listening = peer.listen(both()).await.unwrap();
    assert_eq!(listening.honoured().uris, ["memo://open"]);

    // It was refused, so the next listener asks again; what is subscribed is not subscribed twice.
    let again = peer.listen(both()).await.unwrap();
    assert_eq!(again.honoured().uris, ["memo://open"]);
    let asked: Vec<_> = server.params("resources/subscribe").into_iter().map(|params| params["uri"].clone()).collect();
    assert_eq!(asked, ["memo://open", "memo://secret", "memo://secret"]);
}

#[tokio::test]
async fn a_stateful_server_is_told_when_the_last_listener_has_gone() {
    let server = server(EraChoice::Legacy, |_| Said::Result(json!({}))).await;
    let peer = server.connect(EraChoice::Legacy).await;
    let first = peer.listen(Wanted::resource("memo://open")).await.unwrap();
    let last = peer.listen(Wanted::resource("memo://open")).await.unwrap();
    drop(first);
    peer.ping().await.unwrap();
    assert!(server.params("resources/unsubscribe").is_empty(), "somebody still listens");
    drop(last);
    while server.params("resources/unsubscribe").is_empty() {
        peer.ping().await.unwrap();
    }
    assert_eq!(server.params("resources/unsubscribe"), [json!({ "uri": "memo://open" })]);
    assert_eq!(server.params("resources/subscribe").len(), 1);
}

#[tokio::test]
async fn a_stateful_server_that_breaks_is_an_error() {
    let server = server(EraChoice::Legacy, |_| Said::Status(StatusCode::INTERNAL_SERVER_ERROR)).await;
    let peer = server.connect(EraChoice::Legacy).await;
    let listening = peer.listen(Wanted::resource("memo://open")).await;
    assert!(matches!(&listening, Err(WireError::Status { status, .. }) if *status == 500), "{listening:?}");
}

#[tokio::test]
async fn a_stateless_server_may_refuse_break_or_hang_up() {
    type Answer = fn(&Value) -> Said;
    type Told = fn(&WireError) -> bool;
    let cases: [(Answer, Told); 4] = [
        (
            |_| Said::Error(StatusCode::OK, json!({ "code": -32601, "message": "unknown" })),
            |error| matches!(error, WireError::Refused(why) if why.contains("unknown")),
        ),
        (
            |_| Said::Error(StatusCode::NOT_FOUND, json!({ "code": -32601, "message": "unknown" })),
            |error| matches!(error, WireError::Refused(why) if why.contains("unknown")),
        ),
        (
            |_| Said::Status(StatusCode::BAD_GATEWAY),
            |error| matches!(error, WireError::Status { status, .. } if *status == 502),
        ),
        (|_| Said::EmptyStream, |error| matches!(error, WireError::Ended(_))),
    ];
    for (index, (answer, told)) in cases.into_iter().enumerate() {
        let server = server(EraChoice::Modern, answer).await;
        let peer = server.connect(EraChoice::Modern).await;
        let error = peer.listen(Wanted::lists()).await.unwrap_err();
        assert!(told(&error), "{index}: {error:?}");
        peer.ping().await.unwrap();
    }
}
