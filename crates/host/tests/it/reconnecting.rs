//! Recovery after restarts, redeployments, lost sessions, cut streams and changed lists: in each case the next call
//! succeeds without intervention.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;
use toolway_config::server::{Reconnect, SessionEnd};
use toolway_host::{
    call::{CallError, CallOutcome, CallRequest, Caller, Target},
    catalog::Catalog,
    connection::{
        ClaimedSession, Phase, SessionOwner, SessionStore, StoredSession, WantedServer, Way,
        tap::{Passage, Tap},
    },
    policy::ApprovalAnswer,
    record::{CallState, RecordsError},
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer, HttpFixture},
    odd::{
        compliant::SupportedEras,
        http::{Act, OddHttp, RecordedRequest, Reply, compliant_http, event},
    },
    test_host::{TestHost, name, within},
};
use toolway_wire::{
    error::WireError,
    revision::Era,
    up::{
        EraChoice, in_process,
        transport::{HttpMode, Link, LinkKind, Outbound, Sink, Transport},
    },
};
use uuid::Uuid;

use crate::fixtures;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn era_name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

async fn http(era: Era) -> (FixtureServer, HttpFixture, TestHost) {
    let files = FixtureServer::new("files").tool("read", "Read").tool_that("grow", "Grow", Behaviour::Grow);
    let fixture = files.over_http(Some(era)).await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("files", &fixture.url())).start().await;
    let status = host.ready("files").await;
    assert_eq!(status.profile.unwrap().era, era);
    (files, fixture, host)
}

#[tokio::test]
async fn killed_program_is_restarted_and_the_next_call_succeeds() {
    for era in ERAS {
        let server = fixtures::process("files", &["--era", era_name(era)]);
        let host = TestHost::new().wanted(server).start().await;
        let first = host.ready("files").await;
        assert_eq!(first.profile.as_ref().unwrap().era, era);
        let pid = first.process.unwrap();
        fixtures::kill(pid);
        fixtures::gone(pid).await;
        host.until("files", |phase| *phase != Phase::Ready).await;
        let outcome = host.call("files__echo").await;
        assert_eq!(outcome.state(), CallState::Succeeded, "{era:?}: {outcome}");
        let second = host.ready("files").await;
        assert_ne!(second.process, Some(pid));
        assert_eq!(second.losses, 1);
        assert!(second.last_error.unwrap().message.as_str().contains("signal"), "{era:?}");
        within("the shutdown", host.host.shutdown()).await;
    }
}

/// The call is sent before the loss is noticed. A request that the pipe did not accept is sent again.
#[tokio::test]
async fn call_that_a_dead_program_did_not_receive_is_sent_again() {
    let host = TestHost::new().wanted(fixtures::process("files", &[])).start().await;
    let pid = host.ready("files").await.process.unwrap();
    fixtures::kill(pid);
    fixtures::gone(pid).await;
    let outcome = host.call("files__echo").await;
    assert!(matches!(outcome.state(), CallState::Succeeded | CallState::Failed), "{outcome}");
    assert_eq!(host.call("files__echo").await.state(), CallState::Succeeded);
    assert_eq!(host.records().len(), 2);
    within("the shutdown", host.host.shutdown()).await;
}

#[tokio::test]
async fn redeployed_server_answers_the_next_call() {
    for era in ERAS {
        let (_files, mut fixture, host) = http(era).await;
        fixture.restart().await.unwrap();
        let outcome = host.call("files__read").await;
        assert_eq!(outcome.state(), CallState::Succeeded, "{era:?}: {outcome}");
        assert_eq!(host.records().len(), 1, "one call is one record, however often it was sent");
    }
}

#[tokio::test]
async fn call_waits_for_a_server_that_is_briefly_unavailable() {
    for era in ERAS {
        let (_files, mut fixture, host) = http(era).await;
        fixture.stop().await;
        let back = async {
            // After the loss was noticed.
            host.until("files", |phase| matches!(phase, Phase::Waiting { .. })).await;
            fixture.start().await.unwrap();
        };
        let (outcome, ()) = tokio::join!(host.call("files__read"), back);
        // The call that noticed the loss fails or waited long enough; the next one succeeds.
        assert!(matches!(outcome.state(), CallState::Succeeded | CallState::Failed), "{era:?}: {outcome}");
        assert_eq!(host.call("files__read").await.state(), CallState::Succeeded, "{era:?}");
    }
}

