//! Era probing of HTTP servers.

use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{net::TcpListener, sync::mpsc};
use toolway_testkit::odd::{
    compliant::{self, SupportedEras},
    http::{Act, OddHttp, RecordedRequest, Reply, compliant_http, event},
};
use toolway_wire::{
    revision::Revision,
    up::{ConnectOptions, EraChoice, HttpTransportChoice, transport::HttpMode},
};

use super::{Probed, WITH_SESSION, WITHOUT_SESSION};
use crate::dialling::{SHORT, address, patient};

/// Maps requests to replies.
type Script = Box<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>;
/// Name, server, expected result, and the requests that it received.
type Row = (String, Script, Probed, &'static [&'static str]);

const OLDEST: Probed = Probed::SupportedEras(Revision::V2024_11_05, HttpMode::EventStream);

const ASKED: &[&str] = &["POST server/discover"];
const FOUND: &[&str] = &["POST server/discover", "POST initialize", "POST notifications/initialized", "GET"];
const REFUSED: &[&str] = &["POST server/discover", "POST initialize"];
const SEARCHED: &[&str] = &["POST server/discover", "POST initialize", "GET"];
const OLDER: &[&str] = &[
    "POST server/discover",
    "POST initialize",
    "GET",
    "POST /messages initialize",
    "POST /messages notifications/initialized",
];

