//! Servers that come back: restarted, redeployed, their session forgotten, their stream cut, their lists changed. In each
//! the next call succeeds without anybody doing anything.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::sync::mpsc;
use toolway_host::{
    call::{CallError, CallOutcome, CallRequest, Caller, Target},
    catalog::Catalog,
    connection::{
        Phase, SessionMemory, WantedServer, Way,
        tap::{Passage, Tap},
    },
    policy::Answer,
    record::Ending,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer, HttpFixture},
    odd::{
        http::{Act, OddHttp, Reply, Seen, event, polite_http},
        polite::Speaks,
    },
    test_host::{TestHost, name, within},
};
use toolway_wire::{
    error::WireError,
    revision::Era,
    up::{
        EraChoice, in_process,
        transport::{Link, Manner, Outbound, Shape, Sink, Transport},
    },
};

use crate::fixtures;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

fn word(era: Era) -> &'static str {
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
async fn a_program_that_was_killed_is_started_again_and_the_next_call_succeeds() {
    for era in ERAS {
        let server = fixtures::process("files", &["--era", word(era)]);
        let host = TestHost::new().wanted(server).start().await;
        let first = host.ready("files").await;
        assert_eq!(first.profile.as_ref().unwrap().era, era);
        let pid = first.process.unwrap();
        fixtures::kill(pid);
        fixtures::gone(pid).await;
        host.until("files", |phase| *phase != Phase::Ready).await;
        let outcome = host.call("files__echo").await;
        assert_eq!(outcome.ending(), Ending::Answered, "{era:?}: {outcome}");
        let second = host.ready("files").await;
        assert_ne!(second.process, Some(pid));
        assert_eq!(second.losses, 1);
        assert!(second.last_error.unwrap().message.contains("signal"), "{era:?}");
        within("the shutdown", host.host.shutdown()).await;
    }
}

/// The call comes before anybody has noticed. What the pipe did not take is sent again; what it took may have been read.
#[tokio::test]
async fn a_call_that_meets_a_dead_program_is_sent_to_the_next_one_if_it_reached_nobody() {
    let host = TestHost::new().wanted(fixtures::process("files", &[])).start().await;
    let pid = host.ready("files").await.process.unwrap();
    fixtures::kill(pid);
    fixtures::gone(pid).await;
    let outcome = host.call("files__echo").await;
    assert!(matches!(outcome.ending(), Ending::Answered | Ending::Failed), "{outcome}");
    assert_eq!(host.call("files__echo").await.ending(), Ending::Answered);
    assert_eq!(host.records().len(), 2);
    within("the shutdown", host.host.shutdown()).await;
}

#[tokio::test]
async fn a_server_that_was_redeployed_answers_the_next_call() {
    for era in ERAS {
        let (_files, mut fixture, host) = http(era).await;
        fixture.restart().await.unwrap();
        let outcome = host.call("files__read").await;
        assert_eq!(outcome.ending(), Ending::Answered, "{era:?}: {outcome}");
        assert_eq!(host.records().len(), 1, "one call is one record, however often it was sent");
    }
}

#[tokio::test]
async fn a_server_that_is_away_for_a_moment_is_waited_for() {
    for era in ERAS {
        let (_files, mut fixture, host) = http(era).await;
        fixture.stop().await;
        let back = async {
            // Not before somebody has found it gone.
            host.until("files", |phase| matches!(phase, Phase::Waiting { .. })).await;
            fixture.start().await.unwrap();
        };
        let (outcome, ()) = tokio::join!(host.call("files__read"), back);
        // The call that found it gone is told so, or waited long enough; the next one succeeds.
        assert!(matches!(outcome.ending(), Ending::Answered | Ending::Failed), "{era:?}: {outcome}");
        assert_eq!(host.call("files__read").await.ending(), Ending::Answered, "{era:?}");
    }
}

