//! Approval of raw requests: what a user sees of them, and what a saved approval covers.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use toolway_host::{
    call::{CallRequest, Caller, Target},
    catalog::Filter,
    connection::{WantedServer, Way},
    inbox::{Answerer, ElicitationModes, InboxAnswer, InboxContent, InboxItem},
    policy::{ApprovalAnswer, ApprovalTerm},
    record::CallState,
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name, within},
};
use toolway_wire::json::Raw;

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("read", "Read").tool("write", "Write")
}

/// Sends a raw request and returns the rows of the approval request, if there was one.
async fn rpc(host: &TestHost, shown: &Shown, method: &str, params: serde_json::Value) -> Option<Vec<String>> {
    let target = Target::Method { server: name("files"), method: method.to_owned() };
    let request = CallRequest { arguments: Some(Raw::of(&params)), ..CallRequest::new(Caller::Terminal, target) };
    shown.rows.lock().unwrap().take();
    drop(host.call_of(request).await);
    shown.rows.lock().unwrap().take()
}

/// Approves for always, and keeps the rows of the last item.
#[derive(Default)]
struct Shown {
    rows: std::sync::Mutex<Option<Vec<String>>>,
}

impl Answerer for Shown {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Nothing
    }

    fn answer<'a>(&'a self, item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        let InboxContent::Approval(details) = &item.content else { panic!("an approval is expected") };
        let rows = details.rows.iter().map(|row| format!("{}: {}", row.label, row.value)).collect();
        *self.rows.lock().unwrap() = Some(rows);
        let answer = ApprovalAnswer::approved_for(ApprovalTerm::Always, "test");
        Box::pin(async { InboxAnswer::Approval(answer) })
    }
}

async fn approving(files: &FixtureServer) -> (TestHost, Arc<Shown>) {
    let shown = Arc::new(Shown::default());
    let mut builder = TestHost::with(files, "files").asking(ApprovalAnswer::Unavailable);
    builder.ports.answerer = Arc::clone(&shown) as Arc<dyn Answerer>;
    let host = builder.start().await;
    host.ready("files").await;
    (host, shown)
}

#[tokio::test]
async fn the_params_of_a_raw_method_are_shown_and_pinned_by_a_saved_approval() {
    let files = files();
    let (host, shown) = approving(&files).await;
    let wipe = |path: &str| json!({ "path": path, "note": "x", "_meta": { "trace": "1" } });
    let rows = rpc(&host, &shown, "disk/wipe", wipe("/tmp/a")).await.unwrap();
    assert_eq!(rows, ["path: /tmp/a", "note: x"]);
    assert_eq!(rpc(&host, &shown, "disk/wipe", wipe("/tmp/a")).await, None, "covered by the saved approval");
    assert!(rpc(&host, &shown, "disk/wipe", wipe("/")).await.is_some(), "another path is asked about");
    assert!(rpc(&host, &shown, "disk/read", wipe("/tmp/a")).await.is_some(), "another method is asked about");
}

#[tokio::test]
async fn a_saved_approval_of_a_prompt_does_not_cover_a_tool_of_the_same_name() {
    let files = files();
    let (host, shown) = approving(&files).await;
    for method in ["prompts/get", "tools/call"] {
        assert!(rpc(&host, &shown, method, json!({ "name": "other" })).await.is_some(), "{method}");
        assert!(rpc(&host, &shown, method, json!({ "name": "other" })).await.is_none(), "{method}");
    }
    assert!(rpc(&host, &shown, "other", json!({})).await.is_some(), "nor a method");
}

#[tokio::test]
async fn a_saved_approval_of_a_raw_tool_call_ends_when_its_definition_changes() {
    let files = files();
    let (host, shown) = approving(&files).await;
    let read = json!({ "name": "read", "arguments": { "path": "a" } });
    assert_eq!(rpc(&host, &shown, "tools/call", read.clone()).await.unwrap(), ["path: a"]);
    assert!(host.call_with("files__read", Some(json!({ "path": "a" }))).await.state() == CallState::Succeeded);
    assert!(shown.rows.lock().unwrap().is_none(), "it is the same call");
    let old = host.host.catalog().tools()[0].fingerprint;
    files.describe("read", "Another description");
    let mut catalogs = host.host.watch_catalog();
    within("the new definition", catalogs.wait_for(|catalog| catalog.tools()[0].fingerprint != old)).await.unwrap();
    assert!(rpc(&host, &shown, "tools/call", read).await.is_some());
}

#[tokio::test]
async fn a_raw_request_whose_name_is_not_a_string_is_not_sent() {
    let files = files();
    let filter = Filter { exclude_tools: vec!["write*".into()], ..Filter::default() };
    let server =
        WantedServer { filter: Arc::new(filter), ..WantedServer::new(name("files"), Way::InProcess(files.service())) };
    let host = TestHost::new().wanted(server).start().await;
    host.ready("files").await;
    for (method, params) in [
        ("tools/call", json!({ "name": ["write"] })),
        ("prompts/get", json!({ "name": { "name": "write" } })),
        ("resources/read", json!({ "uri": ["memo://today"] })),
    ] {
        let target = Target::Method { server: name("files"), method: method.to_owned() };
        let request = CallRequest { arguments: Some(Raw::of(&params)), ..CallRequest::new(Caller::Terminal, target) };
        assert_eq!(host.call_of(request).await.state(), CallState::Refused, "{method}");
        assert!(files.seen(method).is_empty(), "{method}");
    }
}
