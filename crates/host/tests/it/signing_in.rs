//! Credentials that servers receive: configured ones, a user's own sign-in, and never that of another user.

mod unattended;

use std::{path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolway_auth::{
    challenge::TokenChallenge,
    credential::Credential,
    session::Session,
    vault::{MemoryVault, Vault},
};
use toolway_config::{Config, document::Document, server::auth::SignIn};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, CallerContext, Target},
    connection::{
        ClaimedSession, Phase, SessionOwner, SessionStore, StoredSession,
        sign_in::{Principal, SignInChange, SignInOptions},
    },
    host::{FirstListingWait, Host, HostOptions},
    ports::HostPorts,
    record::RecordsError,
    whose_move::WhoseMove,
};
use toolway_testkit::{
    authorization::{AuthorizationServer, Endpoint, ProtectedServer, Quirk, ServerQuirk, user::TestUser},
    odd::{
        compliant::SupportedEras,
        http::{OddHttp, RecordedRequest, Reply, compliant_http},
    },
    test_host::{TestHost, name},
};
use toolway_wire::{json::Raw, message::ClientCapabilities};
use uuid::Uuid;

/// A configuration of one server with these settings.
fn config(url: &str, said: &str) -> Config {
    let text = format!("{{ \"mcpServers\": {{ \"api\": {{ \"url\": \"{url}\", {said} }} }} }}");
    Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap()
}

fn header(seen: &RecordedRequest, name: &str) -> Option<String> {
    seen.header(name).map(str::to_owned)
}