#[tokio::test]
async fn what_a_redeployed_server_offers_now_is_offered() {
    for era in ERAS {
        let (files, mut fixture, host) = http(era).await;
        host.offers(&["files__read", "files__grow"]).await;
        fixture.stop().await;
        files.add_tool("write", "Write");
        fixture.start().await.unwrap();
        assert_eq!(host.call("files__read").await.ending(), Ending::Answered, "{era:?}");
        host.offers(&["files__read", "files__grow", "files__write"]).await;
    }
}

#[tokio::test]
async fn a_list_that_changes_during_a_call_is_listed_again_and_the_call_goes_on() {
    for era in ERAS {
        let (_files, _fixture, host) = http(era).await;
        let outcome = host.call_with("files__grow", Some(json!({ "name": "leaf" }))).await;
        assert_eq!(outcome.ending(), Ending::Answered, "{era:?}: {outcome}");
        host.offers(&["files__read", "files__grow", "files__leaf"]).await;

        let process = fixtures::process("trees", &["--era", word(era)]);
        let host = TestHost::new().wanted(process).start().await;
        host.ready("trees").await;
        let outcome = host.call_with("trees__grow", Some(json!({ "name": "leaf" }))).await;
        assert_eq!(outcome.ending(), Ending::Answered, "{era:?}: {outcome}");
        host.offers(&["trees__echo", "trees__wait", "trees__grow", "trees__crash", "trees__leaf"]).await;
        within("the shutdown", host.host.shutdown()).await;
    }
}

#[tokio::test]
async fn a_session_is_kept_across_our_restarts_and_given_up_when_the_server_has_forgotten_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = FixtureServer::new("files").tool("read", "Read");
    let mut fixture = files.over_http(Some(Era::Legacy)).await.unwrap();
    let start = async |url: &str| {
        let mut builder = TestHost::new().wanted(fixtures::address("files", url));
        builder.options.sessions = Some(SessionMemory::at(folder.path().join("sessions.json")));
        let host = builder.start().await;
        let status = host.ready("files").await;
        assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
        (host, status.profile.unwrap().session.unwrap())
    };
    let (host, first) = start(&fixture.url()).await;
    within("the shutdown", host.host.shutdown()).await;
    let (host, second) = start(&fixture.url()).await;
    assert_eq!(first, second, "the same session goes on");
    within("the shutdown", host.host.shutdown()).await;

    fixture.restart().await.unwrap();
    let (host, third) = start(&fixture.url()).await;
    assert_ne!(second, third, "forgotten, and begun anew");
    within("the shutdown", host.host.shutdown()).await;
}

/// Where a server of the oldest revision speaks; dropping it ends its stream.
type Voice = Arc<parking_lot::Mutex<Option<mpsc::Sender<Vec<u8>>>>>;

