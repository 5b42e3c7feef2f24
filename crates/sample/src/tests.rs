//! The sample as its callers see it, in both eras.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use toolway_wire::{
    down::DownstreamOptions,
    exchange::{Answer, Outcome, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::{ClientCapabilities, result::CallResult},
    notice::{Notice, SubscriptionFilter},
    up::{CompletionTarget, ConnectOptions, EraChoice, Peer, in_process},
};

use crate::Sample;

struct Grace;

impl ServerRequestHandler for Grace {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "elicitation": { "form": {} } })))
    }

    fn answer(&self, _question: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        Box::pin(async { Answer::Given(Raw::of(&json!({ "action": "accept", "content": { "name": "Grace" } }))) })
    }
}

async fn connect(era: EraChoice) -> Peer {
    let transport = in_process::transport(Arc::new(Sample::new()), DownstreamOptions::default());
    let options = ConnectOptions { era, request_handler: Some(Arc::new(Grace)), ..ConnectOptions::default() };
    Peer::connect(Arc::new(transport), options).await.unwrap()
}

async fn text(peer: &Peer, tool: &str, arguments: serde_json::Value) -> (String, CallResult) {
    let exchange = peer.call_tool(tool, Some(Raw::of(&arguments))).unwrap();
    match exchange.outcome_with(Some(&Grace), |_| {}).await {
        Outcome::Answered(result) => {
            let view = CallResult::view(&result);
            (result.get("content").unwrap().elements()[0].get("text").unwrap().as_str().unwrap().into_owned(), view)
        }
        other => panic!("{tool}: {other:?}"),
    }
}

#[tokio::test]
async fn every_tool_answers_in_both_eras() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let peer = connect(era).await;
        assert_eq!(peer.list_tools().await.unwrap().items.len(), 7);
        assert_eq!(text(&peer, "echo", json!({ "text": "hi" })).await.0, "hi");
        let (_, sum) = text(&peer, "add", json!({ "a": 1, "b": 2.5 })).await;
        assert_eq!(sum.structured.unwrap().to_string(), r#"{"sum":3.5}"#);
        assert_eq!(text(&peer, "count", json!({ "to": 4 })).await.0, "Counted to 4.");
        assert_eq!(text(&peer, "picture", json!({})).await.1.content.len(), 2);
        assert_eq!(text(&peer, "greet", json!({})).await.0, "Hello, Grace.");
        assert!(text(&peer, "fail", json!({})).await.1.is_error);
    }
}

#[tokio::test]
async fn the_memo_tells_its_readers_when_it_changes() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let peer = connect(era).await;
        let mut listening = peer.listen(SubscriptionFilter::resource("memo://today")).await.unwrap();
        text(&peer, "write_memo", json!({ "text": "Buy milk." })).await;
        assert!(matches!(listening.next().await, Some(Notice::Updated { uri, .. }) if uri == "memo://today"));
        let Outcome::Answered(memo) = peer.read_resource("memo://today").outcome().await else { panic!("no memo") };
        assert!(memo.to_string().contains("Buy milk."));
        let missing = peer.read_resource("memo://tomorrow").outcome().await;
        assert!(matches!(missing, Outcome::Refused(_)), "{missing:?}");
    }
}

#[tokio::test]
async fn prompts_and_names_are_completed() {
    let peer = connect(EraChoice::Auto).await;
    let offered = peer.complete(&CompletionTarget::Prompt("introduce".to_owned()), ("name", "A"), None).await.unwrap();
    assert!(offered.to_string().contains(r#"["Ada","Alan"]"#));
    let name = Raw::of(&json!({ "name": "Ada" }));
    let prompt = peer.get_prompt("introduce", Some(name)).unwrap().outcome().await;
    assert!(matches!(prompt, Outcome::Answered(_)), "{prompt:?}");
    assert_eq!(peer.list_prompts().await.unwrap().items[0].arguments[0].name, "name");
    assert_eq!(peer.list_templates().await.unwrap().items[0].uri_template, "greeting://{name}");
}
