//! Shutdown of a host: no process is left running, no call is left waiting, and every call has its record.

use toolway_host::{
    connection::{Phase, StopReason},
    record::CallState,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, within},
};

use crate::fixtures;

#[tokio::test]
async fn call_in_flight_ends_and_a_later_one_is_refused() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait);
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let call = host.host.call(host.request("files__wait", None));
    let (outcome, ()) = tokio::join!(call, async {
        files.until_received("tools/call", 1).await;
        within("the shutdown", host.host.shutdown()).await;
    });
    assert_eq!(outcome.state(), CallState::Failed, "{outcome}");
    assert_eq!(host.call("files__wait").await.to_string(), "refused: the host is shutting down");
    let endings: Vec<_> = host.records().iter().map(|record| record.state).collect();
    assert_eq!(endings, [CallState::Failed, CallState::Refused]);
    assert_eq!(host.status("files").phase, Phase::Stopped(StopReason::Closed));
    assert!(host.host.catalog().tools().is_empty() || host.call("files__wait").await.state() == CallState::Refused);
}

#[tokio::test]
async fn programs_end_when_the_host_is_shut_down_or_dropped() {
    for explicit in [true, false] {
        let host = TestHost::new().wanted(fixtures::process("files", &[])).start().await;
        let pid = host.ready("files").await.process.unwrap();
        assert!(fixtures::runs(pid));
        if explicit {
            within("the shutdown", host.host.shutdown()).await;
            assert!(!fixtures::runs(pid), "the process has ended after shutdown");
        }
        drop(host);
        within("the end of the process", fixtures::gone(pid)).await;
    }
}
