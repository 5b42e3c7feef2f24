//! Tests with GNOME Keyring on a private bus: credentials, entries of the user, a locked keyring.

use std::fs;

use toolway_config::{Keychain, Secret, keychain::KeychainError};
use toolway_testkit::keyring::KeyringSession;
use toolway_vault::{Notice, SystemKeychain, VaultChoice, VaultOptions, open};

use crate::home::{Home, key};

const TOKEN: &str = "planted-7d20-secret";

fn options(session: &KeyringSession) -> VaultOptions {
    VaultOptions::of(&session.environment())
}

#[tokio::test]
async fn credentials_are_stored_only_in_an_available_keychain() {
    let home = Home::new();
    let session = KeyringSession::open(&home.path(""));
    let vault = open(&options(&session), &home.on_notice()).await.unwrap();
    assert_eq!(vault.place(), "the keychain");
    assert!(vault.load(&key("ada")).await.unwrap().is_none());
    vault.store(&key("ada"), Secret::new("first")).await.unwrap();
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    let large = Secret::new("x\n\"\\".repeat(40_000));
    vault.store(&key("bob"), large.clone()).await.unwrap();
    drop(session);

    let session = KeyringSession::open(&home.path(""));
    let vault = open(&options(&session), &home.on_notice()).await.unwrap();
    assert_eq!(vault.keys().await.unwrap(), [key("ada"), key("bob")]);
    assert_eq!(vault.load(&key("ada")).await.unwrap().unwrap().expose(), TOKEN);
    assert!(vault.load(&key("bob")).await.unwrap().unwrap() == large);
    vault.forget(&key("ada")).await.unwrap();
    vault.forget(&key("ada")).await.unwrap();
    assert_eq!(vault.keys().await.unwrap(), [key("bob")]);
    assert!(vault.store(&key("eve"), Secret::new("x".repeat(300_000))).await.is_err());
    assert!(!home.path("state/toolway/vault/credentials").exists());
    assert!(home.notices().is_empty());
}

#[tokio::test]
async fn more_credentials_than_one_batch_are_listed() {
    let home = Home::new();
    let session = KeyringSession::open(&home.path(""));
    let vault = open(&options(&session), &home.on_notice()).await.unwrap();
    for number in 0..70 {
        vault.store(&key(&format!("{number:02}")), Secret::new(TOKEN)).await.unwrap();
    }
    let keys = vault.keys().await.unwrap();
    assert!(keys.iter().map(|key| key.principal.as_str()).eq((0..70).map(|number| format!("{number:02}"))), "{keys:?}");
}

#[tokio::test]
async fn modified_entry_is_an_error() {
    let home = Home::new();
    let session = KeyringSession::open(&home.path(""));
    let vault = open(&options(&session), &home.on_notice()).await.unwrap();
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    let ours = session.run("secret-tool", &["search", "--all", "xdg:schema", "org.toolway.Credential"]);
    assert!(ours.contains("label = Toolway sign-in"), "{ours}");
    let search = ["search", "--all", "--unlock", "xdg:schema", "org.toolway.Credential"];
    let output = session.run("secret-tool", &search);
    assert!(output.contains(TOKEN), "the tool can read the entry");

    session.keep("Toolway sign-in", &["xdg:schema", "org.toolway.Credential", "digest", "x"], "not ours");
    let error = vault.keys().await.unwrap_err().to_string();
    assert!(error.starts_with("the vault in the keychain cannot be used: an entry of Toolway was modified"));
    assert!(vault.load(&key("ada")).await.unwrap().is_some());
}

#[tokio::test]
async fn locked_keychain_is_not_used_with_a_notice() {
    let home = Home::new();
    drop(KeyringSession::open(&home.path("")));
    let session = KeyringSession::locked(&home.path(""));
    let vault = open(&options(&session), &home.on_notice()).await.unwrap();
    let file = home.path("state/toolway/vault/credentials");
    assert_eq!(vault.place(), file.display().to_string());
    let because = "it is locked; unlock it and try again".to_owned();
    assert_eq!(home.notices(), [Notice::KeychainUnused { because, instead: vault.place() }]);
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    assert!(!fs::read(file).unwrap().is_empty());

    let wanted = VaultOptions { choice: VaultChoice::Keychain, ..options(&session) };
    let refusal = open(&wanted, &home.on_notice()).await.unwrap_err().to_string();
    assert_eq!(refusal, "the vault in the keychain cannot be used: it is locked; unlock it and try again");
}

#[tokio::test(flavor = "multi_thread")]
async fn keychain_reference_reads_an_entry_of_the_user() {
    let home = Home::new();
    let session = KeyringSession::open(&home.path(""));
    session.keep("one", &["service", "github", "username", "token"], TOKEN);
    let keychain = SystemKeychain::of(&session.environment()).unwrap();
    assert_eq!(keychain.get("github", "token").unwrap().expose(), TOKEN);
    assert_eq!(keychain.get("github", "other"), Err(KeychainError::Missing));

    session.keep("two", &["service", "github", "username", "token", "more", "x"], TOKEN);
    let several = keychain.get("github", "token").unwrap_err();
    assert_eq!(several.to_string(), "several entries match; remove all but one");
    assert!(!format!("{keychain:?} {several:?}").contains(TOKEN));
    drop(session);

    let session = KeyringSession::locked(&home.path(""));
    let keychain = SystemKeychain::of(&session.environment()).unwrap();
    let locked = keychain.get("github", "token").unwrap_err().to_string();
    assert_eq!(locked, "the keychain cannot be read: it is locked; unlock it and try again");
}

#[test]
fn keychain_reference_is_read_outside_of_a_runtime() {
    let home = Home::new();
    let session = KeyringSession::open(&home.path(""));
    session.keep("one", &["service", "github", "username", "token"], TOKEN);
    let keychain = SystemKeychain::of(&session.environment()).unwrap();
    assert_eq!(keychain.get("github", "token").unwrap().expose(), TOKEN);
}

#[tokio::test]
async fn lock_of_the_keychain_vault_excludes_other_processes() {
    let home = Home::new();
    let session = KeyringSession::open(&home.path(""));
    let vault = open(&options(&session), &home.on_notice()).await.unwrap();
    let other = open(&options(&session), &home.on_notice()).await.unwrap();
    let held = vault.lock(&key("ada")).await.unwrap();
    let wait = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(wait, other.lock(&key("ada"))).await.is_err());
    drop(held);
    other.lock(&key("ada")).await.unwrap();
    assert_eq!(fs::read_dir(home.path("state/toolway/vault/turns")).unwrap().count(), 0);
}

#[tokio::test]
async fn keychain_without_a_state_directory_works_with_a_notice() {
    let home = Home::new();
    let session = KeyringSession::open(&home.path(""));
    fs::write(home.path("file"), "").unwrap();
    let options = VaultOptions { state: Some(home.path("file/state")), ..options(&session) };
    let vault = open(&options, &home.on_notice()).await.unwrap();
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    drop(vault.lock(&key("ada")).await.unwrap());
    assert_eq!(vault.load(&key("ada")).await.unwrap().unwrap().expose(), TOKEN);
    let output: Vec<String> = home.notices().iter().map(ToString::to_string).collect();
    assert_eq!(output.len(), 1, "{output:?}");
    assert!(output[0].starts_with("Token refresh is not coordinated with other processes: "), "{output:?}");
}
