//! Servers that a key may not see look absent, for every name and every request.
//!
//! Most tests run twice: with hidden servers, and without any. The client cannot tell the difference.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};
use toolway_config::{Config, Secret, document::Document, server::Standing};
use toolway_gateway::access::{Access, KeyFile};
use toolway_host::{
    catalog::{Filter, filter::Switch},
    connection::{Phase, ServerAddress, WantedServer, Way},
};
use toolway_testkit::{
    fixture_server::FixtureServer,
    odd::http::{OddHttp, Reply},
    test_host::{TestHost, TestHostBuilder, name, within},
};
use toolway_wire::{notice::SubscriptionFilter, revision::Era, up::Peer};

use crate::{raw_client::RawClient, scripted::Scripted, test_gateway::TestGateway};

/// A server name of the maximum length: with one more letter it is invalid.
const LONG: &str = "a-name-of-a-server-with-32-bytes";
/// Hidden servers: three that require a sign-in, one that is ready, one that is disabled.
const HIDDEN: [&str; 5] = [LONG, "a", "7x", "mail", "off"];
/// The visible server.
const SEEN: &str = "_a";

/// A gateway, and a client that may see some of its servers.
struct RestrictedGateway {
    gateway: TestGateway,
    key: Secret,
    locked: OddHttp,
    _folder: tempfile::TempDir,
}

impl RestrictedGateway {
    /// `build` gets the address of a server that requires a sign-in.
    async fn of(sees: &[&str], build: impl FnOnce(TestHostBuilder, &OddHttp) -> TestHostBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let key = file.add("eve", None, Some(sees.iter().map(|server| name(server)).collect())).unwrap();
        let (access, _) = Access::with_keys(Some(file)).unwrap();
        let locked = OddHttp::start(|_| Reply::empty(401).header("WWW-Authenticate", "Bearer")).await.unwrap();
        let gateway = TestGateway::open_to(build(TestHost::new(), &locked), access, None).await;
        for status in gateway.host.host.servers() {
            let settled = |phase: &Phase| {
                matches!(phase, Phase::Ready | Phase::SignInRequired { .. } | Phase::Disabled | Phase::Stopped(_))
            };
            if gateway.host.until(status.server.as_str(), settled).await.phase == Phase::Ready {
                gateway.host.ready(status.server.as_str()).await;
            }
        }
        Self { gateway, key, locked, _folder: folder }
    }

    /// With servers that Eve does not see, and without them.
    async fn both() -> [Self; 2] {
        let seen = FixtureServer::new("seen").tool("echo", "Give it back");
        let mail = FixtureServer::new("mail").tool("secret", "Tell it");
        let with = Self::of(&[SEEN], |builder, locked| {
            let off = WantedServer::new(name("off"), Way::InProcess(mail.service()));
            let builder = [LONG, "a", "7x"].iter().fold(builder, |builder, it| builder.wanted(at(it, locked)));
            let off = WantedServer { standing: Standing::Disabled, ..off };
            builder.server(SEEN, &seen).server("mail", &mail).wanted(off)
        });
        let without = Self::of(&[SEEN], |builder, _| builder.server(SEEN, &seen));
        [with.await, without.await]
    }

    fn eve(&self, path: &str) -> RawClient {
        self.gateway.raw_client(path, Some(self.key.expose()))
    }

    async fn client(&self, path: &str, era: Era) -> Peer {
        self.gateway.client_with(path, era, Some(self.key.expose())).await.unwrap()
    }
}

/// A server that requires a sign-in.
fn at(server: &str, locked: &OddHttp) -> WantedServer {
    WantedServer::new(name(server), Way::Address(ServerAddress::http(locked.url().parse().unwrap())))
}

/// All spellings of prefixed names for unlisted items, and the usual ones for listed items.
fn spellings() -> Vec<String> {
    let of = |server: &'static str| {
        let every = ["", "_", "__"].into_iter().flat_map(|before| ["__", "___"].map(|between| (before, between, "x")));
        let items = ["secret", "secre", "hello", "x_0123456789ab"].into_iter();
        let usual = items.flat_map(|item| ["", "_"].map(|before| (before, "__", item)));
        every.chain(usual).map(move |(before, between, item)| format!("{before}{server}{between}{item}"))
    };
    let names = HIDDEN.into_iter().chain(["none"]).flat_map(of);
    names.chain(["secret", "secre", "hello"].map(str::to_owned)).collect()
}

fn uris() -> Vec<String> {
    let of = |server: &str| ["mail://one", "x://y"].map(|uri| format!("toolway+{server}:{uri}"));
    let named = HIDDEN.into_iter().chain(["none"]).flat_map(of);
    named.chain(["mail://one", "mail://two", "seen://one"].map(str::to_owned)).collect()
}

