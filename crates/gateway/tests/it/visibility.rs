//! What a key does not see is answered as if it were not there, whatever it is called and however it is asked for.
//!
//! Most stories are told twice: where there are servers that a key does not see, and where there are none. Whoever
//! brings the key cannot tell which is which.

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
use toolway_wire::{notice::Wanted, revision::Era, up::Peer};

use crate::{knocking::Knocker, scripted::Scripted, stage::Stage};

/// As long as a server's name may be: with one more letter before it, it is none.
const LONG: &str = "a-name-of-a-server-with-32-bytes";
/// What the key does not see: those that wait for somebody to sign in, one that is ready, one that is switched off.
const HIDDEN: [&str; 5] = [LONG, "a", "7x", "mail", "off"];
/// What it does.
const SEEN: &str = "_a";

/// A gateway, and somebody who sees some of its servers.
struct World {
    stage: Stage,
    key: Secret,
    locked: OddHttp,
    _folder: tempfile::TempDir,
}

impl World {
    /// `build` is given where a server is that nobody has signed in to.
    async fn of(sees: &[&str], build: impl FnOnce(TestHostBuilder, &OddHttp) -> TestHostBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let key = file.add("eve", None, Some(sees.iter().map(|server| name(server)).collect())).unwrap();
        let (access, _) = Access::of_keys(Some(file)).unwrap();
        let locked = OddHttp::start(|_| Reply::empty(401).header("WWW-Authenticate", "Bearer")).await.unwrap();
        let stage = Stage::open_to(build(TestHost::new(), &locked), access, None).await;
        for status in stage.host.host.servers() {
            let settled = |phase: &Phase| {
                matches!(phase, Phase::Ready | Phase::SignInNeeded { .. } | Phase::Disabled | Phase::Stopped(_))
            };
            if stage.host.until(status.server.as_str(), settled).await.phase == Phase::Ready {
                stage.host.ready(status.server.as_str()).await;
            }
        }
        Self { stage, key, locked, _folder: folder }
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

    fn eve(&self, path: &str) -> Knocker {
        self.stage.knocker(path, Some(self.key.expose()))
    }

    async fn client(&self, path: &str, era: Era) -> Peer {
        self.stage.client_with(path, era, Some(self.key.expose())).await.unwrap()
    }
}

/// A server that nobody has signed in to.
fn at(server: &str, locked: &OddHttp) -> WantedServer {
    WantedServer::new(name(server), Way::Address(ServerAddress::http(locked.url().parse().unwrap())))
}

/// Each spelling of a name that says whose it is, of what nobody lists, and the usual ones of what is listed.
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

/// Everything that can be asked for by name.
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
async fn what_a_key_does_not_see_is_answered_as_if_it_were_not_there() {
    let [with, without] = World::both().await;
    let dialled = with.locked.seen().len();
    // Where names are a server's own, what they look like means nothing: there some of them will do.
    for (path, step) in [("/mcp".to_owned(), 1), (format!("/servers/{SEEN}/mcp"), 10)] {
        for (method, params) in requests().into_iter().step_by(step) {
            let there = with.eve(&path).asked(method, params.clone()).await;
            let absent = without.eve(&path).asked(method, params.clone()).await;
            assert_eq!(there, absent, "{path} {method} {params}");
        }
    }
    assert_eq!(with.locked.seen().len(), dialled, "nobody knocked at what Eve does not see");
}

#[tokio::test]
async fn the_path_of_a_server_that_a_key_does_not_see_leads_nowhere() {
    let [with, without] = World::both().await;
    for server in HIDDEN.into_iter().chain(["none"]) {
        let path = format!("/servers/{server}/mcp");
        for (method, params) in [
            ("tools/call", json!({ "name": "secret" })),
            ("prompts/get", json!({ "name": "hello" })),
            ("resources/read", json!({ "uri": "mail://one" })),
            ("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": ["mail://one"] } })),
        ] {
            let (there, absent) =
                (with.eve(&path).ask(method, params.clone()).await, without.eve(&path).ask(method, params).await);
            assert_eq!((there.status, absent.status), (404, 404), "{path} {method}");
            assert_eq!(there.text().await, absent.text().await, "{path} {method}");
        }
    }
}

#[tokio::test]
async fn what_a_key_does_not_see_is_not_subscribed_to() {
    let [with, without] = World::both().await;
    for era in [Era::Legacy, Era::Modern] {
        for path in ["/mcp".to_owned(), format!("/servers/{SEEN}/mcp")] {
            let wanted = || Wanted { uris: uris(), ..Wanted::default() };
            let (there, absent) = (with.client(&path, era).await, without.client(&path, era).await);
            let there = within("a subscription", there.listen(wanted())).await.unwrap();
            let absent = within("a subscription", absent.listen(wanted())).await.unwrap();
            assert_eq!(there.honoured().uris, absent.honoured().uris, "{era:?} {path}");
            assert!(there.honoured().uris.contains(&"seen://one".to_owned()), "{era:?} {path}");
        }
    }
}

