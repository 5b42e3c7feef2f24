//! `/metrics`, read by a parser written by others.

use std::{
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolway_testkit::{
    fixture_server::FixtureServer,
    vendor::{MockVendor, Reply, VendorKind},
};
use toolway_wire::revision::Era;

use crate::{
    gateway::{Answer, Serving},
    home::{Home, TOOLWAY, root},
    left_to_inbox::waiting,
};

/// Longest wait for what is counted beside the calls.
const PATIENCE: Duration = Duration::from_secs(20);

/// The samples of a scrape, as the parser of Prometheus's own Python client reads them.
fn parsed(text: &str) -> Vec<Value> {
    let python = root().join(".interop/venv/bin/python");
    let script = root().join("tests/interop/clients/scrape.py");
    let mut parser = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = parser.wait_with_output().unwrap();
    assert!(output.status.success(), "not a valid scrape:\n{text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn value(samples: &[Value], name: &str, labels: &Value) -> f64 {
    let sample = samples.iter().find(|sample| sample["name"] == name && sample["labels"] == *labels);
    sample.and_then(|sample| sample["value"].as_f64()).unwrap_or_else(|| panic!("no {name} {labels} in {samples:#?}"))
}

#[test]
fn scrape_is_valid_and_counts_tools_prompts_resources_approvals_and_invalid_arguments() {
    let home = Home::new();
    let sample = json!({ "command": TOOLWAY, "args": ["sample"] });
    let policy = json!({ "rules": [{ "match": { "tool": "write_memo" }, "then": "ask" }] });
    home.configure(&json!({ "mcpServers": { "sample": sample }, "policy": policy }).to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "sample", "ready");
    let ask = |method: &str, params: Value| Answer::of(serving.call(method, params));
    for answer in ["answer", "decline"] {
        let memo = json!({ "name": "sample__write_memo", "arguments": { "text": "x" } });
        let asked = serving.call("tools/call", memo);
        let item = waiting(&home, 1)[0]["id"].as_str().unwrap().to_owned();
        home.run(&["inbox", answer, &item]).ok();
        Answer::of(asked);
    }
    for tool in ["sample__echo", "sample__echo", "sample__fail", "sample__missing"] {
        ask("tools/call", json!({ "name": tool, "arguments": { "text": "hunter2" } }));
    }
    ask("tools/call", json!({ "name": "sample__add", "arguments": { "a": "no number", "b": 1 } }));
    let prompts = ask("prompts/list", json!({})).json();
    let prompt = &prompts["result"]["prompts"][0]["name"];
    let server = prompt.as_str().unwrap().split_once("__").unwrap().0;
    ask("prompts/get", json!({ "name": prompt, "arguments": {} }));
    let resources = ask("resources/list", json!({})).json();
    ask("resources/read", json!({ "uri": resources["result"]["resources"][0]["uri"] }));

    // What is only reported is checked beside the calls.
    let began = Instant::now();
    let scrape = loop {
        let scrape = serving.get("/metrics", serving.key());
        if scrape.body.contains("toolway_validation_total{found=\"invalid-arguments\"} 1") {
            break scrape;
        }
        assert!(began.elapsed() < PATIENCE, "no invalid arguments are counted: {}", scrape.body);
    };
    assert!(scrape.head.contains("application/openmetrics-text; version=1.0.0"), "{scrape:?}");
    let samples = parsed(&scrape.body);
    let executions = |tool: &str, status: &str| {
        value(&samples, "mcp_tool_executions_total", &json!({ "server": "sample", "tool": tool, "status": status }))
    };
    assert_eq!([executions("echo", "success"), executions("fail", "error")], [2.0, 1.0]);
    let echo = json!({ "server": "sample", "tool": "echo" });
    assert_eq!(value(&samples, "mcp_tool_execution_duration_seconds_count", &echo), 2.0);
    let sample = json!({ "server": "sample" });
    for name in ["mcp_connections_total", "mcp_connections_active"] {
        assert_eq!(value(&samples, name, &sample), 1.0, "{name}");
    }
    assert_eq!(value(&samples, "mcp_prompts_invoked_total", &json!({ "server": server })), 1.0);
    let found = |what: &str| value(&samples, "toolway_validation_total", &json!({ "found": what }));
    assert_eq!([found("invalid-arguments"), found("rejected")], [1.0, 0.0], "a failure that is only reported counts");
    let approvals = |answer: &str| value(&samples, "toolway_approvals_total", &json!({ "answer": answer }));
    assert_eq!([approvals("approved"), approvals("refused")], [1.0, 1.0]);
    assert_eq!(value(&samples, "mcp_resource_cache_hits_total", &sample), 0.0, "a client's own read is always sent");
    let read = samples.iter().filter(|sample| sample["name"] == "mcp_resources_read_total");
    assert_eq!(read.filter_map(|sample| sample["value"].as_f64()).sum::<f64>(), 1.0);
    // Neither a name that a caller invented nor an argument is part of it.
    assert!(!scrape.body.contains("missing") && !scrape.body.contains("hunter2"), "{}", scrape.body);
}

#[test]
fn scrape_counts_the_tokens_of_each_model() {
    let runtime = Runtime::new().unwrap();
    let vendor = runtime.block_on(MockVendor::start(VendorKind::Anthropic, vec![Reply::text("Blue.")])).unwrap();
    let home = Home::new();
    let model = json!({ "vendor": "anthropic", "model": "m", "baseUrl": vendor.base_url(), "apiKey": "x" });
    let every = root().join(".interop/node_modules/.bin/mcp-server-everything");
    let config = json!({
        "models": { "small": model },
        "sampling": { "allow": "always" },
        "mcpServers": { "every": { "command": every, "args": ["stdio"] } },
    });
    home.configure(&config.to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "every", "ready");
    let tool = json!({ "name": "every__trigger-sampling-request", "arguments": { "prompt": "Name a colour" } });
    let answer = Answer::of(serving.call("tools/call", tool));
    assert!(answer.body.contains("Blue."), "{answer:?}");
    let samples = parsed(&serving.get("/metrics", serving.key()).body);
    for direction in ["input", "output"] {
        let labels = json!({ "model": "small", "direction": direction });
        assert!(0.0 < value(&samples, "toolway_model_tokens_total", &labels), "{samples:#?}");
    }
}

#[test]
fn the_name_of_a_tool_adds_no_sample_and_no_label_whatever_its_server_calls_it() {
    let runtime = Runtime::new().unwrap();
    let names = [
        "x\"} 1\nmcp_forged_total{a=\"b",
        "back\\slash\\",
        "x\",status=\"success",
        "# EOF\n",
        "carriage\r\nreturn\u{2028}\u{85}",
    ];
    let add = |server: FixtureServer, name: &&str| {
        server.defined(json!({ "name": name, "description": "x", "inputSchema": { "type": "object" } }))
    };
    let server = names.iter().fold(FixtureServer::new("odd"), add);
    let http = runtime.block_on(server.over_http(Some(Era::Legacy))).unwrap();
    let home = Home::new();
    home.configure(&json!({ "mcpServers": { "odd": { "url": http.url() } } }).to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "odd", "ready");
    let listed = Answer::of(serving.call("tools/list", json!({}))).json();
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    assert_eq!(tools.len(), names.len(), "{listed}");
    for tool in tools {
        Answer::of(serving.call("tools/call", json!({ "name": tool["name"], "arguments": {} })));
    }
    let samples = parsed(&serving.get("/metrics", serving.key()).body);
    let executions: Vec<&Value> =
        samples.iter().filter(|sample| sample["name"] == "mcp_tool_executions_total").collect();
    assert_eq!(executions.len(), names.len(), "{executions:#?}");
    for sample in executions {
        let labels = sample["labels"].as_object().unwrap();
        assert_eq!(
            (labels.len(), &labels["status"], sample["value"].as_f64()),
            (3, &json!("success"), Some(1.0)),
            "{sample}"
        );
    }
    assert!(!samples.iter().any(|sample| sample["name"].as_str().unwrap().contains("forged")), "{samples:#?}");
}
