//! Idempotency keys of clients over real HTTP: in the header `Idempotency-Key`, in `_meta`, or in both.

use std::{
    io::{BufRead, BufReader},
    net::TcpStream,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolway_testkit::effects::EffectsFile;

use crate::{
    gateway::{Answer, Serving},
    home::{Home, Running, root},
};

/// A gateway with the witness over HTTP and the keys of two clients.
struct Scene {
    home: Home,
    ada: String,
    ben: String,
    url: String,
    witness: Running,
}

/// What a client repeats: the id of the effect, its idempotency key in the header and in `_meta`.
#[derive(Clone, Copy, Default)]
struct Wanted<'a> {
    id: &'a str,
    after_ms: u64,
    header: Option<&'a str>,
    meta: Option<&'a str>,
}

impl Scene {
    fn new() -> Self {
        let home = Home::new();
        let (witness, url) = start_witness(&home, "127.0.0.1:0");
        home.configure(&json!({ "mcpServers": { "witness": { "url": url } } }).to_string());
        let key = |name: &str| {
            let added = home.run(&["clients", "add", name, "-o", "json"]).json();
            added["key"].as_str().unwrap().to_owned()
        };
        let [ada, ben] = ["ada", "ben"].map(key);
        Self { home, ada, ben, url, witness }
    }

    fn serve(&self) -> Serving {
        let serving = Serving::start(&self.home, &[]);
        serving.settled(&self.ada, "witness", "ready");
        serving
    }

    fn effects(&self) -> Vec<String> {
        let file: PathBuf = self.home.path("effects");
        EffectsFile::read(&file)
    }

