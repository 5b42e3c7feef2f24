//! The commands in a session with GNOME's keyring: sign-ins are kept in it, and entries of the configuration are read.

use toolway_testkit::keyring::Session;

use crate::{home::Ran, world::World};

const KEY: &str = "planted-key-81c2f0aa9d";
/// How the keyring is asked for what we keep.
const OURS: [&str; 4] = ["search", "--all", "xdg:schema", "org.toolway.Credential"];

/// Runs the program as a desktop would: the bus is in its environment.
fn run(world: &World, session: &Session, words: &[&str], input: &str) -> Ran {
    let environment = session.environment();
    let bus = environment.get(std::ffi::OsStr::new("DBUS_SESSION_BUS_ADDRESS")).unwrap();
    world.home.run_with(words, &[("DBUS_SESSION_BUS_ADDRESS", bus.to_str().unwrap())], input)
}

fn configure(world: &World, said: &str) {
    let url = world.server.url();
    world.home.configure(&format!(
        r#"{{ "mcpServers": {{ "api": {{ "url": "{url}" }}, "keyed": {{ "url": "{url}", {said} }} }} }}"#
    ));
}

#[test]
fn a_sign_in_is_kept_in_the_keychain_and_gone_from_it_after_the_way_out() {
    let world = World::new();
    configure(&world, r#""auth": "none""#);
    let session = Session::open(&world.home.folder("session"));
    let begun: serde_json::Value = serde_json::from_str(&run(&world, &session, &["login", "api"], "").out).unwrap();
    let callback = world.visit(begun["address"].as_str().unwrap(), "ada");
    let done = run(&world, &session, &["login", "api", "--callback", "-"], &callback);
    assert_eq!(done.json()["vault"], "the keychain");

    let status = run(&world, &session, &["auth", "status", "api", "-o", "human"], "");
    assert!(status.ok().contains("signed in at ") && status.out.ends_with("Kept in the keychain.\n"), "{}", status.out);
    assert!(session.run("secret-tool", &OURS).contains("label = Toolway sign-in"));
    assert!(!world.home.path(".local/state/toolway/vault/credentials").exists());
    run(&world, &session, &["tools", "api"], "").ok();
    // Where there is no session, there is no sign-in, and no other one is made up.
    world.home.run(&["tools", "api"]).failed(3, "unauthorized");

    assert_eq!(run(&world, &session, &["logout", "api", "-o", "human"], "").ok(), "Signed out of `api`.\n");
    assert_eq!(session.run("secret-tool", &OURS), "");
    run(&world, &session, &["tools", "api"], "").failed(3, "unauthorized");
}

#[test]
fn what_an_entry_of_the_configuration_names_is_sent_and_said_nowhere() {
    let world = World::new();
    configure(&world, r#""headers": { "X-Ticket": "keychain:tickets/ada" }"#);
    let session = Session::open(&world.home.folder("session"));
    let missing = run(&world, &session, &["tools", "keyed"], "");
    let error = missing.failed(2, "config");
    let why = "`keyed.headers.X-Ticket` needs `ada` of `tickets` from the keychain: there is no such entry.";
    assert!(error["message"].as_str().unwrap().ends_with(why), "{error}");
    assert_eq!(world.server.requests(), 0);

    session.keep("a ticket", &["service", "tickets", "username", "ada"], KEY);
    let refused = run(&world, &session, &["tools", "keyed", "--verbose"], "");
    let shown = run(&world, &session, &["config", "show"], "");
    assert!(world.server.heard().contains(&format!("x-ticket: {KEY}")), "{}", world.server.heard());
    for ran in [&refused, &shown] {
        assert!(!ran.out.contains(KEY) && !ran.talk.contains(KEY), "{ran:?}");
    }
}

#[test]
fn a_locked_keychain_is_said_to_be_locked() {
    let world = World::new();
    configure(&world, r#""headers": { "X-Ticket": "keychain:tickets/ada" }"#);
    let folder = world.home.folder("session");
    let session = Session::open(&folder);
    session.keep("a ticket", &["service", "tickets", "username", "ada"], KEY);
    drop(session);
    let session = Session::locked(&folder);
    let error = run(&world, &session, &["tools", "keyed"], "").failed(2, "config");
    assert!(error["message"].as_str().unwrap().contains("it is locked; unlock it and try again"), "{error}");
    let begun = run(&world, &session, &["login", "api"], "");
    assert!(begun.talk.contains("it is locked; unlock it and try again"), "{}", begun.talk);
    assert_eq!(begun.code, 3);
    assert!(world.home.path(".local/state/toolway/vault/credentials").exists(), "the sealed file is used instead");
}
