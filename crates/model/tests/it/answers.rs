//! Answers of each vendor, without faults.

use futures_util::StreamExt;
use serde_json::json;
use toolway_model::{Message, Model, ModelRequest, Part, ResultPart, StopReason, ToolResult, Usage, Vendor};
use toolway_testkit::vendor::{Reply, Stop, Tokens, VendorKind};
use toolway_wire::json::Raw;

use crate::stage::{Answer, KEY, answer, build, hello, listen, model, options};

/// Reasoning, text, and two calls at once, one without arguments.
fn rich() -> Reply {
    rich_with("call_a", "call_b")
}

fn rich_with(first: &str, second: &str) -> Reply {
    let arguments = json!({ "path": "a/ü.txt", "lines": [1, 2], "deep": { "quote": "\"\\\n" } });
    Reply::new()
        .reason("I should look at both files.")
        .say("Let me look at both: “a” and “b”.")
        .call(first, "files__read", arguments)
        .call(second, "files__list", json!({}))
        .tokens(Tokens { input: 1_200, cached: 1_000, cache_write: 0, output: 80, reasoning: 30 })
}

fn expected(kind: VendorKind) -> Answer {
    let first = json!({ "path": "a/ü.txt", "lines": [1, 2], "deep": { "quote": "\"\\\n" } });
    Answer {
        reasoning: "I should look at both files.".to_owned(),
        text: "Let me look at both: “a” and “b”.".to_owned(),
        calls: vec![("files__read".to_owned(), first), ("files__list".to_owned(), json!({}))],
        usage: Usage {
            input_tokens: 1_200,
            output_tokens: 80,
            cached_tokens: 1_000,
            cache_write_tokens: 0,
            // Anthropic does not tell.
            reasoning_tokens: if kind == VendorKind::Anthropic { 0 } else { 30 },
        },
        reason: StopReason::ToolCalls,
    }
}

#[tokio::test]
async fn an_answer_with_reasoning_text_and_parallel_calls_arrives_whole_from_every_vendor() {
    for kind in VendorKind::ALL {
        let (_vendor, model) = model(kind, vec![rich()]).await;
        let (found, message) = answer(&model, hello()).await;
        assert_eq!(found, expected(kind), "{kind:?}");
        assert!(matches!(&message.parts[0], Part::Reasoning { .. }), "{kind:?}");
        if kind != VendorKind::Gemini {
            assert_eq!(message.tool_calls().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["call_a", "call_b"]);
        }
    }
}

#[tokio::test]
async fn text_arrives_in_pieces_before_the_end_of_the_stream() {
    for kind in VendorKind::ALL {
        let reply = Reply::text("one two three four five six").fault(toolway_testkit::vendor::Fault::Hang);
        let (_vendor, model) = model(kind, vec![reply]).await;
        let mut stream = model.stream(hello());
        loop {
            if let toolway_model::ModelEvent::Text(piece) = stream.next().await.unwrap().unwrap() {
                assert_eq!(piece, "one two", "{kind:?}");
                break;
            }
        }
    }
}

