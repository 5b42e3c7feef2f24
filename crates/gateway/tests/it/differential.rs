//! Compares messages of servers received directly and through `/servers/<id>/mcp`: the same bytes, except for the edits in
//! `edits.json`.
//!
//! Each server gets the same requests twice, in its own era: from a client that is connected directly, and from one that is
//! connected through the gateway. Results, errors, progress, log messages, server requests and change notifications are
//! compared. An unused edit is an error, like an unexplained difference or a kind of traffic that no server produced.

pub(crate) mod edits;
mod observed;
mod servers;
mod traffic;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use toolway_gateway::access::Access;
use toolway_host::connection::{Phase, WantedServer, Way};
use toolway_testkit::direct_peer::{self, DirectOptions};
use toolway_testkit::test_host::{TestHost, name};
use toolway_wire::{
    exchange::ServerRequestHandler,
    json::Raw,
    revision::Era,
    up::{ConnectOptions, Peer, Timeouts},
};

use self::{
    edits::Edits,
    observed::{Listener, Observed},
    servers::Compared,
};
use crate::{scripted_user::ScriptedUser, test_gateway::TestGateway};

/// Number of servers compared in parallel; each runs up to three times.
const AT_ONCE: usize = 2;

/// Traffic that must occur, and the minimum number of servers that produce it.
const REQUIRED_TRAFFIC: [(&str, usize); 6] = [
    (r#"{"progress":"#, 6),
    (r#"{"log":"#, 6),
    (r#""method":"elicitation/create""#, 7),
    (r#""method":"sampling/createMessage""#, 7),
    (r#""method":"roots/list""#, 6),
    (r#"{"updated":"#, 6),
];

/// Result of comparing one server.
struct Comparison<'a> {
    server: &'static str,
    era: Era,
    known: &'a Edits,
    differences: Vec<String>,
    /// Indexes of the edits that explain a difference.
    used: BTreeSet<usize>,
    /// Everything received directly.
    told: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interop_servers_are_unchanged_by_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let edits = Edits::read();
    let compared = stream::iter(servers::all(folder.path()).await).map(|server| compared(server, &edits));
    let compared: Vec<Comparison<'_>> = compared.buffer_unordered(AT_ONCE).collect().await;
    let differences: Vec<String> = compared.iter().flat_map(|server| server.differences.clone()).collect();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    let used: BTreeSet<usize> = compared.iter().flat_map(|server| server.used.clone()).collect();
    let unused: Vec<_> = edits.all().iter().enumerate().filter(|(at, _)| !used.contains(at)).collect();
    assert!(unused.is_empty(), "no server needs these edits: {unused:?}");
    for (what, least) in REQUIRED_TRAFFIC {
        let servers = compared.iter().filter(|server| server.told.contains(what)).count();
        assert!(least <= servers, "only {servers} servers sent {what}");
    }
}

/// Compares one server directly and through the gateway.
async fn compared(server: Compared, edits: &Edits) -> Comparison<'_> {
    let user = server.traffic.declares.clone().map(|declared| Arc::new(ScriptedUser::declaring(declared)));
    let direct = Listener::new(directly(&server, user.clone()).await, user.clone()).await;
    let gateway = gateway(&server).await;
    let through = match user.clone() {
        Some(user) => gateway.client_of(PATH, direct.era(), user).await,
        None => gateway.client_without_user(PATH, direct.era()).await,
    };
    let through = Listener::new(through, user).await;
    let mut comparison = Comparison::of(server.name, direct.era(), edits);
    comparison.add("hello", &direct.hello(), &through.hello());
    for (method, params) in server.traffic.requests() {
        if direct.peer.profile().capabilities.has(traffic::capability(method)) {
            comparison.add(method, &direct.observe(method, &params).await, &through.observe(method, &params).await);
        }
    }
    for watched in &server.traffic.watched {
        comparison.add("changes", &direct.observe_changes(watched).await, &through.observe_changes(watched).await);
    }
    direct.peer.close().await;
    through.peer.close().await;
    comparison
}

impl<'a> Comparison<'a> {
    fn of(server: &'static str, era: Era, known: &'a Edits) -> Self {
        Self { server, era, known, differences: Vec::new(), used: BTreeSet::new(), told: String::new() }
    }

    fn add(&mut self, what: &str, directly: &Observed, through: &Observed) {
        self.compare("meanwhile", what, (&directly.meanwhile, &through.meanwhile));
        self.compare(what, what, (&directly.end, &through.end));
        self.told.extend([&*directly.meanwhile.text(), &*directly.end.text()]);
    }

    fn compare(&mut self, about: &str, what: &str, said: (&Raw, &Raw)) {
        let (left, right) = self.known.made(about, self.era, said, &mut self.used);
        if left.as_bytes() != right.as_bytes() {
            let era = self.era;
            let difference = format!("{}, {era:?}: {what}\n  directly {left}\n  through  {right}", self.server);
            self.differences.push(difference);
        }
    }
}

const PATH: &str = "/servers/peer/mcp";
/// Timeout for starting a server; interpreters start slowly when others run.
const START_TIMEOUT: Duration = Duration::from_secs(60);

async fn gateway(server: &Compared) -> TestGateway {
    let wanted = WantedServer::new(name("peer"), Way::Address(server.address.clone()));
    let clocks = Timeouts { probe: START_TIMEOUT, ..wanted.clocks };
    let wanted = WantedServer { era: server.era, connect: START_TIMEOUT, clocks, ..wanted };
    let (access, key) = Access::with_keys(None).unwrap();
    let gateway = TestGateway::open_to(TestHost::new().wanted(wanted), access, key).await;
    let ready = async {
        while gateway.host.status("peer").phase != Phase::Ready {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(START_TIMEOUT, ready).await.unwrap_or_else(|_| panic!("{} is not ready", server.name));
    gateway
}

async fn directly(server: &Compared, user: Option<Arc<ScriptedUser>>) -> Peer {
    let timeouts = Timeouts { probe: START_TIMEOUT, ..Timeouts::default() };
    let asks = user.map(|user| user as Arc<dyn ServerRequestHandler>);
    let options = DirectOptions {
        connect: ConnectOptions { era: server.era, timeouts, request_handler: asks, ..ConnectOptions::default() },
        keeper: toolway_host::keeper::KeeperHandle::disabled(),
        ..DirectOptions::default()
    };
    direct_peer::connect(&server.address, options).await.unwrap_or_else(|error| panic!("{}: {error}", server.name))
}
