//! Tests of exports without servers.

use serde_json::Value;
use toolway_config::Secret;
use toolway_host::record::redact::Redactor;

use super::{Direction, MAX_MESSAGE, MessageExport};

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn responses_have_the_method_of_their_request_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let export = MessageExport::create(&path).unwrap();
    let connection = export.connection(&"files".parse().unwrap(), &Redactor::default());
    for (direction, text) in [
        (Direction::Out, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#),
        (Direction::In, r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#),
        (Direction::Out, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#),
        (Direction::In, r#"{"jsonrpc":"2.0","id":1,"result":{"isError":true}}"#),
        (Direction::In, r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#),
        (Direction::In, "502 Bad Gateway"),
    ] {
        connection.record(direction, &text.into());
    }
    assert_eq!((export.end().messages, export.end().failure.is_some()), (6, true));
    let lines = lines(&path);
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(kinds, ["", "request", "request", "error", "tool-error", "notification", "other", ""]);
    assert_eq!([&lines[3]["method"], &lines[4]["method"]], ["roots/list", "tools/call"]);
    assert!(lines[4]["tookMs"].is_number() && lines[6]["text"] == "502 Bad Gateway", "{lines:#?}");
    let of = |method: &str| {
        let methods = lines[7]["methods"].as_array().unwrap();
        methods.iter().find(|counts| counts["method"] == method).cloned().unwrap()
    };
    assert_eq!(of("tools/call")["toolErrors"], 1);
    assert_eq!((&of("roots/list")["direction"], &of("roots/list")["errors"]), (&"in".into(), &1.into()));
    assert_eq!(of("tools/call")["errorRate"], 1.0);
}

#[test]
fn secrets_are_masked_before_a_message_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let export = MessageExport::create(&path).unwrap();
    let redactor = Redactor::new([Secret::new("t0k3n-of-ada")]);
    let connection = export.connection(&"files".parse().unwrap(), &redactor);
    let at_the_cut = format!(r#"{{"id":1,"method":"{}t0k3n-of-ada"}}"#, "x".repeat(MAX_MESSAGE - 25));
    connection.record(Direction::Out, &at_the_cut.into());
    connection.record(Direction::Out, &r#"{"id":2,"method":"a","params":{"password":"hunter2"}}"#.into());
    export.end();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("t0k3n") && !text.contains("hunter2"), "{}", &text[text.len() - 500..]);
    assert_eq!(lines(&path)[1]["cut"], true);
}

#[test]
fn an_existing_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    std::fs::write(&path, "mine").unwrap();
    assert!(MessageExport::create(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn what_a_server_returns_is_masked_by_the_names_of_its_members() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    let export = MessageExport::create(&path).unwrap();
    let connection = export.connection(&"files".parse().unwrap(), &Redactor::default());
    let secret =
        serde_json::json!({ "accessToken": "hunter2", "pin": 7, "passwords": ["hunter2"], "clientSecret": 99 });
    let text = serde_json::json!({ "type": "text", "text": secret.to_string() });
    let result = serde_json::json!({ "content": [text], "structuredContent": secret });
    let message = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    connection.record(Direction::In, &message.to_string().into());
    export.end();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("99") && text.contains("pin"), "{text}");
    let result = &lines(&path)[1]["message"]["result"];
    assert_eq!(result["structuredContent"]["clientSecret"], "•••");
    let within: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(within, result["structuredContent"]);
}
