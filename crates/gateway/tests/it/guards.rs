//! Guards of all routes.

use std::sync::Arc;

use serde_json::Value;
use toolway_gateway::{
    access::{Access, KeyFile},
    route::{Guard, Route},
};
use toolway_host::{
    catalog::Filter,
    connection::{ServerAddress, WantedServer, Way},
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name},
};

use crate::{raw_client::RawClient, test_gateway::TestGateway};

async fn gateway() -> TestGateway {
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let gateway = TestGateway::with(TestHost::with(&files, "files")).await;
    gateway.host.ready("files").await;
    gateway
}

fn method(route: &Route) -> &'static str {
    if route.methods().starts_with("POST") { "POST" } else { "GET" }
}

async fn status(raw_client: &RawClient, route: &Route, headers: &[(&str, &str)]) -> u16 {
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", "application/json")]).collect();
    raw_client.send(method(route), &headers, "{}").await.status
}

/// CVE-2026-79744, CVE-2025-64443, CVE-2026-33252: the same guard on every route. A route without a guard fails here,
/// because [`Route::every`] contains it.
#[tokio::test]
async fn every_route_is_guarded() {
    let gateway = gateway().await;
    let key = gateway.key.as_ref().unwrap().expose();
    for route in Route::every(&name("files")) {
        let path = route.path();
        let (with, without) = (gateway.raw_client(&path, Some(key)), gateway.raw_client(&path, None));
        let wrong = gateway.raw_client(&path, Some("tw_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
        // An unauthenticated client does not learn whether the path exists.
        let unauthenticated = if route.guard() == Guard::Key { 401 } else { 200 };
        assert_eq!(status(&without, &route, &[]).await, unauthenticated, "{path}: no key");
        assert_eq!(status(&wrong, &route, &[]).await, unauthenticated, "{path}: wrong key");
        for host in ["evil.example", "127.0.0.1.evil.example:80", ""] {
            assert_eq!(status(&with, &route, &[("host", host)]).await, 403, "{path}: Host {host:?}");
        }
        for origin in ["http://evil.example", "null", "https://127.0.0.1.evil.example"] {
            assert_eq!(status(&with, &route, &[("origin", origin)]).await, 403, "{path}: Origin {origin}");
        }
        let patched = with.send("PATCH", &[], "").await;
        assert_eq!((patched.status, patched.headers["allow"].to_str().unwrap()), (405, route.methods()), "{path}");
        assert_eq!(
            without.send("PATCH", &[], "").await.status,
            if unauthenticated == 401 { 401 } else { 405 },
            "{path}"
        );
        // The stream does not end by itself; it is tested in `eras`.
        if route == Route::Sse {
            continue;
        }
        let expected = match (&route, method(&route)) {
            // A message needs a stream, which does not exist here.
            (Route::Messages, _) => 404,
            (_, "POST") => 400,
            _ => 200,
        };
        assert_eq!(status(&with, &route, &[]).await, expected, "{path}: only the message is invalid");
    }
    assert_eq!(gateway.raw_client("/nowhere", Some(key)).get().await.status, 404);
}

#[tokio::test]
async fn client_that_tries_oauth_without_a_key_learns_how_to_get_one() {
    let gateway = gateway().await;
    for (method, path) in [
        ("POST", "/register"),
        ("GET", "/.well-known/oauth-protected-resource"),
        ("GET", "/.well-known/oauth-protected-resource/mcp"),
        ("GET", "/.well-known/oauth-authorization-server"),
        ("GET", "/.well-known/openid-configuration"),
    ] {
        let refused = gateway.raw_client(path, None).send(method, &[], "{}").await;
        assert_eq!(refused.status, 404, "{path}");
        let error: Value = serde_json::from_str(&refused.text().await).unwrap();
        assert!(error["error_description"].as_str().unwrap().contains("`toolway clients add <name>`"), "{error}");
    }
}

#[tokio::test]
async fn key_is_accepted_only_in_the_authorization_header() {
    let gateway = gateway().await;
    let key = gateway.key.as_ref().unwrap().expose();
    for path in [format!("/servers?key={key}"), format!("/servers?access_token={key}")] {
        let refused = gateway.raw_client(&path, None).send("GET", &[("cookie", &format!("key={key}"))], "").await;
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
    }
}

#[tokio::test]
async fn health_reveals_nothing_but_ok() {
    let gateway = gateway().await;
    let health = gateway.raw_client("/health", None).get().await;
    assert_eq!((health.status, health.headers["cache-control"].to_str().unwrap()), (200, "no-store"));
    assert_eq!(health.text().await, "ok");
}

#[tokio::test]
async fn unavailable_server_is_shown_with_its_reason() {
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    let gone = toolway_host::connection::ServerAddress::http("http://127.0.0.1:9/mcp".parse().unwrap());
    let mut wanted =
        toolway_host::connection::WantedServer::new(name("gone"), toolway_host::connection::Way::Address(gone));
    wanted.need = toolway_config::server::Need::Required;
    let gateway = TestGateway::with(TestHost::with(&files, "files").wanted(wanted)).await;
    gateway.host.ready("files").await;
    gateway.host.until("gone", |phase| phase.is_settled()).await;
    let key = gateway.key.as_ref().unwrap().expose().to_owned();
    let raw_client = gateway.raw_client("/servers", Some(&key));
    let servers: Value = serde_json::from_str(&raw_client.get().await.text().await).unwrap();
    let (files, gone) = (&servers["servers"][0], &servers["servers"][1]);
    assert_eq!(
        (&files["name"], &files["state"], &files["counts"]["tools"]),
        (&"files".into(), &"ready".into(), &1.into())
    );
    assert_eq!((&gone["name"], &files["because"]), (&"gone".into(), &Value::Null));
    let because = gone["because"].as_str().unwrap();
    assert!(because.starts_with("the server cannot be reached") && because.contains("(`unreachable`, id "), "{gone}");
    assert!(!because.contains("127.0.0.1:9"), "the address is for the operator: {gone}");

    let table = raw_client.send("GET", &[("accept", "text/html,*/*")], "").await;
    assert_eq!(table.headers["content-type"], "text/plain; charset=utf-8");
    let table = table.text().await;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "STATE", "TOOLS", "RESOURCES", "PROMPTS", "BECAUSE"]);
    assert_eq!(rows[1], ["files", "ready", "1", "1", "1"]);
    assert_eq!(rows[2][0], "gone");

    let ready = raw_client.at("/ready").get().await;
    assert_eq!(ready.status, 503);
    let ready: Value = serde_json::from_str(&ready.text().await).unwrap();
    assert_eq!((&ready["ready"], &ready["missing"][0]["name"]), (&false.into(), &"gone".into()));
    assert!(ready["missing"][0]["because"].is_string(), "{ready}");
}

