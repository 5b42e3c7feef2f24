//! Finding out what a server lists to a profile: one attempt for all waiting callers, released however it ends.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use toolway_host::{
    call::{Caller, CallerContext},
    host::FirstListingWait,
};
use toolway_testkit::{
    odd::{
        compliant::SupportedEras,
        http::{Act, OddHttp, Reply, compliant_http},
    },
    test_host::{TestHost, within},
};
use toolway_wire::{json::Raw, message::ClientCapabilities};

use super::forms;
use crate::fixtures;

/// Accepts the first handshake and never answers the others.
async fn slow_handshake() -> OddHttp {
    let greeted = AtomicUsize::new(0);
    let odd = OddHttp::start(move |seen| {
        if seen.method() == "initialize" && 0 < greeted.fetch_add(1, Ordering::Relaxed) {
            return Reply::events(String::new()).then(Act::Hang);
        }
        compliant_http(SupportedEras::Legacy, seen)
    });
    odd.await.unwrap()
}

fn client(number: usize) -> CallerContext {
    let capabilities = Some(ClientCapabilities(Raw::of(&forms())));
    CallerContext { capabilities, ..CallerContext::from(&Caller::Client(format!("client-{number}").into())) }
}

#[tokio::test]
async fn waiting_callers_share_one_attempt_and_are_released_at_shutdown() {
    let odd = slow_handshake().await;
    let host = TestHost::new().wanted(fixtures::address("files", &odd.url())).start().await;
    host.ready("files").await;
    host.offers(&["files__hello", "files__odd"]).await;
    let patience = FirstListingWait::of_listings(Duration::from_secs(600));
    let listed = |number| host.host.wait_for_first_listings(client(number), |_| true, patience).unwrap();
    let mut first = Box::pin(listed(0));
    assert!((&mut first).now_or_never().is_none());
    odd.until(|seen| seen.iter().filter(|seen| seen.method() == "initialize").count() == 2).await;
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let mut waiting: Vec<_> = (1..100).map(|number| Box::pin(listed(number))).collect();
    assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
    waiting.truncate(10);
    assert!(alive() < before + 10, "{} more than {before}", alive() - before);

    let all = async { tokio::join!(first, join_all(waiting), host.host.shutdown()) };
    within("the release of all waiting callers", all).await;
    assert_eq!(odd.seen().iter().filter(|seen| seen.method() == "initialize").count(), 2);
}
