//! GNOME's keyring on a bus of its own: credentials in it, the user's own entries, and one that is locked.

use std::fs;

use toolway_config::{Keychain, Secret, keychain::KeychainError};
use toolway_testkit::keyring::Session;
use toolway_vault::{Notice, SystemKeychain, VaultOptions, WantedVault, open};

use crate::home::{Home, key};

const TOKEN: &str = "planted-7d20-secret";

fn options(session: &Session) -> VaultOptions {
    VaultOptions::of(&session.environment())
}

#[tokio::test]
async fn a_keychain_that_answers_keeps_the_credentials_and_nothing_else_does() {
    let home = Home::new();
    let session = Session::open(&home.path(""));
    let vault = open(&options(&session), &home.listener()).await.unwrap();
    assert_eq!(vault.place(), "the keychain");
    assert!(vault.load(&key("ada")).await.unwrap().is_none());
    vault.store(&key("ada"), Secret::new("first")).await.unwrap();
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    let large = Secret::new("x\n\"\\".repeat(40_000));
    vault.store(&key("bob"), large.clone()).await.unwrap();
    drop(session);

    let session = Session::open(&home.path(""));
    let vault = open(&options(&session), &home.listener()).await.unwrap();
    assert_eq!(vault.keys().await.unwrap(), [key("ada"), key("bob")]);
    assert_eq!(vault.load(&key("ada")).await.unwrap().unwrap().expose(), TOKEN);
    assert!(vault.load(&key("bob")).await.unwrap().unwrap() == large);
    vault.forget(&key("ada")).await.unwrap();
    vault.forget(&key("ada")).await.unwrap();
    assert_eq!(vault.keys().await.unwrap(), [key("bob")]);
    assert!(vault.store(&key("eve"), Secret::new("x".repeat(300_000))).await.is_err());
    assert!(!home.path("state/toolway/vault/credentials").exists());
    assert!(home.heard().is_empty());
}

#[tokio::test]
async fn more_credentials_than_are_asked_for_at_once_are_all_listed() {
    let home = Home::new();
    let session = Session::open(&home.path(""));
    let vault = open(&options(&session), &home.listener()).await.unwrap();
    for number in 0..70 {
        vault.store(&key(&format!("{number:02}")), Secret::new(TOKEN)).await.unwrap();
    }
    let keys = vault.keys().await.unwrap();
    assert!(keys.iter().map(|key| key.principal.as_str()).eq((0..70).map(|number| format!("{number:02}"))), "{keys:?}");
}

#[tokio::test]
async fn an_entry_that_somebody_changed_is_an_error() {
    let home = Home::new();
    let session = Session::open(&home.path(""));
    let vault = open(&options(&session), &home.listener()).await.unwrap();
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    let ours = session.run("secret-tool", &["search", "--all", "xdg:schema", "org.toolway.Credential"]);
    assert!(ours.contains("label = Toolway sign-in"), "{ours}");
    let search = ["search", "--all", "--unlock", "xdg:schema", "org.toolway.Credential"];
    let said = session.run("secret-tool", &search);
    assert!(said.contains(TOKEN), "the tool reads what is there");

    session.keep("Toolway sign-in", &["xdg:schema", "org.toolway.Credential", "digest", "x"], "not ours");
    let error = vault.keys().await.unwrap_err().to_string();
    assert!(error.starts_with("the vault in the keychain cannot be used: an entry of ours is not as we left it"));
    assert!(vault.load(&key("ada")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_locked_keychain_is_not_used_and_that_is_said() {
    let home = Home::new();
    drop(Session::open(&home.path("")));
    let session = Session::locked(&home.path(""));
    let vault = open(&options(&session), &home.listener()).await.unwrap();
    let file = home.path("state/toolway/vault/credentials");
    assert_eq!(vault.place(), file.display().to_string());
    let because = "it is locked; unlock it and try again".to_owned();
    assert_eq!(home.heard(), [Notice::KeychainUnused { because, instead: vault.place() }]);
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    assert!(!fs::read(file).unwrap().is_empty());

    let wanted = VaultOptions { wanted: WantedVault::Keychain, ..options(&session) };
    let refusal = open(&wanted, &home.listener()).await.unwrap_err().to_string();
    assert_eq!(refusal, "the vault in the keychain cannot be used: it is locked; unlock it and try again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_reads_the_entry_that_the_user_made() {
    let home = Home::new();
    let session = Session::open(&home.path(""));
    session.keep("one", &["service", "github", "username", "token"], TOKEN);
    let keychain = SystemKeychain::of(&session.environment()).unwrap();
    assert_eq!(keychain.get("github", "token").unwrap().expose(), TOKEN);
    assert_eq!(keychain.get("github", "other"), Err(KeychainError::Missing));

    session.keep("two", &["service", "github", "username", "token", "more", "x"], TOKEN);
    let several = keychain.get("github", "token").unwrap_err();
    assert_eq!(several.to_string(), "there are several such entries; remove all but one");
    assert!(!format!("{keychain:?} {several:?}").contains(TOKEN));
    drop(session);

    let session = Session::locked(&home.path(""));
    let keychain = SystemKeychain::of(&session.environment()).unwrap();
    let locked = keychain.get("github", "token").unwrap_err().to_string();
    assert_eq!(locked, "the keychain cannot be read: it is locked; unlock it and try again");
}

#[test]
fn a_reference_is_read_outside_a_runtime_too() {
    let home = Home::new();
    let session = Session::open(&home.path(""));
    session.keep("one", &["service", "github", "username", "token"], TOKEN);
    let keychain = SystemKeychain::of(&session.environment()).unwrap();
    assert_eq!(keychain.get("github", "token").unwrap().expose(), TOKEN);
}

#[tokio::test]
async fn a_turn_of_the_keychain_is_among_processes() {
    let home = Home::new();
    let session = Session::open(&home.path(""));
    let vault = open(&options(&session), &home.listener()).await.unwrap();
    let other = open(&options(&session), &home.listener()).await.unwrap();
    let held = vault.turn(&key("ada")).await.unwrap();
    let wait = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(wait, other.turn(&key("ada"))).await.is_err());
    drop(held);
    other.turn(&key("ada")).await.unwrap();
    assert_eq!(fs::read_dir(home.path("state/toolway/vault/turns")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_keychain_without_a_state_directory_works_and_says_what_is_lost() {
    let home = Home::new();
    let session = Session::open(&home.path(""));
    fs::write(home.path("file"), "").unwrap();
    let options = VaultOptions { state: Some(home.path("file/state")), ..options(&session) };
    let vault = open(&options, &home.listener()).await.unwrap();
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    drop(vault.turn(&key("ada")).await.unwrap());
    assert_eq!(vault.load(&key("ada")).await.unwrap().unwrap().expose(), TOKEN);
    let said: Vec<String> = home.heard().iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("Other processes cannot be told when a credential is renewed: "), "{said:?}");
}
