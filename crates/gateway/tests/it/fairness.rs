//! What one client may have of a gateway at once, and that the others do not notice when it has all of that.

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
    down::{Caller, Heard, Profile, Service},
    exchange::{Exchange, Outcome, Request},
    json::Raw,
    limit::Limits,
    notice::Wanted,
    revision::Era,
    up::EraChoice,
};

use crate::{
    knocking::{Knocker, request},
    stage::Stage,
};

/// A gateway with two clients.
pub(crate) struct Two {
    pub(crate) stage: Stage,
    pub(crate) file: KeyFile,
    keys: [String; 2],
    _folder: tempfile::TempDir,
}

impl Two {
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
        let (access, _) = Access::of_keys(Some(file.clone())).unwrap();
        let stage = Stage::behind(builder, options(GatewayOptions::of(access)), None).await;
        stage.host.ready("files").await;
        Self { stage, file, keys, _folder: folder }
    }

    pub(crate) fn ada(&self, path: &str) -> Knocker {
        self.stage.knocker(path, Some(&self.keys[0]))
    }

    pub(crate) fn bob(&self, path: &str) -> Knocker {
        self.stage.knocker(path, Some(&self.keys[1]))
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

fn waiting(knocker: Knocker, name: String) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
        drop(knocker.ask("tools/call", json!({ "name": name })).await);
    }))
}

