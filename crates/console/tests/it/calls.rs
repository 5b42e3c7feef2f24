//! Recorded calls: pages, filters, details, cancelling.

use serde_json::json;
use toolway_host::call::{CallOutcome, Caller};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::within,
};

use crate::stage::{Browser, Stage};

async fn ids(browser: &Browser, query: &str) -> Vec<String> {
    let page = browser.json(&format!("/api/v1/calls?{query}")).await;
    page["calls"].as_array().unwrap().iter().map(|call| call["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn calls_come_in_pages_newest_first() {
    let files = FixtureServer::new("files").tool("read", "");
    let stage = Stage::new(&[("files", &files)]).await;
    for number in 0..5 {
        drop(stage.host.call_with("files__read", Some(json!({ "n": number }))).await);
    }
    let browser = stage.browser().await;
    let all = ids(&browser, "").await;
    assert_eq!(all.len(), 5);
    let first = browser.json("/api/v1/calls?limit=2").await;
    let next = first["next"].as_str().unwrap();
    assert_eq!(next, all[1]);
    assert_eq!(ids(&browser, &format!("limit=2&before={next}")).await, all[2..4]);
    let last = browser.json(&format!("/api/v1/calls?limit=2&before={}", all[3])).await;
    assert_eq!((last["calls"].as_array().unwrap().len(), &last["next"]), (1, &json!(null)));
    let details = browser.json(&format!("/api/v1/calls/{}", all[0])).await;
    assert_eq!(
        (&details["arguments"]["n"], &details["state"], &details["tool"]),
        (&4.into(), &"succeeded".into(), &"files__read".into())
    );
    assert!(details["result"]["content"].is_array() && details["durationMs"].is_number());
}

#[tokio::test]
async fn calls_are_filtered() {
    let files = FixtureServer::new("files").tool("read", "").tool_that("fail", "", Behaviour::Fail);
    let stage = Stage::new(&[("files", &files), ("other", &FixtureServer::new("other").tool("read", ""))]).await;
    for tool in ["files__read", "files__fail", "other__read"] {
        drop(stage.host.call(tool).await);
    }
    let mut of_client = stage.host.request("other__read", None);
    of_client.caller = Caller::Client("ada".into());
    drop(stage.host.call_of(of_client).await);
    let browser = stage.browser().await;
    let count = async |query: &str| ids(&browser, query).await.len();
    assert_eq!(count("server=files").await, 2);
    assert_eq!(count("state=tool-error").await, 1);
    assert_eq!(count("state=tool-error,succeeded&server=files").await, 2);
    assert_eq!(count("tool=other__read").await, 2);
    assert_eq!(count("caller=client").await, 1);
    assert_eq!(count("caller=client:ada").await, 1);
    assert_eq!(count("caller=terminal").await, 3);
    assert_eq!(count("since=2020-01-01").await, 4);
    assert_eq!(count("since=2099-01-01T00:00:00Z").await, 0);
    assert_eq!(count("until=2099-01-01T00:00:00Z").await, 4);
    assert_eq!(count("until=2020-01-01").await, 0);
    let all = ids(&browser, "").await;
    assert_eq!(ids(&browser, &format!("until=2099-01-01&before={}", all[1])).await, all[2..]);
    for query in ["limit=x", "state=odd", "since=today", "until=today"] {
        assert_eq!(browser.get(&format!("/api/v1/calls?{query}")).await.status, 400, "{query}");
    }
    for path in ["/api/v1/calls?before=x", "/api/v1/calls/x", "/api/v1/calls/0194a000-0000-7000-8000-000000000000"] {
        assert_eq!(browser.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_running_call_is_cancelled_by_its_id() {
    let files = FixtureServer::new("files").tool_that("wait", "", Behaviour::Wait);
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    let mut events = browser.events(None).await;
    let calling = stage.host.call("files__wait");
    let cancelling = async {
        let (_, started) = events.next("call").await;
        files.until_received("tools/call", 1).await;
        let path = format!("/api/v1/calls/{}/cancel", started["id"].as_str().unwrap());
        assert_eq!((browser.post(&path, &json!({})).await.status, &started["state"]), (200, &"pending".into()));
        path
    };
    let (outcome, path) = within("the cancellation", async { tokio::join!(calling, cancelling) }).await;
    assert!(matches!(outcome, CallOutcome::Cancelled), "{outcome}");
    within("the server", files.left(1)).await;
    let mut state = String::new();
    while state != "cancelled" {
        events.next("call").await.1["state"].as_str().unwrap().clone_into(&mut state);
    }
    assert_eq!(browser.post(&path, &json!({})).await.status, 409);
    browser.until("/api/v1/calls?state=cancelled", |page| page["calls"].as_array().unwrap().len() == 1).await;
}

#[tokio::test]
async fn large_bodies_are_cut_and_said_to_be() {
    let files = FixtureServer::new("files").tool("read", "");
    let stage = Stage::new(&[("files", &files)]).await;
    drop(stage.host.call_with("files__read", Some(json!({ "text": "ä".repeat(300_000) }))).await);
    let browser = stage.browser().await;
    let id = &ids(&browser, "").await[0];
    let details = browser.json(&format!("/api/v1/calls/{id}")).await;
    assert!(details["arguments"].as_str().unwrap().len() <= 256 * 1024);
    assert!(600_000 < details["truncated"]["arguments"].as_u64().unwrap());
    assert!(600_000 < details["truncated"]["result"].as_u64().unwrap());
}

#[tokio::test]
async fn a_call_of_unknown_outcome_waits_in_the_inbox_until_it_is_settled() {
    let files = FixtureServer::new("files").tool("write", "").tool_that("wait", "", Behaviour::Wait);
    let stage = Stage::new(&[("files", &files)]).await;
    let browser = stage.browser().await;
    drop(stage.host.call("files__write").await);
    let answered = ids(&browser, "").await.remove(0);
    let settle = async |id: &str, found| browser.post(&format!("/api/v1/calls/{id}/settle"), &found).await.status;
    let happened = || json!({ "finding": "happened", "note": " " });
    assert_eq!(settle(&answered, happened()).await, 409);
    assert_eq!(settle("0194a000-0000-7000-8000-000000000000", happened()).await, 404);
    // A call that was cancelled after it was sent.
    let calling = stage.host.call("files__wait");
    let cancelling = async {
        files.until_received("tools/call", 2).await;
        let id = ids(&browser, "state=running").await.remove(0);
        assert_eq!(browser.post(&format!("/api/v1/calls/{id}/cancel"), &json!({})).await.status, 200);
        id
    };
    let (_, id) = within("the cancellation", async { tokio::join!(calling, cancelling) }).await;
    let items = browser.until("/api/v1/inbox", |items| items[0]["id"] == id).await;
    assert_eq!((&items[0]["kind"], &items[0]["outcome"]["tool"]), (&"unknown-outcome".into(), &"files__wait".into()));
    assert_eq!(settle(&id, json!({ "finding": "perhaps" })).await, 400);
    assert_eq!(settle(&id, json!({ "finding": "did-not-happen", "note": "no such file" })).await, 200);
    assert_eq!(browser.json("/api/v1/inbox").await, json!([]));
    // One that ended elsewhere than in a chat is listed: no user may have stopped it.
    let abandoned = async {
        tokio::select! {
            _ = stage.host.call("files__wait") => {}
            () = files.until_received("tools/call", 3) => {}
        }
    };
    within("the call", abandoned).await;
    let cancelled = browser.until("/api/v1/calls?state=cancelled", |page| page["calls"][1].is_object()).await;
    assert_eq!(cancelled["calls"][0]["outcome"], json!("unknown"), "{cancelled}");
    assert_eq!(browser.json("/api/v1/inbox").await[0]["kind"], "unknown-outcome");
    let details = browser.json(&format!("/api/v1/calls/{id}")).await;
    assert_eq!(
        (&details["settlement"]["finding"], &details["settlement"]["note"]),
        (&"did-not-happen".into(), &"no such file".into())
    );
}
