//! What a caller sees in lists.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolway_gateway::access::{Access, KeyFile};
use toolway_host::connection::{WantedServer, Way};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name, within},
};
use toolway_wire::{
    down::{Caller, Heard, Profile, Service},
    exchange::{self, Exchange, Request, Terms},
    json::Raw,
    notice::Wanted,
    revision::Era,
    up::Peer,
};

use crate::{
    knocking::request,
    stage::{Stage, behind},
};

/// A server that answers no list before it is let.
struct Gated(FixtureServer, CancellationToken);

impl Service for Gated {
    fn profile(&self, caller: &Caller) -> Profile {
        self.0.profile(caller)
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        if !request.method().ends_with("/list") {
            return self.0.open(request, caller);
        }
        let (exchange, feed) = exchange::pair(Terms::unbounded(), 1);
        let (gate, server, caller) = (self.1.clone(), self.0.clone(), caller.clone());
        tokio::runtime::Handle::current().spawn(async move {
            gate.cancelled().await;
            feed.end(server.open(request, &caller).outcome().await);
        });
        exchange
    }

    fn listen<'a>(&'a self, wanted: Wanted, caller: &'a Caller) -> BoxFuture<'a, Heard> {
        self.0.listen(wanted, caller)
    }
}

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("echo", "Give it back")
}

fn gated(gate: &CancellationToken) -> WantedServer {
    WantedServer::new(name("files"), Way::InProcess(Arc::new(Gated(files(), gate.clone()))))
}

