//! Sessions of a cluster have a home: what arrives at another gateway is forwarded there, whole and once.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use toolway_host::cluster::LeaseStore;
use toolway_testkit::{
    fixture_server::{Behaviour, FixtureServer},
    test_host::within,
};
use toolway_wire::{budget::MemoryBudget, peer::PeerSilence};

use crate::{
    cluster_gateways::{ClusterGateway, TestCluster},
    raw_client::{RawClient, request},
};

fn files() -> FixtureServer {
    FixtureServer::new("files")
        .tool("echo", "Repeat")
        .tool_that("greet", "Greet", Behaviour::Greet)
        .tool_that("count", "Count", Behaviour::Count)
        .tool_that("wait", "Wait", Behaviour::Wait)
}

fn call(id: u64, tool: &str) -> Value {
    request(id, "tools/call", json!({ "name": format!("files__{tool}"), "arguments": {} }))
}

/// A proxy whose connections stay open and carry nothing once it is silent, like those of a process that is stopped. It
/// refuses later ones.
struct SilentProxy {
    address: SocketAddr,
    silent: CancellationToken,
}

impl SilentProxy {
    async fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, silent) = (listener.local_addr().unwrap(), CancellationToken::new());
        let is_silent = silent.clone();
        tokio::runtime::Handle::current().spawn(async move {
            let mut open = Vec::new();
            while let Some(Ok((client, _))) = is_silent.run_until_cancelled(listener.accept()).await {
                let is_silent = is_silent.clone();
                open.push(tokio::runtime::Handle::current().spawn(async move {
                    let mut client = client;
                    let mut server = TcpStream::connect(target).await.unwrap();
                    let copying = tokio::io::copy_bidirectional(&mut client, &mut server);
                    if is_silent.run_until_cancelled(copying).await.is_none() {
                        std::future::pending::<()>().await;
                    }
                }));
            }
            drop(listener);
            std::future::pending::<()>().await;
        });
        Self { address, silent }
    }
}

/// A session that has begun at the first of two gateways.
struct Pair {
    cluster: TestCluster,
    home: ClusterGateway,
    other: ClusterGateway,
    at_home: RawClient,
    elsewhere: RawClient,
}

async fn pair() -> Pair {
    let cluster = TestCluster::new();
    let home = cluster.gateway(files()).await;
    let other = cluster.gateway(files()).await;
    let at_home = home.client(&cluster.keys[0]).start_session().await;
    let elsewhere = other.client(&cluster.keys[0]).in_session_of(&at_home);
    Pair { cluster, home, other, at_home, elsewhere }
}

#[tokio::test]
async fn calls_at_either_gateway_reach_the_server_of_the_home() {
    let Pair { cluster, home, other, at_home, elsewhere } = pair().await;
    for id in 1..=4 {
        let client = if id % 2 == 0 { &at_home } else { &elsewhere };
        let answer = client.post(&call(id, "echo")).await.answer().await;
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(id), &json!(false)), "{answer}");
    }
    assert_eq!((home.calls(), other.calls()), (4, 0));
    let listed = elsewhere.post(&request(5, "tools/list", json!({}))).await.answer().await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 4, "{listed}");
    let metrics = other.client(&cluster.keys[0]).at("/metrics").send("GET", &[], "").await.text().await;
    assert!(metrics.contains("toolway_cluster_forwarded_total{end=\"answered\"}"), "{metrics}");
    assert!(metrics.contains("toolway_cluster_member 1"), "{metrics}");
    // A stream arrives as it is.
    let answer = elsewhere.post(&call(6, "count")).await.answer().await;
    assert_eq!(answer["id"], 6, "{answer}");
}

#[tokio::test]
async fn an_elicitation_through_one_gateway_is_answered_at_the_other() {
    let Pair { cluster: _cluster, home, other: _other, at_home, elsewhere } = pair().await;
    for (asks, answers) in [(&elsewhere, &at_home), (&at_home, &elsewhere)] {
        let mut open = asks.post(&call(1, "greet")).await;
        let asked = open.message().await.unwrap();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        let content = json!({ "action": "accept", "content": { "name": "Ada" } });
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": content });
        assert_eq!(answers.post(&answer).await.status, 202);
        let end = open.answer().await;
        assert!(end["result"].to_string().contains("Ada"), "{end}");
    }
    assert_eq!(home.calls(), 2);
}

#[tokio::test]
async fn a_cancellation_at_another_gateway_reaches_the_call() {
    let Pair { cluster: _cluster, home, other: _other, at_home, elsewhere } = pair().await;
    let waiting = call(7, "wait");
    let open = at_home.post(&waiting);
    let cancel = async {
        home.files.until_received("tools/call", 1).await;
        let params = json!({ "requestId": 7, "reason": "enough" });
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        elsewhere.post(&cancelled).await.status
    };
    let (open, status) = within("the cancellation", async { tokio::join!(open, cancel) }).await;
    assert_eq!(status, 202);
    assert_eq!(open.status, 202, "a cancelled request has no response");
}

