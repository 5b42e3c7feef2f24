//! Stories about results of `resources/read` that are used again.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use toolway_config::{Config, document::Document};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, TaskHandling},
    connection::{WantedServer, Way},
    event::TaskEvent,
};
use toolway_testkit::{
    conformance_server::ConformanceServer,
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, name, within},
};
use toolway_wire::up::EraChoice;

const NOTE: &str = "docs://note";

fn docs() -> FixtureServer {
    let reads = json!({ "readOnlyHint": true });
    FixtureServer::new("docs")
        .resource(json!({ "uri": NOTE, "name": "note" }), json!([{ "uri": NOTE, "text": "first" }]))
        .annotated("look", &reads, Behaviour::Echo)
        .tool("save", "Save")
        // What a server of the revision without sessions says about its results.
        .keeping(60_000, "private")
}

fn second() -> serde_json::Value {
    json!([{ "uri": NOTE, "text": "second" }])
}

async fn host_of(server: &FixtureServer, era: EraChoice) -> TestHost {
    let wanted = WantedServer::new(name("docs"), Way::InProcess(server.service()));
    let host = TestHost::new().wanted(WantedServer { era, ..wanted }).start().await;
    host.ready("docs").await;
    host
}

fn read_as(conversation: &str) -> CallRequest {
    let minute = Duration::from_secs(60);
    CallRequest { max_age: minute, ..CallRequest::read(Caller::Agent(conversation.into()), NOTE) }
}

async fn text(host: &TestHost, request: CallRequest) -> String {
    match host.call_of(request).await {
        CallOutcome::Answered(result) => {
            let contents = result.get("contents").unwrap().elements();
            contents[0].get("text").unwrap().as_str().unwrap().into_owned()
        }
        other => other.to_string(),
    }
}

#[tokio::test]
async fn a_second_read_of_a_caller_is_answered_without_the_server_and_recorded_so() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let server = docs();
        let host = host_of(&server, era).await;
        assert_eq!(text(&host, read_as("one")).await, "first");
        server.rewrite(NOTE, &second());
        assert_eq!(text(&host, read_as("one")).await, "first");
        assert_eq!(server.seen("resources/read").len(), 1);
        let records = host.records();
        let states: Vec<_> = records.iter().map(|record| (record.from_cache, record.rule.is_some())).collect();
        assert_eq!(states, [(false, true), (true, true)]);
        assert_eq!(records[0].result_bytes, records[1].result_bytes);

        // Neither another caller, nor a call that wants no earlier result, nor one after the conversation.
        assert_eq!(text(&host, read_as("other")).await, "second");
        let fresh = CallRequest { max_age: Duration::ZERO, ..read_as("one") };
        assert_eq!(text(&host, fresh).await, "second");
        host.host.end_conversation("one");
        assert_eq!(text(&host, read_as("one")).await, "second");
    }
}

