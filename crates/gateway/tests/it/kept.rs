//! Everything that the gateway keeps for clients and servers is charged, by kind, and a hostile server cannot make it keep
//! more than its share.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolway_config::server::Sharing;
use toolway_gateway::access::{Access, KeyFile};
use toolway_host::{
    call::{CallRequest, Caller},
    connection::{Program, ServerAddress, WantedServer, Way},
    inbox::{ElicitationModes, InboxAnswerer},
};
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    hoarder::Hoarder,
    test_host::{TestHost, TestHostBuilder, name, within},
};
use toolway_wire::{
    budget::{Kept, MemoryBudget},
    limit::Limits,
    up::EraChoice,
};

use crate::{raw_client::RawClient, test_gateway::TestGateway};

/// A gateway with a byte budget, and its clients.
struct Charged {
    gateway: TestGateway,
    memory: MemoryBudget,
    clients: Vec<RawClient>,
    _keys: tempfile::TempDir,
}

impl Charged {
    async fn start(mut builder: TestHostBuilder, budget: usize, listing_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::at(folder.path().join("clients.json"));
        let keys = ["ada", "ben", "cleo", "dan"].map(|name| file.add(name, None, None).unwrap());
        let (access, _) = Access::with_keys(Some(file)).unwrap();
        let memory = MemoryBudget::new(budget);
        let limits = Limits { memory: memory.clone(), listing_bytes, ..Limits::default() };
        builder.options.limits = limits.clone();
        let gateway = TestGateway::bounded(builder, access, limits).await;
        let clients = keys.iter().map(|key| gateway.raw_client("/mcp", Some(key.expose()))).collect();
        Self { gateway, memory, clients, _keys: folder }
    }

