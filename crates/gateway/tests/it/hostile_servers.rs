//! Servers that answer other people's questions, ask out of the blue, flood, stall and break off: whoever called one is
//! told why or is served, other callers and other servers notice nothing, and memory does not grow with it.

mod street;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use toolway_testkit::test_host::PATIENCE;
use toolway_wire::up::EraChoice;

use self::street::{Street, called, words};

/// What comes of a call of `odd`, and in which eras.
struct Mood {
    what: &'static str,
    eras: &'static [EraChoice],
    /// One of these is in the answer; none of them, and it is served.
    says: &'static str,
}

const BOTH: &[EraChoice] = &[EraChoice::Legacy, EraChoice::Modern];
const STATELESS: &[EraChoice] = &[EraChoice::Modern];
/// What a call waits for a server that says nothing.
const SILENCE: Duration = Duration::from_millis(1_500);
/// What the whole of a story may weigh more than before it.
const GROWTH: usize = 64 << 20;

const fn mood(what: &'static str, eras: &'static [EraChoice], says: &'static str) -> Mood {
    Mood { what, eras, says }
}

/// Answers that are nobody's, twice, or none.
const ANSWERS: [Mood; 11] = [
    mood("wrong-id", BOTH, "no answer within 1.5s"),
    mood("string-id", BOTH, "no answer within 1.5s"),
    mood("no-id", BOTH, "no answer within 1.5s"),
    mood("stray", BOTH, ""),
    mood("double", BOTH, ""),
    mood("neither", BOTH, "neither a request, a notification nor a response"),
    mood("truncated", BOTH, "JSON ends too early"),
    mood("not-utf8", BOTH, "not UTF-8"),
    mood("deep:500", BOTH, "nested deeper than 128 levels"),
    mood("unknown-type", STATELESS, "unknown resultType"),
    mood("gives-up", BOTH, "no answer within 1.5s"),
];

/// More than anybody reads.
const FLOODS: [Mood; 6] = [
    mood("flood:50000", BOTH, ""),
    mood("progress-flood:20000", BOTH, ""),
    mood("ping-flood:20000", BOTH, ""),
    mood("long-line:2000000", BOTH, "larger than the limit of 1000000"),
    mood("long-question:2000000", BOTH, ""),
    mood("endless-line", BOTH, "it said more than 8000000 bytes without ending a line"),
];

/// Questions that may not be asked.
const QUESTIONS: [Mood; 4] = [
    mood("asks-anyway", BOTH, ""),
    mood("retries", STATELESS, "no answer within 1.5s"),
    mood("questions:40", STATELESS, "larger than the limit of 16"),
    mood("state:300000", STATELESS, "larger than the limit of 262144"),
];