/// Where names do not say whose they are, one that is only listed by what a key does not see is nobody's.
#[tokio::test]
async fn a_short_name_of_what_a_key_does_not_see_is_nobodys() {
    for prefix in ["auto", "never"] {
        let text = format!("{{ \"naming\": {{ \"prefix\": \"{prefix}\" }} }}");
        let config = || Config::of(&Document::of(Path::new("/etc/toolway.json"), &text).unwrap(), None).unwrap();
        let seen = FixtureServer::new("seen").tool("echo", "Give it back");
        let mail = FixtureServer::new("mail").tool("secret", "Tell it");
        let with = World::of(&[SEEN], |it, _| it.config(config()).server(SEEN, &seen).server("mail", &mail)).await;
        let without = World::of(&[SEEN], |it, _| it.config(config()).server(SEEN, &seen)).await;
        for tool in ["secret", "secre", "mail__secret", "echo"] {
            let call = json!({ "name": tool });
            let there = with.eve("/mcp").asked("tools/call", call.clone()).await;
            assert_eq!(there, without.eve("/mcp").asked("tools/call", call).await, "{prefix} {tool}");
        }
        assert!(mail.seen("tools/call").is_empty(), "{prefix}");
    }
}

/// For whoever sees one of them there is nothing to choose between.
#[tokio::test]
async fn a_uri_that_several_list_is_read_from_the_one_that_a_key_sees() {
    let (one, two) = (FixtureServer::new("both"), FixtureServer::new("both"));
    let world = World::of(&["one"], |builder, _| builder.server("one", &one).server("two", &two)).await;
    let read = world.eve("/mcp").asked("resources/read", json!({ "uri": "both://one" })).await;
    assert_eq!(read["result"]["contents"][0]["text"], "both", "{read}");
    assert_eq!((one.seen("resources/read").len(), two.seen("resources/read").len()), (1, 0));
}

/// A server lists a note to those who cannot be asked anything, so it is in everybody's list and not in Eve's.
#[tokio::test]
async fn a_uri_that_is_listed_to_others_is_no_way_to_a_server_that_a_key_does_not_see() {
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
        let (access, _) = Access::of_keys(Some(file)).unwrap();
        let builder = TestHost::new().wanted(hidden.wanted("hidden")).server("seen", &seen);
        let stage = Stage::open_to(builder, access, None).await;
        stage.host.ready("hidden").await;
        stage.host.ready("seen").await;
        // Ada, who can be asked the same as Eve, has been heard what the server lists to such callers.
        let ada = stage.client_with("/mcp", era, Some(ada.expose())).await.unwrap();
        let heard = async {
            while within("a list", ada.list_resources()).await.unwrap().items.iter().any(|it| it.uri == note) {
                tokio::task::yield_now().await;
            }
        };
        within("what is listed to those who fill in forms", heard).await;
        let eve = stage.client_with("/mcp", era, Some(eve.expose())).await.unwrap();
        let wanted = Wanted { uris: vec![note.to_owned(), "seen://one".to_owned()], ..Wanted::default() };
        let listening = within("a subscription", eve.listen(wanted)).await.unwrap();
        assert_eq!(listening.honoured().uris, ["seen://one"], "{era:?}");
        assert!(hidden.subscribed().is_empty(), "{era:?}");
    }
}

/// The other way round: what begins with a digit is called so, and whoever sees it is told what it waits for.
#[tokio::test]
async fn an_unlisted_name_of_a_server_that_a_key_sees_says_what_that_waits_for() {
    for server in [LONG, "a", "7x", "a_"] {
        let world = World::of(&[server], |builder, locked| builder.wanted(at(server, locked))).await;
        let before = if server == "7x" { "_" } else { "" };
        let unlisted = if server == "a_" { "x_0123456789ab" } else { "x" };
        let name = format!("{before}{server}__{unlisted}");
        let said = world.eve("/mcp").asked("tools/call", json!({ "name": name })).await;
        let said = said["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{said}"));
        assert!(said.contains("somebody has to sign in"), "{name}: {said}");
        let said = world.eve("/mcp").asked("prompts/get", json!({ "name": name })).await;
        assert!(said["error"]["message"].as_str().unwrap().contains("somebody has to sign in"), "{name}: {said}");
    }
}

#[tokio::test]
async fn a_filter_holds_for_what_a_server_has_not_listed_yet() {
    let filter = Filter {
        exclude_tools: vec!["write*".into()],
        exclude_prompts: vec!["write*".into()],
        resources: Switch::Off,
        ..Filter::default()
    };
    let world = World::of(&["7x"], |builder, locked| {
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
        let refused = world.eve(path).asked(method, params.clone()).await;
        let said = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
        assert!(said.contains("is left out by"), "{path} {method} {params}: {said}");
    }
    for (path, uri) in [("/mcp", "toolway+7x:note://one"), (at_one, "note://one")] {
        let client = world.client(path, Era::Modern).await;
        let listening = within("a subscription", client.listen(Wanted::resource(uri))).await;
        let honoured = listening.map(|listening| listening.honoured().uris.clone()).unwrap_or_default();
        assert!(honoured.is_empty(), "{path} {honoured:?}");
    }
}
