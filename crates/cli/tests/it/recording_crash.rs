//! Records survive `kill -9`: two gateways write to one database and are killed at random moments.
//!
//! `TOOLWAY_CRASH_SEED` repeats the choices of an earlier run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    thread,
    time::{Duration, SystemTime},
};

use rusqlite::Connection;
use serde_json::json;
use toolway_testkit::seeded_random::SeededRandom;

use crate::{
    home::{Home, TOOLWAY},
    stdio_client::StdioClient,
};

/// Calls of all processes together.
const CALLS: usize = 2_000;
/// Calls of one process that are not answered yet.
const IN_FLIGHT: usize = 12;
/// A process is killed after at most this many answers.
const LIFE: u64 = 120;

/// A home with one server.
fn home() -> Home {
    let home = Home::new();
    let config = json!({ "mcpServers": { "shop": { "command": TOOLWAY, "args": ["sample"] } } });
    home.configure(&config.to_string());
    home
}

fn database(home: &Home) -> Connection {
    Connection::open(home.path(".local/state/toolway/toolway.db")).unwrap()
}

/// Makes calls with process after process, each killed after a random number of answers. Returns the texts of the calls
/// that were answered.
fn call_and_be_killed(home: &Home, name: &str, calls: usize, mut random: SeededRandom) -> BTreeSet<String> {
    let (mut sent, mut answered) = (0, BTreeSet::new());
    while sent < calls {
        let mut client = StdioClient::start(home);
        let life = random.below(LIFE);
        let mut open = BTreeMap::new();
        for _ in 0..life {
            while open.len() < IN_FLIGHT && sent < calls {
                let text = format!("{name}-{sent}");
                let params = json!({ "name": "shop__echo", "arguments": { "text": text } });
                open.insert(client.send("tools/call", params), text);
                sent += 1;
            }
            let Some(response) = client.next_response() else { break };
            let text = open.remove(&response["id"].as_u64().unwrap()).unwrap();
            assert_eq!(response["result"]["content"][0]["text"], text, "{response}");
            answered.insert(text);
            if open.is_empty() && sent == calls {
                break;
            }
        }
        client.kill();
    }
    answered
}

/// The states of all calls, by the text that was sent; calls killed before they were sent have none.
fn states(database: &Connection) -> BTreeMap<String, Vec<String>> {
    let sql = "SELECT json_extract(arguments, '$.text') AS text, state FROM calls JOIN bodies ON call = id \
               WHERE text IS NOT NULL";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut states: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (text, state) in rows.map(Result::unwrap) {
        states.entry(text).or_default().push(state);
    }
    states
}

fn count(database: &Connection, sql: &str) -> i64 {
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn every_answered_call_is_recorded_once_whenever_a_process_is_killed() {
    let home = home();
    let mut random = SeededRandom::seeded_by("TOOLWAY_CRASH_SEED");
    let seeds = [random.below(u64::MAX) | 1, random.below(u64::MAX) | 1];
    let answered: BTreeSet<String> = thread::scope(|scope| {
        let work = |name: &'static str, seed| {
            let home = &home;
            scope.spawn(move || call_and_be_killed(home, name, CALLS / 2, SeededRandom::of(seed)))
        };
        let works = [work("a", seeds[0]), work("b", seeds[1])];
        works.into_iter().flat_map(|work| work.join().unwrap()).collect()
    });
    // The next process closes what the killed ones left open.
    home.run(&["call", "shop.add", "1", "2"]).ok();

    let database = database(&home);
    let states = states(&database);
    for text in &answered {
        assert_eq!(states.get(text).map(Vec::as_slice), Some(&["succeeded".to_owned()][..]), "{text}");
    }
    let twice = states.iter().find(|(_, states)| states.len() != 1);
    assert_eq!(twice, None);
    assert_eq!(count(&database, "SELECT count(*) FROM calls WHERE state IN ('pending', 'running')"), 0);
    let interrupted = count(&database, "SELECT count(*) FROM calls WHERE state = 'interrupted'");
    assert!(0 < interrupted && CALLS / 2 < answered.len(), "{interrupted} interrupted, {} answered", answered.len());
    // A call is ended by its own process or found open after it, never both: living processes are left alone.
    let ends = "SELECT count(*) FROM audit WHERE kind IN ('call', 'recovery') GROUP BY call HAVING count(*) <> 1";
    assert_eq!(count(&database, &format!("SELECT count(*) FROM ({ends})")), 0);
    assert_eq!(count(&database, "SELECT count(*) FROM audit WHERE kind = 'recovery'"), interrupted);
    assert_eq!(count(&database, "SELECT count(*) FROM runs"), 0, "no process is left in the list");
    // A process that was killed before it registered leaves a lock file, which is removed when it is old.
    let files = || std::fs::read_dir(home.path(".local/state/toolway/toolway.db.runs")).unwrap();
    for lock in files().map(|file| File::options().write(true).open(file.unwrap().path()).unwrap()) {
        lock.set_modified(SystemTime::now() - Duration::from_secs(60 * 60)).unwrap();
    }
    home.run(&["call", "shop.add", "1", "2"]).ok();
    assert_eq!(files().count(), 0, "no file of a process is left");

    let verified = home.run(&["audit", "verify", "-o", "json"]).json();
    let entries = count(&database, "SELECT count(*) FROM audit");
    assert_eq!((&verified["intact"], &verified["entries"]), (&json!(true), &json!(entries)));
    let changed = 1 + i64::try_from(random.below(entries.unsigned_abs())).unwrap();
    database.execute("UPDATE audit SET at = at - 1 WHERE seq >= ?", [changed]).unwrap();
    let ran = home.run(&["audit", "verify"]);
    assert_eq!(ran.code, 8, "{ran:?}");
    let named = ran.talk.split("entry ").nth(1).map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    assert_eq!(named.flatten(), Some(changed.to_string().as_str()), "the first broken entry: {ran:?}");
}

#[test]
fn open_calls_of_a_living_process_are_left_open() {
    let home = home();
    let mut living = StdioClient::start(&home);
    let mut killed = StdioClient::start(&home);
    for client in [&mut living, &mut killed] {
        client.send("tools/call", json!({ "name": "shop__count", "arguments": { "to": 600, "pause": 1000 } }));
        // An answer to a later call: the first one is recorded as running.
        client.request("tools/call", json!({ "name": "shop__echo", "arguments": { "text": "x" } }));
    }
    let database = database(&home);
    let running = "SELECT count(*) FROM calls WHERE name = 'shop__count' AND state = 'running'";
    while count(&database, running) < 2 {
        std::thread::yield_now();
    }
    killed.kill();
    home.run(&["call", "shop.add", "1", "2"]).ok();
    let state = |state: &str| count(&database, &format!("SELECT count(*) FROM calls WHERE state = '{state}'"));
    assert_eq!((state("interrupted"), state("running")), (1, 1));
    let listed = home.run(&["calls", "list", "--state", "interrupted", "-o", "json"]).json();
    assert_eq!(listed[0]["tool"], "shop__count");
    drop(living);
    home.run(&["call", "shop.add", "1", "2"]).ok();
    assert_eq!((state("interrupted"), state("running")), (2, 0));
}
