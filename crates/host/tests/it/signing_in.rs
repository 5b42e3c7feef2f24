//! What servers see of who asks: what is configured, what somebody signed in to, and nothing of anybody else's.

mod unattended;

use std::{path::Path, sync::Arc};

use toolway_auth::{
    challenge::Demand,
    credential::Credential,
    session::Session,
    vault::{MemoryVault, Vault},
};
use toolway_config::{Config, document::Document, server::auth::SignIn};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, OnBehalf, Target},
    connection::{
        Phase,
        sign_in::{Principal, SignInOptions, Signing},
    },
    host::{Host, HostOptions},
    ports::HostPorts,
    whose_move::WhoseMove,
};
use toolway_testkit::{
    authorization::{AuthorizationServer, Endpoint, Oddity, ProtectedServer, Quirk, person::Person},
    odd::{
        http::{OddHttp, Reply, Seen, polite_http},
        polite::Speaks,
    },
    test_host::{TestHost, name},
};
use toolway_wire::{json::Raw, message::ClientCapabilities};

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

/// Else whoever the server names would be given what was meant for the operator's page.
#[tokio::test]
async fn a_page_of_the_operators_needs_to_know_where_its_codes_go() {
    let server = guarded("authorization", "Bearer other").await;
    let said = r#""oauth": { "authorizationUrl": "https://login.example/authorize" }"#;
    let host = TestHost::new().config(config(&server.url(), said)).start().await;
    let status = host.until("api", |phase| matches!(phase, Phase::Failed { .. })).await;
    assert_eq!(
        status.phase.to_string(),
        "`oauth.authorizationUrl` needs `oauth.tokenUrl` beside it, or `oauth.metadataUrl` or `oauth.issuer`"
    );
    assert!(server.seen().is_empty());
}