#[tokio::test]
async fn readiness_and_counts_are_those_of_visible_servers_and_items() {
    let files = FixtureServer::new("files").tool("echo", "Give it back").tool("hidden", "Filtered");
    let address = ServerAddress::http("http://127.0.0.1:9/mcp".parse().unwrap());
    let mut gone = WantedServer::new(name("gone"), Way::Address(address));
    gone.need = toolway_config::server::Need::Required;
    let mut files = WantedServer::new(name("files"), Way::InProcess(files.service()));
    files.filter = Arc::new(Filter { exclude_tools: vec!["hidden".into()], ..Filter::default() });
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let key = file.add("editor", None, Some([name("files")].into())).unwrap();
    let (access, _) = Access::with_keys(Some(file)).unwrap();
    let gateway = TestGateway::open_to(TestHost::new().wanted(files).wanted(gone), access, None).await;
    gateway.host.ready("files").await;
    let client = gateway.raw_client("/servers", Some(key.expose()));
    assert_eq!(client.at("/ready").get().await.status, 200, "the missing server is hidden");
    let servers: Value = serde_json::from_str(&client.get().await.text().await).unwrap();
    assert_eq!(servers["servers"][0]["counts"]["tools"], 1, "{servers}");
}

/// RFC 9112, 3.2: intermediaries may use another one of the two.
#[tokio::test]
async fn two_host_headers_are_a_bad_request() {
    let gateway = gateway().await;
    let client = gateway.raw_client("/health", None);
    assert_eq!(client.send("GET", &[("host", "localhost"), ("host", "127.0.0.1")], "").await.status, 400);
}
