//! The gateway as a service: the unit for systemd, and the passphrase that systemd hands over.

use crate::home::{Home, TOOLWAY};

#[test]
fn unit_starts_this_program_with_its_options_as_a_user_of_its_own() {
    let home = Home::new();
    let unit = home.run(&["serve", "--print-unit", "--listen", "0.0.0.0:7717", "--console", "off", "-o", "human"]);
    let start = format!("ExecStart={TOOLWAY} serve --listen 0.0.0.0:7717 --console off\n");
    for expected in [start.as_str(), "User=toolway\n", "StateDirectory=toolway\n", "ProtectSystem=strict\n"] {
        assert!(unit.ok().contains(expected), "{expected}: {unit:?}");
    }
}

#[test]
fn vault_is_encrypted_with_the_passphrase_of_the_service() {
    let home = Home::new();
    home.write("credentials/toolway-vault-passphrase", "correct horse\n");
    let folder = home.path("credentials");
    let service = [("CREDENTIALS_DIRECTORY", folder.to_str().unwrap())];
    home.run_with(&["secret", "set", "token"], &service, "s3cret-value").ok();
    let without = home.run(&["secret", "list"]);
    assert!(without.code != 0 && without.talk.contains("TOOLWAY_VAULT_PASSPHRASE"), "{without:?}");
    assert!(
        home.run_with(&["secret", "list"], &[("TOOLWAY_VAULT_PASSPHRASE", "correct horse")], "").ok().contains("token")
    );
}
