//! Which vault it is, where the keychain is missing or silent and where nothing can be written.

use std::{fs, time::Duration};

use tokio::time::{self, Instant};
use toolway_auth::vault::Vault;
use toolway_config::{Environment, Secret};
use toolway_vault::{LateVault, Notice, VaultOptions, WantedVault, open};

use crate::home::{Home, key};

fn options(home: &Home, variables: &[(&str, &str)]) -> VaultOptions {
    let mut environment: Environment =
        variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    environment.insert("XDG_STATE_HOME".into(), home.path("state").into());
    VaultOptions::of(&environment)
}

#[tokio::test]
async fn without_a_keychain_it_is_the_file_and_nothing_has_to_be_said() {
    let home = Home::new();
    let nobody = format!("unix:path={}", home.path("nobody").display());
    for variables in [&[][..], &[("DBUS_SESSION_BUS_ADDRESS", nobody.as_str())]] {
        let vault = open(&options(&home, variables), &home.listener()).await.unwrap();
        assert_eq!(vault.place(), home.path("state/toolway/vault/credentials").display().to_string());
        assert!(home.heard().is_empty());
    }
    let wanted = VaultOptions { wanted: WantedVault::Keychain, ..options(&home, &[]) };
    let refusal = open(&wanted, &home.listener()).await.unwrap_err().to_string();
    assert!(refusal.starts_with("the vault in the keychain cannot be used: there is no keychain"), "{refusal}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_keychain_that_does_not_answer_holds_nobody_up() {
    let home = Home::new();
    let _silent = std::os::unix::net::UnixListener::bind(home.path("bus")).unwrap();
    let address = format!("unix:path={}", home.path("bus").display());
    let options = options(&home, &[("DBUS_SESSION_BUS_ADDRESS", &address)]);
    let (listener, began, mut ticks) = (home.listener(), Instant::now(), 0);
    let opening = open(&options, &listener);
    tokio::pin!(opening);
    let vault = loop {
        tokio::select! {
            vault = &mut opening => break vault.unwrap(),
            () = time::sleep(Duration::from_millis(100)) => ticks += 1,
        }
    };
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(10 < ticks, "the runtime stood still");
    let because = "it does not answer within 2s".to_owned();
    assert_eq!(home.heard(), [Notice::KeychainUnused { because, instead: vault.place() }]);
}

#[tokio::test]
async fn memory_is_for_where_nothing_can_be_written_and_is_said_loudly() {
    let home = Home::new();
    fs::write(home.path("state"), "a file where the folder should be").unwrap();
    let options = options(&home, &[]);
    let vault = open(&options, &home.listener()).await.unwrap();
    vault.store(&key("ada"), Secret::new("x")).await.unwrap();
    assert_eq!(vault.place(), "memory, until this program ends");
    let heard = home.heard();
    assert!(matches!(&heard[..], [Notice::OnlyMemory { .. }]), "{heard:?}");
    assert!(heard[0].to_string().starts_with("CREDENTIALS ARE NOT KEPT: "), "{}", heard[0]);

    let wanted = VaultOptions { wanted: WantedVault::File, ..options };
    assert!(open(&wanted, &home.listener()).await.is_err(), "what was asked for is not replaced");
    let homeless = open(&VaultOptions::default(), &home.listener()).await.unwrap();
    assert_eq!(homeless.place(), vault.place());
    assert!(matches!(&home.heard()[..], [Notice::OnlyMemory { .. }]));
    let wanted = VaultOptions { wanted: WantedVault::Memory, ..VaultOptions::default() };
    assert_eq!(open(&wanted, &home.listener()).await.unwrap().place(), vault.place());
    assert!(home.heard().is_empty(), "whoever asks for it knows");
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_others_can_write_is_to_be_mended_and_not_avoided() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let options = options(&home, &[]);
    open(&options, &home.listener()).await.unwrap();
    let folder = home.path("state/toolway/vault");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let refusal = open(&options, &home.listener()).await.unwrap_err().to_string();
    assert!(refusal.ends_with(&format!("run `chmod 700 {}`", folder.display())), "{refusal}");
    assert!(home.heard().is_empty());
}

#[tokio::test]
async fn a_vault_that_is_opened_late_writes_nothing_before_it_is_used() {
    let home = Home::new();
    let options = VaultOptions { passphrase: Some(Secret::new("planted-words")), ..options(&home, &[]) };
    let vault = LateVault::new(options, home.listener());
    assert!(!home.path("state").exists());
    assert_eq!(vault.place(), "a vault that is not opened yet");
    assert!(vault.load(&key("ada")).await.unwrap().is_none());
    vault.store(&key("ada"), Secret::new("planted-token")).await.unwrap();
    assert_eq!(vault.keys().await.unwrap(), [key("ada")]);
    drop(vault.turn(&key("ada")).await.unwrap());
    vault.forget(&key("ada")).await.unwrap();
    assert_eq!(vault.place(), home.path("state/toolway/vault/credentials").display().to_string());
    assert!(!home.path("state/toolway/vault/key").exists(), "the passphrase seals it");
    assert!(!format!("{vault:?}").contains("planted"), "{vault:?}");
}

#[test]
fn a_vault_is_named_by_a_word() {
    let words = ["auto", "keychain", "file", "memory"].map(|word| word.parse::<WantedVault>().unwrap());
    assert_eq!(words, [WantedVault::Auto, WantedVault::Keychain, WantedVault::File, WantedVault::Memory]);
    assert!("keyutils".parse::<WantedVault>().is_err());
}