/// A gateway's host, and the vault it shares with whoever signs in.
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

    /// Somebody signs in on behalf of a principal.
    async fn sign_in(&self, who: &str, principal: &Principal) {
        let url = self.server.url().parse().unwrap();
        let (api, vault) = (name("api"), Arc::clone(&self.vault));
        let mut options = SignInOptions::default().session((&api, &url), &SignIn::default(), principal, vault).unwrap();
        options.browser = Some(Arc::new(Person::named(who)));
        Session::new(options).sign_in(&Demand::default()).await.unwrap();
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

/// What the server says to whoever called.
fn whose(outcome: &CallOutcome) -> String {
    let text = outcome.result().map(ToString::to_string).unwrap_or_else(|| outcome.to_string());
    text.split('"').find(|part| part.starts_with("hello")).map(str::to_owned).unwrap_or(text)
}

fn client(name: &str) -> Caller {
    Caller::Client(name.into())
}

#[tokio::test]
async fn what_one_signed_in_to_is_used_for_nobody_else() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    let host = world.host(r#""description": "x""#).await;
    assert!(matches!(call(&host, Caller::Terminal).await, CallOutcome::Answered(_)));

    let before = world.server.calls();
    let refused = call(&host, client("ada")).await;
    assert_eq!(
        refused.to_string(),
        "failed: `api` is not connected: somebody has to sign in: the operator runs `toolway login api --client ada`"
    );
    assert_eq!(world.server.calls(), before, "nothing of hers arrived with somebody else's token");

    world.sign_in("ada", &Principal::client("ada")).await;
    assert_eq!(whose(&call(&host, client("ada")).await), "hello ada", "and it is noticed");
    assert_eq!(whose(&call(&host, Caller::Terminal).await), "hello operator");
    let refused = call(&host, client("ben")).await;
    assert!(refused.to_string().contains("--client ben"), "{refused}");
    host.shutdown().await;
}

#[tokio::test]
async fn a_sign_in_is_shared_where_the_operator_says_so() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    let host = world.host(r#""auth": { "kind": "oauth", "shared": true }"#).await;
    assert_eq!(whose(&call(&host, client("ada")).await), "hello operator");
    host.shutdown().await;
}

#[tokio::test]
async fn a_sign_in_that_ends_in_the_middle_says_who_has_to_do_what() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    let host = world.host(r#""description": "x""#).await;
    assert!(matches!(call(&host, Caller::Terminal).await, CallOutcome::Answered(_)));
    world.server.told([Oddity::TakesNothing]);
    let tool = host.catalog().tools().first().map(|tool| tool.public.clone()).unwrap();
    let refused = host.call(CallRequest::new(Caller::Terminal, Target::Tool(tool))).await;
    assert_eq!(refused.to_string(), "failed: `api` needs a sign-in: run `toolway login api`");
    for secret in world.login.secrets() {
        assert!(!refused.to_string().contains(&secret));
    }
    host.shutdown().await;
}

/// Where nobody has to sign in, a connection serves all who have not; whoever has is served as themselves, also at a server
/// that keeps no session and needs no connection for each.
#[tokio::test]
async fn who_has_signed_in_is_served_as_themselves_where_nobody_has_to() {
    for said in [r#""description": "x""#, r#""sharing": "shared""#] {
        let world = World::new().await;
        world.server.told([Oddity::Open]);
        world.sign_in("ada", &Principal::client("ada")).await;
        world.sign_in("ben", &Principal::client("ben")).await;
        let host = world.host(said).await;
        for _ in 0..2 {
            for (caller, whom) in [
                (client("ada"), "ada"),
                (client("eve"), "nobody"),
                (client("ben"), "ben"),
                (Caller::Terminal, "nobody"),
            ] {
                assert_eq!(whose(&call(&host, caller).await), format!("hello {whom}"), "{said}");
            }
        }
        world.sign_in("eve", &Principal::client("eve")).await;
        host.reconnect(&name("api")).await.unwrap();
        assert_eq!(whose(&call(&host, client("eve")).await), "hello eve", "a gateway is told of a sign-in");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_client_that_signs_in_or_out_is_noticed_and_nobody_else_is_disturbed() {
    let world = World::new().await;
    world.server.told([Oddity::Open]);
    let (host, api) = (world.host(r#""description": "x""#).await, name("api"));
    for caller in [client("ada"), client("eve"), Caller::Terminal] {
        assert_eq!(whose(&call(&host, caller).await), "hello nobody");
    }
    world.sign_in("ada", &Principal::client("ada")).await;
    let before = world.server.requests();
    let status = host.signed_in(&api, "ada", Signing::In).unwrap();
    assert_eq!((status.phase, world.server.requests()), (Phase::Ready, before), "nothing is connected anew");
    assert_eq!(whose(&call(&host, client("ada")).await), "hello ada");
    assert_eq!(whose(&call(&host, client("eve")).await), "hello nobody");

    let (key, _) = world.vault.all().await.unwrap().remove(0);
    world.vault.forget(&key).await.unwrap();
    host.signed_in(&api, "ada", Signing::Out).unwrap();
    assert_eq!(whose(&call(&host, client("ada")).await), "hello nobody", "her line has ended");
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_is_not_greeted_over_and_over_for_a_client_that_has_not_signed_in() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    let host = world.host(r#""description": "x""#).await;
    assert_eq!(whose(&call(&host, Caller::Terminal).await), "hello operator");
    let refused = call(&host, client("ada")).await.to_string();
    let before = world.server.requests();
    let again = futures_util::future::join_all((0..8).map(|_| call(&host, client("ada")))).await;
    assert!(again.iter().all(|outcome| outcome.to_string() == refused), "{refused}: {again:?}");
    assert_eq!(world.server.requests(), before);
    let other = call(&host, client("ben")).await;
    assert!(other.to_string().contains("--client ben"), "{other}");
    host.shutdown().await;
}

/// The clock stands still until the request is there; from then on nothing else happens, and it runs.
#[tokio::test]
async fn of_eight_calls_that_wait_for_an_authorization_server_that_hangs_one_asks_it() {
    let world = World::new().await;
    world.sign_in("operator", &Principal::local(None)).await;
    world.login.told([Quirk::Lasts(0)]);
    world.sign_in("ada", &Principal::client("ada")).await;
    let host = world.host(r#""description": "x""#).await;
    assert_eq!(whose(&call(&host, Caller::Terminal).await), "hello operator");
    world.login.told([Quirk::Silent(Endpoint::Renewal)]);
    let calls = futures_util::future::join_all((0..8).map(|_| call(&host, client("ada"))));
    let arrival = async {
        world.login.until(Endpoint::Renewal, 1).await;
        tokio::time::pause();
        tokio::time::Instant::now()
    };
    let (outcomes, began) = tokio::join!(calls, arrival);
    let took = began.elapsed();
    tokio::time::resume();
    for outcome in &outcomes {
        assert!(outcome.to_string().contains("the sign-in cannot be renewed"), "{outcome}");
    }
    assert!(took < std::time::Duration::from_secs(30), "{took:?}");
    assert_eq!(world.login.count(Endpoint::Renewal), 1);
    assert_eq!(whose(&call(&host, Caller::Terminal).await), "hello operator", "nobody else has to wait");
    tokio::time::pause();
    host.shutdown().await;
}

/// Whoever renews sign-ins is away for a while: the sign-in is good, so it is tried again, and nobody has to sign in.
#[tokio::test]
async fn a_server_comes_back_by_itself_when_whoever_renews_its_sign_in_was_away() {
    for ended in [false, true] {
        let world = World::new().await;
        world.login.told(ended.then_some(Quirk::Lasts(0)));
        world.sign_in("operator", &Principal::local(None)).await;
        world.login.told([Quirk::Answers(Endpoint::Renewal, 503)]);
        world.server.told([Oddity::TakesNothing]);
        if !ended {
            // A token that was just got is not renewed when it is refused.
            age(&*world.vault).await;
        }
        let host = world.host(r#""description": "x""#).await;
        let status = host.status(&name("api")).unwrap();
        let error = status.last_error.unwrap();
        assert_eq!((error.code, error.whose_move), ("no_token", WhoseMove::Supervisor), "{ended}");
        assert!(!matches!(status.phase, Phase::SignInNeeded { .. }), "{ended}: {}", status.phase);

        world.login.told([]);
        world.server.told([]);
        let again = async {
            while !matches!(host.status(&name("api")).unwrap().phase, Phase::Ready) {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), again).await.unwrap();
        assert_eq!(whose(&call(&host, Caller::Terminal).await), "hello operator");
        host.shutdown().await;
    }
}

/// What is kept was got a minute ago.
async fn age(vault: &dyn Vault) {
    let (key, kept) = vault.all().await.unwrap().remove(0);
    let mut credential = Credential::open(&kept, &key).unwrap();
    credential.tokens.as_mut().unwrap().since -= 60;
    credential.store(vault, &key).await.unwrap();
}

/// Each refresh token is good once: one that was used up by a host that did not wait would be the last.
#[tokio::test]
async fn a_renewal_under_way_is_kept_when_the_host_ends() {
    let world = World::new().await;
    world.login.told([Quirk::Lasts(0)]);
    world.sign_in("operator", &Principal::local(None)).await;
    world.login.told([Quirk::Late(Endpoint::Renewal, std::time::Duration::from_millis(700))]);
    let ports = HostPorts { vault: Arc::clone(&world.vault), ..HostPorts::default() };
    let said = config(&world.server.url(), r#""description": "x""#);
    let host = Host::start(&said, ports, HostOptions::default()).await.unwrap();
    world.login.until(Endpoint::Renewal, 1).await;
    assert!(host.is_renewing());
    host.shutdown().await;
    assert!(!host.is_renewing());

    let host = world.host(r#""description": "x""#).await;
    assert_eq!(whose(&call(&host, Caller::Terminal).await), "hello operator");
    assert_eq!((world.login.count(Endpoint::Renewal), world.login.taken_back()), (1, 0));
    host.shutdown().await;
}

/// What is listed to one person's sign-in is nobody else's, not even of those who can be asked the same.
#[tokio::test]
async fn what_is_listed_to_a_client_that_has_signed_in_is_learnt_for_nobody_else() {
    let world = World::new().await;
    world.server.told([Oddity::Open, Oddity::OwnTool]);
    world.sign_in("ada", &Principal::client("ada")).await;
    let host = world.host(r#""era": "legacy""#).await;
    host.list(&name("api")).await.unwrap();
    let with_forms = |who: &str| {
        let capabilities = ClientCapabilities(Raw::of(&serde_json::json!({ "elicitation": {} })));
        OnBehalf { capabilities: Some(capabilities), ..OnBehalf::from(&client(who)) }
    };
    for who in ["ada", "ben"] {
        if let Some(heard) = host.first_heard(with_forms(who), |_| true, std::time::Duration::from_secs(5)) {
            heard.await;
        }
        let catalog = host.catalog_of(&with_forms(who));
        let tools: Vec<_> = catalog.tools().iter().map(|tool| tool.public.to_string()).collect();
        assert_eq!(tools, ["api__hello", "api__of-nobody"], "{who}");
    }
    assert!(world.server.heard().contains("Bearer "), "a connection was opened with her sign-in");
    host.shutdown().await;
}
