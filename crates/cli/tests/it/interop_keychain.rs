//! Commands in a session with the GNOME keyring, which stores sign-ins and secrets of the configuration.

use toolway_testkit::keyring::KeyringSession;

use crate::{home::Ran, sign_in_fixture::SignInFixture};

const KEY: &str = "planted-key-81c2f0aa9d";
/// Query for our entries in the keyring.
const OURS: [&str; 4] = ["search", "--all", "xdg:schema", "org.toolway.Credential"];

/// Runs the program with the session bus in its environment, as on a desktop.
fn run(fixture: &SignInFixture, session: &KeyringSession, words: &[&str], input: &str) -> Ran {
    let environment = session.environment();
    let bus = environment.get(std::ffi::OsStr::new("DBUS_SESSION_BUS_ADDRESS")).unwrap();
    fixture.home.run_with(words, &[("DBUS_SESSION_BUS_ADDRESS", bus.to_str().unwrap())], input)
}

fn configure(fixture: &SignInFixture, said: &str) {
    let url = fixture.server.url();
    fixture.home.configure(&format!(
        r#"{{ "mcpServers": {{ "api": {{ "url": "{url}" }}, "keyed": {{ "url": "{url}", {said} }} }} }}"#
    ));
}

#[test]
fn sign_in_is_stored_in_the_keychain_and_deleted_by_logout() {
    let fixture = SignInFixture::new();
    configure(&fixture, r#""auth": "none""#);
    let session = KeyringSession::open(&fixture.home.folder("session"));
    let begun: serde_json::Value = serde_json::from_str(&run(&fixture, &session, &["login", "api"], "").out).unwrap();
    let callback = fixture.visit(begun["address"].as_str().unwrap(), "ada");
    let done = run(&fixture, &session, &["login", "api", "--callback", "-"], &callback);
    assert_eq!(done.json()["vault"], "the keychain");

    let status = run(&fixture, &session, &["auth", "status", "api", "-o", "human"], "");
    assert!(
        status.ok().contains("signed in at ") && status.out.ends_with("stored in the keychain.\n"),
        "{}",
        status.out
    );
    assert!(session.run("secret-tool", &OURS).contains("label = Toolway sign-in"));
    assert!(!fixture.home.path(".local/state/toolway/vault/credentials").exists());
    run(&fixture, &session, &["tools", "api"], "").ok();
    // Without the session bus there is no sign-in.
    fixture.home.run(&["tools", "api"]).failed(3, "unauthorized");

    assert_eq!(run(&fixture, &session, &["logout", "api", "-o", "human"], "").ok(), "Signed out of `api`.\n");
    assert_eq!(session.run("secret-tool", &OURS), "");
    run(&fixture, &session, &["tools", "api"], "").failed(3, "unauthorized");
}

#[test]
fn keychain_secret_of_an_entry_is_sent_and_not_printed() {
    let fixture = SignInFixture::new();
    configure(&fixture, r#""headers": { "X-Ticket": "keychain:tickets/ada" }"#);
    let session = KeyringSession::open(&fixture.home.folder("session"));
    let missing = run(&fixture, &session, &["tools", "keyed"], "");
    let error = missing.failed(2, "config");
    let why = "`keyed.headers.X-Ticket` needs the keychain entry `tickets/ada`: no such entry";
    assert!(error["message"].as_str().unwrap().ends_with(why), "{error}");
    assert_eq!(fixture.server.requests(), 0);

    session.keep("a ticket", &["service", "tickets", "username", "ada"], KEY);
    let refused = run(&fixture, &session, &["tools", "keyed", "--verbose"], "");
    let shown = run(&fixture, &session, &["config", "show"], "");
    assert!(fixture.server.received().contains(&format!("x-ticket: {KEY}")), "{}", fixture.server.received());
    for ran in [&refused, &shown] {
        assert!(!ran.out.contains(KEY) && !ran.talk.contains(KEY), "{ran:?}");
    }
}

#[test]
fn locked_keychain_is_reported() {
    let fixture = SignInFixture::new();
    configure(&fixture, r#""headers": { "X-Ticket": "keychain:tickets/ada" }"#);
    let folder = fixture.home.folder("session");
    let session = KeyringSession::open(&folder);
    session.keep("a ticket", &["service", "tickets", "username", "ada"], KEY);
    drop(session);
    let session = KeyringSession::locked(&folder);
    let error = run(&fixture, &session, &["tools", "keyed"], "").failed(2, "config");
    assert!(error["message"].as_str().unwrap().contains("it is locked; unlock it and try again"), "{error}");
    let begun = run(&fixture, &session, &["login", "api"], "");
    assert!(begun.talk.contains("it is locked; unlock it and try again"), "{}", begun.talk);
    assert_eq!(begun.code, 3);
    assert!(fixture.home.path(".local/state/toolway/vault/credentials").exists(), "the sealed file is used instead");
}
