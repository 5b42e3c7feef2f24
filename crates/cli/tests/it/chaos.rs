//! A gateway under load while servers and the gateway are killed and connections are cut at random bytes: every call ends
//! exactly once, clients recover as their protocol revision allows, and no process is left behind.
//!
//! `TOOLWAY_TEST_LONG=1` makes ten thousand calls; `TOOLWAY_CHAOS_SEED` repeats the choices of an earlier run.

mod call;
mod client;
mod faulty_proxy;
mod http;
mod load;
mod process_list;
mod restart;
pub(crate) mod rng;
mod setup;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::{
    call::Ended,
    client::Client,
    load::{Tally, load},
    rng::{SeededRng, print},
    setup::{ChaosSetup, SERVERS},
};

/// One of this many connections is cut.
const CUT: u64 = 6;
/// Allowed memory growth between a tenth of the load and all of it, in kilobytes. What is allocated once under load, up to 20 MB
/// in a build without optimisation, can fall behind the first tenth.
const GROWTH: u64 = 28 * 1024;

/// Name of the database; its other files begin with it.
const STORE: &str = "toolway.db";
/// Files of the store under load: database and WAL by the writer and by four connections for queries, the index of the WAL,
/// the lock of the process and two journals.
const STORE_FILES: usize = 14;

/// The gateway closes idle connections to servers after 50 seconds; how many it keeps depends on the load.
const IDLE_CONNECTIONS: Duration = Duration::from_secs(70);

/// Time after which no process of a killed gateway may be left.
const GONE: Duration = Duration::from_secs(2);