/// All requests with a name or URI.
fn requests() -> Vec<(&'static str, Value)> {
    let argument = json!({ "name": "who", "value": "A" });
    let mut requests = Vec::new();
    for name in spellings() {
        let about = json!({ "type": "ref/prompt", "name": name });
        requests.push(("tools/call", json!({ "name": name })));
        requests.push(("prompts/get", json!({ "name": name })));
        requests.push(("completion/complete", json!({ "ref": about, "argument": argument })));
    }
    for uri in uris() {
        let about = json!({ "type": "ref/resource", "uri": uri });
        requests.push(("resources/read", json!({ "uri": uri })));
        requests.push(("completion/complete", json!({ "ref": about, "argument": argument })));
    }
    requests
}

#[tokio::test]
async fn hidden_items_are_answered_like_unknown_ones() {
    let [with, without] = RestrictedGateway::both().await;
    let dialled = with.locked.seen().len();
    // With the names of a single server, prefixes have no meaning: a sample is enough.
    for (path, step) in [("/mcp".to_owned(), 1), (format!("/servers/{SEEN}/mcp"), 10)] {
        for (method, params) in requests().into_iter().step_by(step) {
            let there = with.eve(&path).ask(method, params.clone()).await;
            let absent = without.eve(&path).ask(method, params.clone()).await;
            assert_eq!(there, absent, "{path} {method} {params}");
        }
    }
    assert_eq!(with.locked.seen().len(), dialled, "no hidden server was contacted");
}

#[tokio::test]
async fn path_of_a_hidden_server_is_not_found() {
    let [with, without] = RestrictedGateway::both().await;
    for server in HIDDEN.into_iter().chain(["none"]) {
        let path = format!("/servers/{server}/mcp");
        for (method, params) in [
            ("tools/call", json!({ "name": "secret" })),
            ("prompts/get", json!({ "name": "hello" })),
            ("resources/read", json!({ "uri": "mail://one" })),
            ("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": ["mail://one"] } })),
        ] {
            let (there, absent) = (
                with.eve(&path).open_request(method, params.clone()).await,
                without.eve(&path).open_request(method, params).await,
            );
            assert_eq!((there.status, absent.status), (404, 404), "{path} {method}");
            assert_eq!(there.text().await, absent.text().await, "{path} {method}");
        }
    }
}

#[tokio::test]
async fn hidden_resources_cannot_be_subscribed_to() {
    let [with, without] = RestrictedGateway::both().await;
    for era in [Era::Legacy, Era::Modern] {
        for path in ["/mcp".to_owned(), format!("/servers/{SEEN}/mcp")] {
            let wanted = || SubscriptionFilter { uris: uris(), ..SubscriptionFilter::default() };
            let (there, absent) = (with.client(&path, era).await, without.client(&path, era).await);
            let there = within("a subscription", there.listen(wanted())).await.unwrap();
            let absent = within("a subscription", absent.listen(wanted())).await.unwrap();
            assert_eq!(there.accepted().uris, absent.accepted().uris, "{era:?} {path}");
            assert!(there.accepted().uris.contains(&"seen://one".to_owned()), "{era:?} {path}");
        }
    }
}

/// Without prefixes, a name that only a hidden server lists is unknown.
#[tokio::test]
async fn unprefixed_name_of_a_hidden_server_is_unknown() {
    for prefix in ["auto", "never"] {
        let text = format!("{{ \"naming\": {{ \"prefix\": \"{prefix}\" }} }}");
        let config = || Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap();
        let seen = FixtureServer::new("seen").tool("echo", "Give it back");
        let mail = FixtureServer::new("mail").tool("secret", "Tell it");
        let with =
            RestrictedGateway::of(&[SEEN], |it, _| it.config(config()).server(SEEN, &seen).server("mail", &mail)).await;
        let without = RestrictedGateway::of(&[SEEN], |it, _| it.config(config()).server(SEEN, &seen)).await;
        for tool in ["secret", "secre", "mail__secret", "echo"] {
            let call = json!({ "name": tool });
            let there = with.eve("/mcp").ask("tools/call", call.clone()).await;
            assert_eq!(there, without.eve("/mcp").ask("tools/call", call).await, "{prefix} {tool}");
        }
        assert!(mail.seen("tools/call").is_empty(), "{prefix}");
    }
}

/// A client that sees only one of the owners has no conflict.
#[tokio::test]
async fn shared_uri_is_read_from_the_visible_server() {
    let (one, two) = (FixtureServer::new("both"), FixtureServer::new("both"));
    let restricted =
        RestrictedGateway::of(&["one"], |builder, _| builder.server("one", &one).server("two", &two)).await;
    let read = restricted.eve("/mcp").ask("resources/read", json!({ "uri": "both://one" })).await;
    assert_eq!(read["result"]["contents"][0]["text"], "both", "{read}");
    assert_eq!((one.seen("resources/read").len(), two.seen("resources/read").len()), (1, 0));
}