#[tokio::test]
async fn every_vendor_s_reason_to_stop_is_understood() {
    for kind in VendorKind::ALL {
        let replies = [Stop::Done, Stop::Length, Stop::Refusal].map(|stop| Reply::text("well").stop(stop)).to_vec();
        let (_vendor, model) = model(kind, replies).await;
        for reason in [StopReason::EndTurn, StopReason::MaxTokens, StopReason::Refused] {
            let (found, _) = answer(&model, hello()).await;
            assert_eq!((found.reason, found.text.as_str()), (reason, "well"), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn tokens_written_to_the_cache_are_counted_once() {
    let tokens = Tokens { input: 900, cached: 100, cache_write: 300, output: 7, reasoning: 0 };
    let (_vendor, model) = model(VendorKind::Anthropic, vec![Reply::text("hi").tokens(tokens)]).await;
    let (found, _) = answer(&model, hello()).await;
    let (read, written) = (found.usage.cached_tokens, found.usage.cache_write_tokens);
    assert_eq!((found.usage.input_tokens, read, written, found.usage.output_tokens), (900, 100, 300, 7));
}

#[tokio::test]
async fn a_conversation_goes_on_with_every_vendor_after_every_other() {
    for first in VendorKind::ALL {
        for second in VendorKind::ALL {
            let (_vendor, asked) = model(first, vec![rich(), rich_with("call_c", "call_d")]).await;
            let mut messages = vec![Message::user("compare")];
            // Gemini sends no ids; ours must differ.
            for _ in 0..2 {
                let request = ModelRequest { messages: messages.clone(), ..ModelRequest::default() };
                let (_, message) = answer(&asked, request).await;
                let results = message.tool_calls().map(|call| result(&call.id, &call.name)).collect::<Vec<_>>();
                messages.extend([message, Message::tool_results(results)]);
            }
            let (vendor, other) = model(second, vec![Reply::text("done")]).await;
            let request = ModelRequest { messages, ..ModelRequest::default() };
            let (found, _) = answer(&other, request).await;
            assert_eq!(found.text, "done", "{first:?} to {second:?}: {:?}", vendor.requests());
        }
    }
}

fn result(call_id: &str, name: &str) -> ToolResult {
    let content = vec![ResultPart::Text { text: "fine".to_owned() }];
    ToolResult { call_id: call_id.to_owned(), name: name.to_owned(), content, is_error: false }
}

#[tokio::test]
async fn ids_that_a_vendor_refuses_are_replaced_for_it_and_kept_for_their_own() {
    let odd = "functions.read:0/with-a-very-long-tail-that-no-vendor-takes";
    let reply = Reply::new().call(odd, "read", json!({}));
    let (own, chat) = model(VendorKind::OpenaiChat, vec![reply, Reply::text("done")]).await;
    let (_, message) = answer(&chat, hello()).await;
    let messages = vec![Message::user("hello"), message, Message::tool_results([result(odd, "read")])];
    let request = ModelRequest { messages, ..ModelRequest::default() };
    answer(&chat, request.clone()).await;
    assert_eq!(own.requests()[1].message()["messages"][2]["tool_call_id"], odd);
    for kind in [VendorKind::Anthropic, VendorKind::Openai] {
        let (vendor, other) = model(kind, vec![Reply::text("done")]).await;
        answer(&other, request.clone()).await;
        let body = String::from_utf8(vendor.requests()[0].body().to_vec()).unwrap();
        assert!(!body.contains(odd) && body.contains("\"call_"), "{body}");
    }
}

#[tokio::test]
async fn no_empty_message_is_sent() {
    let blank = |role| Message {
        role,
        parts: vec![Part::Text { text: " ".to_owned() }],
        raw: None,
        task: None,
        attached: None,
    };
    for kind in VendorKind::ALL {
        let (_vendor, model) = model(kind, vec![Reply::text("done")]).await;
        let call = toolway_model::ToolCall { id: "c".to_owned(), name: "t".to_owned(), arguments: Raw::of("{\"a\":") };
        let called = Message {
            role: toolway_model::Role::Assistant,
            parts: vec![Part::ToolCall(call)],
            raw: None,
            task: None,
            attached: None,
        };
        let failed = ToolResult { content: Vec::new(), is_error: true, ..result("c", "t") };
        let nothing =
            Message { role: toolway_model::Role::Assistant, parts: Vec::new(), raw: None, task: None, attached: None };
        let empty =
            Message { role: toolway_model::Role::User, parts: Vec::new(), raw: None, task: None, attached: None };
        let messages = vec![
            Message::user("a"),
            nothing,
            empty,
            Message::user("b"),
            called,
            Message::tool_results([failed]),
            blank(toolway_model::Role::Assistant),
            Message::user("c"),
        ];
        let (found, _) = answer(&model, ModelRequest { messages, ..ModelRequest::default() }).await;
        assert_eq!(found.text, "done", "{kind:?}");
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    for kind in VendorKind::ALL {
        let (vendor, model) = model(kind, vec![Reply::text("one"), Reply::text("two")]).await;
        for _ in 0..2 {
            answer(&model, hello()).await;
        }
        assert_eq!(vendor.connections(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_reader_that_stops_at_the_end_of_the_message_leaves_the_connection_for_the_next() {
    for kind in VendorKind::ALL {
        let (vendor, model) = model(kind, vec![Reply::text("one"), Reply::text("two")]).await;
        for _ in 0..2 {
            let mut stream = model.stream(hello());
            while !matches!(stream.next().await.unwrap().unwrap(), toolway_model::ModelEvent::End { .. }) {}
        }
        assert_eq!(vendor.connections(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn the_base_url_may_have_a_path_and_a_query() {
    let (vendor, _) = model(VendorKind::Gemini, Vec::new()).await;
    let base = format!("http://{}/proxy/?tenant=7", vendor.authority());
    let mut options = options(VendorKind::Gemini, &base);
    options.model = "models/gemini-2.5-pro".to_owned();
    listen(&build(options), hello()).await;
    assert_eq!(vendor.requests()[0].path, "/proxy/v1beta/models/gemini-2.5-pro:streamGenerateContent?tenant=7&alt=sse");
}

#[tokio::test]
async fn configured_headers_replace_ours_and_a_key_loses_its_line_break() {
    let (vendor, _) = model(VendorKind::Anthropic, Vec::new()).await;
    let mut options = options(VendorKind::Anthropic, &vendor.base_url());
    options.headers.insert("anthropic-version", "2099-01-01".parse().unwrap());
    options.headers.insert("x-team", "tools".parse().unwrap());
    options.key = Some(toolway_config::Secret::new(format!("{KEY}\n")));
    let model = build(options);
    assert_eq!((model.name(), model.vendor(), model.context_window()), ("m", Vendor::Anthropic, Some(200_000)));
    listen(&model, hello()).await;
    let request = &vendor.requests()[0];
    let headers = ["anthropic-version", "x-team", "x-api-key"].map(|name| request.header(name).unwrap());
    assert_eq!(headers, ["2099-01-01", "tools", KEY]);
}
