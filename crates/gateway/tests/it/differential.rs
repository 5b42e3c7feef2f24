//! What servers say directly and through `/servers/<id>/mcp`: the same bytes, but for the edits in `edits.json`.
//!
//! Each server is asked the same things twice, in the era it speaks: by a client of ours that dialled it, and by one
//! that knows only the gateway. Compared is all that comes of it: results and errors, steps, log lines and questions in
//! the middle, and what is told of changes. An edit that changes nothing anywhere is as wrong as a difference that none
//! explains, and so is a kind of traffic that no server had.

pub(crate) mod edits;
mod heard;
mod servers;
mod traffic;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use toolway_gateway::access::Access;
use toolway_host::connection::{DialOptions, Phase, WantedServer, Way, dial};
use toolway_testkit::test_host::{TestHost, name};
use toolway_wire::{
    exchange::AskHandler,
    json::Raw,
    revision::Era,
    up::{ConnectOptions, Peer, Timeouts},
};

use self::{
    edits::Edits,
    heard::{Heard, Listener},
    servers::Compared,
};
use crate::{person::Person, stage::Stage};

/// Servers at work at once: each runs up to three times.
const AT_ONCE: usize = 2;

/// What has to be among what is compared, or nothing is shown of it; and of how many servers at least.
const TOLD: [(&str, usize); 6] = [
    (r#"{"progress":"#, 6),
    (r#"{"log":"#, 6),
    (r#""method":"elicitation/create""#, 7),
    (r#""method":"sampling/createMessage""#, 7),
    (r#""method":"roots/list""#, 6),
    (r#"{"updated":"#, 6),
];

/// What came of comparing one server.
struct Comparison<'a> {
    server: &'static str,
    era: Era,
    known: &'a Edits,
    differences: Vec<String>,
    /// Those of the known edits that explain something.
    used: BTreeSet<usize>,
    /// All that was heard of it directly.
    told: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interop_servers_say_the_same_directly_and_through_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let edits = Edits::read();
    let compared = stream::iter(servers::all(folder.path()).await).map(|server| compared(server, &edits));
    let compared: Vec<Comparison<'_>> = compared.buffer_unordered(AT_ONCE).collect().await;
    let differences: Vec<String> = compared.iter().flat_map(|server| server.differences.clone()).collect();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    let used: BTreeSet<usize> = compared.iter().flat_map(|server| server.used.clone()).collect();
    let unused: Vec<_> = edits.all().iter().enumerate().filter(|(at, _)| !used.contains(at)).collect();
    assert!(unused.is_empty(), "no server needs these edits: {unused:?}");
    for (what, least) in TOLD {
        let servers = compared.iter().filter(|server| server.told.contains(what)).count();
        assert!(least <= servers, "only {servers} servers told {what}");
    }
}

/// What a server says otherwise through the gateway, and the edits that explain the rest.
async fn compared(server: Compared, edits: &Edits) -> Comparison<'_> {
    let person = server.traffic.declares.clone().map(|declared| Arc::new(Person::declaring(declared)));
    let direct = Listener::new(directly(&server, person.clone()).await, person.clone()).await;
    let stage = stage(&server).await;
    let through = match person.clone() {
        Some(person) => stage.client_of(PATH, direct.era(), person).await,
        None => stage.client_nobody(PATH, direct.era()).await,
    };
    let through = Listener::new(through, person).await;
    let mut comparison = Comparison::of(server.name, direct.era(), edits);
    comparison.add("hello", &direct.hello(), &through.hello());
    for (method, params) in server.traffic.requests() {
        if direct.peer.profile().capabilities.has(traffic::capability(method)) {
            comparison.add(method, &direct.asks(method, &params).await, &through.asks(method, &params).await);
        }
    }
    for watched in &server.traffic.watched {
        comparison.add("changes", &direct.watches(watched).await, &through.watches(watched).await);
    }
    direct.peer.close().await;
    through.peer.close().await;
    comparison
}

impl<'a> Comparison<'a> {
    fn of(server: &'static str, era: Era, known: &'a Edits) -> Self {
        Self { server, era, known, differences: Vec::new(), used: BTreeSet::new(), told: String::new() }
    }

    fn add(&mut self, what: &str, directly: &Heard, through: &Heard) {
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
/// Interpreters take their time to start beside others, and the first request of a caller may wait for one.
const TO_START: Duration = Duration::from_secs(60);

async fn stage(server: &Compared) -> Stage {
    let wanted = WantedServer::new(name("peer"), Way::Address(server.address.clone()));
    let clocks = Timeouts { probe: TO_START, ..wanted.clocks };
    let wanted = WantedServer { era: server.era, connect: TO_START, clocks, ..wanted };
    let (access, key) = Access::of_keys(None).unwrap();
    let stage = Stage::open_to(TestHost::new().wanted(wanted), access, key).await;
    let ready = async {
        while stage.host.status("peer").phase != Phase::Ready {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TO_START, ready).await.unwrap_or_else(|_| panic!("{} is not ready", server.name));
    stage
}

async fn directly(server: &Compared, person: Option<Arc<Person>>) -> Peer {
    let timeouts = Timeouts { probe: TO_START, ..Timeouts::default() };
    let asks = person.map(|person| person as Arc<dyn AskHandler>);
    let options = DialOptions {
        connect: ConnectOptions { era: server.era, timeouts, asks, ..ConnectOptions::default() },
        custodian: toolway_host::keeper::Custodian::nobody(),
        ..DialOptions::default()
    };
    dial(&server.address, options).await.unwrap_or_else(|error| panic!("{}: {error}", server.name))
}
