//! Selection of the vault if the keychain is missing or hangs, or if nothing can be written.

use std::{fs, time::Duration};

use tokio::time::{self, Instant};
use toolway_auth::vault::Vault;
use toolway_config::{Environment, Secret};
use toolway_vault::{LazyVault, Notice, VaultChoice, VaultOptions, open};

use crate::home::{Home, key};

fn options(home: &Home, variables: &[(&str, &str)]) -> VaultOptions {
    let mut environment: Environment =
        variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    environment.insert("XDG_STATE_HOME".into(), home.path("state").into());
    VaultOptions::of(&environment)
}

#[tokio::test]
async fn file_is_used_without_a_keychain_and_without_a_notice() {
    let home = Home::new();
    let missing = format!("unix:path={}", home.path("missing").display());
    for variables in [&[][..], &[("DBUS_SESSION_BUS_ADDRESS", missing.as_str())]] {
        let vault = open(&options(&home, variables), &home.on_notice()).await.unwrap();
        assert_eq!(vault.place(), home.path("state/toolway/vault/credentials").display().to_string());
        assert!(home.notices().is_empty());
    }
    let wanted = VaultOptions { choice: VaultChoice::Keychain, ..options(&home, &[]) };
    let refusal = open(&wanted, &home.on_notice()).await.unwrap_err().to_string();
    assert!(refusal.starts_with("the vault in the keychain cannot be used: no keychain is available"), "{refusal}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn hanging_keychain_does_not_block_the_runtime() {
    let home = Home::new();
    let _silent = std::os::unix::net::UnixListener::bind(home.path("bus")).unwrap();
    let address = format!("unix:path={}", home.path("bus").display());
    let options = options(&home, &[("DBUS_SESSION_BUS_ADDRESS", &address)]);
    let (on_notice, began, mut ticks) = (home.on_notice(), Instant::now(), 0);
    let opening = open(&options, &on_notice);
    tokio::pin!(opening);
    let vault = loop {
        tokio::select! {
            vault = &mut opening => break vault.unwrap(),
            () = time::sleep(Duration::from_millis(100)) => ticks += 1,
        }
    };
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(10 < ticks, "the runtime was blocked");
    let because = "it did not respond within 2s".to_owned();
    assert_eq!(home.notices(), [Notice::KeychainUnused { because, instead: vault.place() }]);
}

#[tokio::test]
async fn memory_is_used_with_a_notice_if_nothing_can_be_written() {
    let home = Home::new();
    fs::write(home.path("state"), "a file where the folder should be").unwrap();
    let options = options(&home, &[]);
    let vault = open(&options, &home.on_notice()).await.unwrap();
    vault.store(&key("ada"), Secret::new("x")).await.unwrap();
    assert_eq!(vault.place(), "memory (lost when this program ends)");
    let notices = home.notices();
    assert!(matches!(&notices[..], [Notice::OnlyMemory { .. }]), "{notices:?}");
    assert!(notices[0].to_string().starts_with("Credentials are not stored: "), "{}", notices[0]);

    let wanted = VaultOptions { choice: VaultChoice::File, ..options };
    assert!(open(&wanted, &home.on_notice()).await.is_err(), "an explicit choice is not replaced");
    let homeless = open(&VaultOptions::default(), &home.on_notice()).await.unwrap();
    assert_eq!(homeless.place(), vault.place());
    assert!(matches!(&home.notices()[..], [Notice::OnlyMemory { .. }]));
    let wanted = VaultOptions { choice: VaultChoice::Memory, ..VaultOptions::default() };
    assert_eq!(open(&wanted, &home.on_notice()).await.unwrap().place(), vault.place());
    assert!(home.notices().is_empty(), "an explicit choice needs no notice");
}

#[cfg(unix)]
#[tokio::test]
async fn world_writable_folder_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let options = options(&home, &[]);
    open(&options, &home.on_notice()).await.unwrap();
    let folder = home.path("state/toolway/vault");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let refusal = open(&options, &home.on_notice()).await.unwrap_err().to_string();
    assert!(refusal.ends_with(&format!("run `chmod 700 {}`", folder.display())), "{refusal}");
    assert!(home.notices().is_empty());
}

#[tokio::test]
async fn lazy_vault_writes_nothing_before_it_is_used() {
    let home = Home::new();
    let options = VaultOptions { passphrase: Some(Secret::new("planted-words")), ..options(&home, &[]) };
    let vault = LazyVault::new(options, home.on_notice());
    assert!(!home.path("state").exists());
    assert_eq!(vault.place(), "the vault (not opened yet)");
    assert!(vault.load(&key("ada")).await.unwrap().is_none());
    vault.store(&key("ada"), Secret::new("planted-token")).await.unwrap();
    assert_eq!(vault.keys().await.unwrap(), [key("ada")]);
    drop(vault.lock(&key("ada")).await.unwrap());
    vault.forget(&key("ada")).await.unwrap();
    assert_eq!(vault.place(), home.path("state/toolway/vault/credentials").display().to_string());
    assert!(!home.path("state/toolway/vault/key").exists(), "the passphrase encrypts it");
    assert!(!format!("{vault:?}").contains("planted"), "{vault:?}");
}

#[test]
fn vault_choice_is_parsed() {
    let choices = ["auto", "keychain", "file", "memory"].map(|name| name.parse::<VaultChoice>().unwrap());
    assert_eq!(choices, [VaultChoice::Auto, VaultChoice::Keychain, VaultChoice::File, VaultChoice::Memory]);
    assert!("keyutils".parse::<VaultChoice>().is_err());
}
