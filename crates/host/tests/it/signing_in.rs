//! What servers see of who asks: what is configured, and nothing where it is not.

use std::path::Path;

use toolway_config::{Config, document::Document};
use toolway_host::{connection::Phase, whose_move::WhoseMove};
use toolway_testkit::{
    odd::{
        http::{OddHttp, Reply, Seen, polite_http},
        polite::Speaks,
    },
    test_host::TestHost,
};

/// A configuration of one server with this said about it.
fn config(url: &str, said: &str) -> Config {
    let text = format!("{{ \"mcpServers\": {{ \"api\": {{ \"url\": \"{url}\", {said} }} }} }}");
    Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap()
}

fn header(seen: &Seen, name: &str) -> Option<String> {
    seen.header(name).map(str::to_owned)
}

/// A server that answers whoever sends this header, and nobody else.
async fn guarded(name: &'static str, value: &'static str) -> OddHttp {
    OddHttp::start(move |seen| {
        if header(seen, name).as_deref() == Some(value) {
            polite_http(Speaks::Modern, seen)
        } else {
            Reply::empty(401).header("WWW-Authenticate", "Bearer")
        }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn each_kind_of_configured_credential_is_sent_with_every_request() {
    for (said, name, value) in [
        (r#""auth": { "kind": "bearer", "token": "t0ken" }"#, "authorization", "Bearer t0ken"),
        (r#""auth": { "kind": "apiKey", "key": "k3y" }"#, "x-api-key", "k3y"),
        (r#""auth": { "kind": "apiKey", "key": "k3y", "header": "X-Team-Key" }"#, "x-team-key", "k3y"),
        (
            r#""auth": { "kind": "basic", "username": "ada", "password": "s3cret" }"#,
            "authorization",
            "Basic YWRhOnMzY3JldA==",
        ),
    ] {
        let server = guarded(name, value).await;
        let host = TestHost::new().config(config(&server.url(), said)).start().await;
        host.ready("api").await;
        assert!(server.seen().iter().all(|seen| header(seen, name).as_deref() == Some(value)), "{said}");
    }
}

#[tokio::test]
async fn a_configured_credential_that_is_refused_is_the_operators_to_change() {
    let server = guarded("authorization", "Bearer other").await;
    let said = r#""auth": { "kind": "bearer", "token": "t0ken" }"#;
    let host = TestHost::new().config(config(&server.url(), said)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert_eq!(status.phase.to_string(), "it refused the configured `Authorization` header (HTTP 401)");
    assert_eq!(status.last_error.unwrap().whose_move, WhoseMove::Operator);
}

#[tokio::test]
async fn a_server_that_nobody_has_signed_in_to_says_who_has_to_do_what() {
    let server = guarded("authorization", "Bearer other").await;
    let host = TestHost::new().config(config(&server.url(), r#""description": "x""#)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::SignInNeeded { .. })).await;
    assert_eq!(status.phase.to_string(), "somebody has to sign in: run `toolway login api`");
    let host = TestHost::new().config(config(&server.url(), r#""auth": "none""#)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::SignInNeeded { .. })).await;
    assert_eq!(status.phase.to_string(), "somebody has to sign in");
    assert!(server.seen().iter().all(|seen| header(seen, "authorization").is_none()));
}
