//! Every route there is, and everybody who may not come in there.

use serde_json::Value;
use toolway_gateway::route::{Guard, Route};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name},
};

use crate::{knocking::Knocker, stage::Stage};

async fn stage() -> Stage {
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let stage = Stage::with(TestHost::with(&files, "files")).await;
    stage.host.ready("files").await;
    stage
}

fn method(route: &Route) -> &'static str {
    if route.methods().starts_with("POST") { "POST" } else { "GET" }
}

async fn status(knocker: &Knocker, route: &Route, headers: &[(&str, &str)]) -> u16 {
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", "application/json")]).collect();
    knocker.send(method(route), &headers, "{}").await.status
}

/// CVE-2026-79744, CVE-2025-64443, CVE-2026-33252: the same guard on every route, none left out. A route without a
/// guard fails here, because [`Route::every`] has it.
#[tokio::test]
async fn every_route_is_guarded() {
    let stage = stage().await;
    let key = stage.key.as_ref().unwrap().expose();
    for route in Route::every(&name("files")) {
        let path = route.path();
        let (with, without) = (stage.knocker(&path, Some(key)), stage.knocker(&path, None));
        let wrong = stage.knocker(&path, Some("tw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
        // Whoever may not come in is not told whether anything is there.
        let stranger = if route.guard() == Guard::Key { 401 } else { 200 };
        assert_eq!(status(&without, &route, &[]).await, stranger, "{path}: no key");
        assert_eq!(status(&wrong, &route, &[]).await, stranger, "{path}: wrong key");
        for host in ["evil.example", "127.0.0.1.evil.example:80", ""] {
            assert_eq!(status(&with, &route, &[("host", host)]).await, 403, "{path}: Host {host:?}");
        }
        for origin in ["http://evil.example", "null", "https://127.0.0.1.evil.example"] {
            assert_eq!(status(&with, &route, &[("origin", origin)]).await, 403, "{path}: Origin {origin}");
        }
        let patched = with.send("PATCH", &[], "").await;
        assert_eq!((patched.status, patched.headers["allow"].to_str().unwrap()), (405, route.methods()), "{path}");
        assert_eq!(without.send("PATCH", &[], "").await.status, if stranger == 401 { 401 } else { 405 }, "{path}");
        // A stream does not end by itself; its story is in `crossing`.
        if route == Route::Sse {
            continue;
        }
        let expected = match (&route, method(&route)) {
            // What is said there belongs to a stream, and there is none.
            (Route::Messages, _) => 404,
            (_, "POST") => 400,
            _ => 200,
        };
        assert_eq!(status(&with, &route, &[]).await, expected, "{path}: nothing is wrong but an empty message");
    }
    assert_eq!(stage.knocker("/nowhere", Some(key)).get().await.status, 404);
}

#[tokio::test]
async fn a_key_is_taken_from_its_header_and_from_nowhere_else() {
    let stage = stage().await;
    let key = stage.key.as_ref().unwrap().expose();
    for path in [format!("/servers?key={key}"), format!("/servers?access_token={key}")] {
        let refused = stage.knocker(&path, None).send("GET", &[("cookie", &format!("key={key}"))], "").await;
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
    }
}

#[tokio::test]
async fn health_says_ok_and_nothing_else() {
    let stage = stage().await;
    let health = stage.knocker("/health", None).get().await;
    assert_eq!((health.status, health.headers["cache-control"].to_str().unwrap()), (200, "no-store"));
    assert_eq!(health.text().await, "ok");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_its_reason() {
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let gone = toolway_host::connection::ServerAddress::http("http://127.0.0.1:9/mcp".parse().unwrap());
    let mut wanted =
        toolway_host::connection::WantedServer::new(name("gone"), toolway_host::connection::Way::Address(gone));
    wanted.need = toolway_config::server::Need::Required;
    let stage = Stage::with(TestHost::with(&files, "files").wanted(wanted)).await;
    stage.host.ready("files").await;
    stage.host.until("gone", |phase| phase.is_settled()).await;
    let key = stage.key.as_ref().unwrap().expose().to_owned();
    let knocker = stage.knocker("/servers", Some(&key));
    let servers: Value = serde_json::from_str(&knocker.get().await.text().await).unwrap();
    let (files, gone) = (&servers["servers"][0], &servers["servers"][1]);
    assert_eq!(
        (&files["name"], &files["state"], &files["counts"]["tools"]),
        (&"files".into(), &"ready".into(), &1.into())
    );
    assert_eq!((&gone["name"], &files["because"]), (&"gone".into(), &Value::Null));
    assert!(gone["because"].as_str().unwrap().contains("127.0.0.1:9"), "{gone}");

    let table = knocker.send("GET", &[("accept", "text/html,*/*")], "").await;
    assert_eq!(table.headers["content-type"], "text/plain; charset=utf-8");
    let table = table.text().await;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "STATE", "TOOLS", "RESOURCES", "PROMPTS", "BECAUSE"]);
    assert_eq!(rows[1], ["files", "ready", "1", "1", "1"]);
    assert_eq!(rows[2][0], "gone");

    let ready = knocker.at("/ready").get().await;
    assert_eq!(ready.status, 503);
    let ready: Value = serde_json::from_str(&ready.text().await).unwrap();
    assert_eq!((&ready["ready"], &ready["missing"][0]["name"]), (&false.into(), &"gone".into()));
    assert!(ready["missing"][0]["because"].is_string(), "{ready}");
}
