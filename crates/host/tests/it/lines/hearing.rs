//! Finding out what a server lists to a caller: one does it for all who wait, and lets them go however it ends.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use toolway_host::call::{Caller, OnBehalf};
use toolway_testkit::{
    odd::{
        http::{Act, OddHttp, Reply, polite_http},
        polite::Speaks,
    },
    test_host::{TestHost, within},
};
use toolway_wire::{json::Raw, message::ClientCapabilities};

use super::forms;
use crate::fixtures;

/// Greets the first who comes, and lets everybody else wait for ever.
async fn slow_to_greet() -> OddHttp {
    let greeted = AtomicUsize::new(0);
    let odd = OddHttp::start(move |seen| {
        if seen.method() == "initialize" && 0 < greeted.fetch_add(1, Ordering::Relaxed) {
            return Reply::events(String::new()).then(Act::Hang);
        }
        polite_http(Speaks::Legacy, seen)
    });
    odd.await.unwrap()
}

fn client(number: usize) -> OnBehalf {
    let capabilities = Some(ClientCapabilities(Raw::of(&forms())));
    OnBehalf { capabilities, ..OnBehalf::from(&Caller::Client(format!("client-{number}").into())) }
}

#[tokio::test]
async fn many_lists_leave_no_more_tasks_behind_than_one_and_all_are_let_go_at_the_end() {
    let odd = slow_to_greet().await;
    let host = TestHost::new().wanted(fixtures::address("files", &odd.url())).start().await;
    host.ready("files").await;
    host.offers(&["files__hello", "files__odd"]).await;
    let listed = |number| host.host.first_heard(client(number), |_| true, Duration::from_secs(600)).unwrap();
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
    within("those who wait to be let go", all).await;
    assert_eq!(odd.seen().iter().filter(|seen| seen.method() == "initialize").count(), 2);
}