    fn until_acted(&self) {
        let began = Instant::now();
        while self.effects().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(20), "the server acts");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Starts the witness at this address; returns its URL, too.
fn start_witness(home: &Home, address: &str) -> (Running, String) {
    let here = std::env::current_exe().unwrap();
    let program = here.ancestors().nth(2).unwrap().join("witness-server");
    assert!(program.exists(), "{} is missing: run ./test, which builds it", program.display());
    let mut command = Command::new(program);
    command.arg(home.path("effects")).args(["--listen", address]);
    let mut witness = Running::start(command.stdout(Stdio::piped()));
    let mut url = String::new();
    BufReader::new(witness.stdout.take().unwrap()).read_line(&mut url).unwrap();
    (witness, url.trim().to_owned())
}

/// Sends a call of `act`.
fn send(serving: &Serving, client: &str, wanted: Wanted<'_>) -> TcpStream {
    let tool = "witness__act";
    let Wanted { id, after_ms, header, meta } = wanted;
    let mut own = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "story", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if let Some(meta) = meta {
        own["toolway/idempotencyKey"] = json!(meta);
    }
    let params = json!({ "name": tool, "arguments": { "id": id, "afterMs": after_ms }, "_meta": own });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let bearer = format!("Bearer {client}");
    let mut headers = vec![
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    headers.extend(header.map(|key| ("Idempotency-Key", key)));
    serving.send("POST", "/mcp", &headers, &body)
}

/// The JSON-RPC response of a call.
fn response(stream: TcpStream) -> Value {
    let answer = Answer::of(stream);
    let text = answer.body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&answer.body);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn act(serving: &Serving, client: &str, wanted: Wanted<'_>) -> Value {
    response(send(serving, client, wanted))
}

/// The text of a result, or the message of an error.
fn text(response: &Value) -> &str {
    let found = response["result"]["content"][0]["text"].as_str().or_else(|| response["error"]["message"].as_str());
    found.unwrap_or_else(|| panic!("{response}"))
}

#[test]
fn a_repeated_request_gets_the_recorded_answer_also_after_a_kill() {
    let scene = Scene::new();
    let serving = scene.serve();
    let order = Wanted { id: "paid", header: Some("order-7"), ..Wanted::default() };
    assert_eq!(text(&act(&serving, &scene.ada, order)), "did paid");
    // The same key in `_meta`, or in both places, is the same key.
    let in_meta = Wanted { header: None, meta: Some("order-7"), ..order };
    let in_both = Wanted { meta: Some("order-7"), ..order };
    for again in [order, in_meta, in_both] {
        assert_eq!(text(&act(&serving, &scene.ada, again)), "did paid");
    }
    drop(serving);
    let serving = scene.serve();
    assert_eq!(text(&act(&serving, &scene.ada, order)), "did paid");
    assert_eq!(scene.effects(), ["paid"]);
    // The key of another client is another key.
    assert_eq!(text(&act(&serving, &scene.ben, Wanted { id: "of ben", ..order })), "did of ben");
    assert_eq!(scene.effects(), ["paid", "of ben"]);
    // A new key of the same name is another client.
    scene.home.run(&["clients", "revoke", "ben"]).ok();
    let ben = scene.home.run(&["clients", "add", "ben", "-o", "json"]).json()["key"].as_str().unwrap().to_owned();
    assert_eq!(text(&act(&serving, &ben, Wanted { id: "of ben, too", ..order })), "did of ben, too");
}

#[test]
fn a_repeated_request_waits_for_the_running_one() {
    let scene = Scene::new();
    let serving = scene.serve();
    let order = Wanted { id: "slow", after_ms: 700, header: Some("k"), ..Wanted::default() };
    let first = send(&serving, &scene.ada, order);
    scene.until_acted();
    let second = send(&serving, &scene.ada, order);
    let [first, second] = [response(first), response(second)];
    assert_eq!([text(&first), text(&second)], ["did slow"; 2]);
    assert_eq!(scene.effects(), ["slow"]);
}

#[test]
fn other_arguments_two_different_keys_and_invalid_keys_are_errors_and_nothing_is_sent() {
    let scene = Scene::new();
    let serving = scene.serve();
    let order = Wanted { id: "one", header: Some("k"), ..Wanted::default() };
    act(&serving, &scene.ada, order);
    let long = "k".repeat(256);
    let invalid = "an idempotency key has 1 to 255 visible ASCII characters";
    for (wanted, expected) in [
        (Wanted { id: "two", ..order }, "belongs to a call with another tool or arguments"),
        (Wanted { meta: Some("other"), ..order }, "the header and `_meta` have different idempotency keys"),
        (Wanted { header: Some(&long), ..order }, invalid),
        (Wanted { header: None, meta: Some(&long), ..order }, invalid),
        (Wanted { header: Some("a b"), ..order }, invalid),
        (Wanted { header: Some("a\tb"), ..order }, invalid),
        (Wanted { header: Some(""), ..order }, invalid),
        (Wanted { header: None, meta: Some("a\nb"), ..order }, invalid),
        (Wanted { header: Some("k\r\nIdempotency-Key: k"), ..order }, invalid),
        (Wanted { header: Some("schlüssel"), ..order }, invalid),
    ] {
        let refused = act(&serving, &scene.ada, wanted);
        assert!(text(&refused).contains(expected), "{refused}");
        let meta = &refused["result"]["_meta"]["toolway/outcome"];
        let outcome = meta.as_str().or_else(|| refused["error"]["data"]["outcome"].as_str());
        assert_eq!(outcome, Some("not-sent"), "{refused}");
        let recorded = scene.home.run(&["calls", "show", "last", "-o", "json"]).json();
        assert_eq!((&recorded["state"], &recorded["outcome"]), (&json!("refused"), &json!("not-sent")), "{recorded}");
    }
    assert_eq!(scene.effects(), ["one"]);
}

#[test]
fn a_request_that_was_not_sent_frees_its_key() {
    let mut scene = Scene::new();
    let serving = scene.serve();
    let order = Wanted { id: "late", header: Some("k"), ..Wanted::default() };
    let address = scene.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    scene.witness.kill().unwrap();
    scene.witness.wait().unwrap();
    for _ in 0..2 {
        let refused = act(&serving, &scene.ada, order);
        assert_eq!(refused["result"]["_meta"]["toolway/outcome"], "not-sent", "{refused}");
        assert!(text(&refused).ends_with("; not sent"), "{refused}");
    }
    scene.witness = start_witness(&scene.home, &address).0;
    serving.settled(&scene.ada, "witness", "ready");
    assert_eq!(text(&act(&serving, &scene.ada, order)), "did late");
    assert_eq!(text(&act(&serving, &scene.ada, order)), "did late");
    assert_eq!(scene.effects(), ["late"]);
}

#[test]
fn a_command_says_that_its_call_was_not_sent() {
    let scene = Scene::new();
    let wrong = scene.home.run(&["call", "witness.act", "idd=x", "-o", "human"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.talk.contains("\nthe call was not sent\nhint: "), "{wrong:?}");
    drop(scene.witness);
    let unreachable = scene.home.run(&["call", "witness.act", "id=x", "-o", "human"]);
    assert_eq!(unreachable.code, 4, "{unreachable:?}");
    assert!(unreachable.talk.contains("\nthe call was not sent"), "{unreachable:?}");
}

/// Calls `connect` of a server on the TypeScript SDK that requires a URL first, under one key; `more` are parameters.
fn connect(serving: &Serving, more: &Value) -> Value {
    let mut params = json!({ "name": "url__connect", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "story", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "url": {} } },
    } });
    let more = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(more);
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "url__connect"),
        ("Idempotency-Key", "once"),
    ];
    let bearer = format!("Bearer {}", serving.key());
    let headers: Vec<_> = headers.into_iter().chain([("authorization", bearer.as_str())]).collect();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    response(serving.send("POST", "/mcp", &headers, &body))
}

#[test]
fn a_call_that_is_continued_after_a_url_has_the_key_of_its_beginning() {
    let home = Home::new();
    let node = root().join(".interop/node_modules/.bin/node");
    let script = root().join("tests/interop/servers/url_typescript.mjs");
    let server = json!({ "command": node, "args": [script, home.path("done")] });
    home.configure(&json!({ "mcpServers": { "url": server } }).to_string());
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "url", "ready");
    let mut ended = connect(&serving, &json!({}));
    assert_eq!(ended["result"]["resultType"], "input_required", "{ended}");
    // Answers without a state continue nothing: the call is a repetition as before.
    let forged = connect(&serving, &json!({ "inputResponses": { "page-1": { "action": "accept" } } }));
    assert_eq!(forged["result"]["resultType"], "input_required", "{forged}");
    home.write("done", "");
    let began = Instant::now();
    while ended["result"]["resultType"] == "input_required" {
        assert!(began.elapsed() < Duration::from_secs(20), "{ended}");
        let state = &ended["result"]["requestState"];
        let answers = json!({ "page-1": { "action": "accept" } });
        ended = connect(&serving, &json!({ "requestState": state, "inputResponses": answers }));
    }
    assert!(text(&ended).starts_with("connected in call "), "{ended}");
    for more in [json!({}), json!({ "inputResponses": { "page-1": { "action": "accept" } } })] {
        assert_eq!(text(&connect(&serving, &more)), text(&ended), "the recorded answer");
    }
}
