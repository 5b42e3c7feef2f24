//! Backup while the gateway runs, and restore after a loss.

use std::{
    os::unix::fs::PermissionsExt,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::json;

use crate::{
    gateway::{Answer, Serving},
    home::Home,
};

const PASSPHRASE: (&str, &str) = ("TOOLWAY_BACKUP_PASSPHRASE", "correct horse");

fn calls(home: &Home) -> usize {
    home.run(&["calls", "list", "--limit", "10000"]).json().as_array().map_or(0, Vec::len)
}

#[test]
fn backup_under_load_is_restored_after_a_loss_with_calls_audit_log_secrets_and_keys() {
    let home = Home::new();
    let key = home.run(&["clients", "add", "editor"]).json()["key"].as_str().unwrap().to_owned();
    home.run_with_input(&["secret", "set", "token"], "s3cret-value").ok();
    let serving = Serving::start(&home, &[]);
    let call = || {
        let params = json!({ "name": "sample__echo", "arguments": { "text": "kept" } });
        assert_eq!(Answer::of(serving.call_as(&key, "tools/call", params)).status, 200);
    };
    (0..20).for_each(|_| call());
    let done = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                call();
            }
        });
        let made = home.run_with(&["store", "backup", "all.db", "--with-secrets"], &[PASSPHRASE], "");
        done.store(true, Ordering::Relaxed);
        made.json()
    });
    let saved = made["calls"].as_u64().unwrap();
    assert!(20 <= saved && made["secrets"] == true, "everything acknowledged before is in it: {made}");
    assert_eq!(std::fs::metadata(home.path("all.db")).unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = std::fs::read(home.path("all.db")).unwrap();
    assert!(!bytes.windows(12).any(|part| part == b"s3cret-value"), "a secret is in clear");
    let in_use = home.run_with(&["store", "restore", "all.db"], &[PASSPHRASE], "").failed(2, "backup");
    assert!(in_use["message"].as_str().unwrap().contains("stop `toolway serve`"), "{in_use}");
    serving.stop();

    std::fs::remove_dir_all(home.path(".local/state/toolway")).unwrap();
    assert_eq!(calls(&home), 0);
    let wrong = [("TOOLWAY_BACKUP_PASSPHRASE", "wrong")];
    home.run_with(&["store", "restore", "all.db"], &wrong, "").failed(2, "secrets");
    assert_eq!(calls(&home), 0, "a wrong passphrase changes nothing");
    home.run_with(&["store", "restore", "all.db"], &[PASSPHRASE], "").ok();
    assert_eq!(calls(&home) as u64, saved);
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
    let secrets = home.run(&["secret", "list"]);
    assert!(secrets.ok().contains("token"), "{secrets:?}");
    let serving = Serving::start(&home, &[]);
    assert_eq!(Answer::of(serving.call_as(&key, "tools/list", json!({}))).status, 200, "the key works again");
    serving.stop();
}

#[test]
fn backup_whose_audit_log_was_changed_is_refused() {
    let home = Home::with_sample();
    home.run(&["call", "sample.echo", "text=one"]).ok();
    home.run(&["store", "backup", "one.db"]).ok();
    let mut bytes = std::fs::read(home.path("one.db")).unwrap();
    // A letter of an entry: the pages stay a valid database.
    let kinds: Vec<usize> =
        bytes.windows(8).enumerate().filter(|(_, part)| part == b"terminal").map(|(at, _)| at).collect();
    kinds.iter().for_each(|at| bytes[*at] = b'T');
    std::fs::write(home.path("one.db"), bytes).unwrap();
    let refused = home.run(&["store", "restore", "one.db"]).failed(2, "backup");
    assert!(refused["message"].as_str().unwrap().contains("is damaged"), "{refused}");
    assert_eq!(calls(&home), 1, "nothing was changed");
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
}

#[test]
fn backup_without_secrets_has_none_and_the_database_before_is_kept() {
    let home = Home::with_sample();
    home.run(&["call", "sample.echo", "text=one"]).ok();
    home.run(&["store", "backup", "one.db"]).ok();
    home.run(&["store", "backup", "one.db"]).failed(2, "backup");
    home.run(&["store", "backup", "one.db", "--force"]).ok();
    home.run(&["call", "sample.echo", "text=two"]).ok();
    let restored = home.run(&["store", "restore", "one.db"]).json();
    assert_eq!((&restored["calls"], &restored["secrets"]), (&json!(1), &json!(false)));
    assert!(std::path::Path::new(restored["previous"].as_str().unwrap()).exists(), "{restored}");
    assert_eq!(calls(&home), 1);
    home.run(&["store", "backup", "x.db", "--with-secrets"]).failed(2, "passphrase");
    home.write("other.db", "no database");
    home.run(&["store", "restore", "other.db"]).failed(2, "backup");
}
