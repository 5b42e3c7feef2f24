//! The two endpoints of 2024-11-05: everything comes over one stream, and the end of that is the end of all.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use toolway_testkit::odd::{
    http::{Act, OddHttp, Reply, Seen, event},
    polite::{self, Speaks},
};
use toolway_wire::up::{ConnectOptions, EraChoice, Peer, transport::Manner};

use super::{call, connected, faults, hasty, pinned, word};
use crate::dialling::LONG;

/// Where the server speaks; dropping it ends the stream.
type Voice = Arc<Mutex<Option<mpsc::Sender<Vec<u8>>>>>;

/// A server with manners, but for what the tool `odd` makes it do.
async fn oldest(odd: impl Fn(&Seen, &Voice) -> Reply + Send + Sync + 'static) -> OddHttp {
    let voice = Voice::default();
    OddHttp::start(move |seen| match seen.verb.as_str() {
        "GET" => {
            let (sender, receiver) = mpsc::channel(16);
            *voice.lock() = Some(sender);
            Reply::events("event: endpoint\ndata: /messages\n\n").then(Act::Relay(receiver))
        }
        _ if seen.path == "/mcp" => Reply::empty(405),
        _ if seen.tool() == "odd" => odd(seen, &voice),
        _ => {
            if let Some(answer) = Speaks::Legacy.answer(seen.message()) {
                say(&voice, event(&answer));
            }
            Reply::empty(202)
        }
    })
    .await
    .unwrap()
}

fn say(voice: &Voice, text: String) {
    voice.lock().as_ref().unwrap().try_send(text.into_bytes()).unwrap();
}

async fn met(odd: &OddHttp, expected: &str, connect: ConnectOptions) -> Peer {
    let peer = connected(odd, connect).await;
    assert_eq!(peer.found().manner, Manner::EventStream);
    let outcome = call(&peer, "odd").await;
    assert_eq!(word(&outcome), expected, "{outcome:?}");
    peer
}

#[tokio::test]
async fn a_post_that_is_refused_fails_its_call() {
    for (status, expected) in [(404, "http_status"), (500, "http_status"), (401, "unauthorized")] {
        let odd = oldest(move |_, _| Reply::empty(status)).await;
        let peer = met(&odd, expected, pinned(EraChoice::Legacy)).await;
        assert_eq!(word(&call(&peer, "hello").await), "answered", "{status}");
    }
    let odd = oldest(|_, _| Reply::bare().then(Act::Close)).await;
    let peer = met(&odd, "ended", pinned(EraChoice::Legacy)).await;
    assert_eq!(word(&call(&peer, "hello").await), "answered");
}

#[tokio::test]
async fn a_post_that_hangs_runs_out_of_time() {
    let odd = oldest(|_, _| Reply::bare().then(Act::Hang)).await;
    let peer = met(&odd, "timed_out", hasty(EraChoice::Legacy)).await;
    assert_eq!(word(&call(&peer, "hello").await), "answered");
    // Nothing is left of it: there is the stream, and what was used to give the call up and to make the next one.
    tokio::time::timeout(LONG, odd.until_open(3)).await.unwrap();
}

#[tokio::test]
async fn a_message_over_the_bound_fails_its_call_and_an_event_over_the_bound_ends_the_stream() {
    let long = |length: usize| {
        oldest(move |seen, voice| {
            say(voice, event(&polite::answered(seen.id(), &polite::text(&"x".repeat(length)))));
            Reply::empty(202)
        })
    };
    let odd = long(10_000).await;
    let peer = met(&odd, "too_large", pinned(EraChoice::Legacy)).await;
    assert_eq!(word(&call(&peer, "hello").await), "answered");

    let odd = long(20_000).await;
    let peer = met(&odd, "too_large", pinned(EraChoice::Legacy)).await;
    assert_eq!(peer.closed().await.code(), "too_large");
}

#[tokio::test]
async fn noise_on_the_stream_is_noticed_and_nothing_more() {
    let odd = oldest(|seen, voice| {
        say(voice, "data: {not json}\n\nevent: endpoint\ndata: http://elsewhere.example/\n\n: hi\n\n".to_owned());
        say(voice, event(&Speaks::Legacy.answer(seen.message()).unwrap()));
        Reply::empty(202)
    });
    let odd = odd.await;
    let peer = connected(&odd, pinned(EraChoice::Legacy)).await;
    let mut notices = peer.notices();
    assert_eq!(word(&call(&peer, "odd").await), "answered");
    assert_eq!(faults(&mut notices), ["protocol"]);
    // A second address changes nothing.
    assert_eq!(word(&call(&peer, "hello").await), "answered");
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_connection() {
    let odd = oldest(|_, voice| {
        voice.lock().take();
        Reply::empty(202)
    });
    let odd = odd.await;
    let peer = met(&odd, "ended", pinned(EraChoice::Legacy)).await;
    assert_eq!(peer.closed().await.code(), "ended");
    assert_eq!(word(&call(&peer, "hello").await), "ended");
}
