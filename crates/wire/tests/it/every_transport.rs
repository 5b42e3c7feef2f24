//! The same behaviour over every transport in every era.

use std::time::Duration;

use serde_json::json;
use toolway_wire::{
    exchange::{ExchangeEvent, ExchangeTimeouts, LogLevel, Outcome, Request, ServerRequestHandler},
    json::Raw,
    notice::{List, Notice, SubscriptionFilter},
};

use crate::{
    routes::{ALL, Ada},
    test_service::TestService,
};

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

#[tokio::test]
async fn progress_and_logs_arrive_in_order_before_the_result() {
    for way in ALL {
        let connected = way.connect(TestService::new()).await;
        connected.peer.set_log_level(LogLevel::Debug).await.unwrap();
        let exchange = connected.peer.call_tool("count", None).unwrap();
        let mut seen = Vec::new();
        let outcome = exchange
            .outcome_with(None, |event| match event {
                ExchangeEvent::Progress(params) => seen.push(format!("p{}", params.get("progress").unwrap())),
                ExchangeEvent::Log(params) => seen.push(format!("l{}", params.get("data").unwrap())),
                _ => {}
            })
            .await;
        assert!(matches!(outcome, Outcome::Answered(_)), "{way:?}: {outcome:?}");
        assert_eq!(seen, ["p1", "l\"step 1\"", "p2", "l\"step 2\"", "p3", "l\"step 3\""], "{way:?}");
    }
}

#[tokio::test]
async fn server_request_is_answered_and_the_call_continues() {
    for way in ALL {
        let connected = way.connect(TestService::new()).await;
        let exchange = connected.peer.call_tool("ask", None).unwrap();
        let outcome = exchange.outcome_with(Some(&Ada as &dyn ServerRequestHandler), |_| {}).await;
        let Outcome::Answered(result) = outcome else { panic!("{way:?}: {outcome:?}") };
        assert!(result.to_string().contains("Ada"), "{way:?}: {result}");
    }
}

#[tokio::test]
async fn dropped_call_is_cancelled_at_the_server() {
    for way in ALL {
        let parrot = TestService::new();
        let connected = way.connect(parrot.clone()).await;
        let mut exchange = connected.peer.call_tool("wait", None).unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(100), exchange.next()).await.is_err());
        drop(exchange);
        let gone = async {
            while parrot.cancelled() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), gone).await.unwrap_or_else(|_| panic!("{way:?}: not cancelled"));
    }
}

#[tokio::test]
async fn changes_reach_subscribers() {
    for way in ALL {
        let connected = way.connect(TestService::new()).await;
        let wanted =
            SubscriptionFilter { tools: true, uris: vec!["memo://one".to_owned()], ..SubscriptionFilter::default() };
        let mut listening = connected.peer.listen(wanted.clone()).await.unwrap();
        assert_eq!(*listening.accepted(), wanted, "{way:?}");
        // The standing stream of a session opens concurrently with the first calls.
        let notified = async {
            let (mut lists, mut updates) = (0, 0);
            while lists == 0 || updates == 0 {
                match listening.next().await {
                    Some(Notice::Changed(List::Tools)) => lists += 1,
                    Some(Notice::Updated { uri, .. }) if uri == "memo://one" => updates += 1,
                    other => panic!("{way:?}: {other:?}"),
                }
            }
        };
        let changed = connected.peer.call_tool("change", None).unwrap().outcome().await;
        assert!(matches!(changed, Outcome::Answered(_)), "{way:?}: {changed:?}");
        tokio::time::timeout(Duration::from_secs(5), notified).await.unwrap_or_else(|_| panic!("{way:?}: no notice"));
    }
}

#[tokio::test]
async fn arguments_are_relayed_byte_for_byte() {
    let arguments =
        r#"{"z":1,"a":123456789012345678901234567890,"e":"\u00e9\/\ud83d\ude00","f":1.0e+400,"n":[-0,{ }] }"#;
    for way in ALL {
        let parrot = TestService::new();
        let connected = way.connect(parrot.clone()).await;
        let outcome = connected.peer.call_tool("echo", Some(raw(arguments))).unwrap().outcome().await;
        let Outcome::Answered(result) = outcome else { panic!("{way:?}: {outcome:?}") };
        assert_eq!(parrot.seen().last().unwrap().param("arguments").unwrap().to_string(), arguments, "{way:?}");
        for member in raw(arguments).members() {
            assert_eq!(result.get(&member.key), Some(member.value), "{way:?}: `{}`", member.key);
        }
    }
}

/// CR and LF are whitespace in JSON and line breaks on two transports: a request hidden behind one must not be executed.
#[tokio::test]
async fn request_hidden_behind_a_line_break_is_not_executed() {
    let hidden = "{\"a\":[\n{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\"}}\r\n,\r\ndata: 1,2\n\n]}"
        .replace("data: 1,", "1,");
    for first in ALL {
        for second in ALL {
            let parrot = TestService::new();
            let far = second.connect(parrot.clone()).await;
            let near = first.connect(std::sync::Arc::new(crate::relay::Relay(far.peer.clone()))).await;
            let outcome = near.peer.call_tool("echo", Some(raw(&hidden))).unwrap().outcome().await;
            assert!(matches!(outcome, Outcome::Answered(_)), "{first:?} to {second:?}: {outcome:?}");
            let calls = parrot.seen().iter().filter(|request| request.method() == "tools/call").count();
            assert_eq!(calls, 1, "{first:?} to {second:?}");
        }
    }
}

#[tokio::test]
async fn malformed_tool_is_reported_and_hides_no_other() {
    for way in ALL {
        let connected = way.connect(TestService::new()).await;
        let listing = connected.peer.list_tools().await.unwrap();
        assert_eq!(listing.items.len(), 1, "{way:?}");
        assert_eq!(listing.malformed.len(), 1, "{way:?}");
        assert_eq!(listing.malformed[0].to_string(), "tool 1 is malformed: `inputSchema` is not an object");
    }
}

#[tokio::test]
async fn a_large_result_arrives_whole() {
    for way in ALL {
        let connected = way.connect(TestService::new()).await;
        let size = Raw::of(&json!({ "size": 3_000_000 }));
        let outcome = connected.peer.call_tool("bulk", Some(size)).unwrap().outcome().await;
        let Outcome::Answered(result) = outcome else { panic!("{way:?}: {outcome:?}") };
        assert!(3_000_000 < result.as_bytes().len(), "{way:?}");
    }
}

#[tokio::test]
async fn an_unknown_method_is_refused_in_every_era() {
    for way in ALL {
        let connected = way.connect(TestService::new()).await;
        let request = Request::new("vendor/thing", None).unwrap();
        let outcome = connected.peer.open(request, ExchangeTimeouts::list()).outcome().await;
        let Outcome::Refused(error) = outcome else { panic!("{way:?}: {outcome:?}") };
        assert_eq!(error.code(), -32601, "{way:?}");
        connected.peer.ping().await.unwrap_or_else(|error| panic!("{way:?}: {error}"));
    }
}

#[tokio::test]
async fn many_calls_run_side_by_side() {
    for way in ALL {
        let connected = way.connect(TestService::new()).await;
        let calls = (0..50).map(|number| {
            let peer = connected.peer.clone();
            async move {
                let arguments = Raw::of(&json!({ "number": number }));
                match peer.call_tool("echo", Some(arguments)).unwrap().outcome().await {
                    Outcome::Answered(result) => assert_eq!(result.get("number").unwrap().as_u64(), Some(number)),
                    other => panic!("{way:?}: {other:?}"),
                }
            }
        });
        futures_util::future::join_all(calls).await;
    }
}