    async fn until(&self, what: &str, holds: impl Fn(&MemoryBudget) -> bool) {
        let waiting = async {
            while !holds(&self.memory) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(what, waiting).await;
    }
}

fn hoarder(tools: usize, bytes: usize) -> (Arc<Hoarder>, WantedServer) {
    let server = Hoarder::new(tools, bytes);
    let wanted = WantedServer::new(name("hoarder"), Way::InProcess(server.clone()));
    (server, WantedServer { era: EraChoice::Legacy, sharing: Sharing::Session, ..wanted })
}

async fn call(client: &RawClient, tool: &str) -> Value {
    within("a call", client.ask("tools/call", json!({ "name": tool, "arguments": { "text": "hi" } }))).await
}

/// What makes the gateway keep something of this kind. A new kind needs a line here.
async fn keep(kind: Kept, charged: &Charged) {
    let ada = &charged.clients[0];
    match kind {
        // A call that waits for an answer to a form; see also `budget.rs`.
        Kept::Transit | Kept::Inbox => {
            let greet = CallRequest::tool(Caller::Terminal, "files__greet".parse().unwrap(), None);
            tokio::runtime::Handle::current().spawn(charged.gateway.host.host.open(greet).outcome());
        }
        // The first listing, the connections and the output of the process are there from the start.
        Kept::Listing | Kept::Catalog | Kept::Connection | Kept::Stderr => {}
        Kept::SearchIndex => charged.gateway.host.host.catalog().prepare_search(),
        Kept::Page => drop(ada.ask("tools/list", json!({})).await),
        Kept::Session => std::mem::forget(ada.clone().start_session().await),
        Kept::Resource => {
            let minute = Duration::from_secs(60);
            let read = || CallRequest { max_age: minute, ..CallRequest::read(Caller::Terminal, "files://one") };
            // What is read while a call that may write is sent, as above, is not kept.
            let reading = async {
                while charged.memory.used_by(kind) == 0 {
                    drop(charged.gateway.host.host.call(read()).await);
                }
            };
            within("a resource that is kept", reading).await;
        }
        // The agent is above the gateway: `a_loaded_conversation_is_charged` of `console`.
        Kept::Conversation => drop(charged.memory.keeping(kind).charge(1)),
    }
}

#[tokio::test]
async fn everything_that_is_kept_has_a_charge() {
    let files = FixtureServer::new("files").tool("echo", "Give it back").tool_that("greet", "Greet", Behaviour::Greet);
    let mut talks = Program::new("sh");
    talks.arguments = vec!["-c".to_owned(), "echo oops >&2; exec sleep 60".to_owned()];
    let talks = WantedServer::new(name("talks"), Way::Address(ServerAddress::Process(talks)));
    let mut builder = TestHost::with(&files, "files").wanted(talks);
    builder.ports.answerer = Arc::new(InboxAnswerer { modes: ElicitationModes::FormsAndUrls });
    let charged = Charged::start(builder, 64 << 20, 8 << 20).await;
    charged.gateway.host.ready("files").await;
    for kind in Kept::ALL.into_iter().filter(|kind| *kind != Kept::Conversation) {
        keep(kind, &charged).await;
        charged.until(kind.as_str(), |memory| 0 < memory.used_by(kind)).await;
    }
    let sum: usize = Kept::ALL.into_iter().map(|kind| charged.memory.used_by(kind)).sum();
    assert_eq!(sum, charged.memory.used());
}

#[tokio::test]
async fn sessions_of_four_clients_keep_no_more_than_the_share_of_a_hostile_server() {
    const BUDGET: usize = 32 << 20;
    let files = FixtureServer::new("files").tool("echo", "Give it back");
    // About 3 MB for each session, and others in each.
    let (server, wanted) = hoarder(300, 10_000);
    let charged = Charged::start(TestHost::with(&files, "files").wanted(wanted), BUDGET, 8 << 20).await;
    charged.gateway.host.ready("files").await;
    charged.gateway.host.ready("hoarder").await;
    let mut sessions = Vec::new();
    for client in &charged.clients {
        sessions.extend(join_all((0..8).map(|_| client.clone().start_session())).await);
    }
    let held = join_all(sessions.iter().map(|session| call(session, "hoarder__small"))).await;
    assert!(held.iter().all(|answer| answer["result"]["isError"] == false), "{:.300}", json!(held).to_string());
    charged.until("a refused listing", |memory| 0 < memory.refused()).await;

    let lists = server.lists();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (peak, later) = (charged.memory.peak(), server.lists());
    assert!(peak <= BUDGET, "{peak}");
    // Each session is refused once, and then waits; the server announces fifty changes a second in each.
    assert!(later - lists < 64, "{lists} to {later} lists");
    assert!(charged.memory.used_by(Kept::Listing) <= BUDGET / 2);
    for session in &sessions {
        assert_eq!(call(session, "files__echo").await["result"]["isError"], false);
        assert_eq!(call(session, "hoarder__small").await["result"]["isError"], false);
    }
}

#[tokio::test]
async fn list_beyond_its_bound_is_not_read_and_the_error_names_the_key() {
    let files = FixtureServer::new("files").tool("echo", &"x".repeat(100_000));
    let small = FixtureServer::new("small").tool("echo", "Give it back");
    let builder = TestHost::with(&files, "files").server("small", &small);
    let charged = Charged::start(builder, 64 << 20, 50_000).await;
    charged.gateway.host.ready("files").await;
    charged.gateway.host.ready("small").await;
    let host = &charged.gateway.host.host;
    let catalog = within("a catalog", async {
        loop {
            let catalog = host.catalog();
            if !catalog.set_aside().is_empty() {
                return catalog;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let reason = &catalog.set_aside()[0].reason;
    assert!(reason.contains("`limits.listing`") && reason.contains("50000"), "{reason}");
    assert_eq!(call(&charged.clients[0], "small__echo").await["result"]["isError"], false);

    // A list that grows beyond the bound later leaves the one before in use.
    small.add_tool("large", &"x".repeat(100_000));
    within("a refused list", async {
        while host.status(&name("small")).unwrap().last_error.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(host.catalog().tools_of(&name("small")).iter().any(|tool| tool.item.name == "echo"));
    assert_eq!(call(&charged.clients[0], "small__echo").await["result"]["isError"], false);
}
