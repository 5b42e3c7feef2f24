//! A server based on the official Python SDK: subscriptions, and arguments that are also sent as headers.

use serde_json::json;
use toolway_wire::{
    notice::{List, Notice, SubscriptionFilter},
    revision::{Era, Revision},
    up::EraChoice,
};

use crate::{
    peers,
    stage::{Server, Stage, next, within},
};

#[tokio::test]
async fn a_server_on_the_python_sdk_over_stdio() {
    let stage = Stage::new();
    let server = stage.start(peers::python_sdk("stdio"), EraChoice::Auto).await;
    assert_eq!(server.revision(), "2026-07-28");
    is_watched(&server, "branch").await;
    takes_a_header(&server).await;
}

#[tokio::test]
async fn a_server_on_the_python_sdk_over_stdio_with_a_session() {
    let stage = Stage::new();
    let server = stage.start(peers::python_sdk("stdio"), EraChoice::Legacy).await;
    assert_eq!(server.revision(), "2025-11-25");
    keeps_a_note(&server).await;
    takes_a_header(&server).await;
}

#[tokio::test]
async fn a_server_on_the_python_sdk_over_http_in_both_eras() {
    let stage = Stage::new();
    let listener = stage.listen(peers::python_sdk("http")).await;

    let server = stage.reach(&listener, EraChoice::Auto).await;
    assert_eq!(server.revision(), "2026-07-28");
    is_watched(&server, "twig").await;
    takes_a_header(&server).await;
    within("the end", server.peer.close()).await;

    // The tools were not listed: the server refuses a call without the header, and the client learns which one it
    // requires.
    let server = stage.reach(&listener, EraChoice::Auto).await;
    takes_a_header(&server).await;

    let server = stage.reach(&listener, EraChoice::Legacy).await;
    assert_eq!(server.revision(), "2025-11-25");
    keeps_a_note(&server).await;
    takes_a_header(&server).await;
}

#[tokio::test]
async fn a_server_on_the_python_sdk_over_every_revision_with_a_session() {
    let stage = Stage::new();
    let listener = stage.listen(peers::python_sdk("http")).await;
    for revision in Revision::of(Era::Legacy) {
        let server = stage.reach(&listener, revision).await;
        assert_eq!(server.revision(), revision.as_str());
        keeps_a_note(&server).await;
        within("the end", server.peer.close()).await;
    }
}

#[tokio::test]
async fn restarted_server_gets_a_new_session() {
    let stage = Stage::new();
    let program = peers::on_port(peers::python_sdk("http"), peers::free_port());
    let listener = stage.listen(program.clone()).await;
    let server = stage.reach(&listener, EraChoice::Legacy).await;
    keeps_a_note(&server).await;
    let session = server.peer.session().expect("a session");

    within("its end", listener.stop()).await;
    let _restarted = stage.listen(program).await;
    keeps_a_note(&server).await;
    assert_ne!(server.peer.session().expect("a new session"), session);
}

async fn is_watched(server: &Server, name: &str) {
    let wanted = SubscriptionFilter { tools: true, ..SubscriptionFilter::resource("note://only") };
    let mut listening = server.listen(wanted.clone()).await;
    assert_eq!(listening.accepted(), &wanted);

    assert_eq!(server.call("write", json!({ "text": "seen" })).await.text(), "written");
    let Notice::Updated { uri, .. } = next(&mut listening).await else { panic!("an update") };
    assert_eq!(uri, "note://only");
    assert_eq!(server.read("note://only").await["text"], "seen");

    server.call("grow", json!({ "name": name })).await.text();
    assert!(matches!(next(&mut listening).await, Notice::Changed(List::Tools)));
    assert!(server.tool_names().await.contains(&name.to_owned()));

    // Opens a second subscription and closes the first.
    let mut second = server.listen(SubscriptionFilter::resource("note://only")).await;
    drop(listening);
    assert_eq!(server.call("write", json!({ "text": "again" })).await.text(), "written");
    assert!(matches!(next(&mut second).await, Notice::Updated { .. }));
}

async fn keeps_a_note(server: &Server) {
    assert_eq!(server.call("write", json!({ "text": "kept" })).await.text(), "written");
    assert_eq!(server.read("note://only").await["text"], "kept");
}

async fn takes_a_header(server: &Server) {
    for region in ["eu-north", "Malmö", " spaced "] {
        let routed = server.call("route", json!({ "region": region, "count": 2 })).await;
        assert_eq!(routed.text(), format!("{region} x2"));
    }
}