/// A stateful server with this reply to unknown methods.
fn stumbling(reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> Script {
    Box::new(move |seen| match seen.method() {
        "server/discover" => reply(seen),
        _ => compliant_http(SupportedEras::Legacy, seen),
    })
}

/// A 2024-11-05 server with this message endpoint.
pub(super) fn event_stream(endpoint: &str) -> impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static + use<> {
    let (endpoint, voice) = (endpoint.to_owned(), Arc::new(Mutex::new(None::<mpsc::Sender<Vec<u8>>>)));
    move |seen| match (seen.verb.as_str(), seen.path.as_str()) {
        ("GET", _) => {
            let (sender, receiver) = mpsc::channel(16);
            *voice.lock() = Some(sender);
            Reply::events(format!("event: endpoint\ndata: {endpoint}\n\n")).then(Act::Relay(receiver))
        }
        (_, "/mcp") => Reply::empty(405),
        _ => {
            let mut message = seen.message().clone();
            message["params"]["protocolVersion"] = json!("2024-11-05");
            if let (Some(answer), Some(voice)) = (SupportedEras::Legacy.answer(&message), &*voice.lock()) {
                voice.try_send(event(&answer).into_bytes()).unwrap();
            }
            Reply::empty(202)
        }
    }
}

async fn check(rows: Vec<Row>, connect: impl Fn() -> ConnectOptions) {
    let rows = rows.into_iter().map(|(name, script, expected, saw)| {
        let connect = connect();
        async move {
            let odd = OddHttp::start(script).await.unwrap();
            let met = address(&odd, connect, None).await;
            // The stream without a request opens concurrently with the first calls.
            if Probed::of(&met) == expected {
                drop(tokio::time::timeout(SHORT, odd.until(|seen| saw.len() <= seen.len())).await);
            }
            let right = Probed::of(&met) == expected && odd.briefs() == saw;
            let said = met.as_ref().err().map(ToString::to_string);
            (!right).then(|| {
                let found = odd.briefs();
                format!(
                    "{name}: {:?} ({said:?}) instead of {expected:?}\n  saw {found:?}\n  expected {saw:?}",
                    Probed::of(&met)
                )
            })
        }
    });
    let wrong: Vec<String> = join_all(rows).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn compliant_servers() {
    let script = |speaks| -> Script { Box::new(move |seen| compliant_http(speaks, seen)) };
    let rows: Vec<Row> = vec![
        ("modern".into(), script(SupportedEras::Modern), WITHOUT_SESSION, ASKED),
        ("both".into(), script(SupportedEras::Both), WITHOUT_SESSION, ASKED),
        ("legacy".into(), script(SupportedEras::Legacy), WITH_SESSION, FOUND),
        ("oldest".into(), Box::new(event_stream("/messages")), OLDEST, OLDER),
    ];
    check(rows, patient).await;
}

#[tokio::test]
async fn any_other_refusal_with_any_body_is_a_stateful_server() {
    type Body = (&'static str, fn(u16, &RecordedRequest) -> Reply);
    let bodies: [Body; 6] = [
        ("nothing", |status, _| Reply::empty(status)),
        ("html", |status, _| Reply::html(status)),
        ("json", |status, _| Reply::json(status, &json!({ "detail": "Not Found" }))),
        ("an error without an id", |status, _| {
            Reply::json(status, &compliant::error(&json!(null), -32000, "no session"))
        }),
        ("an error", |status, seen| Reply::json(status, &compliant::error(seen.id(), -32601, "unknown"))),
        ("half a message", |status, _| Reply::body(status, "application/json", "{\"jsonrpc\":\"2.0\",\"error\":{")),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for status in [400, 402, 404, 405, 406, 409, 410, 415, 422, 501 - 83] {
        for (name, body) in bodies {
            rows.push((
                format!("{status} with {name}"),
                stumbling(move |seen| body(status, seen)),
                WITH_SESSION,
                FOUND,
            ));
        }
    }
    for (name, body) in bodies {
        rows.push((format!("200 with {name}"), stumbling(move |seen| body(200, seen)), WITH_SESSION, FOUND));
    }
    rows.push(("202".into(), stumbling(|_| Reply::empty(202)), WITH_SESSION, FOUND));
    rows.push(("204".into(), stumbling(|_| Reply::empty(204)), WITH_SESSION, FOUND));
    let result = |result| move |seen: &RecordedRequest| Reply::json(200, &compliant::answered(seen.id(), &result));
    rows.push(("an empty success".into(), stumbling(result(json!({}))), WITH_SESSION, FOUND));
    let older = compliant::discovered(&["2025-06-18"]);
    rows.push(("only older revisions".into(), stumbling(result(older)), WITH_SESSION, FOUND));
    let in_events = |seen: &RecordedRequest| Reply::events(event(&compliant::error(seen.id(), -32601, "unknown")));
    rows.push(("an error as an event".into(), stumbling(in_events), WITH_SESSION, FOUND));
    rows.push(("events without an answer".into(), stumbling(|_| Reply::events(": hello\n\n")), WITH_SESSION, FOUND));
    check(rows, patient).await;
}

#[tokio::test]
async fn temporary_failure_does_not_select_the_legacy_era() {
    type Body = (&'static str, fn(u16, &RecordedRequest) -> Reply);
    let bodies: [Body; 3] = [
        ("nothing", |status, _| Reply::empty(status)),
        ("html", |status, _| Reply::html(status)),
        ("an error", |status, seen| Reply::json(status, &compliant::error(seen.id(), -32601, "unknown"))),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for (name, body) in bodies {
        for (status, code) in [
            (401, "unauthorized"),
            (403, "unauthorized"),
            (407, "http_status"),
            (408, "http_status"),
            (429, "http_status"),
            (500, "http_status"),
            (502, "http_status"),
            (503, "http_status"),
            (504, "http_status"),
        ] {
            let script = stumbling(move |seen| body(status, seen));
            rows.push((format!("{status} with {name}"), script, Probed::Fails(code), ASKED));
        }
    }
    let bare = |act: fn() -> Act| stumbling(move |_| Reply::bare().then(act()));
    rows.push(("reset".into(), bare(|| Act::Reset), Probed::Fails("ended"), ASKED));
    rows.push(("closed".into(), bare(|| Act::Close), Probed::Fails("ended"), ASKED));
    let cut = stumbling(|_| {
        Reply::bare()
            .say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
            .then(Act::Close)
    });
    rows.push(("cut off".into(), cut, Probed::Fails("ended"), ASKED));
    check(rows, patient).await;
}

#[tokio::test]
async fn unreachable_server_does_not_select_the_legacy_era() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let address = toolway_host::connection::ServerAddress::http(url.parse().unwrap());
    let met = toolway_testkit::direct_peer::connect(&address, Default::default()).await;
    assert_eq!(Probed::of(&met), Probed::Fails("unreachable"));
}

#[tokio::test]
async fn error_codes_of_stateless_servers_only() {
    let turning_down = |times: usize, list: &'static [&'static str]| -> Script {
        Box::new(move |seen| match seen.method() {
            "server/discover" if seen.before < times => Reply::json(400, &compliant::other_versions(seen.id(), list)),
            "server/discover" => compliant_http(SupportedEras::Modern, seen),
            _ => compliant_http(SupportedEras::Legacy, seen),
        })
    };
    let refusing = |code: i64| stumbling(move |seen| Reply::json(400, &compliant::error(seen.id(), code, "no")));
    let twice: &[&str] = &["POST server/discover", "POST server/discover"];
    // Without discover, but with the error code of a stateless server.
    let without_discover: Script = Box::new(|seen| match seen.method() {
        "server/discover" => Reply::empty(404),
        _ => Reply::json(400, &compliant::other_versions(seen.id(), &[compliant::MODERN])),
    });
    let rows: Vec<Row> = vec![
        ("-32020".into(), refusing(-32020), Probed::Fails("handshake"), ASKED),
        ("-32021".into(), refusing(-32021), Probed::Fails("handshake"), ASKED),
        ("-32022 once".into(), turning_down(1, &["2026-07-28"]), WITHOUT_SESSION, twice),
        ("-32022 always".into(), turning_down(9, &["2026-07-28"]), Probed::Fails("handshake"), twice),
        ("-32022 older".into(), turning_down(9, &["2025-06-18"]), WITH_SESSION, FOUND),
        ("-32022 other".into(), turning_down(9, &["2099-01-01"]), Probed::Fails("no_common_revision"), ASKED),
        ("modern without discover".into(), without_discover, WITHOUT_SESSION, REFUSED),
    ];
    check(rows, patient).await;
}

#[tokio::test]
async fn urls_without_a_server() {
    let always = |status: u16| -> Script { Box::new(move |_| Reply::empty(status)) };
    let html: Script = Box::new(|_| Reply::html(200));
    let another: Script = Box::new(|_| Reply::bare().say("SSH-2.0-OpenSSH_9.9\r\n").then(Act::Close));
    let silent_stream: Script = Box::new(|seen| match seen.verb.as_str() {
        "GET" => Reply::events(": hello\n\n"),
        _ => Reply::empty(404),
    });
    let guarded: Script = Box::new(|seen| if seen.verb == "GET" { Reply::empty(401) } else { Reply::empty(404) });
    let broken: Script = Box::new(|seen| if seen.verb == "GET" { Reply::empty(503) } else { Reply::empty(404) });
    let elsewhere: Script = Box::new(event_stream("http://elsewhere.example/messages"));
    let nowhere: Script = Box::new(event_stream("http://[/"));
    let rows: Vec<Row> = vec![
        ("404".into(), always(404), Probed::Fails("http_status"), SEARCHED),
        ("405".into(), always(405), Probed::Fails("protocol"), SEARCHED),
        ("200 html".into(), html, Probed::Fails("http_status"), REFUSED),
        ("202".into(), always(202), Probed::Fails("protocol"), REFUSED),
        ("another protocol".into(), another, Probed::Fails("protocol"), REFUSED),
        ("a stream without an address".into(), silent_stream, Probed::Fails("protocol"), SEARCHED),
        ("a stream behind a lock".into(), guarded, Probed::Fails("unauthorized"), SEARCHED),
        ("a stream that is down".into(), broken, Probed::Fails("http_status"), SEARCHED),
        ("an address elsewhere".into(), elsewhere, Probed::Fails("refused"), SEARCHED),
        ("an invalid address".into(), nowhere, Probed::Fails("protocol"), SEARCHED),
    ];
    check(rows, patient).await;
}

#[tokio::test]
async fn http_sse_servers_are_found_whatever_they_answer_to_a_post() {
    type Refusal = fn(&RecordedRequest) -> Reply;
    let refusals: [(&str, Refusal); 5] = [
        ("404 html", |_| Reply::html(404)),
        ("405 json", |_| Reply::json(405, &json!({ "detail": "Method Not Allowed" }))),
        ("405 error without an id", |_| {
            Reply::json(405, &compliant::error(&json!(null), -32000, "Method not allowed."))
        }),
        ("400 error", |seen| Reply::json(400, &compliant::error(seen.id(), -32600, "no"))),
        ("422 json", |_| Reply::json(422, &json!({ "detail": [] }))),
    ];
    let mut rows: Vec<Row> = Vec::new();
    for (name, refusal) in refusals {
        let serving = event_stream("/messages");
        let script: Script = Box::new(move |seen| match (seen.verb.as_str(), seen.path.as_str()) {
            ("POST", "/mcp") => refusal(seen),
            _ => serving(seen),
        });
        rows.push((name.into(), script, OLDEST, OLDER));
    }
    check(rows, patient).await;
}

#[tokio::test]
async fn absolute_endpoint_url_on_the_same_origin_is_accepted() {
    let slot = Arc::new(Mutex::new(None));
    let serving = Arc::clone(&slot);
    let odd = OddHttp::start(move |seen| {
        let host = seen.header("host").unwrap_or_default().to_owned();
        let mut script = serving.lock();
        let script = script.get_or_insert_with(|| event_stream(&format!("http://{host}/messages")));
        script(seen)
    });
    let odd = odd.await.unwrap();
    let met = address(&odd, patient(), None).await;
    assert_eq!(Probed::of(&met), OLDEST, "{met:?}");
    assert_eq!(odd.briefs(), OLDER);
}

#[tokio::test]
async fn server_that_does_not_answer_the_probe_in_time_is_stateful() {
    let connect = || {
        let mut connect = patient();
        connect.timeouts.probe = SHORT;
        connect
    };
    let hanging = stumbling(|_| Reply::bare().then(Act::Hang));
    let half = stumbling(|_| Reply::events(": on my way\n\n").then(Act::Hang));
    let rows: Vec<Row> =
        vec![("silence".into(), hanging, WITH_SESSION, FOUND), ("half an answer".into(), half, WITH_SESSION, FOUND)];
    check(rows, connect).await;
}

#[tokio::test]
async fn server_that_never_answers_fails_within_the_timeouts() {
    let connect = || {
        let mut connect = patient();
        (connect.timeouts.probe, connect.timeouts.handshake) = (SHORT, SHORT);
        connect
    };
    let hang_on = |what: &'static str| -> Script {
        Box::new(move |seen| match seen.brief().as_str() {
            brief if brief.contains(what) => Reply::bare().then(Act::Hang),
            "POST server/discover" => Reply::empty(404),
            "POST initialize" if what == "GET" => Reply::empty(404),
            _ => compliant_http(SupportedEras::Legacy, seen),
        })
    };
    let nameless: Script = Box::new(|seen| match seen.verb.as_str() {
        "GET" => Reply::events(": on my way\n\n").then(Act::Hang),
        _ => Reply::empty(404),
    });
    let initialized: &[&str] = &["POST server/discover", "POST initialize", "POST notifications/initialized"];
    let rows: Vec<Row> = vec![
        ("everything".into(), hang_on(""), Probed::Fails("timed_out"), REFUSED),
        ("initialize".into(), hang_on("POST initialize"), Probed::Fails("timed_out"), REFUSED),
        ("initialized".into(), hang_on("initialized"), Probed::Fails("timed_out"), initialized),
        ("the stream".into(), hang_on("GET"), Probed::Fails("timed_out"), SEARCHED),
        ("the address".into(), nameless, Probed::Fails("timed_out"), SEARCHED),
    ];
    check(rows, connect).await;
}

#[tokio::test]
async fn redirect_on_the_same_origin_keeps_method_and_body() {
    for status in [301, 302, 307, 308] {
        let odd = OddHttp::start(move |seen| match seen.path.as_str() {
            "/mcp" => Reply::empty(status).header("Location", "/moved"),
            _ => compliant_http(SupportedEras::Modern, seen),
        });
        let odd = odd.await.unwrap();
        let met = address(&odd, patient(), None).await;
        assert_eq!(Probed::of(&met), WITHOUT_SESSION, "{status}: {met:?}");
        assert_eq!(odd.briefs(), ["POST server/discover", "POST /moved server/discover"], "{status}");
        let seen = odd.seen();
        assert_eq!(seen[0].body(), seen[1].body(), "{status}");
        assert_eq!(seen[0].header("mcp-method"), seen[1].header("mcp-method"), "{status}");
    }
}

/// CVE-2026-64684: custom headers were sent to another origin.
#[tokio::test]
async fn redirect_to_another_origin_is_refused_without_a_fallback() {
    let other = OddHttp::start(|seen| compliant_http(SupportedEras::Modern, seen)).await.unwrap();
    let locations = [
        other.url(),
        format!("//{}/mcp", other.authority()),
        "https://127.0.0.1/mcp".to_owned(),
        "http://user@elsewhere.example/".to_owned(),
        "file:///etc/passwd".to_owned(),
        String::new(),
        "http://[".to_owned(),
        // A redirect loop.
        "/mcp".to_owned(),
    ];
    for location in locations {
        let target = location.clone();
        let odd = OddHttp::start(move |_| Reply::empty(307).header("Location", target.clone())).await.unwrap();
        let met = address(&odd, patient(), None).await;
        assert_eq!(Probed::of(&met), Probed::Fails("redirect"), "{location}");
        let once = if location == "/mcp" { 4 } else { 1 };
        assert_eq!(odd.briefs(), vec!["POST server/discover"; once], "{location}");
    }
    let odd = OddHttp::start(|_| Reply::empty(303).header("Location", "/moved")).await.unwrap();
    assert_eq!(Probed::of(&address(&odd, patient(), None).await), Probed::Fails("redirect"));
    assert!(other.briefs().is_empty(), "{:?}", other.briefs());
}

#[tokio::test]
async fn pinned_era_is_the_only_one_used() {
    let script = |speaks| -> Script { Box::new(move |seen| compliant_http(speaks, seen)) };
    let with_session: Vec<Row> = vec![
        ("both".into(), script(SupportedEras::Both), WITH_SESSION, &FOUND[1..]),
        ("modern".into(), script(SupportedEras::Modern), Probed::Fails("handshake"), &["POST initialize"]),
        ("oldest".into(), Box::new(event_stream("/messages")), OLDEST, &OLDER[1..]),
    ];
    let without: Vec<Row> = vec![
        ("both".into(), script(SupportedEras::Both), WITHOUT_SESSION, ASKED),
        ("legacy".into(), script(SupportedEras::Legacy), Probed::Fails("no_common_revision"), ASKED),
        ("404".into(), Box::new(|_| Reply::empty(404)), Probed::Fails("no_common_revision"), ASKED),
    ];
    let pinned = |era| move || ConnectOptions { era, ..patient() };
    tokio::join!(check(with_session, pinned(EraChoice::Legacy)), check(without, pinned(EraChoice::Modern)));
}

#[tokio::test]
async fn pinned_transport_is_the_only_one_used() {
    let script = |speaks| -> Script { Box::new(move |seen| compliant_http(speaks, seen)) };
    let event_streams: Vec<Row> = vec![
        ("oldest".into(), Box::new(event_stream("/messages")), OLDEST, &OLDER[2..]),
        ("both".into(), script(SupportedEras::Both), Probed::Fails("http_status"), &OLDER[2..3]),
    ];
    let streamable: Vec<Row> = vec![
        ("legacy".into(), script(SupportedEras::Legacy), WITH_SESSION, FOUND),
        ("oldest".into(), Box::new(event_stream("/messages")), Probed::Fails("http_status"), &OLDER[..2]),
    ];
    let over = |http| move || ConnectOptions { http, ..patient() };
    tokio::join!(
        check(event_streams, over(HttpTransportChoice::EventStream)),
        check(streamable, over(HttpTransportChoice::Streamable)),
    );
    let odd = OddHttp::start(event_stream("/messages")).await.unwrap();
    let both = ConnectOptions { era: EraChoice::Modern, http: HttpTransportChoice::EventStream, ..patient() };
    assert_eq!(Probed::of(&address(&odd, both, None).await), Probed::Fails("no_common_revision"));
    assert!(odd.briefs().is_empty(), "nothing is sent for an impossible combination");
}
