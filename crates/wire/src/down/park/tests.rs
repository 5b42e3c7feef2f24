//! Handles can be used once, abandoned calls are declined, and their number is limited.

use std::{sync::Arc, time::Duration};

use super::{ClaimError, Claimed, ParkError, ParkedCall, ParkingLot, SharedParkedCalls};
use crate::{
    exchange::{Answer, Cause, ExchangeEvent, ExchangeTimeouts, Feed, ServerRequestDetails, ServerRequestId, pair},
    json::Raw,
    limit::Limits,
    seal::{Purpose, Sealer},
};

fn lot() -> ParkingLot {
    lot_with(&Arc::new(Sealer::with_random_key().unwrap()))
}

fn lot_with(sealer: &Arc<Sealer>) -> ParkingLot {
    let limits = Limits { parked_calls: 3, parked_calls_per_caller: 2, ..Limits::default() };
    ParkingLot::new(Arc::clone(sealer), &limits, Duration::from_secs(600), SharedParkedCalls::default(), None).unwrap()
}

fn call() -> (ParkedCall, Feed) {
    let (exchange, feed) = pair(ExchangeTimeouts::unbounded(), 8);
    (ParkedCall { exchange, server_requests: Vec::new() }, feed)
}

fn claim(lot: &ParkingLot, handle: &str, principal: &str, request: &str) -> Result<(), ClaimError> {
    lot.claim(handle, principal, request).map(drop)
}

#[tokio::test]
async fn handle_works_once_for_its_caller_and_request() {
    let lot = lot();
    let (parked, _feed) = call();
    let handle = lot.park(parked, "ada", "call x").unwrap();
    assert_eq!(claim(&lot, &handle, "bob", "call x"), Err(ClaimError::HeaderMismatch));
    assert_eq!(claim(&lot, &handle, "ada", "call y"), Err(ClaimError::HeaderMismatch));
    assert_eq!(claim(&lot, "made up", "ada", "call x"), Err(ClaimError::Invalid));
    assert_eq!(claim(&lot, &handle, "ada", "call x"), Ok(()));
    assert_eq!(claim(&lot, &handle, "ada", "call x"), Err(ClaimError::Used));
}

#[tokio::test]
async fn handle_of_another_instance_with_the_same_key_is_expired() {
    let sealer = Arc::new(Sealer::with_random_key().unwrap());
    let (before, after) = (lot_with(&sealer), lot_with(&sealer));
    let (parked, _feed) = call();
    let handle = before.park(parked, "ada", "call x").unwrap();
    assert_eq!(claim(&after, &handle, "ada", "call x"), Err(ClaimError::Expired));
    assert_eq!(claim(&after, &handle, "bob", "call x"), Err(ClaimError::HeaderMismatch));
    let again = before.again("ada", "call x").unwrap();
    assert!(matches!(after.claim(&again, "ada", "call x"), Ok(Claimed::Again)));
    let content = br#"{"stands_for":{"Again":{"until":99999999999}},"principal":"a","request":"b"}"#;
    let other = sealer.seal(Purpose::Cursor, content).unwrap();
    assert_eq!(claim(&after, &other, "a", "b"), Err(ClaimError::Invalid), "sealed for another purpose");
    let same = sealer.seal(Purpose::Request, content).unwrap();
    assert_eq!(claim(&after, &same, "a", "b"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn abandoned_call_is_declined_and_cancelled() {
    let lot = lot();
    let (mut parked, feed) = call();
    let ask = |number, method: &str| {
        let id = ServerRequestId(number);
        feed.ask(ServerRequestDetails { id, key: None, method: method.to_owned(), params: None, cause: Cause::Request })
    };
    let answers = [ask(1, "elicitation/create"), ask(2, "sampling/createMessage"), ask(3, "roots/list")];
    for key in ["a", "b", "c"] {
        let Some(ExchangeEvent::ServerRequest(ask)) = parked.exchange.next().await else { panic!("a question") };
        parked.server_requests.push((key.to_owned(), ask));
    }
    let handle = lot.park(parked, "ada", "call x").unwrap();
    let [form, sample, roots] = futures_util::future::join_all(answers).await.try_into().unwrap();
    assert!(matches!(form, Answer::Given(said) if said == Raw::parse(r#"{"action":"cancel"}"#).unwrap()));
    assert!(matches!(sample, Answer::Refused(error) if error.code() == -1));
    assert!(matches!(roots, Answer::Unavailable));
    feed.cancelled().await;
    assert_eq!(claim(&lot, &handle, "ada", "call x"), Err(ClaimError::Expired));
}

#[tokio::test]
async fn parked_calls_are_limited_per_caller_and_in_total() {
    let lot = lot();
    let mut feeds = Vec::new();
    let mut park = |who: &str| {
        let (parked, feed) = call();
        feeds.push(feed);
        lot.park(parked, who, "").err()
    };
    assert_eq!([park("ada"), park("ada")], [None, None]);
    assert_eq!(park("ada"), Some(ParkError::FullForCaller));
    assert_eq!(park("bob"), None);
    assert_eq!(park("bob"), Some(ParkError::Full));
    assert!(feeds[2].is_cancelled() && !feeds[3].is_cancelled(), "calls over the limit are cancelled");
}
