//! The compared servers and how each is started. Their requests are in [`super::traffic`].

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_util::task::AbortOnDropHandle;
use toolway_host::connection::{Program, ServerAddress};
use toolway_testkit::{
    conformance_server::ConformanceServer,
    fixture_server::{Behaviour, FixtureServer},
};
use toolway_wire::{
    down::{
        self, DownstreamOptions, Service,
        http::{HttpDownstream, HttpDownstreamOptions},
    },
    revision::Revision,
    up::EraChoice,
};

use super::traffic::{self, Traffic};

/// A server and its traffic.
pub(super) struct Compared {
    pub(super) name: &'static str,
    pub(super) address: ServerAddress,
    pub(super) era: EraChoice,
    pub(super) traffic: Traffic,
    _serving: Option<AbortOnDropHandle<()>>,
}

/// All servers: our own first, then third-party servers.
pub(super) async fn all(folder: &Path) -> Vec<Compared> {
    let files = folder.join("files");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("notes.txt"), "Grüße\n").unwrap();
    let mut all = Vec::new();
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let conformance = Arc::new(ConformanceServer::new());
        let downstream = ConformanceServer::downstream_options(revision);
        all.push(served("conformance-server", conformance, downstream, traffic::conformance()).await);
        let downstream = DownstreamOptions { revisions: vec![revision], ..DownstreamOptions::default() };
        all.push(served("fixture", fixture().service(), downstream, traffic::fixture()).await);
    }
    for (era, option) in [(EraChoice::Legacy, "legacy"), (EraChoice::Modern, "modern")] {
        let words = ["-m", "mcp_server_time", "--local-timezone", "Etc/UTC"];
        all.push(python("mcp-server-time", &words, folder).with(era, traffic::time()));
        all.push(python("fastmcp", &script("fastmcp_server.py"), folder).with(era, traffic::fastmcp()));
        all.push(started("rmcp", &built("rmcp-peer"), &["stdio", "--era", option], folder).with(era, traffic::rmcp()));
    }
    let words = script("python_sdk_server.py");
    all.push(python("python sdk", &words, folder).with(EraChoice::Modern, traffic::python_sdk()));
    let files = files.canonicalize().unwrap();
    let words = [files.to_str().unwrap()];
    let legacy = EraChoice::Legacy;
    all.push(node("server-everything", &["stdio"], folder).with(legacy, traffic::everything()));
    all.push(node("server-filesystem", &words, folder).with(legacy, traffic::filesystem(&files)));
    all.push(node("server-memory", &[], folder).with(legacy, traffic::memory()));
    all
}

impl Compared {
    fn with(self, era: EraChoice, traffic: Traffic) -> Self {
        Self { era, traffic, ..self }
    }
}

fn fixture() -> FixtureServer {
    FixtureServer::new("fixture").tool("echo", "Give it back").tool_that("fail", "Fail", Behaviour::Fail).tool_that(
        "refuse",
        "Refuse",
        Behaviour::Refuse,
    )
}

/// A server of our own, on a port.
async fn served(
    name: &'static str,
    service: Arc<dyn Service>,
    downstream: DownstreamOptions,
    traffic: Traffic,
) -> Compared {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let downstream =
        HttpDownstream::new(service, HttpDownstreamOptions { downstream, ..HttpDownstreamOptions::default() }).unwrap();
    let serving = async move {
        down::http::serve(listener, downstream, tokio_util::sync::CancellationToken::new()).await.unwrap()
    };
    let serving = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(serving));
    let address = ServerAddress::http(format!("http://{address}/mcp").parse().unwrap());
    Compared { name, address, era: EraChoice::Auto, traffic, _serving: Some(serving) }
}

/// A third-party Python server, as a process.
fn python<W: AsRef<str>>(name: &'static str, words: &[W], folder: &Path) -> Compared {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    started(name, &installed("venv/bin/python"), &words, folder)
}

/// Command of an interop server script.
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
    Compared { name, address, era: EraChoice::Auto, traffic: Traffic::default(), _serving: None }
}

/// A program of this build: tests are in `deps`, programs in its parent directory.
fn built(name: &str) -> PathBuf {
    let path = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join(name);
    assert!(path.exists(), "{} is missing: run ./test, which builds it", path.display());
    path
}

fn installed(path: &str) -> PathBuf {
    let path = root().join(".interop").join(path);
    assert!(path.exists(), "{} is missing: run ./test, which installs it", path.display());
    path
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
