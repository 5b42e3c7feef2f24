//! Arguments of a model stay the text they were: on every wire, in the stored message, and when they are sent back.

use serde_json::json;
use toolway_model::{Message, ModelEvent, ModelRequest, ToolCall, ToolResult};
use toolway_testkit::vendor::{Reply, VendorKind};
use toolway_wire::json::Raw;

use crate::stage::{hello, listen, model};

/// Numbers without a place in a double, a repeated key, and escapes.
const ARGUMENTS: &str =
    r#"{"n":123456789012345678901234567890,"x":1e400,"y":-0,"z":1.50,"a":1,"a":2,"s":"\u00e9\/\ud83d\ude00"}"#;

/// The same without `1e400`, which the mock vendors cannot read.
const SENT_BACK: &str =
    r#"{"n":123456789012345678901234567890,"y":-0,"z":1.50,"a":1,"a":2,"s":"\u00e9\/\ud83d\ude00"}"#;

const KINDS: [VendorKind; 4] = [VendorKind::Anthropic, VendorKind::Openai, VendorKind::OpenaiChat, VendorKind::Gemini];

/// The stream of an answer with one call.
fn stream(kind: VendorKind, arguments: &str) -> String {
    let text = json!(arguments);
    let (head, tail) = arguments.split_at(20);
    match kind {
        VendorKind::Anthropic => format!(
            "data: {{\"type\":\"message_start\",\"message\":{{\"usage\":{{}}}}}}\n\n\
             data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"tool_use\",\"id\":\"c\",\
             \"name\":\"t\",\"input\":{{}}}}}}\n\n\
             data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":{}}}}}\n\n\
             data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":{}}}}}\n\n\
             data: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n\
             data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"tool_use\"}}}}\n\n\
             data: {{\"type\":\"message_stop\"}}\n\n",
            json!(head),
            json!(tail),
        ),
        VendorKind::Openai => format!(
            "data: {{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{{\"type\":\"function_call\",\
             \"call_id\":\"c\",\"name\":\"t\",\"arguments\":{text},\"later\":{arguments}}}}}\n\n\
             data: {{\"type\":\"response.completed\",\"response\":{{\"output\":[]}}}}\n\n"
        ),
        VendorKind::OpenaiChat => format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c\",\"function\":{{\"name\":\"t\",\
             \"arguments\":{arguments}}}}}]}},\"finish_reason\":\"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
        ),
        VendorKind::Gemini => format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":\"t\",\"args\":{arguments}}},\
             \"thoughtSignature\":\"s\"}}]}},\"finishReason\":\"STOP\"}}]}}\n\n"
        ),
    }
}

async fn called(kind: VendorKind, arguments: &str) -> Message {
    let (_vendor, model) = model(kind, vec![Reply::stream(&stream(kind, arguments))]).await;
    let (events, error) = listen(&model, hello()).await;
    assert_eq!(error, None, "{kind:?}: {events:?}");
    let deltas = events.iter().filter_map(|event| match event {
        ModelEvent::ToolCallArguments { delta, .. } => Some(delta.as_str()),
        _ => None,
    });
    assert_eq!(deltas.collect::<String>(), arguments, "{kind:?}");
    let Some(ModelEvent::End { message, .. }) = events.into_iter().last() else { panic!("{kind:?}: no end") };
    message
}

/// The body of the request that continues the conversation.
async fn continued(kind: VendorKind, message: Message) -> String {
    let (vendor, model) = model(kind, vec![Reply::text("Done.")]).await;
    let calls = message.tool_calls().map(|call: &ToolCall| ToolResult {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: Vec::new(),
        is_error: false,
    });
    let results = Message::tool_results(calls.collect::<Vec<_>>());
    let messages = vec![Message::user("hello"), message, results];
    let (_, error) = listen(&model, ModelRequest { messages, ..ModelRequest::default() }).await;
    assert_eq!(error, None, "{kind:?}");
    String::from_utf8(vendor.requests().remove(0).body().to_vec()).unwrap()
}

#[tokio::test]
async fn every_wire_keeps_the_text_of_arguments() {
    for kind in KINDS {
        let message = called(kind, ARGUMENTS).await;
        let call = message.tool_calls().next().unwrap();
        assert_eq!(call.arguments, Raw::parse(ARGUMENTS).unwrap(), "{kind:?}");
    }
}

#[tokio::test]
async fn a_stored_call_is_sent_back_as_it_was_to_the_same_and_to_another_vendor() {
    for author in KINDS {
        let stored = serde_json::to_string(&called(author, SENT_BACK).await).unwrap();
        let message: Message = serde_json::from_str(&stored).unwrap();
        for kind in KINDS {
            let body = continued(kind, message.clone()).await;
            let in_text = json!(SENT_BACK).to_string();
            let expected =
                if matches!(kind, VendorKind::Anthropic | VendorKind::Gemini) { SENT_BACK } else { &in_text };
            assert!(body.contains(expected), "{author:?} to {kind:?}: {body}");
        }
    }
}
