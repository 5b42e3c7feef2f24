//! Isolation of callers at one gateway, on every path and in either era.
//!
//! CVE-2026-52869, CVE-2026-111767, CVE-2026-111770, CVE-2026-25536, GHSA-953h-535j-jg2v.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use toolway_config::Secret;
use toolway_gateway::{
    GatewayOptions, SseTransport,
    access::{Access, KeyFile},
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::{TestHost, within},
};
use toolway_wire::revision::Era;

use crate::{
    raw_client::{RawClient, request},
    test_gateway::{TestGateway, behind},
};

/// Ada and Bob see all servers; Eve sees `mail` only.
struct Three {
    gateway: TestGateway,
    file: KeyFile,
    files: FixtureServer,
    mail: FixtureServer,
    keys: [Secret; 3],
    _folder: tempfile::TempDir,
}

const PATHS: [(&str, &str); 2] = [("/mcp", "files__"), ("/servers/files/mcp", "")];

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("echo", "Give it back").tool_that("greet", "Greet", Behaviour::Greet).tool_that(
        "wait",
        "Wait",
        Behaviour::Wait,
    )
}

impl Three {
    async fn start(files: FixtureServer) -> Self {
        Self::start_with(files, |options| options).await
    }

    async fn start_with(files: FixtureServer, change: impl FnOnce(GatewayOptions) -> GatewayOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let mail_only = Some(std::iter::once("mail".parse().unwrap()).collect());
        let keys = [("ada", None), ("bob", None), ("eve", mail_only)]
            .map(|(name, servers)| file.add(name, None, servers).unwrap());
        let (access, _) = Access::with_keys(Some(file.clone())).unwrap();
        let mail = FixtureServer::new("mail").tool("send", "Send it");
        let builder = TestHost::with(&files, "files").server("mail", &mail);
        let options = change(GatewayOptions { sse: SseTransport::Enabled, ..GatewayOptions::of(access) });
        let gateway = TestGateway::behind(builder, options, None).await;
        gateway.host.ready("files").await;
        gateway.host.ready("mail").await;
        Self { gateway, file, files, mail, keys, _folder: folder }
    }

    fn ada(&self, path: &str) -> RawClient {
        self.gateway.raw_client(path, Some(self.keys[0].expose()))
    }

    fn bob(&self, path: &str) -> RawClient {
        self.gateway.raw_client(path, Some(self.keys[1].expose()))
    }

    fn eve(&self, path: &str) -> RawClient {
        self.gateway.raw_client(path, Some(self.keys[2].expose()))
    }
}

#[tokio::test]
async fn session_id_is_useless_to_other_callers() {
    let three = Three::start(files()).await;
    for (path, prefix) in PATHS {
        let ada = three.ada(path).start_session().await;
        let message = request(1, "tools/call", json!({ "name": format!("{prefix}echo"), "arguments": {} }));
        let bob = three.bob(path).in_session_of(&ada);
        let without_key = three.gateway.raw_client(path, None).in_session_of(&ada);
        for (method, other) in [("POST", &bob), ("GET", &bob), ("DELETE", &bob)] {
            let headers = [("content-type", "application/json"), ("last-event-id", "0-0")];
            let refused = other.send(method, &headers, message.to_string()).await;
            assert_eq!(refused.status, 404, "{method} {path}");
            assert_eq!(without_key.send(method, &headers, message.to_string()).await.status, 401, "{method} {path}");
        }
        let elsewhere = PATHS.iter().find(|(other, _)| *other != path).unwrap().0;
        assert_eq!(three.ada(elsewhere).post_in(&ada, &message).await, 404, "{path} at {elsewhere}");
        assert_eq!(ada.post(&message).await.answer().await["result"]["isError"], false, "{path}");
    }
}

#[tokio::test]
async fn parked_call_is_bound_to_its_caller() {
    let three = Three::start(files()).await;
    for (path, prefix) in PATHS {
        let call = json!({ "name": format!("{prefix}greet"), "arguments": { "n": 1 } });
        let asked = three.ada(path).ask("tools/call", call.clone()).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let state = asked["result"]["requestState"].as_str().unwrap().to_owned();
        let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let retry = |state: &str, arguments: Value| {
            let answers = json!({ key.as_str(): { "action": "accept", "content": { "name": "Ada" } } });
            json!({ "name": format!("{prefix}greet"), "arguments": arguments, "requestState": state, "inputResponses": answers })
        };
        let mut tampered = state.clone();
        let place = state.len() - 8..state.len() - 7;
        let other = if &state[place.clone()] == "A" { "B" } else { "A" };
        tampered.replace_range(place, other);
        let elsewhere = PATHS.iter().find(|(other, _)| *other != path).unwrap();
        let mut at_the_other = retry(&state, json!({ "n": 1 }));
        at_the_other["name"] = format!("{}greet", elsewhere.1).into();
        for (who, params) in [
            (three.bob(path), retry(&state, json!({ "n": 1 }))),
            (three.ada(path), retry(&state, json!({ "n": 2 }))),
            (three.ada(path), retry(&tampered, json!({ "n": 1 }))),
            (three.ada(path), retry("made up", json!({ "n": 1 }))),
            (three.ada(elsewhere.0), at_the_other),
        ] {
            let refused = who.ask("tools/call", params.clone()).await;
            assert!(refused["error"].is_object(), "{path}: {params} {refused}");
        }
        let greeted = three.ada(path).ask("tools/call", retry(&state, json!({ "n": 1 }))).await;
        assert!(greeted["result"]["content"][0]["text"].as_str().unwrap().contains("Ada"), "{greeted}");
        let replayed = three.ada(path).ask("tools/call", retry(&state, json!({ "n": 1 }))).await;
        assert!(replayed["error"].is_object(), "{replayed}");
    }
}