#[tokio::test]
async fn new_tools_of_a_redeployed_server_are_offered() {
    for era in ERAS {
        let (files, mut fixture, host) = http(era).await;
        host.offers(&["files__read", "files__grow"]).await;
        fixture.stop().await;
        files.add_tool("write", "Write");
        fixture.start().await.unwrap();
        assert_eq!(host.call("files__read").await.state(), CallState::Succeeded, "{era:?}");
        host.offers(&["files__read", "files__grow", "files__write"]).await;
    }
}

#[tokio::test]
async fn list_change_during_a_call_is_followed_without_interrupting_it() {
    for era in ERAS {
        let (_files, _fixture, host) = http(era).await;
        let outcome = host.call_with("files__grow", Some(json!({ "name": "leaf" }))).await;
        assert_eq!(outcome.state(), CallState::Succeeded, "{era:?}: {outcome}");
        host.offers(&["files__read", "files__grow", "files__leaf"]).await;

        let process = fixtures::process("trees", &["--era", era_name(era)]);
        let host = TestHost::new().wanted(process).start().await;
        host.ready("trees").await;
        let outcome = host.call_with("trees__grow", Some(json!({ "name": "leaf" }))).await;
        assert_eq!(outcome.state(), CallState::Succeeded, "{era:?}: {outcome}");
        host.offers(&["trees__echo", "trees__wait", "trees__grow", "trees__crash", "trees__leaf"]).await;
        within("the shutdown", host.host.shutdown()).await;
    }
}

#[tokio::test]
async fn session_is_resumed_after_a_restart_unless_the_server_has_forgotten_it() {
    let sessions = Arc::new(MemorySessions::default());
    let files = FixtureServer::new("files").tool("read", "Read");
    let mut fixture = files.over_http(Some(Era::Legacy)).await.unwrap();
    let start = async |url: &str| {
        let mut builder = TestHost::new().wanted(kept(fixtures::address("files", url)));
        builder.options.sessions = Some(Arc::clone(&sessions) as _);
        let host = builder.start().await;
        let status = host.ready("files").await;
        assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
        (host, status.profile.unwrap().session.unwrap())
    };
    let (host, first) = start(&fixture.url()).await;
    // A host that runs at the same time begins its own.
    let (beside, own) = start(&fixture.url()).await;
    assert_ne!(first, own);
    beside.host.disconnect(&name("files")).await.unwrap();
    within("the shutdown", host.host.shutdown()).await;
    let begun = files.seen("initialize").len();
    let (host, second) = start(&fixture.url()).await;
    assert_eq!(first, second, "the session is resumed");
    assert_eq!(files.seen("initialize").len(), begun, "without another handshake");
    within("the shutdown", host.host.shutdown()).await;

    fixture.restart().await.unwrap();
    let (host, third) = start(&fixture.url()).await;
    assert_ne!(second, third, "the server has forgotten it, so a new one begins");
    within("the shutdown", host.host.shutdown()).await;
    assert_eq!(sessions.stored().len(), 1, "only the last one");

    let mut ends = TestHost::new().wanted(fixtures::address("files", &fixture.url()));
    ends.options.sessions = Some(Arc::clone(&sessions) as _);
    let host = ends.start().await;
    host.ready("files").await;
    within("the shutdown", host.host.shutdown()).await;
    assert_eq!(sessions.stored().len(), 0, "it was resumed and deleted");
}

fn kept(server: WantedServer) -> WantedServer {
    WantedServer { sessions: SessionEnd::Keep, ..server }
}

/// Sessions that are stored in this process.
#[derive(Default)]
struct MemorySessions(parking_lot::Mutex<Vec<MemorySession>>);

#[derive(Clone)]
struct MemorySession {
    owner: SessionOwner,
    claimed: ClaimedSession,
    is_used: bool,
}

