//! Stories about a search for tools instead of their definitions.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use toolway_agent::{Agent, AgentOptions, Assistant, CallState};
use toolway_config::AssistantConfig;
use toolway_host::policy::ApprovalAnswer;
use toolway_model::{Model, ModelError, ModelEvent, ModelRequest, ScriptedModel, Vendor};

use toolway_testkit::{fixture_server::FixtureServer, test_host::TestHost};

use crate::{answer_with, files_host, options};

/// A scripted model with a small context window, which also notes the tools on offer.
#[derive(Debug)]
struct SmallModel {
    script: ScriptedModel,
    window: u64,
    vendor: Vendor,
    offered: parking_lot::Mutex<Vec<String>>,
}

impl SmallModel {
    fn new(window: u64, script: &str) -> Arc<Self> {
        let script = ScriptedModel::parse("small", script).unwrap();
        Arc::new(Self { script, window, vendor: Vendor::Scripted, offered: parking_lot::Mutex::default() })
    }
}

impl Model for SmallModel {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn vendor(&self) -> Vendor {
        self.vendor
    }

    fn context_window(&self) -> Option<u64> {
        Some(self.window)
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        *self.offered.lock() = request.tools.iter().map(|tool| tool.name.clone()).collect();
        self.script.stream(request)
    }
}

#[tokio::test]
async fn a_small_window_gets_a_search_and_three_ways_to_call() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let script = r#"{"turns": [
        {"calls": [{"tool": "search_tools", "arguments": {"query": "read"}},
                   {"tool": "describe_tool", "arguments": {"name": "files__read"}}]},
        {"expect": [{"contains": "\"name\":\"files__read\"", "error": false},
                    {"contains": "call_tool_destructive", "error": false}],
         "calls": [{"tool": "call_tool_read", "arguments": {"name": "files__read", "arguments": {}}},
                   {"tool": "files__read"}]},
        {"expect": [{"contains": "must be called with `call_tool_destructive`", "error": true},
                    {"contains": "unknown tool", "error": true}],
         "calls": [{"tool": "call_tool_destructive", "arguments": {"name": "files__read", "arguments": {"path": "a"}}}]},
        {"expect": [{"contains": "path", "error": false}], "text": "Found."}]}"#;
    let model = SmallModel::new(40, script);
    let agent = Agent::new(host.host.clone(), model.clone(), options());
    let answer = answer_with(&agent).await;
    assert_eq!(answer.text, "Found.");
    assert!(model.offered.lock().iter().all(|name| !name.starts_with("files__")));
    let made: Vec<_> = answer.calls.iter().map(|call| (call.name.as_str(), call.state)).collect();
    assert_eq!(made.last(), Some(&("files__read", CallState::Succeeded)));
    assert_eq!(host.asked().len(), 1, "policy decides about the call inside, and only about it");
}

#[tokio::test]
async fn a_search_finds_and_calls_only_the_tools_of_the_assistant() {
    let host = files_host(None).await;
    let script = r#"{"turns": [
        {"calls": [{"tool": "search_tools", "arguments": {"query": "write"}},
                   {"tool": "describe_tool", "arguments": {"name": "files__write"}},
                   {"tool": "call_tool_destructive", "arguments": {"name": "files.write", "arguments": {}}},
                   {"tool": "describe_tool", "arguments": {"name": "files__read"}}]},
        {"expect": [{"contains": "no tool matches", "error": true}, {"contains": "unknown tool", "error": true},
                    {"contains": "unknown tool", "error": true}, {"contains": "files__read", "error": false}],
         "text": "Found one."}]}"#;
    let values = r#"{"tools": ["files.re*"], "approval": "auto"}"#;
    let assistant = Some(Assistant::new("reader", &AssistantConfig::of_json(values).unwrap()));
    let agent = Agent::new(host.host.clone(), SmallModel::new(10, script), AgentOptions { assistant, ..options() });
    assert_eq!(answer_with(&agent).await.text, "Found one.");
}

#[tokio::test]
async fn a_large_window_gets_every_definition() {
    let host = files_host(None).await;
    let model = SmallModel::new(100_000, r#"{"turns": [{"text": "Hello."}]}"#);
    let agent = Agent::new(host.host.clone(), model.clone(), options());
    answer_with(&agent).await;
    let offered = model.offered.lock().clone();
    assert!(offered.contains(&"files__read".to_owned()), "{offered:?}");
    assert!(!offered.contains(&"search_tools".to_owned()), "{offered:?}");
}

#[tokio::test]
async fn more_tools_than_a_vendor_accepts_are_searched_for() {
    let many = (0..130).fold(FixtureServer::new("many"), |server, number| server.tool(&format!("t{number}"), "Read"));
    let host = TestHost::with(&many, "many").start().await;
    host.ready("many").await;
    for (vendor, searches) in [(Vendor::Openai, true), (Vendor::OpenaiChat, true), (Vendor::Gemini, false)] {
        let script = ScriptedModel::parse("many", r#"{"turns": [{"text": "Hello."}]}"#).unwrap();
        let model = Arc::new(SmallModel { script, window: 1_000_000, vendor, offered: parking_lot::Mutex::default() });
        answer_with(&Agent::new(host.host.clone(), model.clone(), options())).await;
        let offered = model.offered.lock().clone();
        assert_eq!(offered.contains(&"search_tools".to_owned()), searches, "{vendor:?}: {} tools", offered.len());
        assert_eq!(offered.len() <= 128, searches, "{vendor:?}: {} tools", offered.len());
    }
}

#[tokio::test]
async fn a_tool_with_the_name_of_one_of_the_agent_s_own_is_offered_once() {
    let mut config = toolway_config::Config::default();
    config.settings.prefix.value = toolway_config::Prefix::Never;
    let server = FixtureServer::new("files").tool("read_result", "Read").tool("read", "Read");
    let host = TestHost::with(&server, "files").config(config).start().await;
    host.ready("files").await;
    let model = SmallModel::new(100_000, r#"{"turns": [{"text": "Hello."}]}"#);
    answer_with(&Agent::new(host.host.clone(), model.clone(), options())).await;
    let offered = model.offered.lock().clone();
    assert_eq!(offered.iter().filter(|name| *name == "read_result").count(), 1, "{offered:?}");
    assert!(offered.contains(&"read".to_owned()), "{offered:?}");
}

#[tokio::test]
async fn a_long_description_is_read_page_by_page() {
    let server = FixtureServer::new("files").tool("read", &"long ".repeat(12_000));
    let host = TestHost::with(&server, "files").start().await;
    host.ready("files").await;
    let script = r#"{"turns": [
        {"calls": [{"tool": "describe_tool", "arguments": {"name": "files__read"}}]},
        {"expect": [{"contains": "cut by Toolway after 2000", "error": false}],
         "calls": [{"tool": "read_result", "arguments": {"id": "call-1-0", "offset": 59000}}]},
        {"expect": [{"contains": "\"name\":\"files__read\"", "error": false}], "text": "Read."}]}"#;
    let agent = Agent::new(host.host.clone(), SmallModel::new(40, script), options());
    assert_eq!(answer_with(&agent).await.text, "Read.");
}