#[tokio::test]
async fn cursor_is_bound_to_its_caller() {
    let three = Three::start_with(files(), |options| GatewayOptions { page_size: 1, ..options }).await;
    for (path, _) in PATHS {
        let first = three.ada(path).ask("tools/list", json!({})).await;
        assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 1, "{path}");
        let cursor = json!({ "cursor": first["result"]["nextCursor"] });
        let refused = three.bob(path).ask("tools/list", cursor.clone()).await;
        assert!(refused["error"].is_object(), "{path} {refused}");
        let rest = three.ada(path).ask("tools/list", cursor).await;
        assert!(rest["result"]["tools"].is_array(), "{path} {rest}");
    }
}

#[tokio::test]
async fn answers_and_cancellations_affect_only_own_calls() {
    let three = Three::start(files()).await;
    let (ada, bob) = (three.ada("/mcp").start_session().await, three.bob("/mcp").start_session().await);
    let mut greeting = ada.post(&request(7, "tools/call", json!({ "name": "files__greet" }))).await;
    let question = loop {
        let message = greeting.message().await.unwrap();
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    let answered = |name: &str| json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": { "name": name } } });
    assert_eq!(bob.post(&answered("Mallory")).await.status, 202);
    assert_eq!(bob.in_session_of(&ada).post(&answered("Mallory")).await.status, 404);
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    assert_eq!(bob.post(&cancelled).await.status, 202);
    assert_eq!(ada.post(&answered("Ada")).await.status, 202);
    let greeted = greeting.answer().await;
    assert!(greeted["result"]["content"][0]["text"].as_str().unwrap().contains("Ada"), "{greeted}");
    assert_eq!(three.files.cancelled(), 0);
}

#[tokio::test]
async fn hidden_servers_look_absent() {
    let three = Three::start(files()).await;
    let eve = three.eve("/mcp");
    for (method, params) in [
        ("tools/call", json!({ "name": "files__echo" })),
        ("prompts/get", json!({ "name": "files__hello" })),
        ("resources/read", json!({ "uri": "files://one" })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "files__hello" }, "argument": { "name": "who", "value": "A" } }),
        ),
    ] {
        let hidden = eve.ask(method, params.clone()).await;
        assert!(hidden["error"].is_object(), "{method} {hidden}");
        // Same error as for an unknown name.
        let text = params.to_string().replace("files", "nothing");
        let absent = eve.ask(method, serde_json::from_str(&text).unwrap()).await;
        assert_eq!(hidden["error"]["code"], absent["error"]["code"], "{method} {hidden} {absent}");
        assert!(three.files.seen(method).is_empty(), "{method}");
    }
    for list in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let listed = eve.ask(list, json!({})).await;
        assert!(listed["result"].is_object() && !listed.to_string().contains("files"), "{list} {listed}");
    }
    for method in ["GET", "POST", "DELETE"] {
        assert_eq!(three.eve("/servers/files/mcp").send(method, &[], "").await.status, 404);
        assert_eq!(three.eve("/servers/none/mcp").send(method, &[], "").await.status, 404);
    }
    let servers = three.eve("/servers").get().await.text().await;
    assert!(servers.contains("mail") && !servers.contains("files"), "{servers}");
}

#[tokio::test]
async fn subscription_covers_only_visible_servers() {
    let three = Three::start(files()).await;
    let wanted = json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["files://one", "mail://one"] } });
    let mut ada = three.ada("/mcp").open_request("subscriptions/listen", wanted.clone()).await;
    let mut eve = three.eve("/mcp").open_request("subscriptions/listen", wanted).await;
    let (granted, refused) = (ada.message().await.unwrap(), eve.message().await.unwrap());
    assert!(granted.to_string().contains("files://one"), "{granted}");
    assert!(!refused.to_string().contains("files://one") && refused.to_string().contains("mail://one"), "{refused}");
    three.files.touch("files://one");
    let heard = ada.message().await.unwrap();
    assert_eq!(
        (&heard["method"], &heard["params"]["uri"]),
        (&"notifications/resources/updated".into(), &"files://one".into())
    );
    three.files.add_tool("new", "New");
    assert_eq!(ada.message().await.unwrap()["method"], "notifications/tools/list_changed");
    // An earlier notification would arrive first.
    three.mail.touch("mail://one");
    assert_eq!(eve.message().await.unwrap()["params"]["uri"], "mail://one");
}

