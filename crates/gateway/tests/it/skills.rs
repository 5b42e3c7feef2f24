//! The skills extension: skills of several servers in one list, under URIs that name their server.

use std::{fs, path::Path, sync::Arc};

use serde_json::{Value, json};
use toolway_config::Secret;
use toolway_host::{
    catalog::filter::{Filter, Switch},
    connection::{Program, ServerAddress, WantedServer, Way},
};
use toolway_testkit::test_host::{TestHost, name, within};
use toolway_wire::{
    exchange::{ExchangeTimeouts, Outcome, Request},
    json::Raw,
    revision::Era,
    up::Peer,
};

use crate::{scripted::Scripted, test_gateway::TestGateway};

const SKILLS: &str = "io.modelcontextprotocol/skills";
const DIGEST: &str = "sha256:00";

/// A server with this many pages of one skill each; the first is `skill://pdf/SKILL.md`.
fn skilled(pages: usize, settings: &Value) -> Arc<Scripted> {
    let capabilities = json!({ "resources": {}, "extensions": { SKILLS: settings } });
    Scripted::new(capabilities, move |request, _| {
        let entry = |name: &str| {
            let uri = format!("skill://{name}/SKILL.md");
            let frontmatter = json!({ "name": name, "uri": "skill://mine", "n": 1.0 });
            json!({ "uri": uri, "frontmatter": frontmatter, "resources": [{ "uri": uri, "digest": DIGEST, "size": 3 }] })
        };
        Some(match request.method() {
            "resources/list" => json!({ "resources": [] }),
            "skills/list" => {
                let page = request.param("cursor").map_or(0, |cursor| cursor.as_str().unwrap().parse().unwrap());
                let name = if page == 0 { "pdf".to_owned() } else { format!("s{page}") };
                let mut result = json!({ "skills": [entry(&name)] });
                if page + 1 < pages {
                    result["nextCursor"] = (page + 1).to_string().into();
                }
                result
            }
            "skills/get" if request.param("uri")?.as_str()? == "skill://pdf/SKILL.md" => {
                json!({ "skill": entry("pdf") })
            }
            "resources/directory/read" => {
                json!({ "contents": [{ "uri": request.param("uri")?.as_str()?, "name": "x" }] })
            }
            _ => return None,
        })
    })
}

async fn outcome(client: &Peer, method: &'static str, params: &Value) -> Outcome {
    let request = Request::new(method, Some(Raw::of(params))).unwrap();
    within(method, client.open(request, ExchangeTimeouts::call()).outcome()).await
}