#[tokio::test]
async fn a_session_that_is_ended_at_one_gateway_has_ended_at_the_other() {
    let Pair { cluster, home: _home, other: _other, at_home, elsewhere } = pair().await;
    assert_eq!(cluster.sessions.ids().len(), 1);
    assert_eq!(elsewhere.send("DELETE", &[], "").await.status, 200);
    assert!(cluster.sessions.ids().is_empty());
    for client in [&at_home, &elsewhere] {
        assert_eq!(client.post(&call(1, "echo")).await.status, 404);
    }
}

#[tokio::test]
async fn the_session_of_a_gateway_that_is_gone_goes_on_at_another_one() {
    let Pair { cluster, home, other, elsewhere, .. } = pair().await;
    assert_eq!(elsewhere.post(&call(1, "echo")).await.status, 200);
    drop(home);
    let answer = within("the next request", elsewhere.post(&call(2, "echo"))).await.answer().await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(other.calls(), 1);
    assert!(cluster.store.store.takeovers().is_empty(), "its lease is valid; only the session has moved");
}

#[tokio::test]
async fn a_call_whose_gateway_is_lost_ends_as_unknown() {
    let Pair { cluster: _cluster, home, other: _other, elsewhere, .. } = pair().await;
    let waiting = async {
        let open = elsewhere.post(&call(9, "wait")).await;
        open.answer().await
    };
    let ClusterGateway { gateway, files, membership, .. } = home;
    let kill = async {
        files.until_received("tools/call", 1).await;
        drop((gateway, membership));
    };
    let (answer, ()) = within("the end of the call", async { tokio::join!(waiting, kill) }).await;
    assert_eq!(answer["id"], 9, "{answer}");
    assert!(answer.to_string().contains("unknown"), "its outcome is unknown: {answer}");
}

#[tokio::test]
async fn a_home_that_cannot_be_reached_is_no_reason_to_serve_its_session_twice() {
    let cluster = TestCluster::new();
    // It accepts connections and says nothing, as behind a network that loses everything.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let home = cluster.gateway_at(files(), None, silent.local_addr().unwrap()).await;
    let other = cluster.gateway(files()).await;
    let at_home = home.client(&cluster.keys[0]).start_session().await;
    let elsewhere = other.client(&cluster.keys[0]).in_session_of(&at_home);
    let refused = elsewhere.post(&call(1, "echo")).await;
    assert_eq!((refused.status, refused.headers["retry-after"].to_str().unwrap()), (503, "2"));
    let refused = refused.answer().await;
    assert_eq!((&refused["id"], &refused["error"]["data"]["outcome"]), (&json!(1), &json!("not-sent")), "{refused}");
    assert_eq!(at_home.post(&call(2, "echo")).await.status, 200);
    assert_eq!((home.calls(), other.calls()), (1, 0));
}

#[tokio::test]
async fn a_gateway_that_has_lost_its_lease_gives_up_its_sessions() {
    let Pair { cluster, home, other, at_home, elsewhere } = pair().await;
    let mut greeting = at_home.post(&call(1, "greet")).await;
    assert_eq!(greeting.message().await.unwrap()["method"], "elicitation/create");
    let lost = home.member();
    cluster.store.leave(lost).await.unwrap();
    let answer = within("the end of the call", greeting.answer()).await;
    let told = answer.to_string();
    assert!(told.contains("unknown"), "its outcome is unknown: {told}");
    let answer = elsewhere.post(&call(2, "echo")).await.answer().await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(other.calls(), 1, "the session is at the gateway that was asked next");
    let answer = at_home.post(&call(3, "echo")).await.answer().await;
    assert_eq!((&answer["result"]["isError"], other.calls()), (&json!(false), 2), "{answer}");
}

#[tokio::test]
async fn a_call_at_a_gateway_that_is_silent_ends_as_unknown_when_it_was_taken_over() {
    let cluster = TestCluster::new();
    let peers = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = SilentProxy::before(peers.local_addr().unwrap()).await;
    let home = cluster.gateway_at(files(), Some(peers), proxy.address).await;
    let other = cluster.gateway(files()).await;
    let at_home = home.client(&cluster.keys[0]).start_session().await;
    let elsewhere = other.client(&cluster.keys[0]).in_session_of(&at_home);
    let silence = async {
        home.files.until_received("tools/call", 1).await;
        proxy.silent.cancel();
        cluster.store.leave(home.member()).await.unwrap();
    };
    let waiting = async { elsewhere.post(&call(1, "wait")).await.answer().await };
    let (answer, ()) = within("the end of the call", async { tokio::join!(waiting, silence) }).await;
    assert_eq!(answer["error"]["data"]["outcome"], "unknown", "{answer}");
    let answer = within("the next call", async { elsewhere.post(&call(2, "echo")).await.answer().await }).await;
    assert_eq!((&answer["result"]["isError"], other.calls()), (&json!(false), 1), "{answer}");
}

