//! Servers that nobody signs in to: tokens are asked for with what is configured, and nobody notices.

use std::path::Path;

use toolway_config::{Config, document::Document};
use toolway_host::{connection::Phase, whose_move::WhoseMove};
use toolway_testkit::{
    authorization::{AuthorizationServer, Endpoint, ProtectedServer, Quirk},
    test_host::TestHost,
};

/// A configuration of one server whose tokens this authorization server gives, asked like this.
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
async fn a_client_that_is_configured_needs_nobody() {
    let (login, server) = stage().await;
    let host = TestHost::new().config(config(&login, &server, CLIENT)).start().await;
    host.ready("api").await;
    assert_eq!(login.count(Endpoint::Grant), 1);
    assert_eq!(login.count(Endpoint::Page) + login.count(Endpoint::Registration), 0);
    assert!(!server.heard().contains("s3cret-word"), "the secret is for the authorization server only");
    server.drops_tokens_of(&login);
    let outcome = host.call("api__hello").await;
    let said = outcome.result().map(ToString::to_string).unwrap_or_default();
    assert!(said.contains("hello robot"), "{outcome:?}");
    assert_eq!(login.count(Endpoint::Grant), 2, "what was dropped is replaced in the middle of a call");
}

/// CVE-2026-104850, WS-2026-0196: whoever takes a server over names whoever gets the secret.
#[tokio::test]
async fn a_secret_goes_nowhere_until_the_operator_says_where() {
    let (login, server) = stage().await;
    let host = TestHost::new().config(with(&server, CLIENT, "{}")).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert_eq!(
        status.phase.to_string(),
        format!(
            "no token: the client's secret is not sent to {}, which only the server names; if it is the right one, write \
             it into oauth.issuer; see `auth` of its entry",
            login.issuer()
        )
    );
    assert_eq!(login.requests(), login.count(Endpoint::Metadata), "only its metadata was read");

    let evil = AuthorizationServer::start().await.unwrap();
    server.moves_to(&evil);
    let host = TestHost::new().config(config(&login, &server, CLIENT)).start().await;
    host.until("api", |phase| !matches!(phase, Phase::Connecting { .. })).await;
    assert_eq!((login.count(Endpoint::Grant), evil.connections()), (1, 0), "the operator's word holds");
}

#[tokio::test]
async fn a_client_that_is_refused_is_the_operators_to_look_at_and_is_not_tried_over_and_over() {
    let (login, server) = stage().await;
    let host =
        TestHost::new().config(config(&login, &server, &CLIENT.replace("s3cret-word", "wrong-word"))).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert_eq!(
        status.phase.to_string(),
        format!(
            "no token: {}/token refuses: invalid_client (it is not this client's secret); see `auth` of its entry",
            login.issuer()
        )
    );
    assert_eq!(status.last_error.unwrap().whose_move, WhoseMove::Operator);
    assert_eq!(login.count(Endpoint::Grant), 1);
}

#[tokio::test]
async fn an_authorization_server_that_is_away_is_waited_for() {
    let (login, server) = stage().await;
    login.told([Quirk::TokensAt("http://127.0.0.1:1/token".to_owned())]);
    let host = TestHost::new().config(config(&login, &server, CLIENT)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Waiting { .. })).await;
    assert!(
        status
            .phase
            .to_string()
            .contains("cannot reach whoever gives its tokens: cannot reach http://127.0.0.1:1/token"),
        "{}",
        status.phase
    );
    login.told([]);
    host.ready("api").await;
}

#[tokio::test]
async fn what_the_platform_says_is_read_again_for_each_token() {
    let (login, server) = stage().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("word");
    std::fs::write(&file, "first-word\n").unwrap();
    login.takes_word("first-word");
    // A token that ends so soon is replaced before it is used again.
    login.told([Quirk::Lasts(20)]);
    let auth = format!(r#"{{ "kind": "workload", "assertion": "file:{}" }}"#, file.display());
    let host = TestHost::new().config(config(&login, &server, &auth)).start().await;
    host.ready("api").await;
    std::fs::write(&file, "second-word\n").unwrap();
    login.takes_word("second-word");
    server.drops_tokens_of(&login);
    let outcome = host.call("api__hello").await;
    assert!(outcome.result().is_some(), "{outcome:?}");
    let sent = login.fields(Endpoint::Grant);
    assert!(sent.last().unwrap().contains(&("assertion".to_owned(), "second-word".to_owned())), "{sent:?}");
    assert!(!server.heard().contains("-word"));
}
