//! Our requests as the vendors' own SDKs declare them, and the mock vendors as the SDKs' clients read them.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use toolway_testkit::vendor::{MockVendor, Reply, VendorKind};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What the program on the SDKs prints.
fn sdk(words: &[&str], input: &str) -> Value {
    let mut command = Command::new(root().join(".interop/venv/bin/python"));
    command.arg(root().join("tests/interop/clients/vendor_sdk.py")).args(words);
    // Proxies of this machine are not for a vendor on loopback.
    command.env("NO_PROXY", "127.0.0.1").env_remove("OPENAI_BASE_URL").env_remove("ANTHROPIC_BASE_URL");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{words:?} failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The golden requests of a crate.
fn golden(folder: &Path) -> Vec<Value> {
    let mut requests = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let mut request: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let body = request.get_mut("body").map(Value::take).unwrap_or(request);
        let vendor = VendorKind::ALL.into_iter().filter(|kind| name.starts_with(kind.as_str()));
        let vendor = vendor.max_by_key(|kind| kind.as_str().len()).unwrap();
        requests.push(json!({ "name": name, "vendor": vendor.as_str(), "body": body }));
    }
    requests
}

/// Removes what we send although the newest SDK does not declare it.
fn without_known_deviations(request: &mut Value) {
    match request["vendor"].as_str() {
        // Older models take it; the newest do not.
        Some("anthropic") => drop(request["body"].as_object_mut().unwrap().remove("temperature")),
        // Servers that are compatible with OpenAI expect their reasoning back.
        Some("openai-chat") => {
            for message in request["body"]["messages"].as_array_mut().unwrap() {
                message.as_object_mut().unwrap().remove("reasoning_content");
            }
        }
        _ => {}
    }
}

#[test]
fn golden_requests_are_what_the_sdks_declare() {
    let mut requests = golden(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"));
    requests.extend(golden(&root().join("crates/agent/tests/golden")));
    assert!(requests.len() >= 17, "{} requests", requests.len());
    requests.iter_mut().for_each(without_known_deviations);
    assert_eq!(sdk(&["check"], &json!(requests).to_string()), json!([]));
    // The comparison finds what is wrong.
    for request in &mut requests {
        let body = &mut request["body"];
        let place = if body["tools"].is_array() { &mut body["tools"][0] } else { body };
        place["surprise"] = json!(1);
    }
    let problems = sdk(&["check"], &json!(requests).to_string());
    assert_eq!(problems.as_array().unwrap().len(), requests.len(), "{problems:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_the_sdks_read_the_streams_of_the_mock_vendors() {
    for kind in VendorKind::ALL {
        let call = json!({ "path": "a.txt", "lines": [1, 2] });
        let reply = Reply::new().say("I read both files.").call("call_a", "files__read", call.clone());
        let vendor = MockVendor::start(kind, vec![reply]).await.unwrap();
        let url = vendor.base_url();
        let read = tokio::task::spawn_blocking(move || sdk(&["ask", kind.as_str(), &url], "")).await.unwrap();
        assert_eq!(read, json!({ "text": "I read both files.", "calls": [["files__read", call]] }), "{kind:?}");
    }
}