/// A session whose home is behind a proxy that can become silent.
struct BehindProxy {
    cluster: TestCluster,
    proxy: SilentProxy,
    home: ClusterGateway,
    other: ClusterGateway,
    elsewhere: RawClient,
}

async fn behind_proxy(silence: PeerSilence) -> BehindProxy {
    let mut cluster = TestCluster::new();
    cluster.silence = silence;
    let peers = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = SilentProxy::before(peers.local_addr().unwrap()).await;
    let home = cluster.gateway_at(files(), Some(peers), proxy.address).await;
    let other = cluster.gateway(files()).await;
    let at_home = home.client(&cluster.keys[0]).start_session().await;
    let elsewhere = other.client(&cluster.keys[0]).in_session_of(&at_home);
    BehindProxy { cluster, proxy, home, other, elsewhere }
}

#[tokio::test]
async fn a_call_at_a_member_that_is_silent_ends_as_unknown() {
    let silence = PeerSilence { head: Duration::from_secs(2), ..PeerSilence::default() };
    let BehindProxy { cluster, proxy, home, other: _other, elsewhere } = behind_proxy(silence).await;
    let silenced = async {
        home.files.until_received("tools/call", 1).await;
        proxy.silent.cancel();
    };
    let waiting = async { elsewhere.post(&call(1, "wait")).await.answer().await };
    let (answer, ()) = within("the end of the call", async { tokio::join!(waiting, silenced) }).await;
    assert_eq!(answer["error"]["data"]["outcome"], "unknown", "{answer}");
    assert!(cluster.store.store.takeovers().is_empty(), "its lease is valid");
}

#[tokio::test]
async fn a_stream_of_a_member_that_is_silent_ends_as_unknown() {
    let silence = PeerSilence { piece: Duration::from_secs(2), ..PeerSilence::default() };
    let BehindProxy { cluster, proxy, home: _home, other: _other, elsewhere } = behind_proxy(silence).await;
    let mut open = elsewhere.post(&call(1, "greet")).await;
    assert_eq!(open.message().await.unwrap()["method"], "elicitation/create");
    proxy.silent.cancel();
    let answer = within("the end of the call", open.answer()).await;
    assert_eq!(answer["error"]["data"]["outcome"], "unknown", "{answer}");
    assert!(cluster.store.store.takeovers().is_empty(), "its lease is valid");
}

#[tokio::test]
async fn a_response_that_is_relayed_is_charged_to_its_client() {
    let mut cluster = TestCluster::new();
    let long: &'static str = "x".repeat(1024 * 1024).leak();
    let home = cluster.gateway(files().tool_that("long", "Answer at length", Behaviour::Say(long))).await;
    let memory = MemoryBudget::new(1024 * 1024);
    cluster.limits.memory = memory.clone();
    let other = cluster.gateway(files()).await;
    let at_home = home.client(&cluster.keys[0]).start_session().await;
    let elsewhere = other.client(&cluster.keys[0]).in_session_of(&at_home);
    let refused = elsewhere.post(&call(1, "long")).await.answer().await;
    assert_eq!(refused["error"]["data"]["outcome"], "unknown", "{refused}");
    assert!(0 < memory.refused());
    let answer = elsewhere.post(&call(2, "echo")).await.answer().await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let answer = at_home.post(&call(3, "long")).await.answer().await;
    assert_eq!(answer["result"]["isError"], false, "the home has no such budget");
}

