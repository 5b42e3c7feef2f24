//! What reasoning models behind Chat Completions add to a message: sent back to the same model as it was written, and to
//! no other.

use serde_json::json;
use toolway_model::{Message, ModelRequest, StopReason, ToolResult};
use toolway_testkit::vendor::{Fault, Reply, VendorKind};

use crate::stage::{answer, build, hello, model, options};

/// Deltas as DeepSeek, Gemini, OpenRouter and Ollama write them, and what of them the next request contains.
const DELTAS: [(&str, &[&str]); 6] = [
    (
        r#"{"role":"assistant","content":null,"reasoning_content":"Let me"}|{"content":null,"reasoning_content":" look\n"}|{"reasoning_content":null,"tool_calls":[CALL]}"#,
        &[r#""reasoning_content":"Let me look\n""#],
    ),
    // A thinking model that called without a thought.
    (r#"{"content":"","reasoning_content":""}|{"tool_calls":[CALL]}"#, &[r#""reasoning_content":"""#]),
    (
        r#"{"tool_calls":[{"extra_content":{"google":{"thought_signature":"Ej\/QK\u003d1.50"}},"function":{"arguments":"{}","name":"read"},"id":"c1","type":"function"}]}"#,
        &[r#""extra_content":{"google":{"thought_signature":"Ej\/QK\u003d1.50"}}"#],
    ),
    (
        r#"{"content":"I look.","extra_content":{"google":{"thought_signature":"AbC="}}}|{"extra_content":{"google":{"thought":true}},"tool_calls":[CALL]}"#,
        &[r#""extra_content":{"google":{"thought_signature":"AbC="}}"#],
    ),
    (
        r#"{"reasoning":"Hm","reasoning_details":[{"type":"reasoning.encrypted","data":"\u003d","n":1.0}]}|{"tool_calls":[CALL]}"#,
        &[r#""reasoning":"Hm""#, r#""reasoning_details":[{"type":"reasoning.encrypted","data":"\u003d","n":1.0}]"#],
    ),
    (r#"{"reasoning_content":"","reasoning":"Hm"}|{"reasoning":"m","tool_calls":[CALL]}"#, &[r#""reasoning":"Hmm""#]),
];

const CALL: &str = r#"{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":"{}"}}"#;

fn stream(deltas: &str) -> String {
    let deltas = deltas.replace("CALL", CALL);
    let events =
        deltas.split('|').map(|delta| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n"));
    format!("{}data: [DONE]\n\n", events.collect::<String>())
}

fn continued(message: &Message) -> ModelRequest {
    let calls = message.tool_calls().map(|call| ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: Vec::new(),
        is_error: false,
    });
    let results = Message::tool_results(calls.collect::<Vec<_>>());
    let messages = vec![Message::user("hello"), message.clone(), results];
    ModelRequest { messages, ..ModelRequest::default() }
}

#[tokio::test]
async fn what_a_server_added_to_its_message_is_sent_back_as_it_was_written() {
    for (deltas, expected) in DELTAS {
        let (vendor, model) =
            model(VendorKind::OpenaiChat, vec![Reply::stream(&stream(deltas)), Reply::text("Done.")]).await;
        let (found, message) = answer(&model, hello()).await;
        assert_eq!(found.reason, StopReason::ToolCalls, "{deltas}");
        let stored = serde_json::to_string(&message).unwrap();
        answer(&model, continued(&serde_json::from_str(&stored).unwrap())).await;
        let body = String::from_utf8(vendor.requests()[1].body().to_vec()).unwrap();
        for part in expected {
            assert!(body.contains(part), "{part} is missing: {body}");
        }
        assert!(!body.contains("\"thought\":true"), "{body}");
    }
}

#[tokio::test]
async fn it_is_not_sent_to_another_model_or_vendor() {
    for (deltas, _) in DELTAS {
        let (_first, asked) = model(VendorKind::OpenaiChat, vec![Reply::stream(&stream(deltas))]).await;
        let (_, message) = answer(&asked, hello()).await;
        for kind in VendorKind::ALL {
            let (vendor, _) = model(kind, vec![Reply::text("Done.")]).await;
            let mut other = options(kind, &vendor.base_url());
            other.model = "another".to_owned();
            answer(&build(other), continued(&message)).await;
            let body = String::from_utf8(vendor.requests()[0].body().to_vec()).unwrap();
            let members = ["reasoning_content", "\"reasoning\"", "reasoning_details", "extra_content"];
            assert!(members.iter().all(|member| !body.contains(member)), "{kind:?}: {body}");
        }
    }
}

#[tokio::test]
async fn a_server_that_checks_reasoning_and_signatures_accepts_the_next_request() {
    let call = |id: &str| {
        let call = Reply::new().reason("Two files.").call(id, "read", json!({ "path": "a" }));
        call.call(&format!("{id}-b"), "read", json!({ "path": "b" })).sign(&format!("signature of {id}"))
    };
    let replies = vec![call("c1"), call("c2"), Reply::text("Done.")];
    let (vendor, model) = model(VendorKind::OpenaiChat, replies).await;
    let (_, first) = answer(&model, hello()).await;
    let mut request = continued(&first);
    let (_, second) = answer(&model, request.clone()).await;
    request.messages.extend(continued(&second).messages.into_iter().skip(1));
    assert_eq!(answer(&model, request).await.0.text, "Done.");
    let last = vendor.requests().remove(2);
    assert_eq!(String::from_utf8_lossy(last.body()).matches("thought_signature").count(), 2);
}

#[tokio::test]
async fn done_without_a_reason_is_the_end_of_an_answer() {
    let (_vendor, model) = model(VendorKind::OpenaiChat, vec![Reply::text("Hello.").fault(Fault::NoReason)]).await;
    let (found, _) = answer(&model, hello()).await;
    assert_eq!((found.text.as_str(), found.reason), ("Hello.", StopReason::EndTurn));
}
