//! Roots of the configuration behind the gateway: top level, server and client, in both eras on both sides.

use std::{path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolway_config::{Config, document::Document};
use toolway_gateway::access::{Access, KeyFile};
use toolway_host::roots::ClientRootBound;
use toolway_testkit::test_host::{TestHost, within};
use toolway_wire::{
    exchange::{Answer, ExchangeTimeouts, Outcome, Request, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::ClientCapabilities,
    revision::{Era, Revision},
    up::Peer,
};

use crate::{over_http::OverHttp, test_gateway::TestGateway};

/// A client with these roots.
struct OwnRoots(Vec<&'static str>);

impl ServerRequestHandler for OwnRoots {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "roots": { "listChanged": true } })))
    }

    fn answer(&self, _request: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        let roots: Vec<Value> = self.0.iter().map(|uri| json!({ "uri": uri })).collect();
        Box::pin(std::future::ready(Answer::Given(Raw::of(&json!({ "roots": roots })))))
    }
}

/// A gateway with the keys of `ada` and `ben`, and one server whose tool asks for the roots.
struct Stage {
    gateway: TestGateway,
    server: OverHttp,
    keys: [String; 2],
    _folder: tempfile::TempDir,
}

impl Stage {
    /// `settings` are members of the configuration, and `entry` of the server's entry.
    async fn new(era: Era, settings: &Value, entry: &Value, bound: ClientRootBound) -> Self {
        let revision = if era == Era::Legacy { Revision::V2025_11_25 } else { Revision::V2026_07_28 };
        let server = OverHttp::serve(revision).await;
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let keys = ["ada", "ben"].map(|name| file.add(name, None, None).unwrap().expose().to_owned());
        let (access, _) = Access::with_keys(Some(file)).unwrap();
        let mut builder = TestHost::new().config(config(&server, settings, entry));
        builder.options.client_roots = bound;
        builder.options.declared = Some(ClientCapabilities::none());
        let gateway = TestGateway::open_to(builder, access, None).await;
        gateway.host.ready("files").await;
        Self { gateway, server, keys, _folder: folder }
    }

    async fn ada(&self, era: Era, own: Option<Vec<&'static str>>) -> (Peer, Option<OwnRoots>) {
        self.client(&self.keys[0], era, own).await
    }

    async fn client(&self, key: &str, era: Era, own: Option<Vec<&'static str>>) -> (Peer, Option<OwnRoots>) {
        let peer = match &own {
            None => self.gateway.connect_without_user("/mcp", era, key).await,
            Some(own) => self.gateway.connect_answering(era, key, Arc::new(OwnRoots(own.clone()))).await,
        };
        (peer, own.map(OwnRoots))
    }
}

fn config(server: &OverHttp, settings: &Value, entry: &Value) -> Config {
    let mut whole = settings.clone();
    let mut entry = entry.clone();
    entry["url"] = format!("http://{}/mcp", server.address).into();
    whole["mcpServers"] = json!({ "files": entry });
    let document = Document::of(Path::new("/x/toolway.json"), &whole.to_string()).unwrap();
    Config::of(&document, None).unwrap()
}