fn text(answer: &Value) -> &str {
    let said = &answer["result"]["content"][0]["text"];
    said.as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn a_client_with_all_the_calls_it_may_have_is_refused_at_once_in_either_era_and_others_are_served() {
    for (path, prefix) in PATHS {
        let files = files();
        let two = Two::start(bounded(&files, CallLimits { per_client: 3, ..CallLimits::default() })).await;
        let session = two.ada(path).begun().await;
        let under_way: Vec<_> = (0..3).map(|_| waiting(two.ada(path), format!("{prefix}wait"))).collect();
        within("the calls", files.reached("tools/call", 3)).await;

        let began = Instant::now();
        let echo = json!({ "name": format!("{prefix}echo"), "arguments": { "text": "hi" } });
        let sentence =
            "3 calls of this client are under way, as many as one may have; wait until some of them have ended";
        let refused = two.ada(path).asked("tools/call", echo.clone()).await;
        assert_eq!((text(&refused), &refused["result"]["isError"]), (sentence, &json!(true)), "{path}");
        let refused = session.post(&request(1, "tools/call", echo.clone())).await.answer().await;
        assert_eq!((text(&refused), &refused["result"]["isError"]), (sentence, &json!(true)), "{path}");
        let read = json!({ "uri": "files://one" });
        for refused in [
            two.ada(path).asked("resources/read", read.clone()).await,
            session.post(&request(2, "resources/read", read)).await.answer().await,
        ] {
            assert_eq!((&refused["error"]["code"], &refused["error"]["message"]), (&json!(-32603), &json!(sentence)));
        }
        // Lists are not calls.
        let listed = two.ada(path).asked("tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(2), "{path} {listed}");
        let served = two.bob(path).asked("tools/call", echo.clone()).await;
        assert_eq!(served["result"]["isError"], false, "{path} {served}");
        assert!(began.elapsed() < Duration::from_secs(5), "nobody waited: {:?}", began.elapsed());
        assert_eq!(files.seen("tools/call").len(), 4, "what was refused was not sent");

        drop(under_way);
        within("the server to hear of it", files.left(3)).await;
        within("a free place", async {
            while two.ada(path).asked("tools/call", echo.clone()).await["result"]["isError"] != false {}
        })
        .await;
    }
}

#[tokio::test]
async fn one_client_cannot_have_all_slots_of_a_server() {
    let files = files();
    // Three of four are what one client may have.
    let limits = CallLimits { per_server: 4, per_client: 64, ..CallLimits::default() };
    let two = Two::start(bounded(&files, limits)).await;
    let _flood: Vec<_> = (0..32).map(|_| waiting(two.ada("/mcp"), "files__wait".to_owned())).collect();
    within("her share", files.reached("tools/call", 3)).await;
    for _ in 0..10 {
        let echo = json!({ "name": "files__echo", "arguments": { "text": "hi" } });
        let served = within("another client", two.bob("/mcp").asked("tools/call", echo)).await;
        assert_eq!(served["result"]["isError"], false, "{served}");
    }
    let waits = |files: &FixtureServer| {
        let called = files.seen("tools/call");
        called
            .iter()
            .filter(|call| call.param("name").is_some_and(|name| name.as_str().as_deref() == Some("wait")))
            .count()
    };
    assert_eq!(waits(&files), 3, "the rest of hers wait for each other");
}

/// Sessions and parked calls are a caller's, wherever it keeps them: another path gives no room for more.
#[tokio::test]
async fn the_bounds_of_a_client_hold_for_all_paths_together() {
    let files = files().tool_that("greet", "Greet", Behaviour::Greet);
    let limits = Limits { sessions_per_caller: 2, parked_calls_per_caller: 2, ..Limits::default() };
    let two = Two::bounded(TestHost::with(&files, "files"), limits).await;
    let [(all, prefix), (one, _)] = PATHS;

    let first = two.ada(all).begun().await;
    let bobs = two.bob(all).begun().await;
    let second = two.ada(one).begun().await;
    let third = two.ada(one).begun().await;
    let ping = request(1, "ping", json!({}));
    assert_eq!(first.post(&ping).await.status, 404, "hers that was left alone for longest gave way, on another path");
    for session in [&second, &third, &bobs] {
        assert_eq!(session.post(&ping).await.status, 200);
    }

    let greet = |prefix: &str| json!({ "name": format!("{prefix}greet") });
    let parked =
        [two.ada(all).asked("tools/call", greet(prefix)).await, two.ada(one).asked("tools/call", greet("")).await];
    for asked in &parked {
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    }
    for (path, prefix) in PATHS {
        let refused = two.ada(path).asked("tools/call", greet(prefix)).await;
        assert!(refused.to_string().contains("too many calls of yours wait for answers"), "{path} {refused}");
    }
    let asked = two.bob(one).asked("tools/call", greet("")).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    // What waits at one path is unknown at the other, and room again once it was answered.
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let retry =
        json!({ "name": "greet", "requestState": parked[1]["result"]["requestState"], "inputResponses": answers });
    let greeted = two.ada(one).asked("tools/call", retry).await;
    assert!(text(&greeted).contains("Ada"), "{greeted}");
    let asked = two.ada(all).asked("tools/call", greet(prefix)).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
}

/// Subscribes Ada to these.
async fn subscribed(two: &Two, uris: &[String]) -> Vec<String> {
    let client = two.stage.client_with("/mcp", Era::Modern, Some(&two.keys[0])).await.unwrap();
    let wanted = Wanted { uris: uris.to_vec(), ..Wanted::default() };
    within("a subscription", client.listen(wanted)).await.unwrap().honoured().uris.clone()
}

/// A long subscription keeps within the calls that a client may have under way.
#[tokio::test]
async fn all_of_a_long_subscription_is_honoured_however_few_calls_a_client_may_have() {
    let files = files();
    let uris: Vec<_> = (0..200).map(|number| format!("toolway+files:files://{number}")).collect();
    for per_client in [1, 2, 8] {
        let two = Two::start(bounded(&files, CallLimits { per_client, ..CallLimits::default() })).await;
        assert_eq!(subscribed(&two, &uris).await, uris, "{per_client}");
    }
}

/// A server that never says whether it tells of anything.
struct Deaf;

impl Service for Deaf {
    fn profile(&self, _caller: &Caller) -> Profile {
        let info = Raw::of(&json!({ "name": "deaf", "version": "1" }));
        Profile { info, capabilities: Raw::of(&json!({ "resources": { "subscribe": true } })), instructions: None }
    }

    fn open(&self, _request: Request, _caller: &Caller) -> Exchange {
        Exchange::ended(Outcome::Answered(Raw::of(&json!({ "resources": [], "resourceTemplates": [] }))))
    }

    fn listen<'a>(&'a self, _wanted: Wanted, _caller: &'a Caller) -> BoxFuture<'a, Heard> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_subscription_to_much_that_nobody_tells_of_is_not_waited_for_one_by_one() {
    let files = files();
    let deaf = WantedServer::new(name("deaf"), Way::InProcess(Arc::new(Deaf)));
    let deaf = WantedServer { era: EraChoice::Legacy, ..deaf };
    let limits = CallLimits { per_client: 2, ..CallLimits::default() };
    let two = Two::start(bounded(&files, limits).wanted(deaf)).await;
    two.stage.host.ready("deaf").await;
    let deaf = (0..30).map(|number| format!("toolway+deaf:deaf://{number}"));
    let uris: Vec<_> = std::iter::once("files://one".to_owned()).chain(deaf).collect();
    let began = Instant::now();
    assert_eq!(subscribed(&two, &uris).await, uris[..1]);
    // One after the other they would take fifteen seconds.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