impl MemorySessions {
    fn stored(&self) -> Vec<MemorySession> {
        self.0.lock().clone()
    }

    fn without(&self, slot: Uuid) -> parking_lot::MutexGuard<'_, Vec<MemorySession>> {
        let mut sessions = self.0.lock();
        sessions.retain(|session| session.claimed.slot != slot);
        sessions
    }
}

impl SessionStore for MemorySessions {
    fn put(&self, slot: Uuid, owner: SessionOwner, session: StoredSession) -> BoxFuture<'_, Result<(), RecordsError>> {
        let claimed = ClaimedSession { slot, session };
        self.without(slot).push(MemorySession { owner, claimed, is_used: true });
        Box::pin(async { Ok(()) })
    }

    fn claim(&self, owner: SessionOwner) -> BoxFuture<'_, Result<Option<ClaimedSession>, RecordsError>> {
        let mut sessions = self.0.lock();
        let free = sessions.iter_mut().find(|session| session.owner == owner && !session.is_used);
        let claimed = free.map(|session| {
            session.is_used = true;
            session.claimed.clone()
        });
        Box::pin(async { Ok(claimed) })
    }

    fn release(&self, slot: Uuid) -> BoxFuture<'_, Result<(), RecordsError>> {
        let mut sessions = self.0.lock();
        sessions.iter_mut().filter(|session| session.claimed.slot == slot).for_each(|session| session.is_used = false);
        Box::pin(async { Ok(()) })
    }

    fn remove(&self, slot: Uuid) -> BoxFuture<'_, Result<(), RecordsError>> {
        drop(self.without(slot));
        Box::pin(async { Ok(()) })
    }
}

/// The event stream of an HTTP+SSE server; dropping it ends the stream.
type EventStream = Arc<parking_lot::Mutex<Option<mpsc::Sender<Vec<u8>>>>>;

#[tokio::test]
async fn cut_event_stream_of_the_oldest_revision_is_reopened() {
    let stream = EventStream::default();
    let events = Arc::clone(&stream);
    let odd = OddHttp::start(move |seen| match seen.verb.as_str() {
        "GET" => {
            let (sender, receiver) = mpsc::channel(16);
            *events.lock() = Some(sender);
            Reply::events("event: endpoint\ndata: /messages\n\n").then(Act::Relay(receiver))
        }
        _ if seen.path == "/mcp" => Reply::empty(405),
        // Never answered: the caller sees the end of the stream.
        _ if seen.tool() == "odd" => Reply::empty(202),
        _ => {
            if let (Some(answer), Some(stream)) = (SupportedEras::Legacy.answer(seen.message()), &*events.lock()) {
                stream.try_send(event(&answer).into_bytes()).unwrap();
            }
            Reply::empty(202)
        }
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("old", &odd.url())).start().await;
    host.ready("old").await;
    assert_eq!(host.call("old__hello").await.state(), CallState::Succeeded);
    let cut = async {
        while !odd.seen().iter().any(|seen| seen.tool() == "odd") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(stream.lock().take());
    };
    let (outcome, ()) = tokio::join!(host.call("old__odd"), cut);
    assert_eq!(outcome.state(), CallState::Failed, "{outcome}");
    assert_eq!(host.call("old__hello").await.state(), CallState::Succeeded);
    assert_eq!(host.status("old").losses, 1);
}

#[tokio::test]
async fn list_requests_are_throttled_under_endless_announcements() {
    let files = FixtureServer::new("files").tool("read", "Read");
    let host = TestHost::with(&files, "files").start().await;
    host.ready("files").await;
    let before = files.seen("tools/list").len();
    for number in 0..50 {
        files.describe("read", &format!("Read {number}"));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let last = async {
        let mut catalogs = host.host.watch_catalog();
        let said = |catalog: &Arc<Catalog>| {
            catalog.tools().first().is_some_and(|tool| tool.item.description.as_deref() == Some("Read 49"))
        };
        drop(catalogs.wait_for(said).await);
    };
    within("the last change", last).await;
    let requested = files.seen("tools/list").len() - before;
    assert!((1..=10).contains(&requested), "{requested} list requests");
}

/// A transport whose connections can be cut.
struct Fragile {
    inner: Arc<dyn Transport>,
    opened: AtomicUsize,
    link: parking_lot::Mutex<Option<Arc<dyn Sink>>>,
}

impl std::fmt::Debug for Fragile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fragile")
    }
}

