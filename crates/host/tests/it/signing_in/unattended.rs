//! Grants without a user: tokens are obtained with configured credentials.

use std::path::Path;

use toolway_config::{Config, document::Document};
use toolway_host::{connection::Phase, whose_move::WhoseMove};
use toolway_testkit::{
    authorization::{AuthorizationServer, Endpoint, ProtectedServer, Quirk},
    odd::{
        compliant::SupportedEras,
        http::{OddHttp, RecordedRequest, Reply, compliant_http},
    },
    test_host::{TestHost, within},
};

/// A configuration of one server with this authorization server and grant.
fn config(login: &AuthorizationServer, server: &ProtectedServer, auth: &str) -> Config {
    with(server, auth, &format!(r#"{{ "issuer": "{}" }}"#, login.issuer()))
}

fn with(server: &ProtectedServer, auth: &str, oauth: &str) -> Config {
    let url = server.url();
    let text = format!(r#"{{ "mcpServers": {{ "api": {{ "url": "{url}", "auth": {auth}, "oauth": {oauth} }} }} }}"#);
    Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap()
}

async fn stage() -> (AuthorizationServer, ProtectedServer) {
    let login = AuthorizationServer::start().await.unwrap();
    login.register("robot", Some("s3cret-word"));
    let server = ProtectedServer::start(&login).await.unwrap();
    (login, server)
}

const CLIENT: &str = r#"{ "kind": "clientCredentials", "clientId": "robot", "clientSecret": "s3cret-word" }"#;

#[tokio::test]
async fn client_credentials_work_without_a_user() {
    let (login, server) = stage().await;
    let host = TestHost::new().config(config(&login, &server, CLIENT)).start().await;
    host.ready("api").await;
    assert_eq!(login.count(Endpoint::Grant), 1);
    assert_eq!(login.count(Endpoint::Page) + login.count(Endpoint::Registration), 0);
    assert!(!server.received().contains("s3cret-word"), "the secret is for the authorization server only");
    server.reject_tokens_of(&login);
    let outcome = host.call("api__hello").await;
    let said = outcome.result().map(ToString::to_string).unwrap_or_default();
    assert!(said.contains("hello robot"), "{outcome:?}");
    assert_eq!(login.count(Endpoint::Grant), 2, "a revoked token is replaced during a call");
}

/// CVE-2026-104850, WS-2026-0196: a compromised server could name the authorization server that receives the secret.
#[tokio::test]
async fn secret_is_not_sent_to_an_issuer_named_only_by_the_server() {
    let (login, server) = stage().await;
    let host = TestHost::new().config(with(&server, CLIENT, "{}")).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert_eq!(
        status.phase.for_operator().as_str(),
        format!(
            "cannot get an access token: the client secret was not sent to `{}`: only the server names this issuer; if it is correct, set \
             `oauth.issuer`; check `auth` in the server's entry",
            login.issuer()
        )
    );
    assert_eq!(login.requests(), login.count(Endpoint::Metadata), "only its metadata was read");

    let evil = AuthorizationServer::start().await.unwrap();
    server.set_authorization_server(&evil);
    let host = TestHost::new().config(config(&login, &server, CLIENT)).start().await;
    host.until("api", |phase| !matches!(phase, Phase::Connecting { .. })).await;
    assert_eq!((login.count(Endpoint::Grant), evil.connections()), (1, 0), "the configured issuer is used");
}

#[tokio::test]
async fn refused_client_is_reported_to_the_operator_and_not_retried() {
    let (login, server) = stage().await;
    let host =
        TestHost::new().config(config(&login, &server, &CLIENT.replace("s3cret-word", "wrong-word"))).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert_eq!(
        status.phase.for_operator().as_str(),
        format!(
            "cannot get an access token: token request to `{}/token` refused: `invalid_client` (wrong client secret); check `auth` in the server's entry",
            login.issuer()
        )
    );
    assert_eq!(status.last_error.unwrap().whose_move, WhoseMove::Operator);
    assert_eq!(login.count(Endpoint::Grant), 1);
}

#[tokio::test]
async fn unavailable_authorization_server_is_retried() {
    let (login, server) = stage().await;
    login.set_quirks([Quirk::TokenEndpointAt("http://127.0.0.1:1/token".to_owned())]);
    let host = TestHost::new().config(config(&login, &server, CLIENT)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Waiting { .. })).await;
    assert!(
        status
            .phase
            .for_operator()
            .as_str()
            .contains("no access token available: cannot reach `http://127.0.0.1:1/token`"),
        "{}",
        status.phase.for_operator().as_str()
    );
    login.set_quirks([]);
    host.ready("api").await;
}

#[tokio::test]
async fn assertion_is_read_again_for_each_token() {
    let (login, server) = stage().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("word");
    std::fs::write(&file, "first-word\n").unwrap();
    login.accept_assertion("first-word");
    // A token with such a short lifetime is replaced before its next use.
    login.set_quirks([Quirk::TokenLifetime(20)]);
    let auth = format!(r#"{{ "kind": "workload", "assertion": "file:{}" }}"#, file.display());
    let host = TestHost::new().config(config(&login, &server, &auth)).start().await;
    host.ready("api").await;
    std::fs::write(&file, "second-word\n").unwrap();
    login.accept_assertion("second-word");
    server.reject_tokens_of(&login);
    let outcome = host.call("api__hello").await;
    assert!(outcome.result().is_some(), "{outcome:?}");
    let sent = login.fields(Endpoint::Grant);
    assert!(sent.last().unwrap().contains(&("assertion".to_owned(), "second-word".to_owned())), "{sent:?}");
    assert!(!server.received().contains("-word"));
}

/// Accepts the handshake in a session, and refuses to list with this status.
async fn refuses_to_list(status: u16) -> OddHttp {
    OddHttp::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("POST", "tools/list") => Reply::empty(status).header("WWW-Authenticate", "Bearer"),
        _ => compliant_http(SupportedEras::Legacy, seen),
    })
    .await
    .unwrap()
}

/// Otherwise a server that refuses the token after the handshake would keep a session for each attempt.
#[tokio::test]
async fn session_with_a_refused_token_is_ended_before_the_next_one() {
    let (login, _) = stage().await;
    for (status, tries) in [(401, 2), (403, 1)] {
        let server = refuses_to_list(status).await;
        let text = format!(
            r#"{{ "mcpServers": {{ "api": {{ "url": "{}", "auth": {CLIENT}, "oauth": {{ "issuer": "{}" }} }} }} }}"#,
            server.url(),
            login.issuer()
        );
        let config = Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap();
        let host = TestHost::new().config(config).start().await;
        let count = |seen: &[RecordedRequest], verb: &str, method: &str| {
            seen.iter().filter(|seen| seen.verb == verb && seen.method() == method).count()
        };
        let begun_and_ended =
            |seen: &[RecordedRequest]| (count(seen, "POST", "initialize"), count(seen, "DELETE", "")) >= (tries, tries);
        within("the end of each session", server.until(begun_and_ended)).await;
        if status == 403 {
            // Another token would have the same rights, so there is no retry.
            let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
            assert_eq!(status.last_error.unwrap().whose_move, WhoseMove::Operator);
            assert_eq!(count(&server.seen(), "POST", "initialize"), 1);
        }
        within("the shutdown", host.host.shutdown()).await;
        let seen = server.seen();
        assert_eq!(count(&seen, "POST", "initialize"), count(&seen, "DELETE", ""), "{:?}", server.briefs());
    }
}
