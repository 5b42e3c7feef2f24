//! What servers say directly and through `/servers/<id>/mcp`: the same bytes, but for the edits in `edits.json`.
//!
//! Each server is asked the same things twice, in the era it speaks: by a client of ours that dialled it, and by one
//! that knows only the gateway. An edit that changes nothing anywhere is as wrong as a difference that none explains.

pub(crate) mod edits;
mod servers;

use std::collections::BTreeSet;

use futures_util::{StreamExt, stream};
use toolway_gateway::access::Access;
use toolway_host::connection::{DialOptions, WantedServer, Way, dial};
use toolway_testkit::test_host::{PATIENCE, TestHost, name, within};
use toolway_wire::{
    exchange::{Happening, Outcome, Request, Terms},
    json::Raw,
    message::splice,
    up::{ConnectOptions, Peer, Timeouts},
};

use self::{
    edits::Edits,
    servers::{Compared, Known},
};
use crate::stage::Stage;

/// Servers at work at once: each runs up to three times.
const AT_ONCE: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interop_servers_say_the_same_directly_and_through_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let edits = Edits::read();
    let compared = stream::iter(servers::all(folder.path()).await).map(|server| differences(server, &edits));
    let compared: Vec<_> = compared.buffer_unordered(AT_ONCE).collect().await;
    let differences: Vec<String> = compared.iter().flat_map(|(differences, _)| differences.clone()).collect();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    let used: BTreeSet<usize> = compared.iter().flat_map(|(_, used)| used.clone()).collect();
    let unused: Vec<_> = edits.all().iter().enumerate().filter(|(at, _)| !used.contains(at)).collect();
    assert!(unused.is_empty(), "no server needs these edits: {unused:?}");
}

/// What a server says otherwise through the gateway, and the edits that explain the rest.
async fn differences(server: Compared, edits: &Edits) -> (Vec<String>, BTreeSet<usize>) {
    let direct = directly(&server).await;
    let wanted =
        WantedServer { era: server.era, ..WantedServer::new(name("peer"), Way::Address(server.address.clone())) };
    let (access, key) = Access::of_keys(None).unwrap();
    let stage = Stage::open_to(TestHost::new().wanted(wanted), access, key).await;
    stage.host.ready("peer").await;
    let through = stage.client_nobody("/servers/peer/mcp", direct.profile().revision.era()).await;
    let (mut differences, mut used) = (Vec::new(), BTreeSet::new());
    let mut compare = |what: &str, direct_said: &Raw, through_said: &Raw| {
        let era = direct.profile().revision.era();
        let (left, right) = edits.made(what, era, (direct_said, through_said), &mut used);
        if left.as_bytes() != right.as_bytes() {
            differences.push(format!("{}: {what}\n  directly {left}\n  through  {right}", server.name));
        }
    };
    compare("hello", &direct.profile().raw, &through.profile().raw);
    for (method, params) in server.requests() {
        if !direct.profile().capabilities.has(servers::capability(method)) {
            continue;
        }
        let (directly, through) = (said(&direct, method, &params).await, said(&through, method, &params).await);
        compare("progress", &directly.0, &through.0);
        compare(method, &directly.1, &through.1);
    }
    direct.close().await;
    through.close().await;
    (differences, used)
}

async fn directly(server: &Compared) -> Peer {
    // Interpreters take their time to start beside others.
    let timeouts = Timeouts { probe: PATIENCE, ..Timeouts::default() };
    let options = DialOptions {
        connect: ConnectOptions { era: server.era, timeouts, ..ConnectOptions::default() },
        custodian: toolway_host::keeper::Custodian::nobody(),
        ..DialOptions::default()
    };
    within("the handshake", dial(&server.address, options))
        .await
        .unwrap_or_else(|error| panic!("{}: {error}", server.name))
}

/// The steps that were told, then the result, or the error: all as they came.
async fn said(peer: &Peer, method: &'static str, params: &Known) -> (Raw, Raw) {
    let request = Request::new(method, Some(Raw::of(params))).unwrap().with_progress();
    let mut steps = Vec::new();
    let exchange = peer.open(request, Terms::call());
    let outcome = exchange.outcome_with(None, |happening| {
        if let Happening::Progress(step) = happening {
            steps.push(step.clone());
        }
    });
    let result = match within(method, outcome).await {
        Outcome::Answered(result) => result,
        Outcome::Refused(error) => error.raw().clone(),
        other => panic!("{method}: {other:?}"),
    };
    (splice::array(&steps), result)
}