impl Transport for Fragile {
    fn target(&self) -> String {
        "a fragile server".to_owned()
    }

    fn link_kind(&self) -> LinkKind {
        self.inner.link_kind()
    }

    fn open<'a>(
        &'a self,
        mode: HttpMode,
        sink: Arc<dyn Sink>,
    ) -> futures_util::future::BoxFuture<'a, Result<Arc<dyn Link>, WireError>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        *self.link.lock() = Some(Arc::clone(&sink));
        self.inner.open(mode, sink)
    }
}

#[tokio::test]
async fn cut_connection_ends_its_calls_and_is_reopened() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let files = FixtureServer::new("files").tool("read", "Read").tool_that("wait", "Wait", Behaviour::Wait);
        let inner = Arc::new(in_process::transport(files.service(), Default::default()));
        let fragile = Arc::new(Fragile { inner, opened: AtomicUsize::new(0), link: Default::default() });
        let server = WantedServer { era, ..WantedServer::new(name("files"), Way::Custom(fragile.clone())) };
        let host = TestHost::new().wanted(server).start().await;
        host.ready("files").await;
        let opened = fragile.opened.load(Ordering::Relaxed);
        let cut = async {
            files.until_received("tools/call", 1).await;
            let sink = fragile.link.lock().take();
            sink.unwrap().closed(WireError::Ended("the cable was cut".to_owned()));
        };
        let (outcome, ()) = tokio::join!(host.call("files__wait"), cut);
        assert_eq!(outcome.message().unwrap().as_str(), "the connection ended: the cable was cut", "{era:?}");
        assert_eq!(host.call("files__read").await.state(), CallState::Succeeded, "{era:?}");
        assert!(opened < fragile.opened.load(Ordering::Relaxed));
        assert_eq!(
            host.status("files").last_error.unwrap().message.as_str(),
            "the connection ended: the cable was cut"
        );
    }
}

#[tokio::test]
async fn crash_looping_server_is_reported_and_does_not_delay_others() {
    let server = fixtures::process("broken", &["--say", "no licence", "--crash"]);
    let files = FixtureServer::new("files").tool("read", "Read");
    let host = TestHost::with(&files, "files").wanted(server).start().await;
    let in_a_loop = |phase: &Phase| matches!(phase, Phase::Waiting { crash_loop: true, .. });
    let status = host.until("broken", in_a_loop).await;
    let said = status.phase.for_operator().as_str().to_owned();
    assert!(said.contains("failed 3 times in a row"), "{said}");
    assert!(said.contains("no licence"), "{said}");
    assert!(status.stderr.iter().any(|line| line == "no licence"), "{:?}", status.stderr);
    let outcome = host.call("broken__anything").await;
    assert_eq!(outcome.state(), CallState::Refused, "{outcome}");
    assert_eq!(host.call("files__read").await.state(), CallState::Succeeded);
}

