//! Several processes with one vault, some of which are killed.
//!
//! `TOOLWAY_TEST_LONG=1` runs many more rounds; `TOOLWAY_VAULT_SEED` repeats an earlier run.

use std::{fs, thread, time::Duration};

use tokio::{task::JoinSet, time};
use toolway_auth::vault::Vault;
use toolway_config::Secret;
use toolway_testkit::seeded_random::SeededRandom;

use crate::home::{Home, key};

fn rounds() -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { 500 } else { 25 }
}

/// The number of a credential that `vault_process` wrote, if it is complete.
fn number(credential: &Secret) -> Option<usize> {
    let (number, body) = credential.expose().split_once(':')?;
    let parsed: usize = number.parse().ok()?;
    (body == number.repeat(100 + parsed % 7000)).then_some(parsed)
}

#[tokio::test]
async fn killed_writer_leaves_the_old_or_the_new_credential() {
    let (home, mut chance) = (Home::new(), SeededRandom::seeded_by("TOOLWAY_VAULT_SEED"));
    home.vault().store(&key("bystander"), Secret::new("kept")).await.unwrap();
    for _ in 0..rounds() {
        let mut writer = home.start_process("rewrite", "ada", 0);
        let mut stored: usize = writer.line().unwrap().parse().unwrap();
        thread::sleep(Duration::from_micros(chance.below(20_000)));
        writer.kill();
        while let Some(line) = writer.line() {
            stored = line.parse().unwrap();
        }
        let vault = home.vault();
        let found = number(&vault.load(&key("ada")).await.unwrap().unwrap()).expect("half a credential");
        assert!(found == stored || found == stored + 1, "stored {stored}, found {found}");
        assert_eq!(vault.load(&key("bystander")).await.unwrap().unwrap().expose(), "kept");
        time::timeout(Duration::from_secs(5), vault.store(&key("bystander"), Secret::new("kept")))
            .await
            .expect("the lock was not released")
            .unwrap();
    }
}

#[tokio::test]
async fn killed_first_use_does_not_block_later_use() {
    let mut chance = SeededRandom::seeded_by("TOOLWAY_VAULT_SEED");
    for _ in 0..rounds() {
        let home = Home::new();
        let mut writer = home.start_process("rewrite", "ada", 0);
        // Long enough for some to create the folder, the key or the vault, and for others not.
        thread::sleep(Duration::from_micros(chance.below(15_000)));
        writer.kill();
        let vault = home.vault();
        let found = vault.load(&key("ada")).await.unwrap();
        assert!(found.is_none_or(|credential| number(&credential).is_some()), "half a credential");
        vault.store(&key("bob"), Secret::new("kept")).await.unwrap();
        assert_eq!(home.vault().load(&key("bob")).await.unwrap().unwrap().expose(), "kept");
    }
}

#[tokio::test]
async fn concurrent_writers_lose_no_credentials() {
    let home = Home::new();
    let others: Vec<_> = ["ada", "bob", "eve"].map(|principal| home.start_process("keep", principal, 20)).into();
    others.into_iter().for_each(|other| other.succeed());
    let keys = home.vault().keys().await.unwrap();
    assert_eq!(keys.len(), 60, "{keys:?}");
    assert!(number(&home.vault().load(&key("eve 19")).await.unwrap().unwrap()).is_some());
}

#[tokio::test]
async fn lock_is_exclusive_across_tasks_and_processes() {
    let home = Home::new();
    fs::write(home.path("count"), "0").unwrap();
    let others: Vec<_> = (0..2).map(|_| home.start_process("count", "ada", 50)).collect();
    let (vault, mut tasks) = (home.vault(), JoinSet::new());
    for _ in 0..4 {
        let (vault, count, busy) = (vault.clone(), home.path("count"), home.path("busy"));
        tasks.spawn(async move {
            for _ in 0..10 {
                let _turn = vault.lock(&key("ada")).await.unwrap();
                fs::File::create_new(&busy).unwrap();
                let before: usize = fs::read_to_string(&count).unwrap().parse().unwrap();
                tokio::task::yield_now().await;
                fs::write(&count, (before + 1).to_string()).unwrap();
                fs::remove_file(&busy).unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    others.into_iter().for_each(|other| other.succeed());
    assert_eq!(fs::read_to_string(home.path("count")).unwrap(), "140");
    assert_eq!(fs::read_dir(home.path("vault/turns")).unwrap().count(), 0, "lock files pile up");
}

#[tokio::test]
async fn lock_is_held_until_its_holder_is_killed() {
    let home = Home::new();
    let mut holder = home.start_process("hold", "ada", 0);
    assert_eq!(holder.line().as_deref(), Some("held"));
    let vault = home.vault();
    vault.lock(&key("bob")).await.unwrap();
    let (ada, mut ticks) = (key("ada"), 0);
    let waiting = vault.lock(&ada);
    tokio::pin!(waiting);
    // The runtime has one thread, which must not be blocked by the wait.
    while ticks < 20 {
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("two holders of one lock"),
            () = time::sleep(Duration::from_millis(10)) => ticks += 1,
        }
    }
    holder.kill();
    time::timeout(Duration::from_secs(5), waiting).await.expect("a dead holder keeps the lock").unwrap();
}

#[tokio::test]
async fn cancelled_wait_does_not_block_the_lock() {
    let home = Home::new();
    let vault = home.vault();
    let held = vault.lock(&key("ada")).await.unwrap();
    let (ours, other) = (vault.clone(), home.vault());
    for waiting in [&ours, &other] {
        assert!(time::timeout(Duration::from_millis(50), waiting.lock(&key("ada"))).await.is_err());
    }
    drop(held);
    drop(other.lock(&key("ada")).await.unwrap());
    drop(ours.lock(&key("ada")).await.unwrap());
}
