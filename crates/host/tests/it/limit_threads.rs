//! Limits under 64 callers that run on several threads at the same time: exact, whichever thread comes first.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use serde_json::{Value, json};
use tokio::{sync::Barrier, task::JoinSet};
use toolway_config::{Config, document::Document};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller},
    connection::{WantedServer, Way},
    policy::Refusal,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, name, within},
};

const CALLERS: usize = 64;

/// A host of the server `files` with these limits of it and of the client `ada`.
async fn host(files: &FixtureServer, of_server: &Value, of_ada: &Value) -> Arc<TestHost> {
    let text = json!({
        "mcpServers": { "files": { "command": "x", "limits": of_server } },
        "gateway": { "clients": { "ada": { "limits": of_ada } } },
    });
    let config = Config::of(&Document::of("/x/toolway.json".as_ref(), &text.to_string()).unwrap(), None).unwrap();
    let limits = config.servers.values().next().unwrap().limits.clone();
    let wanted = WantedServer { limits, ..WantedServer::new(name("files"), Way::InProcess(files.service())) };
    let settings = json!({ "gateway": text["gateway"] }).to_string();
    let config = Config::of(&Document::of("/x/toolway.json".as_ref(), &settings).unwrap(), None).unwrap();
    let host = TestHost::new().config(config).wanted(wanted).start().await;
    host.ready("files").await;
    Arc::new(host)
}

/// Calls of this tool by so many callers, who start at the same time; every second one is `ada`.
fn calls(host: &Arc<TestHost>, tool: &'static str) -> JoinSet<CallOutcome> {
    let start = Arc::new(Barrier::new(CALLERS));
    let mut calls = JoinSet::new();
    for caller in 0..CALLERS {
        let host = Arc::clone(host);
        let start = Arc::clone(&start);
        calls.spawn(async move {
            let client = if caller % 2 == 0 { "ada" } else { "ben" };
            let request = CallRequest { caller: Caller::Client(client.into()), ..host.request(tool, None) };
            start.wait().await;
            host.host.call(request).await
        });
    }
    calls
}

/// How many calls succeeded, and how many each limit refused.
async fn counted(mut calls: JoinSet<CallOutcome>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    while let Some(outcome) = calls.join_next().await {
        let ended = match outcome.unwrap() {
            CallOutcome::Answered(_) => "sent".to_owned(),
            CallOutcome::Refused(Refusal::Limit(reached)) => format!("{} of {}", reached.key.as_str(), reached.scope),
            other => panic!("{other}"),
        };
        *counted.entry(ended).or_default() += 1;
    }
    counted
}

async fn used(host: &TestHost) -> BTreeMap<String, u64> {
    let uses = host.host.limit_uses().await.unwrap();
    uses.into_iter().map(|used| (format!("{} of {}", used.key.as_str(), used.scope), used.used)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn rates_of_minute_and_day_are_exact_for_64_callers_on_several_threads() {
    for (minute, day) in [(50, 1_000), (1_000, 50), (50, 50), (63, 1), (1, 63)] {
        let files = FixtureServer::new("files").tool("read", "Read");
        let limits = json!({ "callsPerMinute": minute, "callsPerDay": day });
        let host = host(&files, &limits, &json!({})).await;
        let began = Instant::now();
        let counted = counted(calls(&host, "files__read")).await;
        // The bucket of the minute refills evenly, also while the calls run.
        let refilled = began.elapsed().as_millis() as usize * minute / 60_000;
        let sent = counted["sent"];
        let exact = minute.min(day)..=(minute + refilled).min(day);
        assert!(exact.contains(&sent) && files.seen("tools/call").len() == sent, "{minute} {day}: {counted:?}");
        let used = used(&host).await;
        assert!(
            used["callsPerMinute of server `files`"] <= sent as u64,
            "what the day refused is given back: {used:?}"
        );
        assert_eq!(used["callsPerDay of server `files`"], sent as u64, "{minute} {day}: {used:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn limits_of_client_server_and_tool_are_exact_together() {
    let files = FixtureServer::new("files").tool("read", "Read");
    let of_server = json!({ "callsPerDay": 40, "tools": { "re*": { "callsPerDay": 30 } } });
    let host = host(&files, &of_server, &json!({ "callsPerDay": 5 })).await;
    let counted = counted(calls(&host, "files__read")).await;
    let used = used(&host).await;
    assert_eq!((counted["sent"], files.seen("tools/call").len()), (30, 30), "{counted:?}");
    assert_eq!(used["callsPerDay of tools `re*` of server `files`"], 30, "{used:?}");
    assert_eq!(used["callsPerDay of server `files`"], 30, "{used:?}");
    assert!(used["callsPerDay of client `ada`"] <= 5, "{used:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn calls_at_the_same_time_are_exact_for_64_callers_on_several_threads() {
    let files = FixtureServer::new("files").tool_that("wait", "Wait", Behaviour::Wait);
    let host = host(&files, &json!({ "concurrent": 7 }), &json!({ "concurrent": 3 })).await;
    let mut calls = calls(&host, "files__wait");
    for _ in 0..CALLERS - 7 {
        let outcome = within("a refusal", calls.join_next()).await.unwrap().unwrap();
        assert!(matches!(outcome, CallOutcome::Refused(Refusal::Limit(_))), "{outcome}");
    }
    files.until_received("tools/call", 7).await;
    let used = used(&host).await;
    assert_eq!(used["concurrent of server `files`"], 7, "{used:?}");
    assert!(used["concurrent of client `ada`"] <= 3, "{used:?}");
    calls.shutdown().await;
    let after = within("free places", async {
        loop {
            let used = self::used(&host).await;
            if used.values().all(|used| *used == 0) {
                return used;
            }
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(after.await.len(), 2);
}
