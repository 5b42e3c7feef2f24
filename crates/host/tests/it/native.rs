//! Tools of the embedding program beside those of servers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde::Deserialize;
use serde_json::json;
use toolway_config::{Config, Prefix};
use toolway_host::{
    Host, HostOptions, HostPorts,
    call::{CallOutcome, CallRequest, Caller},
    connection::{WantedServer, Way},
    native::{NativeEffect, NativeOutput, NativeServer, NativeTool, NativeToolError},
    policy::{ApprovalAnswer, Surface},
    record::CallState,
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name},
};

#[derive(Deserialize)]
struct Addends {
    left: i64,
    right: i64,
}

fn adding() -> NativeTool {
    let schema = json!({ "type": "object", "required": ["left", "right"], "additionalProperties": false,
        "properties": { "left": { "type": "integer" }, "right": { "type": "integer" } } });
    NativeTool::new("add", "Add two numbers", schema, |call| async move {
        let Addends { left, right } = call.parse()?;
        let sum = left.checked_add(right).ok_or("the sum is too large")?;
        Ok(NativeOutput::Structured([("sum".to_owned(), sum.into())].into_iter().collect()))
    })
    .with_effect(NativeEffect::Reads)
    .within_this_program()
}

fn failing() -> NativeTool {
    NativeTool::new("fail", "Panic", json!({ "type": "object" }), |_call| async {
        panic!("a native tool that panics");
    })
}

fn sums() -> NativeServer {
    NativeServer::new(name("sums")).tool(adding()).unwrap().tool(failing()).unwrap()
}

fn result(outcome: &CallOutcome) -> serde_json::Value {
    serde_json::from_str(&outcome.result().unwrap_or_else(|| panic!("{outcome}")).to_string()).unwrap()
}

#[tokio::test]
async fn native_tools_take_the_path_of_a_call_beside_those_of_servers() {
    let files = FixtureServer::new("files").tool("read", "Read");
    let host = TestHost::with(&files, "files").wanted(sums().into()).start().await;
    host.offers(&["files__read", "sums__add", "sums__fail"]).await;

    let sum = host.call_with("sums__add", Some(json!({ "left": 2, "right": 3 }))).await;
    assert_eq!(result(&sum)["structuredContent"], json!({ "sum": 5 }));
    let tool_error = host.call_with("sums__add", Some(json!({ "left": i64::MAX, "right": 1 }))).await;
    assert_eq!(tool_error.state(), CallState::ToolError);
    assert_eq!(result(&tool_error)["content"][0]["text"], "the sum is too large");
    let invalid = host.call_with("sums__add", Some(json!({ "left": "2", "right": 3 }))).await;
    assert_eq!(invalid.state(), CallState::Refused, "{invalid}");
    let panicked = host.call("sums__fail").await;
    assert_eq!(panicked.state(), CallState::Failed, "{panicked}");

    let states: Vec<_> = host.records().iter().map(|record| (record.tool.clone(), record.state)).collect();
    let of = |tool: &str, state| (Some(tool.to_owned()), state);
    assert_eq!(
        states,
        [
            of("sums__add", CallState::Succeeded),
            of("sums__add", CallState::ToolError),
            of("sums__add", CallState::Refused),
            of("sums__fail", CallState::Failed),
        ]
    );
}

#[tokio::test]
async fn policy_asks_about_a_native_tool_by_its_annotations() {
    let deleted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&deleted);
    let delete = NativeTool::new("delete", "Delete all", json!({ "type": "object" }), move |_call| {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            Ok("deleted".into())
        }
    });
    let notes = NativeServer::new(name("notes")).tool(delete).unwrap().tool(adding()).unwrap();
    let host = TestHost::new().wanted(notes.into()).start().await;
    host.ready("notes").await;
    host.answering(ApprovalAnswer::Unavailable);
    let by_agent = |tool: &str, arguments| {
        let request = host.request(tool, arguments);
        CallRequest { caller: Caller::Agent("".into()), surface: Surface::Chat, ..request }
    };
    let refused = host.call_of(by_agent("notes__delete", None)).await;
    assert_eq!((refused.state(), deleted.load(Ordering::Relaxed)), (CallState::Refused, 0), "{refused}");
    let read = host.call_of(by_agent("notes__add", Some(json!({ "left": 1, "right": 1 })))).await;
    assert_eq!(read.state(), CallState::Succeeded, "a tool that only reads passes `writes`: {read}");
    host.answering(ApprovalAnswer::approved("test"));
    let approved = host.call_of(by_agent("notes__delete", None)).await;
    assert_eq!((approved.state(), deleted.load(Ordering::Relaxed)), (CallState::Succeeded, 1), "{approved}");
}

