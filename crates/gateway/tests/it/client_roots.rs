//! Roots outside a call: a server on a client's own connection gets the roots of that client, and hears of changes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use toolway_host::connection::{Program, ServerAddress, WantedServer, Way};
use toolway_testkit::test_host::{TestHost, name, within};
use toolway_wire::{
    exchange::{Answer, ExchangeTimeouts, Outcome, Request, ServerRequestDetails, ServerRequestHandler},
    json::Raw,
    message::ClientCapabilities,
    revision::Era,
    up::Peer,
};

use crate::test_gateway::TestGateway;

/// A client with one folder, which it may change.
struct Folder(Mutex<PathBuf>);

impl ServerRequestHandler for Folder {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities(Raw::of(&json!({ "roots": { "listChanged": true } })))
    }

    fn answer(&self, request: ServerRequestDetails) -> BoxFuture<'_, Answer> {
        assert_eq!(request.method, "roots/list");
        let root = format!("file://{}", self.0.lock().display());
        Box::pin(std::future::ready(Answer::Given(Raw::of(&json!({ "roots": [{ "uri": root }] })))))
    }
}

/// `server-filesystem`, which asks for roots after the handshake and when they change.
fn filesystem(folder: &Path) -> WantedServer {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.interop/node_modules/.bin");
    let installed = installed.canonicalize().unwrap();
    let path = installed.join("mcp-server-filesystem");
    let mut program =
        Program { arguments: vec![folder.to_str().unwrap().to_owned()], ..Program::new(path.to_str().unwrap()) };
    let search = std::env::join_paths([installed.as_path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    program.variables.insert("PATH".into(), search.into_string().unwrap().into());
    WantedServer::new(name("files"), Way::Address(ServerAddress::Process(program)))
}

/// The folders that the server allows. The client answers server requests during the call, too.
async fn allowed((client, user): (&Peer, &Folder)) -> String {
    let params = Raw::of(&json!({ "name": "files__list_allowed_directories", "arguments": {} }));
    let request = Request::new("tools/call", Some(params)).unwrap();
    let exchange = client.open(request, ExchangeTimeouts::call());
    match within("the folders", exchange.outcome_with(Some(user), |_| {})).await {
        Outcome::Answered(result) => result.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Waits until the server allows this folder: it reads roots in the background.
async fn allows(client: (&Peer, &Folder), folder: &Path) {
    within("the folder", async { while !allowed(client).await.contains(folder.to_str().unwrap()) {} }).await;
}

#[tokio::test]
async fn server_filesystem_behind_the_gateway_allows_the_roots_of_each_client() {
    let stage = tempfile::tempdir().unwrap();
    let stage = stage.path().canonicalize().unwrap();
    let folders = ["configured", "ada", "ben", "later"].map(|name| stage.join(name));
    folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let [configured, of_ada, of_ben, later] = &folders;
    let keys = tempfile::tempdir().unwrap();
    let file = toolway_gateway::access::KeyFile::at(keys.path().join("clients.json"));
    let key = |name: &str| file.add(name, None, None).unwrap();
    let (adas, bens) = (key("ada"), key("ben"));
    let (access, _) = toolway_gateway::access::Access::with_keys(Some(file)).unwrap();
    let gateway = TestGateway::open_to(TestHost::new().wanted(filesystem(configured)), access, None).await;
    gateway.host.ready("files").await;
    let [ada, ben] = [of_ada, of_ben].map(|folder| Arc::new(Folder(Mutex::new(folder.clone()))));
    let peer_ada = gateway.client_with_roots(adas.expose(), Arc::clone(&ada) as _).await;
    let peer_ben = gateway.client_with_roots(bens.expose(), Arc::clone(&ben) as _).await;
    let (client_ada, client_ben) = ((&peer_ada, &*ada), (&peer_ben, &*ben));
    // The server asks for the roots when it starts for this client: at its first list, outside a call.
    within("a list", peer_ada.list_tools()).await.unwrap();
    allows(client_ada, of_ada).await;
    allows(client_ben, of_ben).await;
    let seen_by_ada = allowed(client_ada).await;
    assert!([configured, of_ben].iter().all(|other| !seen_by_ada.contains(other.to_str().unwrap())), "{seen_by_ada}");

    *ada.0.lock() = later.clone();
    peer_ada.announce_roots_changed().unwrap();
    allows(client_ada, later).await;
    assert!(!allowed(client_ada).await.contains(of_ada.to_str().unwrap()));
    assert!(!allowed(client_ben).await.contains(later.to_str().unwrap()));
}

#[tokio::test]
async fn client_without_a_session_is_not_asked_outside_a_call() {
    let stage = tempfile::tempdir().unwrap();
    let configured = stage.path().canonicalize().unwrap();
    let gateway = TestGateway::with(TestHost::new().wanted(filesystem(&configured))).await;
    gateway.host.ready("files").await;
    let folder = Arc::new(Folder(Mutex::new(configured.join("other"))));
    let client = gateway.client_of("/mcp", Era::Modern, Arc::clone(&folder) as _).await;
    // The server starts at the first list; it gets an error instead of an empty list, and keeps its configured folders.
    within("a list", client.list_tools()).await.unwrap();
    assert!(allowed((&client, &folder)).await.contains(configured.to_str().unwrap()));
}