/// The URIs that the server gets during a call of its tool, or the refusal.
async fn told((client, own): &(Peer, Option<OwnRoots>)) -> Result<Vec<String>, String> {
    let params = json!({ "name": "files__test_input_required_result_list_roots", "arguments": {} });
    let exchange = client.open(Request::new("tools/call", Some(Raw::of(&params))).unwrap(), ExchangeTimeouts::call());
    let user = own.as_ref().map(|own| own as &dyn ServerRequestHandler);
    match within("the roots", exchange.outcome_with(user, |_| {})).await {
        Outcome::Answered(result) => {
            let text = result.get("content").unwrap().elements()[0].get("text").unwrap();
            let text = text.as_str().unwrap().into_owned();
            let Some((_, list)) = text.split_once(" roots: ") else { return Err(text) };
            let list: Vec<Value> = serde_json::from_str(list).unwrap();
            Ok(list.iter().map(|root| root["uri"].as_str().unwrap().to_owned()).collect())
        }
        Outcome::Refused(error) => Err(error.message().to_string()),
        other => panic!("{other:?}"),
    }
}

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_without_roots_gets_those_of_all_levels_and_others_their_own() {
    let settings = json!({
        "roots": [{ "path": "/top" }, { "path": "/off", "enabled": false }],
        "gateway": { "clients": { "ada": { "roots": [{ "path": "/for/ada", "name": "hers" }, { "path": "/top/" }] } } },
    });
    let entry = json!({ "roots": [{ "path": "/server" }, { "uri": "file:///top" }] });
    for server in ERAS {
        let stage = Stage::new(server, &settings, &entry, ClientRootBound::Anywhere).await;
        for client in ERAS {
            let hers = told(&stage.ada(client, None).await).await.unwrap();
            assert_eq!(hers, ["file:///top", "file:///server", "file:///for/ada"], "{client} {server}");
            let bens = told(&stage.client(&stage.keys[1], client, None).await).await.unwrap();
            assert_eq!(bens, ["file:///top", "file:///server"], "{client} {server}");
            let own = Some(vec!["file:///own", "file:///for/ada"]);
            let declared = told(&stage.ada(client, own).await).await.unwrap();
            assert_eq!(declared, ["file:///own", "file:///for/ada", "file:///top"], "{client} {server}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_roots_the_capability_is_not_declared() {
    for server in ERAS {
        let stage = Stage::new(server, &json!({}), &json!({}), ClientRootBound::Anywhere).await;
        for client in ERAS {
            assert!(told(&stage.ada(client, None).await).await.is_err(), "{client} {server}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roots_of_a_client_are_bounded_and_configured_ones_are_not() {
    let own = || Some(vec!["file:///work/a", "file:///work-evil", "file:///work/../etc", "https://a.example/"]);
    let client = json!({ "clients": { "ada": { "roots": [{ "path": "/elsewhere" }] } } });
    for server in ERAS {
        let stage = Stage::new(server, &json!({ "gateway": client }), &json!({}), ClientRootBound::NoFiles).await;
        let told_now = told(&stage.ada(Era::Legacy, own()).await).await.unwrap();
        assert_eq!(told_now, ["https://a.example/", "file:///elsewhere"], "{server}");
        let mut within_work = client.clone();
        within_work["rootsWithin"] = json!(["/work"]);
        let changed = config(&stage.server, &json!({ "gateway": within_work }), &json!({}));
        stage.gateway.host.host.reload(&changed).unwrap();
        let told_now = told(&stage.ada(Era::Modern, own()).await).await.unwrap();
        assert_eq!(told_now, ["file:///work/a", "file:///elsewhere"], "{server}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_configuration_takes_effect_in_running_connections() {
    for server in ERAS {
        let stage = Stage::new(server, &json!({}), &json!({}), ClientRootBound::Anywhere).await;
        let ada = stage.ada(Era::Legacy, None).await;
        assert!(told(&ada).await.is_err());
        for roots in [json!([{ "path": "/one" }]), json!([{ "path": "/two" }, { "path": "/three" }])] {
            let changed = config(&stage.server, &json!({ "roots": roots }), &json!({}));
            stage.gateway.host.host.reload(&changed).unwrap();
            let paths: Vec<String> = roots
                .as_array()
                .unwrap()
                .iter()
                .map(|root| format!("file://{}", root["path"].as_str().unwrap()))
                .collect();
            assert_eq!(told(&ada).await.unwrap(), paths, "{server}");
        }
        stage.gateway.host.host.reload(&config(&stage.server, &json!({}), &json!({}))).unwrap();
        assert!(told(&ada).await.is_err(), "{server}");
    }
}

/// Sends a request to `/roots`; returns the status and the body.
async fn roots(stage: &Stage, key: usize, method: &str, body: &str) -> (u16, Value) {
    let client = stage.gateway.raw_client("/roots", Some(&stage.keys[key]));
    let answer = client.send(method, &[], body.to_owned()).await;
    let status = answer.status;
    let body = answer.text().await;
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

fn list(uris: &[&str]) -> String {
    json!({ "roots": uris.iter().map(|uri| json!({ "uri": uri })).collect::<Vec<_>>() }).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_supplies_its_own_roots_over_http_and_they_take_effect_at_once() {
    for server in ERAS {
        let stage = Stage::new(server, &json!({}), &json!({}), ClientRootBound::Anywhere).await;
        for client in ERAS {
            let ada = stage.ada(client, None).await;
            let (status, set) = roots(&stage, 0, "PUT", &list(&["file:///hers", "file:///hers/"])).await;
            assert_eq!((status, &set["dropped"]), (200, &json!([])), "{set}");
            assert_eq!(told(&ada).await.unwrap(), ["file:///hers"], "{client} {server}");
            roots(&stage, 0, "PUT", &list(&["file:///other"])).await;
            assert_eq!(told(&ada).await.unwrap(), ["file:///other"], "{client} {server}");
            let declared = told(&stage.ada(client, Some(vec!["file:///own"])).await).await.unwrap();
            assert_eq!(declared, ["file:///own", "file:///other"], "{client} {server}");
            // Another client neither sees nor gets them.
            assert_eq!(roots(&stage, 1, "GET", "").await.1, json!({ "roots": [] }));
            assert!(told(&stage.client(&stage.keys[1], client, None).await).await.is_err(), "{client} {server}");
            assert_eq!(roots(&stage, 0, "PUT", &list(&[])).await.0, 200);
            assert!(told(&ada).await.is_err(), "{client} {server}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn supplied_roots_cannot_leave_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    std::fs::create_dir_all(folder.join("work/a")).unwrap();
    std::fs::create_dir(folder.join("work-evil")).unwrap();
    std::os::unix::fs::symlink(folder.join("work-evil"), folder.join("work/link")).unwrap();
    let settings = json!({ "gateway": { "rootsWithin": [folder.join("work")] } });
    let stage = Stage::new(Era::Legacy, &settings, &json!({}), ClientRootBound::NoFiles).await;
    let uri = |path: &str| format!("file://{}/{path}", folder.display());
    let bad =
        ["work-evil", "work/../work-evil", "work/%2e%2e/work-evil", "work/..%2fwork-evil", "work/link/x", "work/a%00"];
    let mut uris: Vec<String> = bad.iter().map(|path| uri(path)).collect();
    uris.extend(["file:///".to_owned(), "https://a.example/".to_owned(), uri("work/a")]);
    let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
    let (status, set) = roots(&stage, 0, "PUT", &list(&uris)).await;
    assert_eq!((status, &set["roots"]), (200, &json!([{ "uri": uri("work/a") }])), "{set}");
    assert_eq!(set["dropped"].as_array().unwrap().len(), uris.len() - 1);
    let ada = stage.ada(Era::Legacy, None).await;
    assert_eq!(told(&ada).await.unwrap(), [uri("work/a")]);
    // A folder that becomes a link afterwards is not passed on any more.
    std::fs::remove_dir(folder.join("work/a")).unwrap();
    std::os::unix::fs::symlink(folder.join("work-evil"), folder.join("work/a")).unwrap();
    assert_eq!(roots(&stage, 0, "GET", "").await.1, json!({ "roots": [] }));
    assert_eq!(told(&ada).await.unwrap_or_default(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_and_malformed_lists_are_refused_and_change_nothing() {
    let stage = Stage::new(Era::Legacy, &json!({}), &json!({}), ClientRootBound::Anywhere).await;
    roots(&stage, 0, "PUT", &list(&["file:///hers"])).await;
    let long = format!("file:///{}", "x".repeat(3_000));
    let many = ["file:///a"; 65];
    let bodies =
        [list(&many), list(&[&long]), list(&["hers"]), "[]".to_owned(), r#"{"roots":[{"path":"/a"}]}"#.to_owned()];
    for body in bodies {
        let (status, said) = roots(&stage, 0, "PUT", &body).await;
        assert_eq!(status, 400, "{said}");
    }
    assert_eq!(roots(&stage, 0, "PUT", &"x".repeat(300_000)).await.0, 413);
    assert_eq!(roots(&stage, 0, "DELETE", "").await.0, 405);
    assert_eq!(roots(&stage, 0, "GET", "").await.1, json!({ "roots": [{ "uri": "file:///hers" }] }));
}