#[tokio::test]
async fn a_parked_call_is_not_lost_because_the_members_cannot_be_listed() {
    let cluster = TestCluster::new();
    let home = cluster.gateway(files()).await;
    let other = cluster.gateway(files()).await;
    let [at_home, elsewhere] = [&home, &other].map(|one| one.client(&cluster.keys[0]));
    let parked = at_home.ask("tools/call", json!({ "name": "files__greet", "arguments": {} })).await;
    let state = parked["result"]["requestState"].clone();
    let holder = home.member();
    cluster.store.leave(holder).await.unwrap();
    // It is in no list that is read from now on.
    let listed = async {
        while other.membership.members().iter().any(|row| row.member == holder) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("a new list of members", listed).await;
    cluster.store.set_away(true);
    let continued = json!({ "name": "files__greet", "arguments": {}, "requestState": state, "inputResponses": {} });
    let refused = elsewhere.ask("tools/call", continued.clone()).await;
    assert_eq!(refused["error"]["data"]["outcome"], "not-sent", "{refused}");
    cluster.store.set_away(false);
    let ended = elsewhere.ask("tools/call", continued).await;
    assert_eq!(ended["error"]["data"]["outcome"], "unknown", "{ended}");
}

#[tokio::test]
async fn a_gateway_without_a_lease_begins_no_stateless_call() {
    let cluster = TestCluster::new();
    let home = cluster.gateway(files()).await;
    let client = home.client(&cluster.keys[0]);
    let echo = json!({ "name": "files__echo", "arguments": {} });
    assert!(client.ask("tools/call", echo.clone()).await["result"].is_object());
    home.membership.leave().await;
    let refused = client.open_request("tools/call", echo).await;
    assert_eq!((refused.status, refused.headers["retry-after"].to_str().unwrap()), (503, "2"));
    let refused = refused.answer().await;
    assert_eq!(refused["error"]["data"]["outcome"], "not-sent", "{refused}");
    assert_eq!(home.calls(), 1);
}

#[tokio::test]
async fn a_request_that_the_home_has_no_memory_for_was_not_sent() {
    let mut cluster = TestCluster::new();
    let memory = MemoryBudget::new(1024 * 1024);
    cluster.limits.memory = memory.clone();
    let home = cluster.gateway(files()).await;
    let at_home = home.client(&cluster.keys[0]).start_session().await;
    cluster.limits.memory = MemoryBudget::default();
    let other = cluster.gateway(files()).await;
    let elsewhere = other.client(&cluster.keys[0]).in_session_of(&at_home);
    let _full = memory.of_principal("ada").charge(500 * 1024).unwrap();
    let arguments = json!({ "text": "x".repeat(100 * 1024) });
    let long = request(1, "tools/call", json!({ "name": "files__echo", "arguments": arguments }));
    let refused = elsewhere.post(&long).await;
    assert_eq!(refused.status, 503);
    let refused = refused.answer().await;
    assert_eq!((&refused["id"], &refused["error"]["data"]["outcome"]), (&json!(1), &json!("not-sent")), "{refused}");
    assert_eq!(home.calls(), 0);
}

#[tokio::test]
async fn ready_shows_the_members_and_fails_without_a_lease() {
    let Pair { cluster, home, other: _other, .. } = pair().await;
    let client = home.client(&cluster.keys[0]);
    let ready: Value = serde_json::from_str(&client.at("/ready").get().await.text().await).unwrap();
    assert_eq!(ready["ready"], true, "{ready}");
    assert_eq!(ready["cluster"]["member"], home.member().generation.0, "{ready}");
    assert_eq!(ready["cluster"]["members"][0]["self"], true, "{ready}");
    home.membership.leave().await;
    let away = client.at("/ready").get().await;
    assert_eq!(away.status, 503);
}

#[tokio::test]
async fn a_stateless_call_that_waits_for_an_answer_is_continued_through_any_gateway() {
    let cluster = TestCluster::new();
    let home = cluster.gateway(files()).await;
    let other = cluster.gateway(files()).await;
    let [at_home, elsewhere] = [&home, &other].map(|one| one.client(&cluster.keys[0]));
    let parked = at_home.ask("tools/call", json!({ "name": "files__greet", "arguments": {} })).await;
    let asked = &parked["result"];
    assert_eq!(asked["resultType"], "input_required", "{parked}");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    let continued = json!({
        "name": "files__greet", "arguments": {}, "requestState": asked["requestState"], "inputResponses": { key: answer },
    });
    let bob = other.client(&cluster.keys[1]).ask("tools/call", continued.clone()).await;
    assert!(bob["error"].is_object(), "another client: {bob}");
    let ended = elsewhere.ask("tools/call", continued.clone()).await;
    assert!(ended["result"].to_string().contains("Ada"), "{ended}");
    let again = elsewhere.ask("tools/call", continued).await;
    assert!(again["error"]["message"].to_string().contains("already used"), "{again}");
    assert_eq!((home.calls(), other.calls()), (1, 0));
    let parked = at_home.ask("tools/call", json!({ "name": "files__greet", "arguments": {} })).await;
    let state = parked["result"]["requestState"].clone();
    drop(home);
    let continued = json!({ "name": "files__greet", "arguments": {}, "requestState": state, "inputResponses": {} });
    let lost = elsewhere.ask("tools/call", continued).await;
    assert_eq!(lost["error"]["data"]["outcome"], "unknown", "{lost}");
}
