//! The servers that are compared, how each is started and what it is asked.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use toolway_host::connection::{Program, ServerAddress};
use toolway_testkit::{
    conformance_server::ConformanceServer,
    fixture_server::{Behaviour, FixtureServer},
};
use toolway_wire::{
    down::{
        self, FaceOptions, Service,
        http::{HttpFace, HttpFaceOptions},
    },
    revision::Revision,
    up::EraChoice,
};

/// What is asked.
pub(super) type Known = Value;

/// A server, and what it is asked beside its lists.
pub(super) struct Compared {
    pub(super) name: &'static str,
    pub(super) address: ServerAddress,
    pub(super) era: EraChoice,
    asked: Vec<(&'static str, Known)>,
    _serving: Option<AbortOnDropHandle<()>>,
}

const LISTS: [&str; 4] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];

/// All of them: first ours, then those we did not write.
pub(super) async fn all(folder: &Path) -> Vec<Compared> {
    let files = folder.join("files");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("notes.txt"), "Grüße\n").unwrap();
    let mut all = Vec::new();
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let conformance = Arc::new(ConformanceServer::new());
        let face = ConformanceServer::face(revision);
        all.push(served("conformance-server", conformance, face, conformance_asked()).await);
        let face = FaceOptions { revisions: vec![revision], ..FaceOptions::default() };
        all.push(served("fixture", fixture().service(), face, fixture_asked()).await);
    }
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let words = ["-m", "mcp_server_time", "--local-timezone", "Etc/UTC"];
        all.push(python("mcp-server-time", &words, folder).asked(era, time_asked()));
        all.push(python("fastmcp", &script("fastmcp_server.py"), folder).asked(era, fastmcp_asked()));
    }
    let words = script("python_sdk_server.py");
    all.push(python("python sdk", &words, folder).asked(EraChoice::Modern, python_sdk_asked()));
    let files = files.canonicalize().unwrap();
    let words = [files.to_str().unwrap()];
    let legacy = EraChoice::Legacy;
    all.push(node("server-everything", &["stdio"], folder).asked(legacy, everything_asked()));
    all.push(node("server-filesystem", &words, folder).asked(legacy, filesystem_asked(&files)));
    all.push(node("server-memory", &[], folder).asked(legacy, memory_asked()));
    all
}

