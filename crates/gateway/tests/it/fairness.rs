//! Limits per client: a client that reaches them does not affect the others.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use toolway_gateway::{
    GatewayOptions,
    access::{Access, KeyFile},
};
use toolway_host::{
    connection::{WantedServer, Way},
    policy::CallLimits,
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, TestHostBuilder, name, within},
};
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{Exchange, Outcome, Request},
    json::Raw,
    limit::Limits,
    notice::SubscriptionFilter,
    revision::Era,
    up::EraChoice,
};

use crate::{
    raw_client::{RawClient, request},
    test_gateway::TestGateway,
};

/// A gateway with two clients.
pub(crate) struct TwoClients {
    pub(crate) gateway: TestGateway,
    pub(crate) file: KeyFile,
    keys: [String; 2],
    _folder: tempfile::TempDir,
}

impl TwoClients {
    pub(crate) async fn start(builder: TestHostBuilder) -> Self {
        Self::with(builder, |options| options).await
    }

    async fn bounded(builder: TestHostBuilder, limits: Limits) -> Self {
        Self::with(builder, |options| GatewayOptions { limits, ..options }).await
    }

    pub(crate) async fn with(builder: TestHostBuilder, options: impl FnOnce(GatewayOptions) -> GatewayOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let keys = ["ada", "bob"].map(|name| file.add(name, None, None).unwrap().expose().to_owned());
        let (access, _) = Access::with_keys(Some(file.clone())).unwrap();
        let gateway = TestGateway::behind(builder, options(GatewayOptions::of(access)), None).await;
        gateway.host.ready("files").await;
        Self { gateway, file, keys, _folder: folder }
    }

    pub(crate) fn ada(&self, path: &str) -> RawClient {
        self.gateway.raw_client(path, Some(&self.keys[0]))
    }

    pub(crate) fn bob(&self, path: &str) -> RawClient {
        self.gateway.raw_client(path, Some(&self.keys[1]))
    }
}

const PATHS: [(&str, &str); 2] = [("/mcp", "files__"), ("/servers/files/mcp", "")];

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("echo", "Give it back").tool_that("wait", "Wait", Behaviour::Wait)
}

fn bounded(files: &FixtureServer, calls: CallLimits) -> TestHostBuilder {
    let mut builder = TestHost::with(files, "files");
    builder.options.calls = calls;
    builder
}

fn waiting(raw_client: RawClient, name: String) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
        drop(raw_client.open_request("tools/call", json!({ "name": name })).await);
    }))
}