#[tokio::test]
async fn the_one_stream_of_the_oldest_revision_is_opened_again_when_it_is_cut() {
    let voice = Voice::default();
    let speaking = Arc::clone(&voice);
    let odd = OddHttp::start(move |seen| match seen.verb.as_str() {
        "GET" => {
            let (sender, receiver) = mpsc::channel(16);
            *speaking.lock() = Some(sender);
            Reply::events("event: endpoint\ndata: /messages\n\n").then(Act::Relay(receiver))
        }
        _ if seen.path == "/mcp" => Reply::empty(405),
        // Never answered: its caller sees the stream end.
        _ if seen.tool() == "odd" => Reply::empty(202),
        _ => {
            if let (Some(answer), Some(voice)) = (Speaks::Legacy.answer(seen.message()), &*speaking.lock()) {
                voice.try_send(event(&answer).into_bytes()).unwrap();
            }
            Reply::empty(202)
        }
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("old", &odd.url())).start().await;
    host.ready("old").await;
    assert_eq!(host.call("old__hello").await.ending(), Ending::Answered);
    let cut = async {
        while !odd.seen().iter().any(|seen| seen.tool() == "odd") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(voice.lock().take());
    };
    let (outcome, ()) = tokio::join!(host.call("old__odd"), cut);
    assert_eq!(outcome.ending(), Ending::Failed, "{outcome}");
    assert_eq!(host.call("old__hello").await.ending(), Ending::Answered);
    assert_eq!(host.status("old").losses, 1);
}

#[tokio::test]
async fn a_server_that_announces_without_end_is_not_asked_without_end() {
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
    let asked = files.seen("tools/list").len() - before;
    assert!((1..=10).contains(&asked), "asked {asked} times");
}

/// A transport whose links can be cut.
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

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn open<'a>(
        &'a self,
        manner: Manner,
        sink: Arc<dyn Sink>,
    ) -> futures_util::future::BoxFuture<'a, Result<Arc<dyn Link>, WireError>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        *self.link.lock() = Some(Arc::clone(&sink));
        self.inner.open(manner, sink)
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_ends_its_calls_and_is_opened_again() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let files = FixtureServer::new("files").tool("read", "Read").tool_that("wait", "Wait", Behaviour::Wait);
        let inner = Arc::new(in_process::transport(files.service(), Default::default()));
        let fragile = Arc::new(Fragile { inner, opened: AtomicUsize::new(0), link: Default::default() });
        let server = WantedServer { era, ..WantedServer::new(name("files"), Way::Custom(fragile.clone())) };
        let host = TestHost::new().wanted(server).start().await;
        host.ready("files").await;
        let opened = fragile.opened.load(Ordering::Relaxed);
        let cut = async {
            files.reached("tools/call", 1).await;
            let sink = fragile.link.lock().take();
            sink.unwrap().closed(WireError::Ended("the cable was cut".to_owned()));
        };
        let (outcome, ()) = tokio::join!(host.call("files__wait"), cut);
        assert_eq!(outcome.to_string(), "failed: the connection ended: the cable was cut", "{era:?}");
        assert_eq!(host.call("files__read").await.ending(), Ending::Answered, "{era:?}");
        assert!(opened < fragile.opened.load(Ordering::Relaxed));
        assert_eq!(host.status("files").last_error.unwrap().message, "the connection ended: the cable was cut");
    }
}

#[tokio::test]
async fn a_server_that_crashes_again_and_again_is_named_and_holds_up_nobody() {
    let server = fixtures::process("broken", &["--say", "no licence", "--crash"]);
    let files = FixtureServer::new("files").tool("read", "Read");
    let host = TestHost::with(&files, "files").wanted(server).start().await;
    let in_a_loop = |phase: &Phase| matches!(phase, Phase::Waiting { crash_loop: true, .. });
    let status = host.until("broken", in_a_loop).await;
    let said = status.phase.to_string();
    assert!(said.contains("it fails again and again (3 times in a row)"), "{said}");
    assert!(said.contains("no licence"), "{said}");
    assert!(status.stderr.iter().any(|line| line == "no licence"), "{:?}", status.stderr);
    let outcome = host.call("broken__anything").await;
    assert_eq!(outcome.ending(), Ending::Refused, "{outcome}");
    assert_eq!(host.call("files__read").await.ending(), Ending::Answered);
}

