//! Answers that must match a JSON Schema.

use std::sync::Arc;

use serde_json::{Value, json};
use toolway_agent::{AgentOptions, AnswerSchema, Budget, Stop};

use crate::{ask, files_host, options};

/// An object with a number as its size.
fn schema() -> AnswerSchema {
    let schema = json!({ "type": "object", "properties": { "size": { "type": "integer" } }, "required": ["size"] });
    let validate = |value: &Value| {
        let problem = || format!("{} is not of type \"integer\"", value["size"]);
        value["size"].as_i64().map(drop).ok_or_else(problem)
    };
    AnswerSchema::new(schema, Box::new(validate))
}

fn with_schema() -> AgentOptions {
    AgentOptions { answer_schema: Some(Arc::new(schema())), ..options() }
}

#[tokio::test]
async fn a_model_corrects_an_answer_that_does_not_match() {
    let host = files_host(None).await;
    let script =
        r#"{"turns": [{"text": "It is large."}, {"text": "{\"size\": \"large\"}"}, {"text": "{\"size\": 3}"}]}"#;
    let (answer, _) = ask(&host, script, with_schema()).await;
    assert_eq!((answer.text.as_str(), answer.stop, answer.turns), ("{\"size\": 3}", Stop::Done, 3));
}

#[tokio::test]
async fn a_model_is_asked_three_times_at_most() {
    let host = files_host(None).await;
    let script = r#"{"turns": [{"text": "a"}, {"text": "b"}, {"text": "c"}, {"text": "{\"size\": 3}"}]}"#;
    let (answer, _) = ask(&host, script, with_schema()).await;
    assert_eq!((answer.text.as_str(), answer.stop, answer.turns), ("c", Stop::Done, 3));
}

#[tokio::test]
async fn an_answer_stays_if_it_cannot_be_corrected() {
    let host = files_host(None).await;
    let script = r#"{"turns": [{"text": "It is large."}]}"#;
    let (answer, _) = ask(&host, script, with_schema()).await;
    assert_eq!((answer.text.as_str(), answer.stop), ("It is large.", Stop::Done), "the script has no further turn");
    let budget = Budget { turns: 1, ..Budget::default() };
    let (answer, _) = ask(&host, script, AgentOptions { budget, ..with_schema() }).await;
    assert_eq!((answer.text.as_str(), answer.turns), ("It is large.", 1), "the budget allows no correction");
}

#[test]
fn an_answer_may_be_in_a_code_block() {
    assert_eq!(schema().check("```json\n{\"size\": 3}\n```"), Ok(json!({ "size": 3 })));
    assert_eq!(schema().check("{\"size\": \"x\"}").unwrap_err(), "\"x\" is not of type \"integer\"");
    assert!(schema().check("large").unwrap_err().starts_with("it is not JSON"));
}
