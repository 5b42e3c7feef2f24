//! What a caller sees in lists.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolway_host::connection::{WantedServer, Way};
use toolway_testkit::{
    fixture_server::FixtureServer,
    test_host::{TestHost, name, within},
};
use toolway_wire::{
    down::{Caller, Heard, Profile, Service},
    exchange::{self, Exchange, Request, Terms},
    notice::Wanted,
    revision::Era,
    up::Peer,
};

use crate::stage::Stage;

/// A server that answers no list before it is let.
struct Gated(FixtureServer, CancellationToken);

impl Service for Gated {
    fn profile(&self, caller: &Caller) -> Profile {
        self.0.profile(caller)
    }

    fn open(&self, request: Request, caller: &Caller) -> Exchange {
        if !request.method().ends_with("/list") {
            return self.0.open(request, caller);
        }
        let (exchange, feed) = exchange::pair(Terms::unbounded(), 1);
        let (gate, server, caller) = (self.1.clone(), self.0.clone(), caller.clone());
        tokio::runtime::Handle::current().spawn(async move {
            gate.cancelled().await;
            feed.end(server.open(request, &caller).outcome().await);
        });
        exchange
    }

    fn listen<'a>(&'a self, wanted: Wanted, caller: &'a Caller) -> BoxFuture<'a, Heard> {
        self.0.listen(wanted, caller)
    }
}

fn files() -> FixtureServer {
    FixtureServer::new("files").tool("echo", "Give it back")
}

fn gated(gate: &CancellationToken) -> WantedServer {
    WantedServer::new(name("files"), Way::InProcess(Arc::new(Gated(files(), gate.clone()))))
}

async fn tools(client: &Peer) -> Vec<String> {
    let listed = within("a list", client.list_tools()).await.unwrap();
    listed.items.into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn a_list_waits_a_moment_for_a_server_that_nobody_has_heard_yet() {
    for era in [Era::Legacy, Era::Modern] {
        // The machine may be busy with something else; a list that does not wait is empty every time.
        let mut seen = Vec::new();
        for _ in 0..5 {
            let gate = CancellationToken::new();
            let stage = Stage::with(TestHost::new().wanted(gated(&gate))).await;
            let client = stage.client("/mcp", era).await;
            let opening = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                gate.cancel();
            };
            (seen, ()) = tokio::join!(tools(&client), opening);
            if !seen.is_empty() {
                break;
            }
        }
        assert_eq!(seen, ["files__echo"], "{era:?}");
    }
}

#[tokio::test]
async fn a_server_that_is_never_heard_holds_up_a_list_for_a_moment_and_takes_nothing_from_it() {
    let gate = CancellationToken::new();
    let mail = FixtureServer::new("mail").tool("send", "Send it");
    let stage = Stage::with(TestHost::new().wanted(gated(&gate)).server("mail", &mail)).await;
    let client = stage.client("/mcp", Era::Modern).await;
    let began = Instant::now();
    assert_eq!(tools(&client).await, ["mail__send"]);
    // Bounded by far less than the time that servers are given to connect.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