async fn answered(client: &Peer, method: &'static str, params: &Value) -> Value {
    match outcome(client, method, params).await {
        Outcome::Answered(result) => result.read().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn uris(list: &Value) -> Vec<&str> {
    list["skills"].as_array().unwrap().iter().map(|skill| skill["uri"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn skills_of_all_servers_are_one_list_and_each_is_found_at_its_server() {
    let builder = TestHost::new()
        .wanted(skilled(2, &json!({})).wanted("one"))
        .wanted(skilled(1, &json!({ "directoryRead": true })).wanted("two"))
        .wanted(Scripted::new(json!({ "resources": {} }), |_, _| Some(json!({ "resources": [] }))).wanted("plain"));
    let gateway = TestGateway::with(builder).await;
    for server in ["one", "two", "plain"] {
        gateway.host.ready(server).await;
    }
    for era in [Era::Legacy, Era::Modern] {
        let client = gateway.client("/mcp", era).await;
        let declared = client.profile().capabilities.0.get("extensions").unwrap().get(SKILLS).unwrap();
        assert_eq!(declared.read::<Value>().unwrap(), json!({ "directoryRead": true }));
        let list = answered(&client, "skills/list", &json!({})).await;
        let [pdf, s1, other] = uris(&list)[..] else { panic!("{list}") };
        assert_eq!(
            [pdf, s1, other],
            ["skill://toolway+one/pdf/SKILL.md", "skill://toolway+one/s1/SKILL.md", "skill://toolway+two/pdf/SKILL.md"]
        );
        let entry = answered(&client, "skills/get", &json!({ "uri": other })).await;
        assert_eq!(entry["skill"], list["skills"][2]);
        assert_eq!(entry["skill"]["resources"][0], json!({ "uri": other, "digest": DIGEST, "size": 3 }));
        assert_eq!(entry["skill"]["frontmatter"]["uri"], "skill://mine", "data of the author is unchanged");
        let folder = json!({ "uri": "skill://toolway+two/pdf" });
        assert_eq!(answered(&client, "resources/directory/read", &folder).await["contents"][0]["uri"], folder["uri"]);
        for (method, uri) in [
            ("resources/directory/read", "skill://toolway+one/pdf"),
            ("skills/get", "skill://pdf/SKILL.md"),
            ("skills/get", "skill://toolway+plain/pdf/SKILL.md"),
            ("skills/get", "skill://toolway+gone/pdf/SKILL.md"),
        ] {
            let outcome = outcome(&client, method, &json!({ "uri": uri })).await;
            assert!(matches!(outcome, Outcome::Refused(_)), "{method} {uri}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn skills_are_neither_declared_nor_answered_without_a_server_that_has_them() {
    let filter = Arc::new(Filter { resources: Switch::Off, ..Filter::default() });
    let hidden = WantedServer { filter, ..skilled(1, &json!({})).wanted("hidden") };
    let gateway = TestGateway::with(TestHost::new().wanted(hidden)).await;
    gateway.host.ready("hidden").await;
    let client = gateway.client("/mcp", Era::Modern).await;
    let outcome = outcome(&client, "skills/list", &json!({})).await;
    assert!(matches!(&outcome, Outcome::Refused(error) if error.code() == -32601), "{outcome:?}");
    assert!(!client.profile().capabilities.extension(SKILLS));
}

#[tokio::test]
async fn list_without_an_end_is_cut() {
    let gateway = TestGateway::with(TestHost::new().wanted(skilled(usize::MAX, &json!({})).wanted("one"))).await;
    gateway.host.ready("one").await;
    let client = gateway.client("/mcp", Era::Modern).await;
    assert_eq!(uris(&answered(&client, "skills/list", &json!({})).await).len(), 50);
}

#[tokio::test]
async fn client_of_fastmcp_reads_and_verifies_the_skills_of_two_servers() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("pdf");
    fs::create_dir(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "---\nname: pdf\ndescription: Reads PDF files\n---\n\nRead forms.md.\n").unwrap();
    fs::write(skill.join("forms.md"), "Fill them in.\n").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let peer = |path: &str| root.join(path).to_str().unwrap().to_owned();
    let server = |label| {
        let arguments =
            vec![peer("tests/interop/servers/skills_fastmcp.py"), folder.path().to_str().unwrap().to_owned()];
        let program = Program { arguments, ..Program::new(peer(".interop/venv/bin/python")) };
        WantedServer::new(name(label), Way::Address(ServerAddress::Process(program)))
    };
    let gateway = TestGateway::with(TestHost::new().wanted(server("one")).wanted(server("two"))).await;
    gateway.host.ready("one").await;
    gateway.host.ready("two").await;
    let mut client = tokio::process::Command::from(std::process::Command::new(peer(".interop/venv/bin/python")));
    let key = gateway.key.as_ref().map(Secret::expose).unwrap();
    client.args([&peer("tests/interop/clients/fastmcp_skills.py"), &format!("http://{}/mcp", gateway.address), key]);
    let output = within("the client", client.kill_on_drop(true).output()).await.unwrap();
    let did: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let skills = json!(["skill://toolway+one/pdf/SKILL.md", "skill://toolway+two/pdf/SKILL.md"]);
    assert_eq!(did, json!({ "skills": skills, "files": 4 }));
}