/// Waits until a connection was lost and there is another one.
async fn lost(host: &TestHost, server: &str) {
    let again = async {
        while host.status(server).losses == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("a loss", again).await;
    host.ready(server).await;
}

/// Which way a call is to go.
fn way(seen: &Seen) -> &str {
    seen.message()["params"]["arguments"]["way"].as_str().unwrap_or_default()
}

/// A modern server of which one call is under way when another one meets this status.
async fn while_another_call_is_under_way(status: u16) -> (OddHttp, TestHost, CallOutcome, CallOutcome) {
    let (voice, speech) = mpsc::channel(1);
    let speech = parking_lot::Mutex::new(Some(speech));
    let odd = OddHttp::start(move |seen| match way(seen) {
        "slow" => Reply::events("").then(Act::Relay(speech.lock().take().unwrap())),
        "closed" => Reply::empty(status),
        _ => polite_http(Speaks::Modern, seen),
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("odd", &odd.url())).start().await;
    host.ready("odd").await;
    let slow = host.call_with("odd__hello", Some(json!({ "way": "slow" })));
    let meanwhile = async {
        odd.until(|seen| seen.iter().any(|seen| way(seen) == "slow")).await;
        let closed = host.call_with("odd__hello", Some(json!({ "way": "closed" }))).await;
        if matches!(status, 401 | 404) {
            lost(&host, "odd").await;
        }
        let seen = odd.seen().into_iter().find(|seen| way(seen) == "slow").unwrap();
        let answer = Speaks::Modern.answer(seen.message()).unwrap();
        voice.send(event(&answer).into_bytes()).await.unwrap();
        closed
    };
    let (slow, closed) = tokio::join!(slow, meanwhile);
    (odd, host, slow, closed)
}

#[tokio::test]
async fn a_call_that_meets_a_bad_answer_does_not_end_the_others() {
    for (status, losses) in [(404, 1), (401, 1), (403, 0), (500, 0)] {
        let (_odd, host, slow, closed) = while_another_call_is_under_way(status).await;
        assert_eq!(slow.ending(), Ending::Answered, "{status}: {slow}");
        assert_eq!(closed.ending(), Ending::Failed, "{status}: {closed}");
        assert_eq!(host.status("odd").losses, losses, "{status}");
        within("the shutdown", host.host.shutdown()).await;
    }
}

#[tokio::test]
async fn a_call_that_is_under_way_on_an_old_connection_ends_with_the_server() {
    let odd = OddHttp::start(move |seen| match way(seen) {
        "slow" => Reply::events("").then(Act::Hang),
        "closed" => Reply::empty(404),
        _ => polite_http(Speaks::Modern, seen),
    });
    let odd = odd.await.unwrap();
    let host = TestHost::new().wanted(fixtures::address("odd", &odd.url())).start().await;
    host.ready("odd").await;
    let mut slow = Box::pin(host.call_with("odd__hello", Some(json!({ "way": "slow" }))));
    assert!(futures_util::poll!(&mut slow).is_pending());
    drop(host.call_with("odd__hello", Some(json!({ "way": "closed" }))).await);
    lost(&host, "odd").await;
    host.host.disconnect(&name("odd")).await.unwrap();
    let outcome = within("its end", slow).await;
    assert_eq!(outcome.to_string(), "failed: the connection ended: closed by us");
}

/// Starts a server again when it is dialled for the second time.
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
async fn a_person_is_asked_once_about_a_call_that_is_sent_twice() {
    let files = FixtureServer::new("files").tool("read", "Read");
    let mut fixture = files.over_http(Some(Era::Modern)).await.unwrap();
    let starter = Arc::new(Starter { fixture: parking_lot::Mutex::default(), dials: AtomicUsize::new(0) });
    let wanted = WantedServer { era: EraChoice::Modern, ..fixtures::address("files", &fixture.url()) };
    let mut builder = TestHost::new().wanted(wanted).asking(Answer::Yes);
    let tap = Arc::clone(&starter);
    builder.options.tap = Some(Arc::new(move |_| tap.clone()));
    let host = builder.start().await;
    host.ready("files").await;
    fixture.stop().await;
    *starter.fixture.lock() = Some(fixture);
    let mut calls = 1;
    // One that still found the old connection open may have been taken, and is not sent again.
    while host.call("files__read").await.ending() != Ending::Answered {
        calls += 1;
        assert!(calls < 5, "{:?}", host.status("files").last_error);
    }
    assert_eq!(host.asked().len(), calls, "{:?}", host.asked());
    assert_eq!(host.status("files").losses, 1, "it was sent to somebody who was not there");
}

#[tokio::test]
async fn a_call_to_a_server_that_refused_the_handshake_is_told_its_error() {
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
async fn retries_that_are_counted_come_to_an_end_and_a_call_tries_once_more() {
    let server = WantedServer { retries: Some(0), ..fixtures::process("broken", &["--crash"]) };
    let host = TestHost::new().wanted(server).start().await;
    let status = host.until("broken", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert!(status.phase.to_string().contains("given up after 1 attempts"), "{}", status.phase);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let before = status.since;
    drop(host.call("broken__anything").await);
    assert!(before < host.status("broken").since, "it was tried again");
}