#[tokio::test]
async fn what_a_server_says_has_changed_is_read_again() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        for announce in [|server: &FixtureServer| server.touch(NOTE), FixtureServer::announce_resources] {
            let server = docs();
            let host = host_of(&server, era).await;
            assert_eq!(text(&host, read_as("one")).await, "first");
            server.rewrite(NOTE, &second());
            // The subscription begins after the answer.
            within("the new text", async {
                while text(&host, read_as("one")).await != "second" {
                    announce(&server);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await;
        }
    }
}

#[tokio::test]
async fn after_a_tool_that_may_write_a_resource_is_read_again() {
    let server = docs();
    let host = host_of(&server, EraChoice::Legacy).await;
    assert_eq!(text(&host, read_as("one")).await, "first");
    server.rewrite(NOTE, &second());
    assert!(matches!(host.call("docs__look").await, CallOutcome::Answered(_)));
    assert_eq!(text(&host, read_as("one")).await, "first", "a tool that only reads changes nothing");
    assert!(matches!(host.call("docs__save").await, CallOutcome::Answered(_)));
    assert_eq!(text(&host, read_as("one")).await, "second");
}

#[tokio::test]
async fn a_server_that_forbids_it_is_read_each_time() {
    let server = docs().keeping(0, "private");
    let host = host_of(&server, EraChoice::Modern).await;
    for _ in 0..3 {
        text(&host, read_as("one")).await;
    }
    assert_eq!(server.seen("resources/read").len(), 3);
}

#[tokio::test]
async fn a_kept_result_is_not_given_to_a_call_that_policy_refuses_now() {
    let server = docs();
    let host = host_of(&server, EraChoice::Legacy).await;
    assert_eq!(text(&host, read_as("one")).await, "first");
    let rules = r#"{"policy": {"rules": [{"match": {"kind": "resource"}, "then": "deny"}]}}"#;
    let document = Document::of("/home/toolway.json".as_ref(), rules).unwrap();
    host.host.reload(&Config::of(&document, None).unwrap()).unwrap();
    assert!(matches!(host.call_of(read_as("one")).await, CallOutcome::Refused(_)));
}

#[tokio::test]
async fn results_are_bounded_in_number_and_size() {
    let mut server = docs();
    let uri = |number: usize| format!("docs://{number}");
    for number in 0..40 {
        let text = if number == 39 { "x".repeat(3 << 20) } else { "small".to_owned() };
        let listed = json!({ "uri": uri(number), "name": "n" });
        server = server.resource(listed, json!([{ "uri": uri(number), "text": text }]));
    }
    let host = host_of(&server, EraChoice::Legacy).await;
    let read = |number| CallRequest {
        max_age: Duration::from_secs(60),
        ..CallRequest::read(Caller::Agent(Arc::from("one")), uri(number))
    };
    for number in 0..40 {
        assert!(matches!(host.call_of(read(number)).await, CallOutcome::Answered(_)));
    }
    let before = server.seen("resources/read").len();
    for number in [0, 39, 38] {
        assert!(matches!(host.call_of(read(number)).await, CallOutcome::Answered(_)));
    }
    // The first one was dropped for later ones, the large one was never kept.
    assert_eq!(server.seen("resources/read").len() - before, 2);
}

#[tokio::test]
async fn a_slow_read_that_a_write_overtook_is_not_used_again() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let server = docs();
        server.rewrite(NOTE, &serde_json::Value::Null);
        let host = host_of(&server, era).await;
        let writing = async {
            server.until_received("resources/read", 1).await;
            assert!(matches!(host.call("docs__save").await, CallOutcome::Answered(_)));
            server.rewrite(NOTE, &json!([{ "uri": NOTE, "text": "first" }]));
        };
        let (read, ()) = tokio::join!(text(&host, read_as("one")), writing);
        assert_eq!(read, "first", "what the server read before");
        server.rewrite(NOTE, &second());
        assert_eq!(text(&host, read_as("one")).await, "second");
        assert_eq!(text(&host, read_as("one")).await, "second");
        assert_eq!(server.seen("resources/read").len(), 2, "a read after the write is kept");
    }
}

#[tokio::test]
async fn what_was_read_while_a_task_worked_is_read_again_after_its_end() {
    let server = Arc::new(ConformanceServer::new());
    let wanted = WantedServer::new(name("jobs"), Way::InProcess(server));
    let host = TestHost::new().wanted(WantedServer { era: EraChoice::Legacy, ..wanted }).start().await;
    host.ready("jobs").await;
    let read = async || {
        let uri = host.host.catalog().resources()[0].public.to_string();
        let read = CallRequest::read(Caller::Agent("one".into()), uri);
        let outcome = host.call_of(CallRequest { max_age: Duration::from_secs(60), ..read }).await;
        assert!(matches!(outcome, CallOutcome::Answered(_)), "{outcome}");
        host.records().last().unwrap().from_cache
    };
    let mut events = host.host.listen_tasks();
    let request = host.request("jobs__long_job", Some(json!({ "seconds": 1 })));
    let begun = host.call_of(CallRequest { task: TaskHandling::Background, ..request }).await;
    assert!(matches!(begun, CallOutcome::HandedOff(_)), "{begun}");
    assert_eq!([read().await, read().await], [false, true]);
    within("the end of the task", async { while !matches!(events.next().await, Some(TaskEvent::Ended { .. })) {} })
        .await;
    assert_eq!([read().await, read().await], [false, true]);
}