/// A server that requires this header.
async fn guarded(name: &'static str, value: &'static str) -> OddHttp {
    OddHttp::start(move |seen| {
        if header(seen, name).as_deref() == Some(value) {
            compliant_http(SupportedEras::Modern, seen)
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
async fn refused_configured_credential_is_reported_to_the_operator() {
    let server = guarded("authorization", "Bearer other").await;
    let said = r#""auth": { "kind": "bearer", "token": "t0ken" }"#;
    let host = TestHost::new().config(config(&server.url(), said)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert_eq!(
        status.phase.for_operator().as_str(),
        "the server refused the configured `Authorization` header (HTTP 401)"
    );
    assert_eq!(status.last_error.unwrap().whose_move, WhoseMove::Operator);
}

#[tokio::test]
async fn status_says_how_to_sign_in() {
    let server = guarded("authorization", "Bearer other").await;
    let host = TestHost::new().config(config(&server.url(), r#""description": "x""#)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::SignInRequired { .. })).await;
    let text = status.phase.for_operator();
    assert!(text.as_str().starts_with("sign-in required: it names no authorization server"), "{text:?}");
    let host = TestHost::new().config(config(&server.url(), r#""auth": "none""#)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::SignInRequired { .. })).await;
    assert_eq!(status.phase.for_operator().as_str(), "sign-in required");
    assert!(server.seen().iter().all(|seen| header(seen, "authorization").is_none()));
}

/// Otherwise the authorization code would be sent to a token endpoint chosen by the server.
#[tokio::test]
async fn authorization_url_requires_a_token_url_or_issuer() {
    let server = guarded("authorization", "Bearer other").await;
    let said = r#""oauth": { "authorizationUrl": "https://login.example/authorize" }"#;
    let host = TestHost::new().config(config(&server.url(), said)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert_eq!(
        status.phase.for_operator().as_str(),
        "`oauth.authorizationUrl` requires `oauth.tokenUrl`, `oauth.metadataUrl` or `oauth.issuer`"
    );
    assert!(server.seen().is_empty());
}

/// An authorization server, a protected server, and the vault.
struct World {
    vault: Arc<dyn Vault>,
    login: AuthorizationServer,
    server: ProtectedServer,
}

impl World {
    async fn new() -> Self {
        let login = AuthorizationServer::start().await.unwrap();
        let server = ProtectedServer::start(&login).await.unwrap();
        Self { vault: Arc::new(MemoryVault::default()), login, server }
    }

    /// Signs the user `who` in for a principal.
    async fn sign_in(&self, who: &str, principal: &Principal) {
        let url = self.server.url().parse().unwrap();
        let (api, vault) = (name("api"), Arc::clone(&self.vault));
        let mut options = SignInOptions::default().session((&api, &url), &SignIn::default(), principal, vault).unwrap();
        options.browser = Some(Arc::new(TestUser::named(who)));
        Session::new(options).sign_in(&TokenChallenge::default()).await.unwrap();
    }

    async fn host(&self, said: &str) -> Host {
        let ports = HostPorts { vault: Arc::clone(&self.vault), ..HostPorts::default() };
        let host = Host::start(&config(&self.server.url(), said), ports, HostOptions::default()).await.unwrap();
        host.connect(&name("api")).await.unwrap();
        host
    }
}

async fn call(host: &Host, caller: Caller) -> CallOutcome {
    host.list(&name("api")).await.unwrap();
    let tool = host.catalog().tools().first().map(|tool| tool.public.clone()).unwrap();
    host.call(CallRequest::new(caller, Target::Tool(tool))).await
}

/// The greeting of the server, which names the signed-in user.
fn greeting(outcome: &CallOutcome) -> String {
    let text = outcome.result().map(ToString::to_string).unwrap_or_else(|| outcome.to_string());
    text.split('"').find(|part| part.starts_with("hello")).map(str::to_owned).unwrap_or(text)
}

fn client(name: &str) -> Caller {
    Caller::Client(name.into())
}

#[tokio::test]
async fn sign_in_is_not_used_for_other_callers() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    let host = world.host(r#""description": "x""#).await;
    assert!(matches!(call(&host, Caller::Terminal).await, CallOutcome::Answered(_)));

    let before = world.server.calls();
    let refused = call(&host, client("ada")).await;
    assert_eq!(
        refused.to_string(),
        "failed: `api` is not connected: sign-in required: ask the operator to run `toolway login api --client ada`"
    );
    assert_eq!(world.server.calls(), before, "no call was sent with the token of another user");

    world.sign_in("ada", &Principal::client("ada")).await;
    assert_eq!(greeting(&call(&host, client("ada")).await), "hello ada", "the new sign-in is used");
    assert_eq!(greeting(&call(&host, Caller::Terminal).await), "hello operator");
    let refused = call(&host, client("ben")).await;
    assert!(refused.to_string().contains("--client ben"), "{refused}");
    host.shutdown().await;
}

#[tokio::test]
async fn shared_sign_in_is_used_for_all_callers() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    let host = world.host(r#""auth": { "kind": "oauth", "shared": true }"#).await;
    assert_eq!(greeting(&call(&host, client("ada")).await), "hello operator");
    host.shutdown().await;
}

#[tokio::test]
async fn call_after_an_ended_sign_in_says_how_to_sign_in() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    let host = world.host(r#""description": "x""#).await;
    assert!(matches!(call(&host, Caller::Terminal).await, CallOutcome::Answered(_)));
    world.server.set_quirks([ServerQuirk::RejectsAllTokens]);
    let tool = host.catalog().tools().first().map(|tool| tool.public.clone()).unwrap();
    let refused = host.call(CallRequest::new(Caller::Terminal, Target::Tool(tool))).await;
    assert_eq!(refused.to_string(), "failed: `api` requires a sign-in: run `toolway login api`");
    for secret in world.login.secrets() {
        assert!(!refused.to_string().contains(&secret));
    }
    host.shutdown().await;
}

/// If sign-in is optional, the shared connection serves callers without sign-in; others use their own sign-in, also at a
/// server without sessions.
#[tokio::test]
async fn optional_sign_in_is_used_for_its_own_caller() {
    for said in [r#""description": "x""#, r#""sharing": "shared""#] {
        let world = World::new().await;
        world.server.set_quirks([ServerQuirk::AllowsAnonymous]);
        world.sign_in("ada", &Principal::client("ada")).await;
        world.sign_in("ben", &Principal::client("ben")).await;
        let host = world.host(said).await;
        for _ in 0..2 {
            for (caller, whom) in [
                (client("ada"), "ada"),
                (client("eve"), "anonymous"),
                (client("ben"), "ben"),
                (Caller::Terminal, "anonymous"),
            ] {
                assert_eq!(greeting(&call(&host, caller).await), format!("hello {whom}"), "{said}");
            }
        }
        world.sign_in("eve", &Principal::client("eve")).await;
        host.reconnect(&name("api")).await.unwrap();
        assert_eq!(
            greeting(&call(&host, client("eve")).await),
            "hello eve",
            "the new sign-in is used after a reconnect"
        );
        host.shutdown().await;
    }
}

#[tokio::test]
async fn sign_in_change_of_a_client_does_not_affect_others() {
    let world = World::new().await;
    world.server.set_quirks([ServerQuirk::AllowsAnonymous]);
    let (host, api) = (world.host(r#""description": "x""#).await, name("api"));
    for caller in [client("ada"), client("eve"), Caller::Terminal] {
        assert_eq!(greeting(&call(&host, caller).await), "hello anonymous");
    }
    world.sign_in("ada", &Principal::client("ada")).await;
    let before = world.server.requests();
    let status = host.apply_sign_in_change(&api, "ada", SignInChange::SignedIn).unwrap();
    assert_eq!((status.phase, world.server.requests()), (Phase::Ready, before), "no connection is replaced");
    assert_eq!(greeting(&call(&host, client("ada")).await), "hello ada");
    assert_eq!(greeting(&call(&host, client("eve")).await), "hello anonymous");

    let (key, _) = world.vault.all().await.unwrap().remove(0);
    world.vault.forget(&key).await.unwrap();
    host.apply_sign_in_change(&api, "ada", SignInChange::SignedOut).unwrap();
    assert_eq!(greeting(&call(&host, client("ada")).await), "hello anonymous", "her connection has ended");
    host.shutdown().await;
}

#[tokio::test]
async fn missing_sign_in_of_a_client_causes_no_repeated_handshakes() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    let host = world.host(r#""description": "x""#).await;
    assert_eq!(greeting(&call(&host, Caller::Terminal).await), "hello operator");
    let refused = call(&host, client("ada")).await.to_string();
    let before = world.server.requests();
    let again = futures_util::future::join_all((0..8).map(|_| call(&host, client("ada")))).await;
    assert!(again.iter().all(|outcome| outcome.to_string() == refused), "{refused}: {again:?}");
    assert_eq!(world.server.requests(), before);
    let other = call(&host, client("ben")).await;
    assert!(other.to_string().contains("--client ben"), "{other}");
    host.shutdown().await;
}

/// The clock is paused once the request has arrived, and then advances automatically.
#[tokio::test]
async fn concurrent_calls_share_one_request_to_a_hanging_authorization_server() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    world.login.set_quirks([Quirk::TokenLifetime(0)]);
    world.sign_in("ada", &Principal::client("ada")).await;
    let host = world.host(r#""description": "x""#).await;
    assert_eq!(greeting(&call(&host, Caller::Terminal).await), "hello operator");
    world.login.set_quirks([Quirk::Silent(Endpoint::Refresh)]);
    let calls = futures_util::future::join_all((0..8).map(|_| call(&host, client("ada"))));
    let arrival = async {
        world.login.until(Endpoint::Refresh, 1).await;
        tokio::time::pause();
        tokio::time::Instant::now()
    };
    let (outcomes, began) = tokio::join!(calls, arrival);
    let took = began.elapsed();
    tokio::time::resume();
    for outcome in &outcomes {
        let message = outcome.message().unwrap();
        assert!(message.as_str().contains("the access token cannot be refreshed"), "{message:?}");
    }
    assert!(took < std::time::Duration::from_secs(30), "{took:?}");
    assert_eq!(world.login.count(Endpoint::Refresh), 1);
    assert_eq!(greeting(&call(&host, Caller::Terminal).await), "hello operator", "other callers do not wait");
    tokio::time::pause();
    host.shutdown().await;
}

/// The authorization server is unavailable for a while: the sign-in stays valid, and the refresh is retried.
#[tokio::test]
async fn server_recovers_after_its_authorization_server_was_unavailable() {
    for ended in [false, true] {
        let world = World::new().await;
        world.login.set_quirks(ended.then_some(Quirk::TokenLifetime(0)));
        world.sign_in("operator", &Principal::local(None)).await;
        world.login.set_quirks([Quirk::RespondsWith(Endpoint::Refresh, 503)]);
        world.server.set_quirks([ServerQuirk::RejectsAllTokens]);
        if !ended {
            // A new token is not refreshed when it is refused.
            age(&*world.vault).await;
        }
        let host = world.host(r#""description": "x""#).await;
        let status = host.status(&name("api")).unwrap();
        let error = status.last_error.unwrap();
        assert_eq!((error.code, error.whose_move), ("no_token", WhoseMove::Supervisor), "{ended}");
        assert!(
            !matches!(status.phase, Phase::SignInRequired { .. }),
            "{ended}: {}",
            status.phase.for_operator().as_str()
        );

        world.login.set_quirks([]);
        world.server.set_quirks([]);
        let again = async {
            while !matches!(host.status(&name("api")).unwrap().phase, Phase::Ready) {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), again).await.unwrap();
        assert_eq!(greeting(&call(&host, Caller::Terminal).await), "hello operator");
        host.shutdown().await;
    }
}

/// Makes the stored token one minute older.
async fn age(vault: &dyn Vault) {
    let (key, kept) = vault.all().await.unwrap().remove(0);
    let mut credential = Credential::from_stored(&kept, &key).unwrap();
    credential.tokens.as_mut().unwrap().obtained_at -= 60;
    credential.store(vault, &key).await.unwrap();
}

/// Each refresh token is valid once: without waiting, the new one would be lost.
#[tokio::test]
async fn refresh_in_progress_is_stored_at_shutdown() {
    let world = World::new().await;
    world.login.set_quirks([Quirk::TokenLifetime(0)]);
    world.sign_in("operator", &Principal::local(None)).await;
    world.login.set_quirks([Quirk::Late(Endpoint::Refresh, std::time::Duration::from_millis(700))]);
    let ports = HostPorts { vault: Arc::clone(&world.vault), ..HostPorts::default() };
    let said = config(&world.server.url(), r#""description": "x""#);
    let host = Host::start(&said, ports, HostOptions::default()).await.unwrap();
    world.login.until(Endpoint::Refresh, 1).await;
    assert!(host.is_refreshing());
    host.shutdown().await;
    assert!(!host.is_refreshing());

    let host = world.host(r#""description": "x""#).await;
    assert_eq!(greeting(&call(&host, Caller::Terminal).await), "hello operator");
    assert_eq!((world.login.count(Endpoint::Refresh), world.login.revoked_sign_ins()), (1, 0));
    host.shutdown().await;
}

/// A listing with one user's sign-in is not shown to others with the same capabilities.
#[tokio::test]
async fn listing_of_a_signed_in_client_is_not_used_for_others() {
    let world = World::new().await;
    world.server.set_quirks([ServerQuirk::AllowsAnonymous, ServerQuirk::ToolPerUser]);
    world.sign_in("ada", &Principal::client("ada")).await;
    let host = world.host(r#""era": "legacy""#).await;
    host.list(&name("api")).await.unwrap();
    let with_forms = |who: &str| {
        let capabilities = ClientCapabilities(Raw::of(&serde_json::json!({ "elicitation": {} })));
        CallerContext { capabilities: Some(capabilities), ..CallerContext::from(&client(who)) }
    };
    for who in ["ada", "ben"] {
        let patience = FirstListingWait::of_listings(std::time::Duration::from_secs(5));
        if let Some(listed) = host.wait_for_first_listings(with_forms(who), |_| true, patience) {
            listed.await;
        }
        let catalog = host.catalog_of(&with_forms(who));
        let tools: Vec<_> = catalog.tools().iter().map(|tool| tool.public.to_string()).collect();
        assert_eq!(tools, ["api__hello", "api__of-anonymous"], "{who}");
    }
    assert!(world.server.received().contains("Bearer "), "a connection was opened with her sign-in");
    host.shutdown().await;
}

/// Remembers for whom sessions were claimed.
#[derive(Default)]
struct ClaimedFor(Mutex<Vec<SessionOwner>>);

impl SessionStore for ClaimedFor {
    fn put(&self, _: Uuid, _: SessionOwner, _: StoredSession) -> BoxFuture<'_, Result<(), RecordsError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn claim(&self, owner: SessionOwner) -> BoxFuture<'_, Result<Option<ClaimedSession>, RecordsError>> {
        self.0.lock().push(owner);
        Box::pin(std::future::ready(Ok(None)))
    }

    fn release(&self, _: Uuid) -> BoxFuture<'_, Result<(), RecordsError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove(&self, _: Uuid) -> BoxFuture<'_, Result<(), RecordsError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A store gives a session only to an equal owner.
#[tokio::test]
async fn a_session_of_one_sign_in_is_not_resumed_with_another() {
    let world = World::new().await;
    let profiles = [Principal::local(None), Principal::local(Some("work"))];
    for (who, principal) in ["ada", "ben"].into_iter().zip(&profiles) {
        world.sign_in(who, principal).await;
    }
    let claimed = Arc::<ClaimedFor>::default();
    let begin = async |principal: &Principal| {
        let ports = HostPorts { vault: Arc::clone(&world.vault), ..HostPorts::default() };
        let mut options = HostOptions { sessions: Some(Arc::clone(&claimed) as _), ..HostOptions::default() };
        options.sign_in.principal = principal.clone();
        let host = Host::start(&config(&world.server.url(), r#""era": "legacy""#), ports, options).await.unwrap();
        host.connect(&name("api")).await.unwrap();
        let greeted = greeting(&call(&host, Caller::Terminal).await);
        host.shutdown().await;
        let owner = claimed.0.lock().drain(..).next().unwrap();
        (greeted, owner)
    };
    let (hello_ada, ada) = begin(&profiles[0]).await;
    let (hello_ben, ben) = begin(&profiles[1]).await;
    assert_eq!([hello_ada, hello_ben], ["hello ada", "hello ben"]);
    assert_eq!(SessionOwner { profile: ada.profile.clone(), ..ben.clone() }, ada, "only the sign-in differs");
    assert_ne!(ben.profile, ada.profile);
    assert_eq!(begin(&profiles[0]).await.1, ada, "the same sign-in gets its own session again");
}
