//! Servers that nobody signs in to: tokens are asked for with what is configured, and nobody notices.

use std::path::Path;

use toolway_config::{Config, document::Document};
use toolway_host::{connection::Phase, whose_move::WhoseMove};
use toolway_testkit::{
    authorization::{AuthorizationServer, Endpoint, ProtectedServer, Quirk},
    odd::{
        http::{OddHttp, Reply, Seen, polite_http},
        polite::Speaks,
    },
    test_host::{TestHost, within},
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
        status.phase.to_string().contains("no token for now: cannot reach http://127.0.0.1:1/token"),
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

/// Greets everybody in a session, and lists nothing: with this status.
async fn lists_nothing(status: u16) -> OddHttp {
    OddHttp::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("POST", "tools/list") => Reply::empty(status).header("WWW-Authenticate", "Bearer"),
        _ => polite_http(Speaks::Legacy, seen),
    })
    .await
    .unwrap()
}

/// A server that greets and then does not take the token would keep a session for each time it is tried.
#[tokio::test]
async fn a_session_in_which_a_token_is_refused_is_ended_before_another_is_begun() {
    let (login, _) = stage().await;
    for (status, tries) in [(401, 2), (403, 1)] {
        let server = lists_nothing(status).await;
        let text = format!(
            r#"{{ "mcpServers": {{ "api": {{ "url": "{}", "auth": {CLIENT}, "oauth": {{ "issuer": "{}" }} }} }} }}"#,
            server.url(),
            login.issuer()
        );
        let config = Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap();
        let host = TestHost::new().config(config).start().await;
        let count = |seen: &[Seen], verb: &str, method: &str| {
            seen.iter().filter(|seen| seen.verb == verb && seen.method() == method).count()
        };
        let begun_and_ended =
            |seen: &[Seen]| (count(seen, "POST", "initialize"), count(seen, "DELETE", "")) >= (tries, tries);
        within("the end of each session", server.until(begun_and_ended)).await;
        if status == 403 {
            // Another token of the same kind would be no better: nobody tries again by themselves.
            let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
            assert_eq!(status.last_error.unwrap().whose_move, WhoseMove::Operator);
            assert_eq!(count(&server.seen(), "POST", "initialize"), 1);
        }
        within("the shutdown", host.host.shutdown()).await;
        let seen = server.seen();
        assert_eq!(count(&seen, "POST", "initialize"), count(&seen, "DELETE", ""), "{:?}", server.briefs());
    }
}
