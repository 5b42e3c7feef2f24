//! A store that cannot be written: `serve` refuses calls, `call` goes on with a warning.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use rusqlite::Connection;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::{
    gateway::{Answer, Serving},
    home::{Home, Ran, TOOLWAY},
    stdio_client::StdioClient,
};

/// A home with one server and these settings of the store.
fn home(store: &Value) -> Home {
    let home = Home::new();
    let servers = json!({ "shop": { "command": TOOLWAY, "args": ["sample"] } });
    home.configure(&json!({ "mcpServers": servers, "store": store }).to_string());
    home
}

fn state(home: &Home) -> PathBuf {
    home.path(".local/state/toolway")
}

/// Holds the write lock of the database until it is dropped, as a backup that hangs does.
fn locked(home: &Home) -> Connection {
    let connection = Connection::open(state(home).join("toolway.db")).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

fn echo(client: &mut StdioClient, text: &str) -> Value {
    client.call("shop__echo", json!({ "text": text }))
}

/// What a client is told of a call that was not recorded.
#[track_caller]
fn assert_refused(result: &Value) {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(result["isError"], true, "{result}");
    assert!(text.contains("not sent because it cannot be recorded"), "{result}");
    assert!(!text.contains("locked") && !text.contains("disk"), "the cause is for the operator: {result}");
}

/// A shell that makes a part of the file system read-only or full for itself and then becomes `toolway`.
fn in_namespace(home: &Home, prepare: &str, words: &[&str]) -> Command {
    let inner = home.command(words);
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-ec", &format!("{prepare}\nexec \"$@\""), "sh", TOOLWAY]);
    command.args(words).env_clear().current_dir(home.path(""));
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Whether the system permits mounts in a namespace of one's own. A sandbox may not, and then it is said; the limit on
/// file sizes and the lock show the same refusals there.
fn may_mount() -> bool {
    let tried = ["--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"];
    let permitted = Command::new("unshare").args(tried).status().is_ok_and(|status| status.success());
    if !permitted {
        let note = "NOTE: mounts in a namespace are not permitted here; this story is not told\n";
        std::io::stderr().write_all(note.as_bytes()).unwrap();
    }
    permitted
}

/// Mounts `folder` again, read-only.
fn read_only(folder: &Path) -> String {
    let folder = folder.display();
    format!("mount --bind '{folder}' '{folder}'\nmount -o remount,bind,ro '{folder}'")
}

#[test]
fn a_locked_database_refuses_calls_of_clients_until_it_is_free() {
    let home = home(&json!({}));
    let mut client = StdioClient::start(&home);
    assert_eq!(echo(&mut client, "first")["content"][0]["text"], "first");
    let lock = locked(&home);
    assert_refused(&echo(&mut client, "second"));
    drop(lock);
    assert_eq!(echo(&mut client, "third")["content"][0]["text"], "third");
    let log = fs::read_to_string(home.path("serve.log")).unwrap();
    assert!(log.contains("the store cannot write") && log.contains("database is locked"), "{log}");
    client.leave();
    home.run(&["audit", "verify"]).ok();
}

/// The system refuses every byte beyond a size, as a quota does, and takes them again when there is room.
#[test]
fn a_full_disk_refuses_calls_of_clients_until_there_is_room() {
    let home = home(&json!({}));
    // A write beyond the limit is an error and not the end of the process.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" serve --stdio", TOOLWAY]).env_clear().current_dir(home.path(""));
    command.envs(home.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut client = StdioClient::of(&home, command, json!({}));
    assert_eq!(echo(&mut client, "first")["content"][0]["text"], "first");

    let process = Pid::from_raw(client.pid().try_into().unwrap());
    let limit = |current| Rlimit { current, maximum: None };
    let used = fs::metadata(state(&home).join("toolway.db-wal")).unwrap().len();
    prlimit(process, Resource::Fsize, limit(Some(used))).unwrap();
    assert_refused(&echo(&mut client, "second"));
    prlimit(process, Resource::Fsize, limit(None)).unwrap();

    assert_eq!(echo(&mut client, "third")["content"][0]["text"], "third");
    client.leave();
    home.run(&["audit", "verify"]).ok();
    let calls = home.run(&["calls", "list", "--state", "succeeded", "-o", "json"]).json();
    assert_eq!(calls.as_array().unwrap().len(), 2);
}

#[test]
fn a_call_goes_on_with_a_warning_when_the_disk_is_full() {
    if !may_mount() {
        return;
    }
    let home = home(&json!({}));
    let state = home.folder(".local/state/toolway");
    // A file system with room for the empty database and little more.
    let full = format!(
        "mount -t tmpfs -o size=320k tmpfs '{0}'\n\"$1\" calls list -o json\ndd if=/dev/zero of='{0}/filler' bs=4k 2>/dev/null || true",
        state.display()
    );
    let ran = Ran::of(&in_namespace(&home, &full, &["call", "shop.echo", "text=hello", "-o", "raw"]).output().unwrap());
    assert!(ran.ok().contains("hello"), "{ran:?}");
    assert!(ran.talk.contains("not recorded") || ran.talk.contains("without a record"), "{ran:?}");
    assert!(ran.talk.contains("full") || ran.talk.contains("No space"), "{ran:?}");
}

#[test]
fn a_read_only_directory_stops_serve_and_only_warns_call() {
    if !may_mount() {
        return;
    }
    let home = home(&json!({}));
    home.run(&["call", "shop.echo", "text=first"]).ok();
    let read_only = read_only(&state(&home));
    let ran = |words: &[&str]| Ran::of(&in_namespace(&home, &read_only, words).output().unwrap());
    let called = ran(&["call", "shop.echo", "text=second", "-o", "raw"]);
    assert!(called.ok().contains("second"), "{called:?}");
    assert!(called.talk.contains("calls are not recorded"), "{called:?}");
    assert!(called.talk.to_lowercase().contains("read-only") || called.talk.contains("readonly"), "{called:?}");

    let served = ran(&["serve", "--stdio"]);
    assert_eq!(served.code, 1, "{served:?}");
    assert!(served.talk.contains("the store cannot be used"), "{served:?}");
    assert!(served.talk.contains("`store.path`") && served.talk.contains("--no-store"), "what to do: {served:?}");
}

#[test]
fn calls_without_a_record_are_counted_where_records_are_not_required() {
    let home = home(&json!({ "required": false }));
    let serving = Serving::start(&home, &[]);
    home.settled(&serving, "shop", "ready");
    let echo = |text: &str| {
        let params = json!({ "name": "shop__echo", "arguments": { "text": text } });
        Answer::of(serving.call("tools/call", params)).body
    };
    assert!(echo("first").contains("first"));
    let unrecorded = || {
        let metrics = serving.get("/metrics", serving.key()).body;
        let line = metrics.lines().find_map(|line| line.strip_prefix("toolway_unrecorded_calls_total "));
        line.unwrap_or_else(|| panic!("{metrics}")).parse::<u64>().unwrap()
    };
    assert_eq!(unrecorded(), 0);
    let lock = locked(&home);
    assert!(echo("second").contains("second"));
    drop(lock);
    assert_eq!(unrecorded(), 1);
    assert!(echo("third").contains("third"));
    assert_eq!(unrecorded(), 1);
    serving.terminate();
    let (_, talk) = serving.ended();
    assert!(talk.contains("the call is sent without a record") && talk.contains("database is locked"), "{talk}");
}