/// Waits until a connection was lost and replaced.
async fn wait_for_reconnect(host: &TestHost, server: &str) {
    let again = async {
        while host.status(server).losses == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("a loss", again).await;
    host.ready(server).await;
}

/// The requested behaviour of a call.
fn way(seen: &RecordedRequest) -> &str {
    seen.message()["params"]["arguments"]["way"].as_str().unwrap_or_default()
}

/// A modern server with one call in flight when another call gets this status.
async fn with_call_in_flight(status: u16) -> (OddHttp, TestHost, CallOutcome, CallOutcome) {
    let (sender, events) = mpsc::channel(1);
    let events = parking_lot::Mutex::new(Some(events));
    let odd = OddHttp::start(move |seen| match way(seen) {
        "slow" => Reply::events("").then(Act::Relay(events.lock().take().unwrap())),
        "closed" => Reply::empty(status),
        _ => compliant_http(SupportedEras::Modern, seen),
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("odd", &odd.url())).start().await;
    host.ready("odd").await;
    let slow = host.call_with("odd__hello", Some(json!({ "way": "slow" })));
    let meanwhile = async {
        odd.until(|seen| seen.iter().any(|seen| way(seen) == "slow")).await;
        let closed = host.call_with("odd__hello", Some(json!({ "way": "closed" }))).await;
        if matches!(status, 401 | 404) {
            wait_for_reconnect(&host, "odd").await;
        }
        let seen = odd.seen().into_iter().find(|seen| way(seen) == "slow").unwrap();
        let answer = SupportedEras::Modern.answer(seen.message()).unwrap();
        sender.send(event(&answer).into_bytes()).await.unwrap();
        closed
    };
    let (slow, closed) = tokio::join!(slow, meanwhile);
    (odd, host, slow, closed)
}

#[tokio::test]
async fn http_error_of_one_call_does_not_end_others() {
    for (status, losses) in [(404, 1), (401, 1), (403, 0), (500, 0)] {
        let (_odd, host, slow, closed) = with_call_in_flight(status).await;
        assert_eq!(slow.state(), CallState::Succeeded, "{status}: {slow}");
        assert_eq!(closed.state(), CallState::Failed, "{status}: {closed}");
        assert_eq!(host.status("odd").losses, losses, "{status}");
        within("the shutdown", host.host.shutdown()).await;
    }
}

#[tokio::test]
async fn call_on_a_replaced_connection_ends_with_the_server() {
    let odd = OddHttp::start(move |seen| match way(seen) {
        "slow" => Reply::events("").then(Act::Hang),
        "closed" => Reply::empty(404),
        _ => compliant_http(SupportedEras::Modern, seen),
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("odd", &odd.url())).start().await;
    host.ready("odd").await;
    let mut slow = Box::pin(host.call_with("odd__hello", Some(json!({ "way": "slow" }))));
    assert!(futures_util::poll!(&mut slow).is_pending());
    drop(host.call_with("odd__hello", Some(json!({ "way": "closed" }))).await);
    wait_for_reconnect(&host, "odd").await;
    host.host.disconnect(&name("odd")).await.unwrap();
    let outcome = within("its end", slow).await;
    assert_eq!(outcome.message().unwrap().as_str(), "the connection ended: closed locally");
}

#[tokio::test]
async fn status_has_the_session_that_replaced_an_expired_one() {
    let (sessions, streams) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let odd = OddHttp::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        // The first standing stream ends, and the next attempt shows that its session has expired.
        ("GET", _) => match streams.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::events("retry: 1\n\n"),
            1 => Reply::empty(404),
            _ => Reply::events("").then(Act::Hang),
        },
        (_, "initialize") => {
            let id = format!("session-{}", sessions.fetch_add(1, Ordering::Relaxed));
            let answer = SupportedEras::Legacy.answer(seen.message()).unwrap();
            Reply::json(200, &answer).header("mcp-session-id", &id)
        }
        _ => compliant_http(SupportedEras::Legacy, seen),
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("odd", &odd.url())).start().await;
    host.ready("odd").await;
    let used = || host.status("odd").profile.and_then(|profile| Some(profile.session_id?.expose().to_owned()));
    within("the next session", async {
        while used().as_deref() != Some("session-1") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn list_that_was_cut_off_is_requested_again() {
    let lists = AtomicUsize::new(0);
    let odd = OddHttp::start(move |seen| match seen.method() {
        "tools/list" if lists.fetch_add(1, Ordering::Relaxed) == 0 => Reply::events(""),
        _ => compliant_http(SupportedEras::Modern, seen),
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("odd", &odd.url())).start().await;
    let mut catalogs = host.host.watch_catalog();
    let listed = catalogs.wait_for(|catalog| !catalog.tools_of(&name("odd")).is_empty());
    drop(within("the second list", listed).await.unwrap());
    assert_eq!(host.call("odd__hello").await.state(), CallState::Succeeded);
}

/// Starts the server again on the second dial.
struct Starter {
    fixture: parking_lot::Mutex<Option<HttpFixture>>,
    dials: AtomicUsize,
}

impl Tap for Starter {
    fn outgoing(&self, outbound: &Outbound) -> Passage {
        let dials = String::from_utf8_lossy(&outbound.message).contains("server/discover");
        if dials && self.dials.fetch_add(1, Ordering::Relaxed) == 1 {
            let mut fixture = self.fixture.lock().take().unwrap();
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(fixture.start())).unwrap();
            *self.fixture.lock() = Some(fixture);
        }
        Passage::Pass
    }

    fn incoming(&self, _text: &bytes::Bytes) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_is_requested_once_for_a_call_that_is_sent_twice() {
    let files = FixtureServer::new("files").tool("read", "Read");
    let mut fixture = files.over_http(Some(Era::Modern)).await.unwrap();
    let starter = Arc::new(Starter { fixture: parking_lot::Mutex::default(), dials: AtomicUsize::new(0) });
    let wanted = WantedServer { era: EraChoice::Modern, ..fixtures::address("files", &fixture.url()) };
    let mut builder = TestHost::new().wanted(wanted).asking(ApprovalAnswer::approved("test"));
    let tap = Arc::clone(&starter);
    builder.options.tap = Some(Arc::new(move |_, _| tap.clone()));
    let host = builder.start().await;
    host.ready("files").await;
    fixture.stop().await;
    *starter.fixture.lock() = Some(fixture);
    let mut calls = 1;
    // A call on the old connection may have been received, and is not sent again.
    while host.call("files__read").await.state() != CallState::Succeeded {
        calls += 1;
        assert!(calls < 5, "{:?}", host.status("files").last_error);
    }
    assert_eq!(host.asked().len(), calls, "{:?}", host.asked());
    assert_eq!(host.status("files").losses, 1, "the request was not received");
}

#[tokio::test]
async fn call_reports_the_error_of_a_refused_handshake() {
    let odd = OddHttp::start(|seen| {
        let id = seen.message().get("id").cloned().unwrap_or_default();
        let refusal =
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32000, "message": "no licence", "data": 7 } });
        Reply::json(200, &refusal)
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("odd", &odd.url())).start().await;
    host.until("odd", |phase| matches!(phase, Phase::Waiting { .. } | Phase::Failed { .. })).await;
    let origin = toolway_host::catalog::Origin { server: name("odd"), raw_name: "hello".to_owned() };
    let request = CallRequest::new(Caller::Program, Target::ToolOf(origin));
    let outcome = host.call_of(request).await;
    let CallOutcome::Failed(CallError::NotConnected { why, .. }) = &outcome else { panic!("{outcome}") };
    let error = why.error.as_ref().unwrap();
    assert_eq!((error.code(), error.data().unwrap().to_string()), (-32000, "7".to_owned()));
}

#[tokio::test]
async fn retries_end_after_their_limit_and_a_call_tries_again() {
    let reconnect = Reconnect { attempts: Some(0), ..Reconnect::default() };
    let server = WantedServer { reconnect, ..fixtures::process("broken", &["--crash"]) };
    let host = TestHost::new().wanted(server).start().await;
    let status = host.until("broken", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert!(status.phase.for_operator().as_str().contains("gave up after 1 attempts"), "{:?}", status.phase);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let before = status.since;
    drop(host.call("broken__anything").await);
    assert!(before < host.status("broken").since, "it was tried again");
}

#[tokio::test]
async fn configured_delays_are_used_between_retries() {
    let delay = Duration::from_millis(20);
    let reconnect = Reconnect { attempts: Some(5), initial_delay: Some(delay), max_delay: Some(delay) };
    let server = WantedServer { reconnect, ..fixtures::process("broken", &["--crash"]) };
    let host = TestHost::new().wanted(server).start().await;
    let given_up = host.until("broken", |phase| matches!(phase, Phase::Failed { .. }));
    // With the default delays, six attempts take more than 15 seconds.
    let status = tokio::time::timeout(Duration::from_secs(10), given_up).await.expect("given up early");
    assert!(status.phase.for_operator().as_str().contains("gave up after 6 attempts"), "{:?}", status.phase);
}
