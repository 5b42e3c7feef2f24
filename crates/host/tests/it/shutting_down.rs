//! The end of a host: nothing is left running, nobody is left waiting, every call has its record.

use toolway_host::{
    connection::{Phase, Stopped},
    record::Ending,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, within},
};

use crate::fixtures;

#[tokio::test]
async fn a_call_under_way_ends_and_a_later_one_is_refused() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait);
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let call = host.host.call(host.request("files__wait", None));
    let (outcome, ()) = tokio::join!(call, async {
        files.reached("tools/call", 1).await;
        within("the shutdown", host.host.shutdown()).await;
    });
    assert_eq!(outcome.ending(), Ending::Failed, "{outcome}");
    assert_eq!(host.call("files__wait").await.to_string(), "refused: the host is shutting down");
    let endings: Vec<_> = host.records().iter().map(|record| record.ending).collect();
    assert_eq!(endings, [Ending::Failed, Ending::Refused]);
    assert_eq!(host.status("files").phase, Phase::Stopped(Stopped::Closed));
    assert!(host.host.catalog().tools().is_empty() || host.call("files__wait").await.ending() == Ending::Refused);
}

#[tokio::test]
async fn programs_end_with_the_host_whether_it_is_shut_down_or_dropped() {
    for by_hand in [true, false] {
        let host = TestHost::new().wanted(fixtures::process("files", &[])).start().await;
        let pid = host.ready("files").await.process.unwrap();
        assert!(fixtures::runs(pid));
        if by_hand {
            within("the shutdown", host.host.shutdown()).await;
            assert!(!fixtures::runs(pid), "shut down means gone");
        }
        drop(host);
        within("the end of the process", fixtures::gone(pid)).await;
    }
}
