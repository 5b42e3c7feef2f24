//! Streams that go wrong, on every wire.

use futures_util::StreamExt;
use serde_json::json;
use toolway_model::{Message, Model, ModelErrorKind, ModelEvent, ModelRequest, StopReason, Usage};
use toolway_testkit::vendor::{Fault, Reply, VendorKind};

use crate::stage::{KEY, answer, error, hello, listen, model};

fn reply() -> Reply {
    Reply::new()
        .reason("Thinking about it.")
        .say("Grüße aus Köln: 你好, мир, 👋🏽.")
        .call("c1", "read", json!({ "path": "ä.txt" }))
        .call("c2", "read", json!({ "path": "ä.txt" }))
}

#[tokio::test]
async fn line_ends_split_over_chunks_change_nothing() {
    for kind in VendorKind::ALL {
        let (_vendor, model) = model(kind, vec![reply(), reply().fault(Fault::SplitCrlf)]).await;
        let (whole, _) = answer(&model, hello()).await;
        let (split, _) = answer(&model, hello()).await;
        assert_eq!((whole.calls.len(), &whole), (2, &split), "{kind:?}");
    }
}

#[tokio::test]
async fn unknown_blocks_and_events_are_skipped_and_sent_back() {
    for kind in VendorKind::ALL {
        let replies = vec![Reply::text("hi"), Reply::text("hi").fault(Fault::Unknown), Reply::text("done")];
        let (vendor, model) = model(kind, replies).await;
        let (plain, _) = answer(&model, hello()).await;
        let (found, message) = answer(&model, hello()).await;
        assert_eq!(found, plain, "{kind:?}");
        let messages = vec![Message::user("hello"), message, Message::user("go on")];
        answer(&model, ModelRequest { messages, ..ModelRequest::default() }).await;
        // Chat Completions has no items that could be sent back.
        let body = String::from_utf8(vendor.requests()[2].body().to_vec()).unwrap();
        assert_eq!(body.contains("hologram"), kind != VendorKind::OpenaiChat, "{body}");
    }
}