fn size(short: usize, long: usize) -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { long } else { short }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_ends_once_while_servers_are_killed_and_connections_cut() {
    let seed = rng::seed();
    let calls = size(600, 10_000);
    let mut setup = ChaosSetup::new("servers", seed).await;
    let mut clients = setup.clients(seed);
    // One-time allocations happen before the counts.
    let mut around = 0;
    for client in &mut clients {
        around += call_every_server(client).await;
    }
    setup.rest().await;
    let files = process_list::files(setup.pid());

    let (clients, first) = run_with_faults(&mut setup, clients, calls / 10, SeededRng::of(seed, 10)).await;
    setup.rest().await;
    let memory = process_list::memory(setup.pid());
    let (mut clients, second) = run_with_faults(&mut setup, clients, calls - calls / 10, SeededRng::of(seed, 11)).await;
    setup.settle().await;
    for client in &mut clients {
        around += call_every_server(client).await;
        client.leave().await;
    }
    setup.rest().await;

    let grown = process_list::memory(setup.pid()).saturating_sub(memory);
    assert!(grown < GROWTH, "memory grew by {grown} kB from {memory} kB");
    let cuts: usize = setup.proxies().map(faulty_proxy::FaultyProxy::cuts).sum();
    print(&format!("{first:?}\n{second:?}\n{cuts} cuts, {} files, {memory} kB and {grown} kB more", files.len()));
    let mut all = first;
    all.add(second);
    assert!(0 < cuts && 0 < all.lost && calls / 3 < all.answered, "{all:?} with {cuts} cuts");
    wait_for_files(&setup, &files).await;
    let half_started: usize = clients.iter().map(|client| client.half_started).sum();
    assert!(setup.metric("toolway_sessions") <= u64::try_from(half_started).unwrap(), "sessions left open");
    assert_eq!(setup::programs(&setup.mark).len(), 2, "{:?}", process_list::processes(&setup.mark));
    check_records(&mut setup, &all, calls + around);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_continue_with_the_next_gateway_after_a_kill() {
    let seed = rng::seed();
    let mut setup = ChaosSetup::new("gateway", seed).await;
    let clients = setup.clients(seed);
    let (mut clients, tally, kills) =
        run_with_kills(&mut setup, clients, size(500, 5_000), SeededRng::of(seed, 12)).await;
    setup.settle().await;
    print(&format!("{tally:?} with {kills} kills"));
    for client in &mut clients {
        for server in SERVERS {
            let call = client.plain(server);
            assert_eq!(client.make(&call).await, Ended::Answered, "{call:?}");
        }
        client.leave().await;
    }
    assert!(0 < kills && 0 < tally.lost && 0 < tally.answered, "{tally:?} with {kills} kills");
    let (sessions, paths) = (clients.iter().map(|client| client.started).sum::<usize>(), SERVERS.len() + 1);
    assert!(clients.len() / 2 * paths < sessions, "{sessions} sessions were started: none was started again");
    setup.stop();
    process_list::until(&setup.mark, GONE, BTreeMap::is_empty);
}

/// Makes calls of all clients in parallel while the gateway is killed and restarted repeatedly.
async fn run_with_kills(
    setup: &mut ChaosSetup,
    clients: Vec<Client>,
    calls: usize,
    mut rng: SeededRng,
) -> (Vec<Client>, Tally, usize) {
    let done = CancellationToken::new();
    let loaded = async {
        let loaded = load(clients, calls).await;
        done.cancel();
        loaded
    };
    let killing = async {
        let mut kills = 0;
        while tokio::time::timeout(Duration::from_millis(300 + rng.below(700)), done.cancelled()).await.is_err() {
            let before = process_list::processes(&setup.mark);
            setup.kill();
            setup.start();
            process_list::until(&setup.mark, GONE, |there| before.keys().all(|pid| !there.contains_key(pid)));
            kills += 1;
        }
        kills
    };
    let ((clients, tally), kills) = tokio::join!(loaded, killing);
    (clients, tally, kills)
}

/// Checks after the load that no call is in flight and that the records match the calls, except for lost ones.
fn check_records(setup: &mut ChaosSetup, all: &Tally, calls: usize) {
    assert_eq!((setup.metric("toolway_calls_under_way"), setup.metric("toolway_log_lines_lost_total")), (0, 0));
    let counted = usize::try_from(setup.metric("toolway_calls_total")).unwrap();
    let talk = setup.stop();
    process_list::until(&setup.mark, GONE, BTreeMap::is_empty);
    let lines = talk.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let recorded = lines.filter(|line| line["event"] == "call").count();
    assert!(counted <= recorded, "{counted} calls were counted and {recorded} logged");
    let heard = all.answered + all.refused.values().sum::<usize>();
    print(&format!("{counted} counted, {recorded} recorded, {heard} heard of {calls}"));
    assert!(heard <= recorded, "{recorded} calls were recorded, {heard} answers heard");
    assert!(recorded <= calls, "{recorded} calls were recorded, {calls} made");
}

/// Waits until the gateway has no more open files than before, and of its store no more than it keeps under load.
async fn wait_for_files(setup: &ChaosSetup, before: &[String]) {
    let began = Instant::now();
    loop {
        let files = process_list::files(setup.pid());
        if others(&files) <= others(before) && files.len() - others(&files) <= STORE_FILES {
            return;
        }
        if IDLE_CONNECTIONS < began.elapsed() {
            let more = files.iter().filter(|file| !before.contains(file));
            let more: Vec<&str> = more.map(|file| file.split(' ').next().unwrap()).collect();
            let holders = process_list::holders(setup.pid(), &more);
            panic!("open were {before:#?}\nand are {files:#?}\nheld are {holders:#?}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The number of open files that are not the store's.
fn others(files: &[String]) -> usize {
    files.iter().filter(|file| !file.contains(STORE)).count()
}

/// Calls every server until it answers, because a killed server needs time to restart. Returns the number of calls.
async fn call_every_server(client: &mut Client) -> usize {
    let mut calls = 0;
    for server in SERVERS {
        let began = Instant::now();
        loop {
            let call = client.plain(server);
            calls += 1;
            match client.make(&call).await {
                Ended::Answered => break,
                other => assert!(began.elapsed() < setup::PATIENCE, "{call:?}: {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    calls
}

/// Makes calls of all clients in parallel with faults; returns the clients and the outcomes.
async fn run_with_faults(
    setup: &mut ChaosSetup,
    clients: Vec<Client>,
    calls: usize,
    mut rng: SeededRng,
) -> (Vec<Client>, Tally) {
    setup.proxies().for_each(|way| way.cut_one_in(CUT));
    let done = CancellationToken::new();
    let loaded = async {
        let loaded = load(clients, calls).await;
        done.cancel();
        loaded
    };
    let killing = async {
        while tokio::time::timeout(Duration::from_millis(200 + rng.below(800)), done.cancelled()).await.is_err() {
            match rng.below(6) {
                0 => setup.back[0].kill(),
                1 => setup.back[1].kill(),
                _ => setup.program(&mut rng).into_iter().for_each(process_list::kill),
            }
        }
    };
    let (loaded, ()) = tokio::join!(loaded, killing);
    loaded
}
