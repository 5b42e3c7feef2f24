//! Server requests that are too many, undeclared, endless or of ambiguous origin.

use std::{sync::Arc, time::Duration};

use futures_util::future::join;
use toolway_wire::{
    exchange::{Answer, Exchange, ExchangeEvent, Outcome, ServerRequestHandler},
    json::Raw,
    limit::Limits,
    message::result::CallResult,
    notice::Notice,
    up::{ConnectOptions, EraChoice, Peer},
};

use super::{CountingHandler, call, faults, outcome_code};
use crate::dialling::{LONG, Record, patient, process};

/// Connects to a server in this era, with a handler and the log of the server.
async fn connect(server: &str, era: EraChoice, limits: Limits) -> (Peer, Arc<CountingHandler>, Record) {
    let (record, handler) = (Record::new(), Arc::new(CountingHandler::default()));
    let asks = Some(handler.clone() as Arc<dyn ServerRequestHandler>);
    let peer = process(server, &record, ConnectOptions { era, limits, request_handler: asks, ..patient() }, None)
        .await
        .unwrap();
    (peer, handler, record)
}

async fn assert_usable(peer: &Peer) {
    let outcome = call(peer, "hello").await;
    assert_eq!(outcome_code(&outcome), "answered", "{outcome:?}");
    peer.close().await;
}

fn text_of(outcome: &Outcome) -> String {
    let Outcome::Answered(result) = outcome else { panic!("{outcome:?}") };
    CallResult::view(result).content.first().unwrap().raw.get("text").unwrap().as_str().unwrap().into_owned()
}

/// Runs an exchange that must not contain server requests; returns the outcome and the number of log messages.
async fn outcome_without_requests(mut exchange: Exchange) -> (Outcome, usize) {
    let mut logs = 0;
    loop {
        match exchange.next().await.unwrap() {
            ExchangeEvent::Ended(outcome) => return (outcome, logs),
            ExchangeEvent::Log(_) => logs += 1,
            ExchangeEvent::ServerRequest(ask) => panic!("asked {:?}", ask.details),
            _ => {}
        }
    }
}

#[tokio::test]
async fn one_server_request_too_many_is_refused_and_the_others_are_answered() {
    let (peer, _, record) = connect("asks:17", EraChoice::Legacy, Limits::default()).await;
    let mut exchange = peer.call_tool("odd", None).unwrap();
    let mut asks = Vec::new();
    while asks.len() < 16 {
        match exchange.next().await.unwrap() {
            ExchangeEvent::ServerRequest(ask) => asks.push(ask),
            other => panic!("{other:?}"),
        }
    }
    // Held until the server has received the refusal.
    let refused = async {
        while !record.lines().iter().any(|line| line == "error") {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG, refused).await.unwrap();
    for ask in asks {
        ask.answer(Answer::Given(Raw::empty_object()));
    }
    let outcome = exchange.outcome().await;
    assert_eq!(text_of(&outcome), "16 given, 1 refused");
    assert_usable(&peer).await;
}

#[tokio::test]
async fn undeclared_server_request_is_refused_and_not_shown() {
    let (peer, handler, _) = connect("asks-undeclared", EraChoice::Legacy, Limits::default()).await;
    let (outcome, _) = outcome_without_requests(peer.call_tool("odd", None).unwrap()).await;
    assert_eq!((text_of(&outcome).as_str(), handler.asked()), ("refused with -32601", 0));
    assert_usable(&peer).await;
}

#[tokio::test]
async fn ambiguous_messages_belong_to_no_call() {
    let (peer, handler, _) = connect("asks-between", EraChoice::Legacy, Limits::default()).await;
    let mut notices = peer.notices();
    let calls = [peer.call_tool("odd", None).unwrap(), peer.call_tool("odd", None).unwrap()];
    let [first, second] = calls.map(outcome_without_requests);
    let ((first, first_logs), (second, second_logs)) = join(first, second).await;
    // The elicitation is refused, the roots come from the configuration, and the log message goes to subscribers.
    for outcome in [first, second] {
        let said = text_of(&outcome);
        assert!(said.contains("elicitation: -32602"), "{said}");
        assert!(said.contains("roots: [{\"uri\":\"file:///handler\"}]"), "{said}");
    }
    assert_eq!((handler.asked(), first_logs, second_logs), (1, 0, 0));
    let (mut logs, mut refusals) = (0, 0);
    while let Ok(notice) = notices.try_recv() {
        match notice {
            Notice::Log(_) => logs += 1,
            Notice::Fault(error) if error.code() == "refused" => refusals += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((logs, refusals), (1, 1));
    assert_usable(&peer).await;
}

#[tokio::test]
async fn request_of_a_stateless_server_is_a_fault_only() {
    let (peer, handler, record) = connect("asks-anyway", EraChoice::Modern, Limits::default()).await;
    let mut notices = peer.notices();
    let (outcome, _) = outcome_without_requests(peer.call_tool("odd", None).unwrap()).await;
    assert_eq!((outcome_code(&outcome), handler.asked()), ("answered", 0), "{outcome:?}");
    assert_eq!(faults(&mut notices), ["protocol"]);
    assert_usable(&peer).await;
    assert!(!record.lines().iter().any(|line| line == "result" || line == "error"), "it must not be answered");
}

#[tokio::test]
async fn endless_input_rounds_are_aborted() {
    let limits = Limits { rounds: 3, ..Limits::default() };
    for (server, questions) in [("rounds", 3), ("retries", 0)] {
        let (peer, handler, record) = connect(server, EraChoice::Modern, limits.clone()).await;
        let exchange = peer.call_tool("odd", None).unwrap();
        let outcome = exchange.outcome_with(Some(&*handler), |_| {}).await;
        assert_eq!(outcome_code(&outcome), "too_large", "{server}: {outcome:?}");
        assert_eq!(handler.asked(), questions, "{server}");
        let calls = record.lines().iter().filter(|line| *line == "tools/call").count();
        assert_eq!(calls, 4, "{server}: the call and its three rounds");
        assert_usable(&peer).await;
    }
}

#[tokio::test]
async fn invalid_input_rounds_are_not_shown() {
    for (server, expected) in [
        ("questions:17", "too_large"),
        ("state:300000", "too_large"),
        ("wants-undeclared", "protocol"),
        ("wants-nothing", "protocol"),
        ("unknown-type", "protocol"),
    ] {
        let (peer, _, record) = connect(server, EraChoice::Modern, Limits::default()).await;
        let (outcome, _) = outcome_without_requests(peer.call_tool("odd", None).unwrap()).await;
        assert_eq!(outcome_code(&outcome), expected, "{server}: {outcome:?}");
        assert_usable(&peer).await;
        let calls = record.lines().iter().filter(|line| *line == "tools/call").count();
        assert_eq!(calls, 2, "{server}: no second round");
    }
}
