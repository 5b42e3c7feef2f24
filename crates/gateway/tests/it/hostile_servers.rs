//! Servers that send wrong responses or unexpected requests, flood, stall or disconnect: the caller is served or gets a
//! reason, other callers and servers are not affected, and memory use stays bounded.

mod setup;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use toolway_testkit::test_host::PATIENCE;
use toolway_wire::up::EraChoice;

use self::setup::{HostileSetup, called, words};

/// A misbehaviour of `odd`, its eras, and the expected message.
struct Misbehaviour {
    what: &'static str,
    eras: &'static [EraChoice],
    /// Expected parts of the message, separated by `|`; empty if the call succeeds.
    says: &'static str,
}

const BOTH: &[EraChoice] = &[EraChoice::Legacy, EraChoice::Modern];
const STATELESS: &[EraChoice] = &[EraChoice::Modern];
/// Call timeout for a silent server.
const SILENCE: Duration = Duration::from_millis(1_500);
/// Maximum growth of memory during a test, in bytes.
const GROWTH: usize = 64 << 20;

const fn misbehaviour(what: &'static str, eras: &'static [EraChoice], says: &'static str) -> Misbehaviour {
    Misbehaviour { what, eras, says }
}

/// Wrong, duplicate, malformed or missing responses.
const ANSWERS: [Misbehaviour; 11] = [
    misbehaviour("wrong-id", BOTH, "no answer within 1.5s"),
    misbehaviour("string-id", BOTH, "no answer within 1.5s"),
    misbehaviour("no-id", BOTH, "no answer within 1.5s"),
    misbehaviour("stray", BOTH, ""),
    misbehaviour("double", BOTH, ""),
    misbehaviour("neither", BOTH, "the server violated the protocol"),
    misbehaviour("truncated", BOTH, "the server violated the protocol"),
    misbehaviour("not-utf8", BOTH, "the server violated the protocol"),
    misbehaviour("deep:500", BOTH, "the server violated the protocol"),
    misbehaviour("unknown-type", STATELESS, "the server violated the protocol"),
    misbehaviour("gives-up", BOTH, "no answer within 1.5s"),
];

/// Floods and oversized messages.
const FLOODS: [Misbehaviour; 6] = [
    misbehaviour("flood:50000", BOTH, ""),
    misbehaviour("progress-flood:20000", BOTH, ""),
    misbehaviour("ping-flood:20000", BOTH, ""),
    misbehaviour("long-line:2000000", BOTH, "larger than the limit of 1000000"),
    misbehaviour("long-question:2000000", BOTH, ""),
    misbehaviour("endless-line", BOTH, "the connection to the server ended (`ended`, id "),
];

/// Invalid server requests.
const SERVER_REQUESTS: [Misbehaviour; 4] = [
    misbehaviour("asks-anyway", BOTH, ""),
    misbehaviour("retries", STATELESS, "no answer within 1.5s"),
    misbehaviour("questions:40", STATELESS, "larger than the limit of 16"),
    misbehaviour("state:300000", STATELESS, "larger than the limit of 262144"),
];

/// Ways to disconnect.
const BREAKS: [Misbehaviour; 3] = [
    misbehaviour("cut", BOTH, "the connection to the server ended (`ended`, id "),
    misbehaviour("half-closed", BOTH, "the connection to the server ended (`ended`, id "),
    misbehaviour("deaf", BOTH, "no answer within 1.5s|the connection to the server ended (`ended`, id "),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_responses_reach_no_caller() {
    run(&ANSWERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_affect_no_other_caller_and_are_not_buffered() {
    let before = resident();
    run(&FLOODS).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < GROWTH, "{grown} bytes more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_server_requests_are_refused() {
    run(&SERVER_REQUESTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disconnected_server_is_reported_and_restarted() {
    run(&BREAKS).await;
}

/// Without a call no client gets the server request, and the server gets an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_request_outside_of_a_call_reaches_no_client() {
    let setup = HostileSetup::with("asks-outside-calls", EraChoice::Legacy).await;
    let session = setup.bob.clone().start_session().await;
    let mut standing = session.get().await;
    let listening = json!({ "notifications": { "toolsListChanged": true } });
    let mut listener = setup.ada.open_request("subscriptions/listen", listening).await;
    assert!(listener.message().await.unwrap().to_string().contains("acknowledged"));
    setup.wait_until_recovered(&setup.ada).await;
    setup.wait_until_recovered(&session).await;
    setup.wait_until_received("error", 2).await;
    assert_eq!(setup.received_count("result"), 0, "no client answered");
    for heard in [&mut standing, &mut listener] {
        let silence = tokio::time::timeout(Duration::from_millis(500), heard.message()).await;
        assert!(silence.is_err(), "{silence:?}");
    }
}

/// The stateless caller gets the required capability; in a session the server gets the error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undeclared_server_request_does_not_reach_the_caller() {
    let setup = HostileSetup::with("asks-undeclared", EraChoice::Legacy).await;
    let refused = called(&setup.ada, "odd__odd").await;
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }), "{refused}");
    let session = setup.ada.clone().start_session().await;
    assert_eq!(words(&called(&session, "odd__odd").await), "refused with -32601");
    setup.assert_others_are_served().await;
}