#[test]
fn two_native_tools_of_one_name_are_an_error_that_names_both() {
    let other = NativeTool::new("add", "Add a user", json!({ "type": "object" }), |_call| async { Ok("".into()) });
    let error = NativeServer::new(name("sums")).tool(adding()).unwrap().tool(other).unwrap_err();
    assert_eq!(
        error.to_string(),
        "native tools `add: Add two numbers` and `add: Add a user` of `sums` both have the public name `sums__add`; \
         rename one of them"
    );
    let nameless = NativeTool::new("", "No name", json!({ "type": "object" }), |_call| async { Ok("".into()) });
    assert_eq!(NativeServer::new(name("sums")).tool(nameless).unwrap_err(), NativeToolError::NoName);
    let shapeless = NativeTool::new("add", "Add", json!({}), |_call| async { Ok("".into()) });
    let error = NativeServer::new(name("sums")).tool(shapeless).unwrap_err();
    assert_eq!(error.to_string(), "native tool `add`: its input schema must be an object with `\"type\": \"object\"`");
}

#[tokio::test]
async fn a_native_server_with_the_name_of_another_server_is_an_error_that_names_both() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolway.json");
    std::fs::write(&file, r#"{ "mcpServers": { "sums": { "command": "true" } } }"#).unwrap();
    let config = Config::read(&file, None).unwrap();
    let with = |servers| HostOptions { servers, ..HostOptions::default() };
    let configured = Host::start(&config, HostPorts::default(), with(vec![sums().into()])).await.unwrap_err();
    let place = format!("{}:1", file.display());
    let expected = format!("server `sums` is defined both by the embedding program and in {place}; rename one of them");
    assert_eq!(configured.to_string(), expected);

    let fixture = WantedServer::new(name("sums"), Way::InProcess(FixtureServer::new("sums").service()));
    let servers = with(vec![sums().into(), fixture]);
    let twice = Host::start(&Config::default(), HostPorts::default(), servers).await.unwrap_err();
    assert_eq!(twice.to_string(), "the embedding program defines two servers named `sums`; rename one of them");
}

#[tokio::test]
async fn without_prefixes_a_tool_that_is_left_out_names_the_server_that_has_its_name() {
    let mut config = Config::default();
    config.settings.prefix.value = Prefix::Never;
    let calculator = FixtureServer::new("calculator").tool("add", "Add").tool("divide", "Divide");
    let host = TestHost::with(&calculator, "calculator").wanted(sums().into()).config(config).start().await;
    host.offers(&["add", "divide", "fail"]).await;
    let left_out: BTreeMap<_, _> = host
        .host
        .catalog()
        .set_aside()
        .iter()
        .map(|item| (format!("{}.{}", item.server, item.name.as_deref().unwrap_or_default()), item.reason.clone()))
        .collect();
    let reason = "server `calculator` offers this name, and `naming.prefix` is `never`".to_owned();
    assert_eq!(left_out, BTreeMap::from([("sums.add".to_owned(), reason)]));
}

#[tokio::test]
async fn a_native_tool_ends_when_its_caller_leaves() {
    struct Ended(Arc<AtomicUsize>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let began = Arc::new(tokio::sync::Notify::new());
    let guarded = Arc::clone(&ended);
    let told = Arc::clone(&began);
    let wait = NativeTool::new("wait", "Wait", json!({ "type": "object" }), move |_call| {
        let guard = Ended(Arc::clone(&guarded));
        let began = Arc::clone(&told);
        async move {
            let _guard = guard;
            began.notify_one();
            std::future::pending().await
        }
    });
    let server = NativeServer::new(name("slow")).tool(wait).unwrap();
    let host = TestHost::new().wanted(server.into()).start().await;
    host.ready("slow").await;
    let call = tokio::runtime::Handle::current().spawn({
        let request = host.request("slow__wait", Some(json!({})));
        let host = host.host.clone();
        async move { host.call(request).await }
    });
    toolway_testkit::test_host::within("the beginning of the tool", began.notified()).await;
    call.abort();
    toolway_testkit::test_host::within("the end of the tool", async {
        while ended.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
