//! Programs that `./test long` installs: Claude Code, Copilot, opencode and LangChain list the tools and call one; Claude Code
//! and Gemini CLI are set up by the command that `toolway clients add` prints.

use serde_json::{Value, json};
use toolway_testkit::vendor::{MockVendor, VendorKind};

use super::{HostFixture, RESULT, TOOL, replies, requests};
use crate::home::{Ran, root};

/// Nothing outside of this machine is reached, whatever a program tries.
const OFFLINE: [(&str, &str); 2] = [("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "127.0.0.1")];

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_lists_and_calls_with_the_printed_command() {
    let fixture = HostFixture::new();
    let tool = format!("mcp__toolway__{TOOL}");
    let model = MockVendor::start(VendorKind::Anthropic, replies(&tool)).await.unwrap();
    let base_url = model.base_url();
    let own = [
        ("ANTHROPIC_BASE_URL", base_url.as_str()),
        ("ANTHROPIC_API_KEY", "none"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        // All tools are offered, instead of one that searches them.
        ("ENABLE_TOOL_SEARCH", "false"),
    ];
    let variables = [&own[..], &OFFLINE].concat();
    let added = fixture.run_in_shell(&fixture.setup("Claude Code"), &variables);
    assert!(added.out.contains("Added HTTP MCP server toolway"), "{added:?}");
    let words = ["-p", "call it", "--model", "claude-sonnet-4-5", "--allowedTools", &tool, "--output-format", "json"];
    let said = fixture.run("hosts/bin/claude", &words, &variables).json();
    assert_eq!(said["result"], "It is done.", "{said}");
    check_requests(&model, &tool);
    fixture.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn copilot_lists_and_calls() {
    let fixture = HostFixture::new();
    let tool = format!("gw-{TOOL}");
    let model = MockVendor::start(VendorKind::OpenaiChat, replies(&tool)).await.unwrap();
    let headers = json!({ "Authorization": fixture.bearer() });
    let server = json!({ "type": "http", "url": fixture.url(), "headers": headers, "tools": ["*"] });
    fixture.home.write(".copilot/mcp-config.json", &json!({ "mcpServers": { "gw": server } }).to_string());
    let base_url = model.base_url();
    let own = [
        // Without it a sign-in at GitHub is needed.
        ("COPILOT_PROVIDER_BASE_URL", base_url.as_str()),
        ("COPILOT_PROVIDER_API_KEY", "none"),
        ("COPILOT_MODEL", "gpt-4.1"),
        ("COPILOT_OFFLINE", "true"),
        ("COPILOT_AUTO_UPDATE", "false"),
    ];
    let words = ["-p", "call it", "--allow-all-tools", "--output-format", "json"];
    let ran = fixture.run("hosts/bin/copilot", &words, &[&own[..], &OFFLINE].concat());
    let events = events(&ran);
    let called = events.iter().find(|event| event["type"] == "tool.execution_complete").unwrap();
    assert_eq!(called["data"]["result"]["content"], RESULT, "{called}");
    check_requests(&model, &tool);
    fixture.end();
}

/// opencode is installed for one platform.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[tokio::test(flavor = "multi_thread")]
async fn opencode_lists_and_calls() {
    let fixture = HostFixture::new();
    let tool = format!("gw_{TOOL}");
    let model = MockVendor::start(VendorKind::OpenaiChat, replies(&tool)).await.unwrap();
    let headers = json!({ "Authorization": fixture.bearer() });
    let options = json!({ "baseURL": model.base_url(), "apiKey": "none" });
    let provider = json!({ "npm": "@ai-sdk/openai-compatible", "options": options, "models": { "m1": {} } });
    let settings = json!({
        "model": "mock/m1",
        "small_model": "mock/m1",
        "provider": { "mock": provider },
        "mcp": { "gw": { "type": "remote", "url": fixture.url(), "headers": headers } },
        "share": "disabled",
    });
    fixture.home.write(".config/opencode/opencode.json", &settings.to_string());
    let own = [("OPENCODE_DISABLE_AUTOUPDATE", "true"), ("OPENCODE_DISABLE_MODELS_FETCH", "true")];
    // With a title it does not ask the model for one.
    let words = ["run", "--title", "a call", "--format", "json", "call it"];
    let ran = fixture.run("hosts/bin/opencode", &words, &[own, OFFLINE].concat());
    let events = events(&ran);
    let called = events.iter().find(|event| event["type"] == "tool_use").unwrap();
    assert_eq!(called["part"]["state"]["output"], RESULT, "{called}");
    check_requests(&model, &tool);
    fixture.end();
}

#[test]
fn langchain_lists_and_calls() {
    let fixture = HostFixture::new();
    let script = root().join("tests/interop/clients/langchain_client.py");
    let plan = json!({ "url": fixture.url(), "key": fixture.serving.key(), "call": [TOOL, {}] }).to_string();
    let did = fixture.run("hosts/venv/bin/python", &[script.to_str().unwrap(), &plan], &[]).json();
    assert!(did["tools"].as_array().unwrap().contains(&TOOL.into()), "{did}");
    assert_eq!(did["called"], RESULT, "{did}");
    fixture.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn gemini_cli_lists_and_calls_with_the_printed_command() {
    let fixture = HostFixture::new();
    let tool = format!("mcp_toolway_{TOOL}");
    let model = MockVendor::start(VendorKind::Gemini, replies(&tool)).await.unwrap();
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        "privacy": { "usageStatisticsEnabled": false },
        "general": { "disableAutoUpdate": true },
    });
    fixture.home.write(".gemini/settings.json", &settings.to_string());
    let base_url = model.base_url();
    let variables = [
        ("GEMINI_API_KEY", "none"),
        ("GOOGLE_GEMINI_BASE_URL", base_url.as_str()),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
    ];
    fixture.run_in_shell(&fixture.setup("Gemini CLI"), &variables);
    let words = ["-p", "call it", "--yolo", "-m", "gemini-2.5-flash", "-o", "json"];
    let said = fixture.run("node_modules/.bin/gemini", &words, &variables).json();
    assert_eq!(said["response"], "It is done.", "{said}");
    check_requests(&model, &tool);
    fixture.end();
}

/// The lines of a program's output.
fn events(ran: &Ran) -> Vec<Value> {
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks that the model was offered the tool, and got its result.
#[track_caller]
fn check_requests(model: &MockVendor, tool: &str) {
    let [first, second] = requests(model);
    assert!(first["tools"].to_string().contains(tool), "{first}");
    let messages = if second["messages"].is_null() { &second["contents"] } else { &second["messages"] };
    assert!(messages.to_string().contains(RESULT), "{messages}");
}