async fn tools(client: &Peer) -> Vec<String> {
    let listed = within("a list", client.list_tools()).await.unwrap();
    listed.items.into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn a_list_waits_a_moment_for_a_server_that_nobody_has_heard_yet() {
    for era in [Era::Legacy, Era::Modern] {
        // The machine may be busy with something else; a list that does not wait is empty every time.
        let mut seen = Vec::new();
        for _ in 0..5 {
            let gate = CancellationToken::new();
            let stage = Stage::with(TestHost::new().wanted(gated(&gate))).await;
            let client = stage.client("/mcp", era).await;
            let opening = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                gate.cancel();
            };
            (seen, ()) = tokio::join!(tools(&client), opening);
            if !seen.is_empty() {
                break;
            }
        }
        assert_eq!(seen, ["files__echo"], "{era:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_never_heard_holds_up_a_list_for_a_moment_and_takes_nothing_from_it() {
    let gate = CancellationToken::new();
    let mail = FixtureServer::new("mail").tool("send", "Send it");
    let stage = Stage::with(TestHost::new().wanted(gated(&gate)).server("mail", &mail)).await;
    let client = stage.client("/mcp", Era::Modern).await;
    let began = Instant::now();
    assert_eq!(tools(&client).await, ["mail__send"]);
    // Bounded by far less than the time that servers are given to connect.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_was_heard_a_moment_ago_is_listed_at_once_however_many_were_heard_just_before() {
    let gate = CancellationToken::new();
    let mail = FixtureServer::new("mail").tool("send", "Send it");
    let stage = Stage::with(TestHost::new().server("mail", &mail).wanted(gated(&gate))).await;
    let client = stage.client("/mcp", Era::Modern).await;
    let heard = async |server: &str| {
        while stage.host.status(server).counts.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within("the first server", heard("mail")).await;
    gate.cancel();
    within("the second server", heard("files")).await;
    assert_eq!(tools(&client).await, ["files__echo", "mail__send"]);
}

/// How long the tools keep that somebody is listed, and for whom.
async fn kept(stage: &Stage, path: &str, key: Option<&str>) -> (u64, String) {
    let listed = stage.knocker(path, key).asked("tools/list", json!({})).await;
    let result = &listed["result"];
    (result["ttlMs"].as_u64().unwrap(), result["cacheScope"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn how_long_a_list_keeps_is_what_the_servers_said_less_its_age() {
    let long = FixtureServer::new("long").tool("echo", "Give it back").keeping(600_000, "public");
    let short = FixtureServer::new("short").tool("echo", "Give it back").keeping(60_000, "public");
    let began = Instant::now();
    let stage = Stage::open_to(TestHost::with(&long, "long").server("short", &short), Access::Open, None).await;
    stage.host.ready("long").await;
    stage.host.ready("short").await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    for (path, most) in [("/mcp", 60_000), ("/servers/short/mcp", 60_000), ("/servers/long/mcp", 600_000)] {
        let (time, scope) = kept(&stage, path, None).await;
        let least = most - u64::try_from(began.elapsed().as_millis()).unwrap() - 1;
        assert!((least..=most - 30).contains(&time), "{path}: {time}");
        assert_eq!(scope, "public", "{path}");
    }
    // A caller that keeps a session is told nothing of it.
    let session = stage.knocker("/mcp", None).begun().await;
    let listed = session.post(&request(1, "tools/list", json!({}))).await.answer().await;
    assert_eq!(listed["result"].as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
}

#[tokio::test]
async fn a_list_keeps_not_at_all_where_a_part_of_it_is_unknown_and_for_one_caller_where_it_depends_on_that() {
    let public = || FixtureServer::new("files").tool("echo", "Give it back").keeping(60_000, "public");
    // A server that says nothing.
    let files = public();
    let builder = TestHost::with(&files, "files").server("mail", &FixtureServer::new("mail").tool("send", "Send it"));
    let stage = Stage::open_to(builder, Access::Open, None).await;
    stage.host.ready("mail").await;
    assert_eq!(kept(&stage, "/mcp", None).await, (0, "private".to_owned()));
    assert_eq!(kept(&stage, "/servers/files/mcp", None).await.1, "public");
    // One that nobody has heard yet, and one that keeps sessions.
    let gate = CancellationToken::new();
    let files = public();
    let stage = Stage::open_to(TestHost::with(&files, "other").wanted(gated(&gate)), Access::Open, None).await;
    stage.host.offers(&["other__echo"]).await;
    assert_eq!(kept(&stage, "/mcp", None).await, (0, "private".to_owned()));
    let (_fixture, wanted) = behind(&public(), Era::Legacy).await;
    let stage = Stage::open_to(TestHost::new().wanted(wanted), Access::Open, None).await;
    stage.host.ready("files").await;
    assert_eq!(kept(&stage, "/servers/files/mcp", None).await, (0, "private".to_owned()));
    // Keys that see only some servers, and a list that goes on elsewhere.
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let all = file.add("all", None, None).unwrap();
    let some = file.add("some", None, Some(std::iter::once("files".parse().unwrap()).collect())).unwrap();
    let (access, _) = Access::of_keys(Some(file)).unwrap();
    let stage = Stage::open_to(TestHost::with(&public(), "files"), access, None).await;
    stage.host.ready("files").await;
    for key in [all.expose(), some.expose()] {
        let (time, scope) = kept(&stage, "/mcp", Some(key)).await;
        assert!(0 < time && scope == "private", "{time} {scope}");
    }
    let many = (0..501).fold(public(), |server, number| server.tool(&format!("tool{number}"), "One of many"));
    let stage = Stage::open_to(TestHost::with(&many, "files"), Access::Open, None).await;
    stage.host.ready("files").await;
    let (time, scope) = kept(&stage, "/mcp", None).await;
    assert!(0 < time && scope == "private", "{time} {scope}");
}

/// A server whose prompt has pictures, here and elsewhere.
struct Pictured(FixtureServer);

impl Service for Pictured {
    fn profile(&self, caller: &Caller) -> Profile {
        self.0.profile(caller)
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        if request.method() != "prompts/list" {
            return self.0.open(request, caller);
        }
        let icons = json!([{ "src": "https://files.example/icon.png" }, { "src": "data:image/png;base64,AA==" }]);
        let prompts = json!({ "prompts": [{ "name": "hello", "icons": icons }] });
        Exchange::ended(exchange::Outcome::Answered(Raw::of(&prompts)))
    }

    fn listen<'a>(&'a self, wanted: Wanted, caller: &'a Caller) -> BoxFuture<'a, Heard> {
        self.0.listen(wanted, caller)
    }
}

#[tokio::test]
async fn icons_that_hold_their_picture_go_through_and_addresses_elsewhere_do_not() {
    let server = WantedServer::new(name("files"), Way::InProcess(Arc::new(Pictured(files()))));
    let stage = Stage::with(TestHost::new().wanted(server)).await;
    stage.host.ready("files").await;
    for path in ["/mcp", "/servers/files/mcp"] {
        let prompts = stage.client(path, Era::Modern).await.list_prompts().await.unwrap();
        let icons = prompts.items[0].raw.get("icons").unwrap();
        assert_eq!(icons.to_string(), r#"[{"src":"data:image/png;base64,AA=="}]"#, "{path}");
    }
}

#[tokio::test]
async fn what_a_server_alone_can_beside_the_protocol_is_declared_where_it_goes_through() {
    let apps = json!({ "mimeTypes": ["text/html;profile=mcp-app"] });
    let declared = json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/ui": apps, "example/other": {} } });
    let files = files().declaring(declared);
    for up in [Era::Legacy, Era::Modern] {
        let (_fixture, wanted) = behind(&files, up).await;
        let stage = Stage::with(TestHost::new().wanted(wanted)).await;
        stage.host.ready("files").await;
        for down in [Era::Legacy, Era::Modern] {
            let extensions = async |path| {
                let client = stage.client(path, down).await;
                client.profile().capabilities.0.get("extensions").map(|extensions| extensions.to_string())
            };
            let alone = extensions("/servers/files/mcp").await.unwrap();
            let expected = format!(r#""io.modelcontextprotocol/ui":{apps}"#);
            assert!(alone.contains(&expected) && !alone.contains("example"), "{down:?} {up:?}: {alone}");
            let all = extensions("/mcp").await.unwrap_or_default();
            assert!(!all.contains("/ui"), "{down:?} {up:?}: {all}");
        }
    }
}
