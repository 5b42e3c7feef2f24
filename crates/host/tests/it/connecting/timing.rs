//! Time limits with misbehaving servers. These tests run without others in parallel.

use std::time::{Duration, Instant};

use toolway_host::{catalog::listing_cache::ListingCache, connection::Phase, record::CallState};
use toolway_testkit::test_host::{TestHost, TestHostBuilder};

use crate::fixtures;

/// Time limit for the first result after a start with stored listings, for a busy machine; a host that waits for its servers
/// takes their connect timeout.
const FIRST: Duration = Duration::from_secs(5);

fn twenty(copies: &std::path::Path) -> TestHostBuilder {
    let mut builder = TestHost::new();
    builder.options.listing_cache = Some(ListingCache::in_folder(copies));
    for number in 0..20 {
        let words: &[&str] = match number {
            0..3 => &["--hang"],
            3..5 => &["--say", "out of luck", "--crash"],
            _ => &[],
        };
        builder = builder.wanted(fixtures::process(&format!("s{number}"), words));
    }
    builder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_and_crashing_servers_do_not_delay_the_others() {
    let copies = tempfile::tempdir().unwrap();
    let cold = twenty(copies.path()).start().await;
    for number in 5..20 {
        cold.until(&format!("s{number}"), |phase| *phase == Phase::Ready).await;
    }
    let outcome = cold.call("s19__echo").await;
    assert_eq!(outcome.state(), CallState::Succeeded, "{outcome}");
    // Fifteen copies are on disk when all fifteen were listed.
    let listed = || cold.host.catalog().servers().count() == 15;
    while !listed() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cold.host.shutdown().await;
    drop(cold);

    let start = Instant::now();
    let warm = twenty(copies.path()).start().await;
    let tools = warm.host.catalog().tools().len();
    let took = start.elapsed();
    assert_eq!(tools, 15 * 4);
    assert!(took < FIRST, "the first tool was listed after {took:?}");

    for number in 5..20 {
        let outcome = warm.call(&format!("s{number}__echo")).await;
        assert_eq!(outcome.state(), CallState::Succeeded, "s{number}: {outcome}");
    }
    for number in 3..5 {
        let status = warm.until(&format!("s{number}"), |phase| matches!(phase, Phase::Waiting { .. })).await;
        assert!(status.phase.for_operator().as_str().contains("out of luck"), "{:?}", status.phase);
    }
    for number in 0..3 {
        assert!(matches!(warm.status(&format!("s{number}")).phase, Phase::Connecting { .. }));
    }
    warm.host.shutdown().await;
}