impl Compared {
    fn asked(self, era: EraChoice, asked: Vec<(&'static str, Known)>) -> Self {
        Self { era, asked, ..self }
    }

    /// Its lists, and what else it is asked.
    pub(super) fn requests(&self) -> impl Iterator<Item = (&'static str, Known)> {
        LISTS.into_iter().map(|list| (list, json!({}))).chain(self.asked.clone())
    }
}

/// What a server declares that answers this.
pub(super) fn capability(method: &str) -> &str {
    match method.split('/').next() {
        Some("completion") => "completions",
        Some(kind) => &method[..kind.len()],
        None => method,
    }
}

fn call(tool: &str, arguments: &Value) -> (&'static str, Known) {
    ("tools/call", json!({ "name": tool, "arguments": arguments }))
}

fn conformance_asked() -> Vec<(&'static str, Known)> {
    let about = json!({ "type": "ref/prompt", "name": "test_prompt_with_arguments" });
    vec![
        call("greet", &json!({ "name": "Ada" })),
        call("test_multiple_content_types", &json!({})),
        call("test_error_handling", &json!({})),
        call("test_tool_with_progress", &json!({})),
        call("refuse", &json!({ "code": 4711 })),
        call("nothing", &json!({})),
        ("resources/read", json!({ "uri": "test://static-binary" })),
        ("resources/read", json!({ "uri": "test://unknown" })),
        ("prompts/get", json!({ "name": "test_prompt_with_image" })),
        ("completion/complete", json!({ "ref": about, "argument": { "name": "arg1", "value": "par" } })),
    ]
}

fn fixture() -> FixtureServer {
    FixtureServer::new("fixture").tool("echo", "Give it back").tool_that("fail", "Fail", Behaviour::Fail).tool_that(
        "refuse",
        "Refuse",
        Behaviour::Refuse,
    )
}

fn fixture_asked() -> Vec<(&'static str, Known)> {
    let odd = json!({ "n": 1, "text": "Grüße, 世界 \u{1f30d} \u{2028}" });
    vec![call("echo", &odd), call("fail", &odd), call("refuse", &odd)]
}

fn time_asked() -> Vec<(&'static str, Known)> {
    let noon = json!({ "source_timezone": "Asia/Kolkata", "time": "12:30", "target_timezone": "Asia/Tokyo" });
    vec![call("convert_time", &noon), call("get_current_time", &json!({ "timezone": "Moon/Tycho" }))]
}

fn fastmcp_asked() -> Vec<(&'static str, Known)> {
    vec![
        call("add", &json!({ "a": 2, "b": 3 })),
        call("fail", &json!({ "reason": "because" })),
        call("count", &json!({ "steps": 3 })),
        ("resources/read", json!({ "uri": "demo://dot.png" })),
        ("resources/read", json!({ "uri": "demo://square/12" })),
    ]
}

fn python_sdk_asked() -> Vec<(&'static str, Known)> {
    vec![call("write", &json!({ "text": "Hello" })), call("route", &json!({ "region": "north", "count": 2 }))]
}

fn everything_asked() -> Vec<(&'static str, Known)> {
    vec![
        call("echo", &json!({ "message": "Grüße, 世界 \u{1f30d} \u{2028}" })),
        call("get-sum", &json!({ "a": 2, "b": 3 })),
        call("get-sum", &json!({ "a": "three" })),
        call("get-tiny-image", &json!({})),
        call("trigger-long-running-operation", &json!({ "duration": 0.2, "steps": 4 })),
        call("get-structured-content", &json!({ "location": "Chicago" })),
        ("resources/read", json!({ "uri": "demo://nowhere" })),
        ("prompts/get", json!({ "name": "args-prompt", "arguments": { "city": "Oslo" } })),
    ]
}

fn filesystem_asked(folder: &Path) -> Vec<(&'static str, Known)> {
    let path = |name: &str| json!({ "path": folder.join(name) });
    vec![
        call("read_text_file", &path("notes.txt")),
        call("read_text_file", &path("nothing.txt")),
        call("list_directory", &json!({ "path": folder })),
    ]
}

fn memory_asked() -> Vec<(&'static str, Known)> {
    vec![call("read_graph", &json!({})), call("search_nodes", &json!({ "query": "Ada" }))]
}

/// A server of ours, on a port.
async fn served(
    name: &'static str,
    service: Arc<dyn Service>,
    face: FaceOptions,
    asked: Vec<(&'static str, Known)>,
) -> Compared {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let face = HttpFace::new(service, HttpFaceOptions { face, ..HttpFaceOptions::default() }).unwrap();
    let serving =
        async move { down::http::serve(listener, face, tokio_util::sync::CancellationToken::new()).await.unwrap() };
    let serving = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(serving));
    let address = ServerAddress::http(format!("http://{address}/mcp").parse().unwrap());
    Compared { name, address, era: EraChoice::Auto, asked, _serving: Some(serving) }
}

/// Servers of somebody else's, as processes.
fn python<W: AsRef<str>>(name: &'static str, words: &[W], folder: &Path) -> Compared {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    started(name, &installed("venv/bin/python"), &words, folder)
}

/// One of the scripts of the interop stories, as a process.
fn script(name: &str) -> [String; 3] {
    let path = root().join("tests/interop/servers").join(name);
    [path.to_str().unwrap(), "--transport", "stdio"].map(str::to_owned)
}

fn node(name: &'static str, words: &[&str], folder: &Path) -> Compared {
    started(name, &installed(&format!("node_modules/.bin/mcp-{name}")), words, folder)
}

fn started(name: &'static str, path: &Path, words: &[&str], folder: &Path) -> Compared {
    let arguments = words.iter().map(|word| (*word).to_owned()).collect();
    let mut program = Program { arguments, ..Program::new(path.to_str().unwrap()) };
    let node = root().join(".interop/node_modules/.bin");
    let search = std::env::join_paths([node.as_path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    program.variables.insert("PATH".into(), search);
    program.variables.insert("LANG".into(), "C.UTF-8".into());
    program.variables.insert("MEMORY_FILE_PATH".into(), folder.join("memory.jsonl").into());
    for variable in ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
        program.variables.insert(variable.into(), folder.into());
    }
    let address = ServerAddress::Process(program);
    Compared { name, address, era: EraChoice::Auto, asked: Vec::new(), _serving: None }
}

fn installed(path: &str) -> PathBuf {
    let path = root().join(".interop").join(path);
    assert!(path.exists(), "{} is missing: run ./test, which installs it", path.display());
    path
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