/// Ways to break off.
const BREAKS: [Mood; 3] = [
    mood("cut", BOTH, "the connection ended: it exited with status 0"),
    mood("half-closed", BOTH, "it closed its output but goes on running"),
    mood("deaf", BOTH, "no answer within 1.5s|it no longer reads"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_nobodys_reach_nobody() {
    tell(&ANSWERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_are_heard_by_nobody_else_and_are_not_kept() {
    let before = resident();
    tell(&FLOODS).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < GROWTH, "{grown} bytes more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_that_may_not_be_asked_are_refused() {
    tell(&QUESTIONS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_breaks_off_is_named_and_begun_anew() {
    tell(&BREAKS).await;
}

/// Nobody has called anything: nobody is shown the question, and the server is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_without_a_call_is_shown_to_nobody() {
    let street = Street::with("asks-unasked", EraChoice::Legacy).await;
    let session = street.bob.clone().begun().await;
    let mut standing = session.get().await;
    let listening = json!({ "notifications": { "toolsListChanged": true } });
    let mut listener = street.ada.ask("subscriptions/listen", listening).await;
    assert!(listener.message().await.unwrap().to_string().contains("acknowledged"));
    street.comes_back(&street.ada).await;
    street.comes_back(&session).await;
    street.until_heard("error", 2).await;
    assert_eq!(street.heard("result"), 0, "nobody answered");
    for heard in [&mut standing, &mut listener] {
        let silence = tokio::time::timeout(Duration::from_millis(500), heard.message()).await;
        assert!(silence.is_err(), "{silence:?}");
    }
}

/// Each caller is told in the words of its era what it would have had to declare, or the server that it may not ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_caller_never_declared_is_not_asked_of_it() {
    let street = Street::with("asks-undeclared", EraChoice::Legacy).await;
    let refused = called(&street.ada, "odd__odd").await;
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }), "{refused}");
    let session = street.ada.clone().begun().await;
    assert_eq!(words(&called(&session, "odd__odd").await), "refused with -32601");
    street.goes_on().await;
}

/// A list that changes whenever it is asked for is asked for now and then, and told of as seldom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_never_rests_is_followed_at_a_measured_pace() {
    for era in BOTH {
        let street = Street::with("restless", *era).await;
        let session = street.bob.clone().begun().await;
        let mut standing = session.get().await;
        let before = street.heard("tools/list");
        let watching = tokio::time::timeout(Duration::from_secs(2), async {
            let mut told = 0;
            while standing.message().await.is_some() {
                told += 1;
                assert!(told < 20, "{era:?}: told {told} times");
            }
        });
        let (_over, ()) = tokio::join!(watching, street.goes_on());
        let asked = street.heard("tools/list") - before;
        assert!(asked < 40, "{era:?}: it was asked for its list {asked} times in two seconds");
        street.comes_back(&street.ada).await;
    }
}

/// A task that is under way for ever keeps whoever waits for it, and nobody else; with its caller it is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_without_an_end_ends_with_its_caller() {
    let street = Street::with("endless-task", EraChoice::Modern).await;
    for caller in [street.ada.clone(), street.ada.clone().begun().await] {
        let (looked, cancelled) = (street.heard("tasks/get"), street.heard("tasks/cancel"));
        let calling = tokio::time::timeout(Duration::from_secs(1), called(&caller, "odd__odd"));
        let (waited, ()) = tokio::join!(calling, street.goes_on());
        assert!(waited.is_err(), "{waited:?}");
        street.until_heard("tasks/get", looked + 2).await;
        street.comes_back(&street.bob).await;
        if caller.has_session() {
            // Hanging up is not leaving, where there is a session.
            let gone = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
            assert_eq!(caller.post(&gone).await.status, 202);
        }
        street.until_heard("tasks/cancel", cancelled + 1).await;
        let looked = street.heard("tasks/get");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(street.heard("tasks/get") <= looked + 1, "nobody looks at it any more");
    }
}

/// Each mood in each of its eras, to callers of both.
async fn tell(moods: &[Mood]) {
    for mood in moods {
        for era in mood.eras {
            let street = Street::patient(mood.what, *era, mood.silence()).await;
            let callers = [street.ada.clone(), street.ada.clone().begun().await];
            let calls = callers.each_ref().map(|caller| called(caller, "odd__odd"));
            let (said, ()) = tokio::join!(join_all(calls), street.goes_on());
            for said in &said {
                assert!(mood.is_told(words(said)), "{} {era:?}: {said}", mood.what);
            }
            for caller in callers.iter().chain([&street.bob]) {
                street.comes_back(caller).await;
            }
        }
    }
}

impl Mood {
    /// How long is waited for a word: where none comes, not for long.
    fn silence(&self) -> Duration {
        if self.says.contains("no answer") { SILENCE } else { PATIENCE }
    }

    fn is_told(&self, words: &str) -> bool {
        if self.says.is_empty() { words == "hello" } else { self.says.split('|').any(|says| words.contains(says)) }
    }
}

/// Memory in use, in bytes; nothing where the system does not say.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096
}