#[tokio::test]
async fn an_error_in_the_middle_is_reported_with_the_vendor_s_message_and_not_repeated() {
    for kind in VendorKind::ALL {
        let (vendor, model) = model(kind, vec![reply().fault(Fault::ErrorInTheMiddle), Reply::text("twice")]).await;
        let error = error(&model).await;
        assert!(matches!(error.kind, ModelErrorKind::Unavailable { .. }), "{kind:?}: {error:?}");
        assert_eq!(error.vendor_message.as_deref(), Some("Overloaded, try again later"), "{kind:?}");
        assert!(error.is_retryable() && !error.to_string().contains("HTTP 0"), "{error}");
        assert_eq!(vendor.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_cut_stream_is_an_error() {
    for kind in VendorKind::ALL {
        for fault in [Fault::CutBody, Fault::CutConnection, Fault::NoLastEvent] {
            let (vendor, model) = model(kind, vec![reply().fault(fault), Reply::text("twice")]).await;
            let error = error(&model).await;
            assert_eq!(error.kind, ModelErrorKind::Cut, "{kind:?} {fault:?}");
            assert!(error.is_retryable());
            assert_eq!(vendor.requests().len(), 1, "{kind:?} {fault:?}");
        }
    }
}

#[tokio::test]
async fn an_event_that_is_not_json_is_an_invalid_answer() {
    for kind in VendorKind::ALL {
        let (_vendor, model) = model(kind, vec![reply().fault(Fault::NotJson)]).await;
        let error = error(&model).await;
        assert!(matches!(error.kind, ModelErrorKind::InvalidAnswer(_)), "{kind:?}: {error:?}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn an_answer_without_end_is_stopped_at_a_limit() {
    for kind in VendorKind::ALL {
        for fault in [Fault::EndlessText, Fault::EndlessEvent] {
            let (vendor, model) = model(kind, vec![Reply::text("la la la").fault(fault)]).await;
            let error = error(&model).await;
            let ModelErrorKind::InvalidAnswer(why) = &error.kind else { panic!("{kind:?} {fault:?}: {error:?}") };
            assert!(why.contains("is larger than the limit of"), "{why}");
            vendor.until_closed().await;
        }
    }
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request() {
    for kind in VendorKind::ALL {
        let (vendor, model) = model(kind, vec![Reply::text("one two three four").fault(Fault::Hang)]).await;
        let mut stream = model.stream(hello());
        stream.next().await.unwrap().unwrap();
        drop(stream);
        vendor.until_closed().await;
    }
}

#[tokio::test]
async fn thinking_cut_by_the_token_limit_is_not_sent_back() {
    let stream = [
        json!({ "type": "message_start", "message": { "usage": { "input_tokens": 1, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block":
            { "type": "thinking", "thinking": "", "signature": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "thinking_delta", "thinking": "Hmm" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "max_tokens" }, "usage": { "output_tokens": 9 } }),
        json!({ "type": "message_stop" }),
    ];
    let stream: String = stream.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (vendor, model) = model(VendorKind::Anthropic, vec![Reply::stream(&stream), Reply::text("done")]).await;
    let (found, message) = answer(&model, hello()).await;
    assert_eq!((found.reasoning.as_str(), found.reason), ("Hmm", StopReason::MaxTokens));
    let messages = vec![Message::user("hello"), message, Message::user("go on")];
    answer(&model, ModelRequest { messages, ..ModelRequest::default() }).await;
    let body = String::from_utf8(vendor.requests()[1].body().to_vec()).unwrap();
    assert!(!body.contains("thinking"), "the vendor refuses thinking without a signature: {body}");
}

#[tokio::test]
async fn a_call_cut_by_the_token_limit_keeps_its_text_and_the_conversation_goes_on() {
    // The vendor's own item of the call never came.
    let stream = [
        json!({ "type": "response.output_item.added", "output_index": 0, "item":
            { "type": "function_call", "id": "fc_0", "call_id": "c", "name": "write", "arguments": "" } }),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"text\": \"lo" }),
        json!({ "type": "response.incomplete", "response":
            { "output": [], "incomplete_details": { "reason": "max_output_tokens" } } }),
    ];
    let stream: String = stream.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (_vendor, model) = model(VendorKind::Openai, vec![Reply::stream(&stream)]).await;
    let (found, message) = answer(&model, hello()).await;
    assert_eq!(found.calls, [("write".to_owned(), json!("{\"text\": \"lo"))]);
    assert_eq!(message.raw, None);
}

#[tokio::test]
async fn responses_without_output_index_or_without_item_events_lose_no_call() {
    let call = |id: &str| json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "read", "arguments": "{}" });
    let added = |id: &str| {
        json!({ "type": "response.output_item.added", "item":
        { "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "read", "arguments": "" } })
    };
    let delta = |id: &str| json!({ "type": "response.function_call_arguments.delta", "item_id": format!("fc_{id}"), "delta": "{}" });
    let done = |id: &str| json!({ "type": "response.output_item.done", "item": call(id) });
    let said = json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "hi" }] });
    let completed = json!({ "type": "response.completed", "response": { "output": [said, call("a"), call("b")] } });
    let interleaved = [added("a"), added("b"), delta("b"), delta("a"), done("a"), done("b"), completed.clone()];
    let streams = [interleaved.to_vec(), vec![done("a"), completed.clone()], vec![completed]];
    for stream in streams {
        let text: String = stream.iter().map(|event| format!("data: {event}\n\n")).collect();
        let (_vendor, model) = model(VendorKind::Openai, vec![Reply::stream(&text)]).await;
        let (found, message) = answer(&model, hello()).await;
        assert_eq!(found.calls, [("read".to_owned(), json!({})), ("read".to_owned(), json!({}))], "{text}");
        assert!(
            message
                .raw
                .unwrap()
                .items
                .iter()
                .filter(|item| item.get("type").unwrap().as_str().unwrap() == "function_call")
                .count()
                == 2
        );
    }
}

#[tokio::test]
async fn errors_inside_a_stream_have_the_kind_that_the_vendor_names() {
    let cases = [
        (VendorKind::Anthropic, json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "slow" } })),
        (
            VendorKind::Openai,
            json!({ "type": "response.failed", "response":
            { "error": { "code": "rate_limit_exceeded", "message": "slow" } } }),
        ),
        (VendorKind::OpenaiChat, json!({ "error": { "code": 429, "message": "slow" } })),
        (VendorKind::Gemini, json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow" } })),
    ];
    for (kind, event) in cases {
        let (_vendor, model) = model(kind, vec![Reply::stream(&format!("data: {event}\n\n"))]).await;
        let error = error(&model).await;
        assert_eq!(
            (error.kind, error.vendor_message.as_deref()),
            (ModelErrorKind::RateLimited, Some("slow")),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn other_forms_of_errors_inside_a_stream_are_understood() {
    let failed = ModelErrorKind::Unavailable { status: 0 };
    let invalid = ModelErrorKind::InvalidRequest { status: 0 };
    let cases = [
        (VendorKind::Openai, json!({ "type": "error", "code": null, "message": "x" }), failed.clone()),
        (VendorKind::Openai, json!({ "type": "error", "error": { "type": "server_error", "message": "x" } }), failed),
        (VendorKind::OpenaiChat, json!({ "error": "x" }), invalid.clone()),
        (
            VendorKind::OpenaiChat,
            json!({ "object": "error", "message": "x", "code": 400 }),
            ModelErrorKind::InvalidRequest { status: 400 },
        ),
        (VendorKind::Gemini, json!({ "promptFeedback": { "blockReason": "SAFETY" } }), invalid),
    ];
    for (kind, event, expected) in cases {
        let (_vendor, model) = model(kind, vec![Reply::stream(&format!("data: {event}\n\n"))]).await;
        assert_eq!(error(&model).await.kind, expected, "{event}");
    }
}

#[tokio::test]
async fn a_key_in_an_error_of_a_stream_is_hidden() {
    let event = json!({ "type": "error", "error": { "type": "api_error", "message": format!("bad key {KEY}") } });
    let (_vendor, model) = model(VendorKind::Anthropic, vec![Reply::stream(&format!("data: {event}\n\n"))]).await;
    let error = error(&model).await;
    assert_eq!(error.vendor_message.as_deref(), Some("bad key [hidden]"));
}

#[tokio::test]
async fn events_before_an_error_are_delivered() {
    for kind in VendorKind::ALL {
        let (_vendor, model) = model(kind, vec![Reply::text("one two three four five").fault(Fault::CutBody)]).await;
        let (events, error) = listen(&model, hello()).await;
        assert!(error.is_some());
        let text: String = events
            .iter()
            .filter_map(|event| if let ModelEvent::Text(text) = event { Some(text.as_str()) } else { None })
            .collect();
        assert!("one two three four five".starts_with(&text) && !text.is_empty(), "{kind:?}: {text}");
    }
}

#[tokio::test]
async fn a_stream_without_usage_has_none() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    let (_vendor, model) = model(VendorKind::OpenaiChat, vec![Reply::stream(stream)]).await;
    let (found, _) = answer(&model, hello()).await;
    assert_eq!((found.text.as_str(), found.usage), ("hi", Usage::default()));
}