/// A hidden server lists a note to clients without capabilities, so the note is in the shared catalog.
#[tokio::test]
async fn uri_listed_to_others_does_not_reach_a_hidden_server() {
    let note = "note://shared";
    let lists_to = |some: bool| {
        Scripted::new(json!({ "resources": { "subscribe": true } }), move |request, caller| {
            let forms = caller.capabilities.lacks("elicitation/create", None).is_none();
            let shown = if forms == some { json!([{ "uri": note, "name": "note" }]) } else { json!([]) };
            Some(match request.method() {
                "resources/list" => json!({ "resources": shown }),
                "resources/templates/list" => json!({ "resourceTemplates": [] }),
                "resources/read" => json!({ "contents": [{ "uri": note, "text": "secret" }] }),
                _ => return None,
            })
        })
    };
    for era in [Era::Legacy, Era::Modern] {
        let (hidden, seen) = (lists_to(false), FixtureServer::new("seen"));
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let ada = file.add("ada", None, None).unwrap();
        let eve = file.add("eve", None, Some([name("seen")].into())).unwrap();
        let (access, _) = Access::with_keys(Some(file)).unwrap();
        let builder = TestHost::new().wanted(hidden.wanted("hidden")).server("seen", &seen);
        let gateway = TestGateway::open_to(builder, access, None).await;
        gateway.host.ready("hidden").await;
        gateway.host.ready("seen").await;
        // Wait until the list for clients with the capabilities of Ada and Eve is known.
        let ada = gateway.client_with("/mcp", era, Some(ada.expose())).await.unwrap();
        let heard = async {
            while within("a list", ada.list_resources()).await.unwrap().items.iter().any(|it| it.uri == note) {
                tokio::task::yield_now().await;
            }
        };
        within("the list for clients with forms", heard).await;
        let eve = gateway.client_with("/mcp", era, Some(eve.expose())).await.unwrap();
        let wanted = SubscriptionFilter {
            uris: vec![note.to_owned(), "seen://one".to_owned()],
            ..SubscriptionFilter::default()
        };
        let listening = within("a subscription", eve.listen(wanted)).await.unwrap();
        assert_eq!(listening.accepted().uris, ["seen://one"], "{era:?}");
        assert!(hidden.subscribed().is_empty(), "{era:?}");
    }
}

/// A name that starts with a digit has a `_` prefix; a client that may see the server gets the reason.
#[tokio::test]
async fn unlisted_name_of_a_visible_server_reports_the_required_sign_in() {
    for server in [LONG, "a", "7x", "a_"] {
        let restricted = RestrictedGateway::of(&[server], |builder, locked| builder.wanted(at(server, locked))).await;
        let before = if server == "7x" { "_" } else { "" };
        let unlisted = if server == "a_" { "x_0123456789ab" } else { "x" };
        let name = format!("{before}{server}__{unlisted}");
        let said = restricted.eve("/mcp").ask("tools/call", json!({ "name": name })).await;
        let said = said["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{said}"));
        assert!(said.contains("sign-in required"), "{name}: {said}");
        let said = restricted.eve("/mcp").ask("prompts/get", json!({ "name": name })).await;
        assert!(said["error"]["message"].as_str().unwrap().contains("sign-in required"), "{name}: {said}");
    }
}

#[tokio::test]
async fn filter_applies_before_the_server_has_listed() {
    let filter = Filter {
        exclude_tools: vec!["write*".into()],
        exclude_prompts: vec!["write*".into()],
        resources: Switch::Off,
        ..Filter::default()
    };
    let restricted = RestrictedGateway::of(&["7x"], |builder, locked| {
        builder.wanted(WantedServer { filter: Arc::new(filter), ..at("7x", locked) })
    })
    .await;
    let argument = json!({ "name": "who", "value": "A" });
    let prompt = json!({ "type": "ref/prompt", "name": "write" });
    let resource = json!({ "type": "ref/resource", "uri": "note://one" });
    let at_one = "/servers/7x/mcp";
    for (path, method, params) in [
        ("/mcp", "tools/call", json!({ "name": "_7x__write" })),
        ("/mcp", "prompts/get", json!({ "name": "_7x__write" })),
        ("/mcp", "resources/read", json!({ "uri": "toolway+7x:note://one" })),
        (at_one, "tools/call", json!({ "name": "write" })),
        (at_one, "prompts/get", json!({ "name": "write" })),
        (at_one, "resources/read", json!({ "uri": "note://one" })),
        (at_one, "completion/complete", json!({ "ref": prompt, "argument": argument })),
        (at_one, "completion/complete", json!({ "ref": resource, "argument": argument })),
    ] {
        let refused = restricted.eve(path).ask(method, params.clone()).await;
        let said = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
        assert!(said.starts_with("unknown "), "{path} {method} {params}: {said}");
        assert!(!said.contains("exclude") && !said.contains("entry"), "{path} {method} {params}: {said}");
    }
    for (path, uri) in [("/mcp", "toolway+7x:note://one"), (at_one, "note://one")] {
        let client = restricted.client(path, Era::Modern).await;
        let listening = within("a subscription", client.listen(SubscriptionFilter::resource(uri))).await;
        let accepted = listening.map(|listening| listening.accepted().uris.clone()).unwrap_or_default();
        assert!(accepted.is_empty(), "{path} {accepted:?}");
    }
}
