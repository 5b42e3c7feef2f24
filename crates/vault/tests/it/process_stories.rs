//! Several processes with one vault, and some that are killed.
//!
//! `TOOLWAY_TEST_LONG=1` kills many more; `TOOLWAY_VAULT_SEED` makes the choices of an earlier run.

use std::{fs, thread, time::Duration};

use tokio::{task::JoinSet, time};
use toolway_auth::vault::Vault;
use toolway_config::Secret;
use toolway_testkit::chance::Chance;

use crate::home::{Home, key};

fn rounds() -> usize {
    if std::env::var_os("TOOLWAY_TEST_LONG").is_some() { 500 } else { 25 }
}

/// The number of a credential that `vault_process` wrote, if it is whole.
fn number(credential: &Secret) -> Option<usize> {
    let (number, body) = credential.expose().split_once(':')?;
    let parsed: usize = number.parse().ok()?;
    (body == number.repeat(100 + parsed % 7000)).then_some(parsed)
}

#[tokio::test]
async fn a_writer_killed_at_any_moment_leaves_the_old_or_the_new_whole() {
    let (home, mut chance) = (Home::new(), Chance::seeded_by("TOOLWAY_VAULT_SEED"));
    home.vault().store(&key("bystander"), Secret::new("kept")).await.unwrap();
    for _ in 0..rounds() {
        let mut writer = home.other("rewrite", "ada", 0);
        let mut said: usize = writer.line().unwrap().parse().unwrap();
        thread::sleep(Duration::from_micros(chance.below(20_000)));
        writer.kill();
        while let Some(line) = writer.line() {
            said = line.parse().unwrap();
        }
        let vault = home.vault();
        let found = number(&vault.load(&key("ada")).await.unwrap().unwrap()).expect("half a credential");
        assert!(found == said || found == said + 1, "{said} was kept, {found} is there");
        assert_eq!(vault.load(&key("bystander")).await.unwrap().unwrap().expose(), "kept");
        time::timeout(Duration::from_secs(5), vault.store(&key("bystander"), Secret::new("kept")))
            .await
            .expect("a lock stayed behind")
            .unwrap();
    }
}

#[tokio::test]
async fn a_first_use_that_is_cut_short_leaves_nothing_in_the_way() {
    let mut chance = Chance::seeded_by("TOOLWAY_VAULT_SEED");
    for _ in 0..rounds() {
        let home = Home::new();
        let mut writer = home.other("rewrite", "ada", 0);
        // Long enough for some to have made the folder, the key or the vault, and for others not.
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
async fn processes_that_keep_different_credentials_at_once_lose_none() {
    let home = Home::new();
    let others: Vec<_> = ["ada", "bob", "eve"].map(|principal| home.other("keep", principal, 20)).into();
    others.into_iter().for_each(|other| other.succeed());
    let keys = home.vault().keys().await.unwrap();
    assert_eq!(keys.len(), 60, "{keys:?}");
    assert!(number(&home.vault().load(&key("eve 19")).await.unwrap().unwrap()).is_some());
}

#[tokio::test]
async fn one_at_a_time_has_the_turn_among_tasks_and_processes() {
    let home = Home::new();
    fs::write(home.path("count"), "0").unwrap();
    let others: Vec<_> = (0..2).map(|_| home.other("count", "ada", 50)).collect();
    let (vault, mut tasks) = (home.vault(), JoinSet::new());
    for _ in 0..4 {
        let (vault, count, busy) = (vault.clone(), home.path("count"), home.path("busy"));
        tasks.spawn(async move {
            for _ in 0..10 {
                let _turn = vault.turn(&key("ada")).await.unwrap();
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
    assert_eq!(fs::read_dir(home.path("vault/turns")).unwrap().count(), 0, "files of turns pile up");
}

#[tokio::test]
async fn a_turn_is_held_against_other_processes_until_its_holder_is_killed() {
    let home = Home::new();
    let mut holder = home.other("hold", "ada", 0);
    assert_eq!(holder.line().as_deref(), Some("held"));
    let vault = home.vault();
    vault.turn(&key("bob")).await.unwrap();
    let (ada, mut ticks) = (key("ada"), 0);
    let waiting = vault.turn(&ada);
    tokio::pin!(waiting);
    // The runtime has one thread, and it is not the one that waits.
    while ticks < 20 {
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("two have the turn"),
            () = time::sleep(Duration::from_millis(10)) => ticks += 1,
        }
    }
    holder.kill();
    time::timeout(Duration::from_secs(5), waiting).await.expect("a dead holder keeps the turn").unwrap();
}

#[tokio::test]
async fn a_wait_that_is_given_up_leaves_the_turn_to_others() {
    let home = Home::new();
    let vault = home.vault();
    let held = vault.turn(&key("ada")).await.unwrap();
    let (ours, other) = (vault.clone(), home.vault());
    for waiting in [&ours, &other] {
        assert!(time::timeout(Duration::from_millis(50), waiting.turn(&key("ada"))).await.is_err());
    }
    drop(held);
    drop(other.turn(&key("ada")).await.unwrap());
    drop(ours.turn(&key("ada")).await.unwrap());
}
