//! Lists of the gateway.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolway_gateway::{
    GatewayOptions,
    access::{Access, KeyFile},
};
use toolway_host::connection::{WantedServer, Way};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name, within},
};
use toolway_wire::{
    down::{Caller, Profile, Service, ServiceSubscription},
    exchange::{self, Exchange, ExchangeTimeouts, Request},
    json::Raw,
    notice::SubscriptionFilter,
    revision::Era,
    up::Peer,
};

use crate::{
    raw_client::request,
    test_gateway::{TestGateway, behind},
};

/// A server that answers list requests only after its token is cancelled.
struct Gated(FixtureServer, CancellationToken);

impl Service for Gated {
    fn profile(&self, caller: &Caller) -> Profile {
        self.0.profile(caller)
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        if !request.method().ends_with("/list") {
            return self.0.open(request, caller);
        }
        let (exchange, feed) = exchange::pair(ExchangeTimeouts::unbounded(), 1);
        let (gate, server, caller) = (self.1.clone(), self.0.clone(), caller.clone());
        tokio::runtime::Handle::current().spawn(async move {
            gate.cancelled().await;
            feed.end(server.open(request, &caller).outcome().await);
        });
        exchange
    }

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
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
async fn list_waits_briefly_for_a_server_that_has_not_listed_yet() {
    for era in [Era::Legacy, Era::Modern] {
        // The machine may be slow, so it may need several attempts; a list that does not wait is always empty.
        let mut seen = Vec::new();
        for _ in 0..5 {
            let gate = CancellationToken::new();
            let gateway = TestGateway::with(TestHost::new().wanted(gated(&gate))).await;
            let client = gateway.client("/mcp", era).await;
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
async fn server_that_never_lists_delays_a_list_only_briefly() {
    let gate = CancellationToken::new();
    let mail = FixtureServer::new("mail").tool("send", "Send it");
    let gateway = TestGateway::with(TestHost::new().wanted(gated(&gate)).server("mail", &mail)).await;
    let client = gateway.client("/mcp", Era::Modern).await;
    let began = Instant::now();
    assert_eq!(tools(&client).await, ["mail__send"]);
    // Much shorter than the connect timeout of servers.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn recently_listed_servers_are_included_at_once() {
    let gate = CancellationToken::new();
    let mail = FixtureServer::new("mail").tool("send", "Send it");
    let gateway = TestGateway::with(TestHost::new().server("mail", &mail).wanted(gated(&gate))).await;
    let client = gateway.client("/mcp", Era::Modern).await;
    let heard = async |server: &str| {
        while gateway.host.status(server).counts.is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within("the first server", heard("mail")).await;
    gate.cancel();
    within("the second server", heard("files")).await;
    assert_eq!(tools(&client).await, ["files__echo", "mail__send"]);
}

/// Cache time and scope of a tool list.
async fn kept(gateway: &TestGateway, path: &str, key: Option<&str>) -> (u64, String) {
    let listed = gateway.raw_client(path, key).ask("tools/list", json!({})).await;
    let result = &listed["result"];
    (result["ttlMs"].as_u64().unwrap(), result["cacheScope"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn cache_time_is_the_smallest_of_the_servers_minus_age() {
    let long = FixtureServer::new("long").tool("echo", "Give it back").keeping(600_000, "public");
    let short = FixtureServer::new("short").tool("echo", "Give it back").keeping(60_000, "public");
    let began = Instant::now();
    let gateway = TestGateway::open_to(TestHost::with(&long, "long").server("short", &short), Access::Open, None).await;
    gateway.host.ready("long").await;
    gateway.host.ready("short").await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    for (path, most) in [("/mcp", 60_000), ("/servers/short/mcp", 60_000), ("/servers/long/mcp", 600_000)] {
        let (time, scope) = kept(&gateway, path, None).await;
        let least = most - u64::try_from(began.elapsed().as_millis()).unwrap() - 1;
        assert!((least..=most - 30).contains(&time), "{path}: {time}");
        assert_eq!(scope, "public", "{path}");
    }
    // Sessions get no cache hint.
    let session = gateway.raw_client("/mcp", None).start_session().await;
    let listed = session.post(&request(1, "tools/list", json!({}))).await.answer().await;
    assert_eq!(listed["result"].as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
}

#[tokio::test]
async fn incomplete_list_is_not_cached_and_caller_specific_list_is_private() {
    let public = || FixtureServer::new("files").tool("echo", "Give it back").keeping(60_000, "public");
    // A server without a cache hint.
    let files = public();
    let builder = TestHost::with(&files, "files").server("mail", &FixtureServer::new("mail").tool("send", "Send it"));
    let gateway = TestGateway::open_to(builder, Access::Open, None).await;
    gateway.host.ready("mail").await;
    assert_eq!(kept(&gateway, "/mcp", None).await, (0, "private".to_owned()));
    assert_eq!(kept(&gateway, "/servers/files/mcp", None).await.1, "public");
    // A server that has not listed yet, and a server with sessions.
    let gate = CancellationToken::new();
    let files = public();
    let gateway = TestGateway::open_to(TestHost::with(&files, "other").wanted(gated(&gate)), Access::Open, None).await;
    gateway.host.offers(&["other__echo"]).await;
    assert_eq!(kept(&gateway, "/mcp", None).await, (0, "private".to_owned()));
    let (_fixture, wanted) = behind(&public(), Era::Legacy).await;
    let gateway = TestGateway::open_to(TestHost::new().wanted(wanted), Access::Open, None).await;
    gateway.host.ready("files").await;
    assert_eq!(kept(&gateway, "/servers/files/mcp", None).await, (0, "private".to_owned()));
    // Keys that see only some servers, and a list with several pages.
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("clients.json"));
    let all = file.add("all", None, None).unwrap();
    let some = file.add("some", None, Some(std::iter::once("files".parse().unwrap()).collect())).unwrap();
    let (access, _) = Access::with_keys(Some(file)).unwrap();
    let gateway = TestGateway::open_to(TestHost::with(&public(), "files"), access, None).await;
    gateway.host.ready("files").await;
    for key in [all.expose(), some.expose()] {
        let (time, scope) = kept(&gateway, "/mcp", Some(key)).await;
        assert!(0 < time && scope == "private", "{time} {scope}");
    }
    let many = (0..3).fold(public(), |server, number| server.tool(&format!("tool{number}"), "One of many"));
    let gateway = with_page_size(&many, 2).await;
    let (time, scope) = kept(&gateway, "/mcp", None).await;
    assert!(0 < time && scope == "private", "{time} {scope}");
}

async fn with_page_size(server: &FixtureServer, page_size: usize) -> TestGateway {
    let options = GatewayOptions { page_size, ..GatewayOptions::of(Access::Open) };
    let gateway = TestGateway::behind(TestHost::with(server, "files"), options, None).await;
    gateway.host.ready("files").await;
    gateway
}

#[tokio::test]
async fn long_list_is_one_page_unless_the_page_size_is_smaller() {
    let many = (0..1_200).fold(files(), |server, number| server.tool(&format!("tool{number}"), "One of many"));
    for (page_size, expected) in [(GatewayOptions::of(Access::Open).page_size, vec![1_201]), (500, vec![500, 500, 201])]
    {
        let gateway = with_page_size(&many, page_size).await;
        for in_session in [false, true] {
            let client = gateway.raw_client("/mcp", None);
            let client = if in_session { client.start_session().await } else { client };
            let (mut lengths, mut params) = (Vec::new(), json!({}));
            loop {
                let page = match in_session {
                    true => client.post(&request(1, "tools/list", params)).await.answer().await,
                    false => client.ask("tools/list", params).await,
                };
                assert_eq!(page["result"].get("ttlMs").is_none(), in_session, "each era has its members");
                lengths.push(page["result"]["tools"].as_array().unwrap().len());
                match page["result"].get("nextCursor") {
                    Some(next) => params = json!({ "cursor": next }),
                    None => break,
                }
            }
            assert_eq!(lengths, expected, "session: {in_session}");
        }
    }
}

/// A server whose prompt has an embedded icon and one at a URL.
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

    fn listen<'a>(&'a self, wanted: SubscriptionFilter, caller: &'a Caller) -> BoxFuture<'a, ServiceSubscription> {
        self.0.listen(wanted, caller)
    }
}

#[tokio::test]
async fn embedded_icons_are_kept_and_icon_urls_removed() {
    let server = WantedServer::new(name("files"), Way::InProcess(Arc::new(Pictured(files()))));
    let gateway = TestGateway::with(TestHost::new().wanted(server)).await;
    gateway.host.ready("files").await;
    for path in ["/mcp", "/servers/files/mcp"] {
        let prompts = gateway.client(path, Era::Modern).await.list_prompts().await.unwrap();
        let icons = prompts.items[0].raw.get("icons").unwrap();
        assert_eq!(icons.to_string(), r#"[{"src":"data:image/png;base64,AA=="}]"#, "{path}");
    }
}

#[tokio::test]
async fn extensions_of_a_server_are_declared_if_they_are_forwarded() {
    let apps = json!({ "mimeTypes": ["text/html;profile=mcp-app"] });
    let declared = json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/ui": apps, "example/other": {} } });
    let files = files().declaring(declared);
    for up in [Era::Legacy, Era::Modern] {
        let (_fixture, wanted) = behind(&files, up).await;
        let gateway = TestGateway::with(TestHost::new().wanted(wanted)).await;
        gateway.host.ready("files").await;
        for down in [Era::Legacy, Era::Modern] {
            let extensions = async |path| {
                let client = gateway.client(path, down).await;
                client.profile().capabilities.0.get("extensions").map(|extensions| extensions.to_string())
            };
            let alone = extensions("/servers/files/mcp").await.unwrap();
            let expected = format!(r#""io.modelcontextprotocol/ui":{apps}"#);
            assert!(alone.contains(&expected) && !alone.contains("example"), "{down:?} {up:?}: {alone}");
            let all = extensions("/mcp").await.unwrap();
            assert!(all.contains("/ui") && !all.contains("example"), "{down:?} {up:?}: {all}");
        }
    }
}
