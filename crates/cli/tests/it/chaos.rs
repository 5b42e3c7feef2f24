//! A gateway under load while servers are killed, connections are cut at random bytes and it is killed itself: every call
//! ends once, clients recover as their revision allows, and nothing is left behind.
//!
//! `TOOLWAY_TEST_LONG=1` makes ten thousand calls; `TOOLWAY_CHAOS_SEED` makes the choices of an earlier run.

mod call;
mod calling;
mod census;
mod cutting;
mod dice;
mod house;
mod load;
mod outliving;
mod speaking;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::{
    call::Ended,
    calling::Client,
    dice::{Dice, print},
    house::{House, SERVERS},
    load::{Tally, load},
};

/// One connection in so many is cut.
const CUT: u64 = 6;
/// What the gateway may weigh more after the load than after a tenth of it, in kilobytes.
const GROWTH: u64 = 16 * 1024;

/// Nothing that a gateway started is there so long after it was killed.
const GONE: Duration = Duration::from_secs(2);

fn size(short: usize, long: usize) -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { long } else { short }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_killed_and_connections_cut_and_every_call_ends_once() {
    let seed = dice::seed();
    let calls = size(600, 10_000);
    let mut house = House::new("servers", seed).await;
    let mut clients = house.clients(seed);
    // What is made once is made before anything is counted.
    let mut around = 0;
    for client in &mut clients {
        around += served(client).await;
    }
    house.rest().await;
    let files = census::files(house.pid());

    let (clients, first) = faulty(&mut house, clients, calls / 10, Dice::of(seed, 10)).await;
    house.rest().await;
    let weight = census::weight(house.pid());
    let (mut clients, second) = faulty(&mut house, clients, calls - calls / 10, Dice::of(seed, 11)).await;
    house.settle().await;
    for client in &mut clients {
        around += served(client).await;
        client.leave().await;
    }
    house.rest().await;

    let grown = census::weight(house.pid()).saturating_sub(weight);
    assert!(grown < GROWTH, "it weighs {grown} kB more than the {weight} kB of before");
    let cuts: usize = house.ways().map(cutting::Cutter::cuts).sum();
    print(&format!("{first:?}\n{second:?}\n{cuts} cuts, {} files, {weight} kB and {grown} kB more", files.len()));
    let mut all = first;
    all.add(second);
    assert!(0 < cuts && 0 < all.lost && calls / 3 < all.answered, "{all:?} with {cuts} cuts");
    until_open(&house, &files).await;
    let half_begun: usize = clients.iter().map(|client| client.half_begun).sum();
    assert!(house.figure("toolway_sessions") <= u64::try_from(half_begun).unwrap(), "sessions that everybody left");
    assert_eq!(house::programs(&house.mark).len(), 2, "{:?}", census::processes(&house.mark));
    records_fit(&mut house, &all, calls + around);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_is_killed_under_load_and_clients_go_on_with_the_next_one() {
    let seed = dice::seed();
    let mut house = House::new("gateway", seed).await;
    let clients = house.clients(seed);
    let (mut clients, tally, kills) = killed(&mut house, clients, size(500, 5_000), Dice::of(seed, 12)).await;
    house.settle().await;
    print(&format!("{tally:?} with {kills} kills"));
    for client in &mut clients {
        for server in SERVERS {
            let call = client.plain(server);
            assert_eq!(client.make(&call).await, Ended::Answered, "{call:?}");
        }
        client.leave().await;
    }
    assert!(0 < kills && 0 < tally.lost && 0 < tally.answered, "{tally:?} with {kills} kills");
    let (sessions, paths) = (clients.iter().map(|client| client.begun).sum::<usize>(), SERVERS.len() + 1);
    assert!(clients.len() / 2 * paths < sessions, "{sessions} sessions were begun: none was begun again");
    house.stop();
    census::until(&house.mark, GONE, BTreeMap::is_empty);
}

/// So many calls of all clients at once, to gateways one of which is killed after the other.
async fn killed(house: &mut House, clients: Vec<Client>, calls: usize, mut dice: Dice) -> (Vec<Client>, Tally, usize) {
    let done = CancellationToken::new();
    let loaded = async {
        let loaded = load(clients, calls).await;
        done.cancel();
        loaded
    };
    let killing = async {
        let mut kills = 0;
        while tokio::time::timeout(Duration::from_millis(300 + dice.below(700)), done.cancelled()).await.is_err() {
            let before = census::processes(&house.mark);
            house.kill();
            house.start();
            census::until(&house.mark, GONE, |there| before.keys().all(|pid| !there.contains_key(pid)));
            kills += 1;
        }
        kills
    };
    let ((clients, tally), kills) = tokio::join!(loaded, killing);
    (clients, tally, kills)
}

/// After the load: nothing is under way, and as many calls were recorded as were made, lost ones perhaps.
fn records_fit(house: &mut House, all: &Tally, calls: usize) {
    assert_eq!((house.figure("toolway_calls_under_way"), house.figure("toolway_log_lines_lost_total")), (0, 0));
    let counted = usize::try_from(house.figure("toolway_calls_total")).unwrap();
    let talk = house.stop();
    census::until(&house.mark, GONE, BTreeMap::is_empty);
    let lines = talk.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let recorded = lines.filter(|line| line["event"] == "call").count();
    assert!(counted <= recorded, "{counted} calls were counted and {recorded} written down");
    let heard = all.answered + all.refused.values().sum::<usize>();
    print(&format!("{counted} counted, {recorded} recorded, {heard} heard of {calls}"));
    assert!(heard <= recorded, "{recorded} calls were recorded, {heard} answers heard");
    assert!(recorded <= calls, "{recorded} calls were recorded, {calls} made");
}

/// Waits until what is open is no more than this.
async fn until_open(house: &House, before: &[String]) {
    let began = Instant::now();
    loop {
        let files = census::files(house.pid());
        if files.len() <= before.len() {
            return;
        }
        assert!(began.elapsed() < house::PATIENCE, "open were {before:#?}\nand are {files:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Every server answers this client: perhaps not at once, for one that was killed often is given time to come back. How
/// many calls that took.
async fn served(client: &mut Client) -> usize {
    let mut calls = 0;
    for server in SERVERS {
        let began = Instant::now();
        loop {
            let call = client.plain(server);
            calls += 1;
            match client.make(&call).await {
                Ended::Answered => break,
                other => assert!(began.elapsed() < house::PATIENCE, "{call:?}: {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    calls
}

/// So many calls of all clients at once, with faults; the clients again, and how the calls ended.
async fn faulty(house: &mut House, clients: Vec<Client>, calls: usize, mut dice: Dice) -> (Vec<Client>, Tally) {
    house.ways().for_each(|way| way.cut_one_in(CUT));
    let done = CancellationToken::new();
    let loaded = async {
        let loaded = load(clients, calls).await;
        done.cancel();
        loaded
    };
    let killing = async {
        while tokio::time::timeout(Duration::from_millis(200 + dice.below(800)), done.cancelled()).await.is_err() {
            match dice.below(6) {
                0 => house.back[0].kill(),
                1 => house.back[1].kill(),
                _ => house.program(&mut dice).into_iter().for_each(census::kill),
            }
        }
    };
    let (loaded, ()) = tokio::join!(loaded, killing);
    loaded
}
