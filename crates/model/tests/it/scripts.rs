//! Scripts instead of models: files, delays, reasoning, and errors of files.

use std::time::Duration;

use futures_util::TryStreamExt;
use serde_json::json;
use toolway_model::{Message, Model, ModelEvent, ModelRequest, ScriptedModel, StopReason, Vendor};

use crate::stage::{gather, hello};

fn script(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

#[tokio::test]
async fn a_script_is_read_from_a_file_and_streams_like_a_model() {
    let turn = json!({ "reasoning": "Hm.", "text": "one two three",
        "calls": [{ "tool": "a__b", "arguments": { "x": 1 } }, { "tool": "a__c" }] });
    let (_folder, file) = script(&json!({ "turns": [turn] }).to_string());
    let model = ScriptedModel::read("demo", &file).unwrap();
    assert_eq!((model.name(), model.vendor(), model.context_window()), ("demo", Vendor::Scripted, None));
    let events: Vec<ModelEvent> = model.stream(hello()).try_collect().await.unwrap();
    let words = events.iter().filter(|event| matches!(event, ModelEvent::Text(_))).count();
    let (answer, _) = gather(events);
    assert_eq!((words, answer.text.as_str(), answer.reasoning.as_str()), (3, "one two three", "Hm."));
    assert_eq!(answer.calls, [("a__b".to_owned(), json!({ "x": 1 })), ("a__c".to_owned(), json!({}))]);
    assert_eq!(answer.reason, StopReason::ToolCalls);
}

#[tokio::test(start_paused = true)]
async fn words_may_be_delayed_up_to_a_second() {
    let model = ScriptedModel::parse("demo", r#"{"turns": [{"text": "one two three", "delayMs": 60000}]}"#).unwrap();
    let start = tokio::time::Instant::now();
    let events: Vec<ModelEvent> = model.stream(hello()).try_collect().await.unwrap();
    assert_eq!((gather(events).0.text.as_str(), start.elapsed().as_secs()), ("one two three", 3));
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn a_second_question_gets_the_next_turn() {
    let model = ScriptedModel::parse("demo", r#"{"turns": [{"text": "first"}, {"text": "second"}]}"#).unwrap();
    let mut messages = vec![Message::user("a")];
    for expected in ["first", "second"] {
        let request = ModelRequest { messages: messages.clone(), ..ModelRequest::default() };
        let events: Vec<ModelEvent> = model.stream(request).try_collect().await.unwrap();
        let (answer, message) = gather(events);
        assert_eq!((answer.text.as_str(), answer.reason), (expected, StopReason::EndTurn));
        messages.extend([message, Message::user("and?")]);
    }
}

#[test]
fn unusable_files_are_named() {
    let (_folder, file) = script("{\"turns\": 7}");
    let shown = file.display().to_string();
    let error = ScriptedModel::read("demo", &file).unwrap_err().to_string();
    assert!(error.starts_with(&format!("script `{shown}`: invalid type")), "{error}");
    std::fs::File::create(&file).unwrap().set_len(5 * 1024 * 1024).unwrap();
    let error = ScriptedModel::read("demo", &file).unwrap_err().to_string();
    assert_eq!(error, format!("script `{shown}` is larger than 4194304 bytes"));
    std::fs::remove_file(&file).unwrap();
    let error = ScriptedModel::read("demo", &file).unwrap_err().to_string();
    assert!(error.starts_with(&format!("script `{shown}`: No such file")), "{error}");
}