#[tokio::test]
async fn revoking_a_key_ends_its_sessions_streams_and_calls() {
    let three = Three::start(files()).await;
    let ada = three.ada("/mcp").start_session().await;
    let bob = three.bob("/mcp").start_session().await;
    let mut standing = [ada.get().await, bob.get().await];
    let mut listening = three
        .ada("/mcp")
        .open_request("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }))
        .await;
    listening.message().await.unwrap();
    let spawn = |raw_client: RawClient, call: Option<Value>| {
        AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
            match call {
                Some(call) => raw_client.post(&call).await.status,
                None => raw_client.open_request("tools/call", json!({ "name": "files__wait" })).await.status,
            }
        }))
    };
    let in_session = spawn(ada.clone(), Some(request(3, "tools/call", json!({ "name": "files__wait" }))));
    let stateless = spawn(three.ada("/mcp"), None);
    three.ada("/mcp").ask("tools/call", json!({ "name": "files__greet" })).await;
    within("the calls", three.files.until_received("tools/call", 3)).await;

    let began = Instant::now();
    three.file.revoke("ada").unwrap();

    assert!(listening.message().await.is_none(), "the listener is cut off");
    assert!(standing[0].message().await.is_none(), "the standing stream ends");
    assert_eq!(within("the call", stateless).await.unwrap(), 401);
    within("the call of the session", in_session).await.unwrap();
    within("the cancellation at the server", three.files.left(2)).await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(ada.get().await.status, 401);
    let metrics = three.bob("/metrics").get().await.text().await;
    assert!(metrics.contains("toolway_sessions 1\n") && metrics.contains("toolway_parked_calls 0\n"), "{metrics}");
    // Other clients are not affected.
    three.files.add_tool("new", "New");
    assert_eq!(standing[1].message().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn expired_key_ends_its_streams() {
    let three = Three::start(files()).await;
    let key = three.file.add("guest", Some(Duration::from_secs(2)), None).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let guest = three.gateway.raw_client("/mcp", Some(key.expose()));
    let mut listening =
        guest.open_request("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })).await;
    listening.message().await.unwrap();
    assert!(listening.message().await.is_none());
    assert_eq!(guest.open_request("tools/list", json!({})).await.status, 401);
}

/// Checks all bytes that the server received.
#[tokio::test]
async fn client_key_is_never_sent_to_a_server() {
    for era in [Era::Legacy, Era::Modern] {
        let files = files();
        let (fixture, _) = behind(&files, era).await;
        let tap = crate::tap::Tap::before(&fixture.url()).await;
        let address = toolway_host::connection::ServerAddress::http(tap.url().parse().unwrap());
        let wanted = toolway_host::connection::WantedServer::new(
            toolway_testkit::test_host::name("files"),
            toolway_host::connection::Way::Address(address),
        );
        let gateway = TestGateway::with(TestHost::new().wanted(wanted)).await;
        gateway.host.ready("files").await;
        let key = gateway.key.as_ref().unwrap().expose();
        let caller = gateway.raw_client("/mcp", Some(key));
        let session = caller.clone().start_session().await;
        let call = json!({ "name": "files__echo", "arguments": { "text": "seen upstream" } });
        session.post(&request(1, "tools/call", call.clone())).await.answer().await;
        let headers =
            [("content-type", "application/json"), ("cookie", "secret=biscuit"), ("x-api-key", "apikey-of-ada")];
        session.send("POST", &headers, request(2, "tools/call", call.clone()).to_string()).await.answer().await;
        caller.ask("tools/call", call).await;
        let seen = tap.seen();
        assert!(seen.contains("seen upstream"), "{era:?}");
        for hidden in [key, "biscuit", "apikey-of-ada", session.session(), "Bearer", "authorization"] {
            assert!(!seen.contains(hidden), "{era:?}: {hidden}");
        }
    }
}

/// See CVE-2026-111767.
#[tokio::test]
async fn task_is_bound_to_its_caller() {
    let three = Three::start(files()).await;
    let (ada, bob) = (three.ada("/mcp").start_session().await, three.bob("/mcp").start_session().await);
    let call = json!({ "name": "files__echo", "arguments": { "text": "ada's" }, "task": { "ttl": 60_000 } });
    let made = ada.post(&request(1, "tools/call", call)).await.answer().await;
    let id = made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = bob.post(&request(2, method, json!({ "taskId": id }))).await.answer().await;
        assert!(refused["error"].is_object(), "{method} {refused}");
        assert!(!refused.to_string().contains("ada's"), "{method} {refused}");
    }
    let listed = bob.post(&request(3, "tasks/list", json!({}))).await.answer().await;
    assert!(!listed.to_string().contains(&id), "{listed}");
    let done = ada.post(&request(4, "tasks/result", json!({ "taskId": id }))).await.answer().await;
    assert!(done.to_string().contains("ada's"), "{done}");
}
