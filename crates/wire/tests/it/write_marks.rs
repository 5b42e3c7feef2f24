//! Whether a byte of a request was written, as its transport says.

use serde_json::json;
use toolway_wire::{
    error::WireError,
    exchange::{ExchangeTimeouts, Outcome, WriteStart, pair},
    up::EraChoice,
};

use crate::scripted_server::{ScriptedReply, ScriptedServer};

#[test]
fn what_was_reported_as_not_sent_cannot_be_written_afterwards() {
    let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 1);
    let (reader, transport) = (exchange.write_mark().unwrap(), feed.write_mark());
    assert_eq!(transport.begin(), WriteStart::First);
    transport.undo();
    assert!(reader.seal() && reader.seal());
    assert_eq!(transport.begin(), WriteStart::Refused);
}

#[test]
fn what_may_have_been_written_stays_so() {
    let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 1);
    let (reader, transport) = (exchange.write_mark().unwrap(), feed.write_mark());
    assert_eq!(transport.begin(), WriteStart::First);
    assert!(!reader.seal());
    assert_eq!(transport.begin(), WriteStart::Again);
    assert!(!reader.seal());
}

#[tokio::test]
async fn a_request_to_an_http_server_is_written_and_one_to_a_closed_port_is_not() {
    let server = ScriptedServer::start(|message| {
        let said = match message["method"].as_str() {
            Some("server/discover") => json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }),
            _ => json!({ "content": [] }),
        };
        Box::pin(async { ScriptedReply::Result(said) })
    });
    let server = server.await;
    let peer = server.connect(EraChoice::Modern).await;
    let answered = peer.call_tool("any", None).unwrap();
    let mark = answered.write_mark().unwrap();
    assert!(matches!(answered.outcome().await, Outcome::Answered(_)));
    assert!(!mark.seal());
    drop(server);
    // The idle connection was closed by the server, and no other can be opened.
    let lost = peer.call_tool("any", None).unwrap();
    let mark = lost.write_mark().unwrap();
    let outcome = lost.outcome().await;
    assert!(matches!(&outcome, Outcome::Failed(WireError::Unreachable { .. } | WireError::Ended(_))), "{outcome:?}");
    assert_eq!(mark.seal(), matches!(outcome, Outcome::Failed(WireError::Unreachable { .. })));
}
