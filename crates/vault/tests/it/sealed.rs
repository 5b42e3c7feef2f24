//! The encrypted file, with one process.

use std::fs;

use toolway_auth::vault::Vault;
use toolway_config::Secret;
use toolway_vault::Notice;

use crate::home::{Home, key};

const TOKEN: &str = "planted-9f1c-secret";

#[tokio::test]
async fn credential_survives_a_restart_and_new_key_file_is_reported_once() {
    let home = Home::new();
    let vault = home.vault();
    assert!(vault.load(&key("ada")).await.unwrap().is_none());
    vault.forget(&key("ada")).await.unwrap();
    assert!(!home.path("vault/key").exists(), "no key file without credentials");
    assert!(home.notices().is_empty());

    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    vault.store(&key("bob"), Secret::new("other")).await.unwrap();
    let path = home.path("vault/key");
    assert_eq!(home.notices(), [Notice::KeyCreated { path }]);

    let vault = home.vault();
    assert_eq!(vault.load(&key("ada")).await.unwrap().unwrap().expose(), TOKEN);
    assert_eq!(vault.keys().await.unwrap(), [key("ada"), key("bob")]);
    vault.forget(&key("ada")).await.unwrap();
    assert_eq!(home.vault().keys().await.unwrap(), [key("bob")]);
    assert!(home.notices().is_empty());
    assert_eq!(vault.place(), home.path("vault/credentials").display().to_string());
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_private_and_refused_otherwise() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let vault = home.vault();
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    let mode = |name: &str| fs::metadata(home.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("vault"), mode("vault/key"), mode("vault/credentials")], [0o700, 0o600, 0o600]);

    for name in ["vault/key", "vault/credentials"] {
        let path = home.path(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refusal = vault.load(&key("ada")).await.unwrap_err().to_string();
        let expected = format!("is accessible to other users; run `chmod 600 {}`", path.display());
        assert!(refusal.ends_with(&expected), "{refusal}");
        assert!(vault.store(&key("ada"), Secret::new("x")).await.is_err());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_eq!(vault.load(&key("ada")).await.unwrap().unwrap().expose(), TOKEN);
}

#[tokio::test]
async fn modified_file_is_an_error_and_is_not_overwritten() {
    let home = Home::new();
    let (vault, file) = (home.vault(), home.path("vault/credentials"));
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    let good = fs::read(&file).unwrap();
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    let cases: [(&[u8], &str); 4] = [
        (&changed, "was modified or damaged"),
        (&good[..good.len() / 2], "was modified or damaged"),
        (b"", "is not a Toolway vault"),
        (b"{\"some\": \"file\"}", "is not a Toolway vault"),
    ];
    for (content, problem) in cases {
        fs::write(&file, content).unwrap();
        let refusals = [
            vault.load(&key("ada")).await.unwrap_err(),
            vault.store(&key("bob"), Secret::new("x")).await.unwrap_err(),
            vault.forget(&key("ada")).await.unwrap_err(),
        ];
        assert!(refusals.iter().all(|refusal| refusal.to_string().contains(problem)), "{refusals:?}");
        assert_eq!(fs::read(&file).unwrap(), content);
    }
    fs::write(&file, vec![0; 17 * 1024 * 1024]).unwrap();
    assert!(vault.load(&key("ada")).await.unwrap_err().to_string().contains("is larger than"));
}

#[tokio::test]
async fn missing_key_file_is_an_error_and_no_new_one_is_created() {
    let home = Home::new();
    let (vault, path) = (home.vault(), home.path("vault/key"));
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    let right = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let refusal = vault.store(&key("bob"), Secret::new("x")).await.unwrap_err().to_string();
    assert!(refusal.contains("vault/key` is missing; restore it"), "{refusal}");
    assert!(!path.exists());

    let another = Home::new();
    another.vault().store(&key("eve"), Secret::new("x")).await.unwrap();
    fs::copy(another.path("vault/key"), &path).unwrap();
    let refusal = vault.load(&key("ada")).await.unwrap_err().to_string();
    assert!(refusal.contains("key file does not match"), "{refusal}");
    fs::write(&path, right).unwrap();
    assert!(vault.load(&key("ada")).await.unwrap().is_some());
}

#[tokio::test]
async fn passphrase_opens_its_vault_and_a_wrong_one_changes_nothing() {
    let home = Home::new();
    home.vault_with("right").store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    assert!(!home.path("vault/key").exists());
    assert!(home.notices().is_empty());
    assert_eq!(home.vault_with("right").load(&key("ada")).await.unwrap().unwrap().expose(), TOKEN);

    let sealed = fs::read(home.path("vault/credentials")).unwrap();
    let wrong = home.vault_with("wrong");
    let refusals =
        [wrong.load(&key("ada")).await.unwrap_err(), wrong.store(&key("ada"), Secret::new("x")).await.unwrap_err()];
    for refusal in refusals {
        assert!(refusal.to_string().ends_with("the passphrase is wrong; nothing was changed"), "{refusal}");
    }
    let none = home.vault().store(&key("ada"), Secret::new("x")).await.unwrap_err().to_string();
    assert!(none.ends_with("it is encrypted with a passphrase; set `TOOLWAY_VAULT_PASSPHRASE`"), "{none}");
    assert_eq!(fs::read(home.path("vault/credentials")).unwrap(), sealed);
    assert!(!home.path("vault/key").exists());

    let empty = Home::new();
    assert!(empty.vault_with("").store(&key("ada"), Secret::new("x")).await.is_err());
    empty.vault().store(&key("ada"), Secret::new("x")).await.unwrap();
    let given = empty.vault_with("right").load(&key("ada")).await.unwrap_err().to_string();
    assert!(given.contains("encrypted with its key file; unset `TOOLWAY_VAULT_PASSPHRASE`"), "{given}");
}

#[tokio::test]
async fn files_errors_and_debug_output_contain_no_secrets() {
    let home = Home::new();
    let vault = home.vault_with("planted-passphrase");
    vault.store(&key("ada"), Secret::new(TOKEN)).await.unwrap();
    let too_long = Secret::new(TOKEN.repeat(100_000));
    let error = vault.store(&key("bob"), too_long).await.unwrap_err();
    let lock = vault.lock(&key("ada")).await.unwrap();
    let mut output = format!("{vault:?} {error} {error:?} {lock:?} {} {:?}", vault.place(), home.notices());
    for name in ["vault/credentials", "vault/lock"] {
        output += &String::from_utf8_lossy(&fs::read(home.path(name)).unwrap());
    }
    for planted in [TOKEN, "planted-passphrase", "example.org"] {
        assert!(!output.contains(planted), "{planted} in {output}");
    }
    // Checks that the search works.
    assert!(output.contains("toolway vault"));
}
