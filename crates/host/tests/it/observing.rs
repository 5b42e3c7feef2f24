//! What an embedding program sees of each call: its beginning with arguments, its end with the result.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;
use toolway_config::{Bodies, Config, document::Document};
use toolway_host::record::{CallObserver, CallRecord, CallState};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, TestHostBuilder},
};

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl CallObserver for Seen {
    fn begin(&self, call: &CallRecord, arguments: Option<&str>) {
        let line = format!("{} begins with {}", call.name, arguments.unwrap_or("nothing"));
        self.0.lock().push(line);
    }

    fn end(&self, call: &CallRecord, result: Option<&str>) {
        let said = result.or(call.message.as_deref()).unwrap_or("nothing");
        self.0.lock().push(format!("{} {} with {said}", call.name, call.state));
        assert!(call.name != "files__panic", "an observer that panics");
    }
}

fn observed(mut builder: TestHostBuilder, bodies: Bodies) -> (TestHostBuilder, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    builder.ports.observer = Some(seen.clone());
    builder.ports.bodies = bodies;
    (builder, seen)
}

fn files() -> FixtureServer {
    FixtureServer::new("files")
        .tool_that("read", "Read", Behaviour::Say("a text"))
        .tool_that("fail", "Fail", Behaviour::Fail)
        .tool("panic", "Panic")
}

#[tokio::test]
async fn observer_sees_each_call_begin_and_end_once_with_arguments_and_result() {
    let (builder, seen) = observed(TestHost::with(&files(), "files"), Bodies::Redacted);
    let host = builder.start().await;
    host.ready("files").await;
    let read = host.call_with("files__read", Some(json!({ "path": "a.txt" }))).await;
    let missing = host.call("files__missing").await;
    assert_eq!([read.state(), missing.state()], [CallState::Succeeded, CallState::Refused]);
    let panicked = host.call("files__panic").await;
    assert_eq!(panicked.state(), CallState::Succeeded, "a panic of the observer loses no call");

    let lines = seen.0.lock().clone();
    let [begin, end, unknown, refused, panics, panicked] = &lines[..] else { panic!("{lines:#?}") };
    assert_eq!(begin, r#"files__read begins with {"path":"a.txt"}"#);
    assert!(end.starts_with("files__read succeeded with {") && end.contains(r#""text":"a text""#), "{end}");
    assert_eq!(unknown, "files__missing begins with nothing");
    assert!(refused.starts_with("files__missing refused with unknown tool"), "{refused}");
    assert_eq!(panics, "files__panic begins with nothing");
    assert!(panicked.starts_with("files__panic succeeded"), "{panicked}");
}

#[tokio::test]
async fn observer_sees_no_secret_of_a_server_and_no_body_that_is_not_kept() {
    let fixture = files().tool("echo", "Echo").over_http(None).await.unwrap();
    let written = format!(
        r#"{{ "mcpServers": {{ "files": {{ "url": "{}", "headers": {{ "Authorization": "Bearer s3cr3t-token" }} }} }} }}"#,
        fixture.url()
    );
    let config = || Config::of(&Document::of("/toolway.json".as_ref(), &written).unwrap(), None).unwrap();
    for (bodies, shown) in [(Bodies::Redacted, "[hidden]"), (Bodies::None, "nothing")] {
        let (builder, seen) = observed(TestHost::new().config(config()), bodies);
        let host = builder.start().await;
        host.ready("files").await;
        let echoed = host.call_with("files__echo", Some(json!({ "text": "my s3cr3t-token" }))).await;
        assert_eq!(echoed.state(), CallState::Succeeded, "{echoed}");
        let lines = seen.0.lock().clone();
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(lines.iter().all(|line| line.contains(shown) && !line.contains("s3cr3t")), "{lines:#?}");
    }
}