fn text(answer: &Value) -> &str {
    let said = &answer["result"]["content"][0]["text"];
    said.as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn client_at_its_call_limit_is_refused_at_once_and_others_are_served() {
    for (path, prefix) in PATHS {
        let files = files();
        let two = TwoClients::start(bounded(&files, CallLimits { per_client: 3, ..CallLimits::default() })).await;
        let session = two.ada(path).start_session().await;
        let under_way: Vec<_> = (0..3).map(|_| waiting(two.ada(path), format!("{prefix}wait"))).collect();
        within("the calls", files.until_received("tools/call", 3)).await;

        let began = Instant::now();
        let echo = json!({ "name": format!("{prefix}echo"), "arguments": { "text": "hi" } });
        let sentence = "this client already has 3 calls running or queued, which is the maximum; wait until some have ended; \
             not sent";
        let refused = two.ada(path).ask("tools/call", echo.clone()).await;
        assert_eq!((text(&refused), &refused["result"]["isError"]), (sentence, &json!(true)), "{path}");
        let refused = session.post(&request(1, "tools/call", echo.clone())).await.answer().await;
        assert_eq!((text(&refused), &refused["result"]["isError"]), (sentence, &json!(true)), "{path}");
        let read = json!({ "uri": "files://one" });
        for refused in [
            two.ada(path).ask("resources/read", read.clone()).await,
            session.post(&request(2, "resources/read", read)).await.answer().await,
        ] {
            assert_eq!((&refused["error"]["code"], &refused["error"]["message"]), (&json!(-32603), &json!(sentence)));
        }
        // Lists do not count as calls.
        let listed = two.ada(path).ask("tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(2), "{path} {listed}");
        let served = two.bob(path).ask("tools/call", echo.clone()).await;
        assert_eq!(served["result"]["isError"], false, "{path} {served}");
        assert!(began.elapsed() < Duration::from_secs(5), "nothing waited: {:?}", began.elapsed());
        assert_eq!(files.seen("tools/call").len(), 4, "refused calls are not sent");

        drop(under_way);
        within("the cancellation at the server", files.left(3)).await;
        within("a free slot", async {
            while two.ada(path).ask("tools/call", echo.clone()).await["result"]["isError"] != false {}
        })
        .await;
    }
}

#[tokio::test]
async fn one_client_cannot_use_all_slots_of_a_server() {
    let files = files();
    // The share of one client is three of four slots.
    let limits = CallLimits { per_server: 4, per_client: 64, ..CallLimits::default() };
    let two = TwoClients::start(bounded(&files, limits)).await;
    let _flood: Vec<_> = (0..32).map(|_| waiting(two.ada("/mcp"), "files__wait".to_owned())).collect();
    within("her share", files.until_received("tools/call", 3)).await;
    for _ in 0..10 {
        let echo = json!({ "name": "files__echo", "arguments": { "text": "hi" } });
        let served = within("another client", two.bob("/mcp").ask("tools/call", echo)).await;
        assert_eq!(served["result"]["isError"], false, "{served}");
    }
    let waits = |files: &FixtureServer| {
        let called = files.seen("tools/call");
        called
            .iter()
            .filter(|call| call.param("name").is_some_and(|name| name.as_str().as_deref() == Some("wait")))
            .count()
    };
    assert_eq!(waits(&files), 3, "her other calls are queued");
}

/// The limits of sessions and parked calls apply to all paths together.
#[tokio::test]
async fn limits_of_a_client_apply_to_all_paths_together() {
    let files = files().tool_that("greet", "Greet", Behaviour::Greet);
    let limits = Limits { sessions_per_caller: 2, parked_calls_per_caller: 2, ..Limits::default() };
    let two = TwoClients::bounded(TestHost::with(&files, "files"), limits).await;
    let [(all, prefix), (one, _)] = PATHS;

    let first = two.ada(all).start_session().await;
    let bobs = two.bob(all).start_session().await;
    let second = two.ada(one).start_session().await;
    let third = two.ada(one).start_session().await;
    let ping = request(1, "ping", json!({}));
    assert_eq!(first.post(&ping).await.status, 404, "her least recently used session was evicted, on another path");
    for session in [&second, &third, &bobs] {
        assert_eq!(session.post(&ping).await.status, 200);
    }

    let greet = |prefix: &str| json!({ "name": format!("{prefix}greet") });
    let parked = [two.ada(all).ask("tools/call", greet(prefix)).await, two.ada(one).ask("tools/call", greet("")).await];
    for asked in &parked {
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    }
    for (path, prefix) in PATHS {
        let refused = two.ada(path).ask("tools/call", greet(prefix)).await;
        assert!(
            refused.to_string().contains("too many calls of this client are waiting for answers"),
            "{path} {refused}"
        );
    }
    let asked = two.bob(one).ask("tools/call", greet("")).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    // A parked call is unknown on the other path, and its slot is free once it was answered.
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let retry =
        json!({ "name": "greet", "requestState": parked[1]["result"]["requestState"], "inputResponses": answers });
    let greeted = two.ada(one).ask("tools/call", retry).await;
    assert!(text(&greeted).contains("Ada"), "{greeted}");
    let asked = two.ada(all).ask("tools/call", greet(prefix)).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
}

/// Subscribes Ada; returns the accepted URIs.
async fn subscribed(two: &TwoClients, uris: &[String]) -> Vec<String> {
    let client = two.gateway.client_with("/mcp", Era::Modern, Some(&two.keys[0])).await.unwrap();
    let wanted = SubscriptionFilter { uris: uris.to_vec(), ..SubscriptionFilter::default() };
    within("a subscription", client.listen(wanted)).await.unwrap().accepted().uris.clone()
}

/// A long subscription stays within the call limit of the client.
#[tokio::test]
async fn long_subscription_is_accepted_with_a_small_call_limit() {
    let files = files();
    let uris: Vec<_> = (0..200).map(|number| format!("toolway+files:files://{number}")).collect();
    for per_client in [1, 2, 8] {
        let two = TwoClients::start(bounded(&files, CallLimits { per_client, ..CallLimits::default() })).await;
        assert_eq!(subscribed(&two, &uris).await, uris, "{per_client}");
    }
}

/// A server that never answers a subscription.
struct Deaf;

impl Service for Deaf {
    fn profile(&self, _caller: &Caller) -> Profile {
        let info = Raw::of(&json!({ "name": "deaf", "version": "1" }));
        Profile { info, capabilities: Raw::of(&json!({ "resources": { "subscribe": true } })), instructions: None }
    }

    fn open(&self, _request: Request, _caller: &Caller) -> Exchange {
        Exchange::ended(Outcome::Answered(Raw::of(&json!({ "resources": [], "resourceTemplates": [] }))))
    }

    fn listen<'a>(&'a self, _wanted: SubscriptionFilter, _caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn unanswered_subscriptions_do_not_add_up() {
    let files = files();
    let deaf = WantedServer::new(name("deaf"), Way::InProcess(Arc::new(Deaf)));
    let deaf = WantedServer { era: EraChoice::Legacy, ..deaf };
    let limits = CallLimits { per_client: 2, ..CallLimits::default() };
    let two = TwoClients::start(bounded(&files, limits).wanted(deaf)).await;
    two.gateway.host.ready("deaf").await;
    let deaf = (0..30).map(|number| format!("toolway+deaf:deaf://{number}"));
    let uris: Vec<_> = std::iter::once("files://one".to_owned()).chain(deaf).collect();
    let began = Instant::now();
    assert_eq!(subscribed(&two, &uris).await, uris[..1]);
    // One after the other they would take 15 seconds.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