/// A list that changes on every request is polled and reported at a limited rate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constantly_changing_list_is_rate_limited() {
    for era in BOTH {
        let setup = HostileSetup::with("restless", *era).await;
        let session = setup.bob.clone().start_session().await;
        let mut standing = session.get().await;
        let before = setup.received_count("tools/list");
        let watching = tokio::time::timeout(Duration::from_secs(2), async {
            let mut told = 0;
            while standing.message().await.is_some() {
                told += 1;
                assert!(told < 20, "{era:?}: notified {told} times");
            }
        });
        let (_over, ()) = tokio::join!(watching, setup.assert_others_are_served());
        let asked = setup.received_count("tools/list") - before;
        assert!(asked < 40, "{era:?}: listed {asked} times in two seconds");
        setup.wait_until_recovered(&setup.ada).await;
    }
}

/// An endless task blocks only its own caller, and is cancelled when the caller disconnects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_task_is_cancelled_with_its_caller() {
    let setup = HostileSetup::with("endless-task", EraChoice::Modern).await;
    for caller in [setup.ada.clone(), setup.ada.clone().start_session().await] {
        let (looked, cancelled) = (setup.received_count("tasks/get"), setup.received_count("tasks/cancel"));
        let calling = tokio::time::timeout(Duration::from_secs(1), called(&caller, "odd__odd"));
        let (waited, ()) = tokio::join!(calling, setup.assert_others_are_served());
        assert!(waited.is_err(), "{waited:?}");
        setup.wait_until_received("tasks/get", looked + 2).await;
        setup.wait_until_recovered(&setup.bob).await;
        if caller.has_session() {
            // In a session, closing the connection does not cancel the call.
            let gone = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
            assert_eq!(caller.post(&gone).await.status, 202);
        }
        setup.wait_until_received("tasks/cancel", cancelled + 1).await;
        let looked = setup.received_count("tasks/get");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(setup.received_count("tasks/get") <= looked + 1, "the task is no longer polled");
    }
}

/// Runs each misbehaviour in each of its eras, with callers of both eras.
async fn run(misbehaviours: &[Misbehaviour]) {
    for misbehaviour in misbehaviours {
        for era in misbehaviour.eras {
            let setup = HostileSetup::patient(misbehaviour.what, *era, misbehaviour.silence()).await;
            let callers = [setup.ada.clone(), setup.ada.clone().start_session().await];
            let calls = callers.each_ref().map(|caller| called(caller, "odd__odd"));
            let (said, ()) = tokio::join!(join_all(calls), setup.assert_others_are_served());
            for said in &said {
                assert!(misbehaviour.matches(words(said)), "{} {era:?}: {said}", misbehaviour.what);
            }
            for caller in callers.iter().chain([&setup.bob]) {
                setup.wait_until_recovered(caller).await;
            }
        }
    }
}

impl Misbehaviour {
    /// Call timeout: short if no response is expected.
    fn silence(&self) -> Duration {
        if self.says.contains("no answer") { SILENCE } else { PATIENCE }
    }

    fn matches(&self, words: &str) -> bool {
        if self.says.is_empty() { words == "hello" } else { self.says.split('|').any(|says| words.contains(says)) }
    }
}

/// Resident memory in bytes; 0 if the system does not report it.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096
}
