//! Whatever the commands say, log and leave behind: no token, code, verifier, key or client secret is in it.

use serde_json::json;
use toolway_testkit::{
    authorization::{Endpoint, Oddity, Quirk},
    secret_scan::SecretScan,
};

use crate::{
    gateway::{Answer, Serving},
    home::Ran,
    world::World,
};

/// Credentials that the configuration names, and that its server does not take.
const GIVEN: [(&str, &str); 2] =
    [("PLANTED_TOKEN", "planted-token-5f0d1c9e7b"), ("PLANTED_PASSWORD", "planted-password-77fe1b")];
/// One that a file has.
const KEY: &str = "planted-key-2a8e4410cc";

/// Everything that commands said, each as it ran.
struct Run<'a> {
    world: &'a World,
    said: Vec<(String, Ran)>,
}

impl Run<'_> {
    /// Runs a command that shows all it can; it has to end with this code.
    fn ends(&mut self, code: i32, words: &[&str], input: &str) -> &Ran {
        let words = [words, &["--verbose"]].concat();
        let ran = self.world.home.run_with(&words, &GIVEN, input);
        assert_eq!(ran.code, code, "{words:?}: {} {}", ran.out, ran.talk);
        self.said.push((words.join(" "), ran));
        &self.said.last().unwrap().1
    }

    /// Begins a sign-in and brings its callback.
    fn signs_in(&mut self, code: i32) {
        let begun: serde_json::Value = serde_json::from_str(&self.ends(3, &["login", "api"], "").out).unwrap();
        let callback = self.world.visit(begun["address"].as_str().unwrap(), "ada");
        self.ends(code, &["login", "api", "--callback", "-"], &callback);
    }

    /// The gateway, one call, and what it logs.
    fn serves(&mut self) {
        let serving = Serving::start(&self.world.home, &["--log", "json", "--verbose"]);
        let called = Answer::of(serving.call("tools/call", json!({ "name": "api__hello", "arguments": {} })));
        let listed = serving.get("/servers", serving.key());
        let talk = serving.stop();
        for out in [called.body, listed.body] {
            self.said.push(("serve".to_owned(), Ran { code: 0, bytes: Vec::new(), out, talk: talk.clone() }));
        }
    }
}

/// Refusals, a sign-in that fails and one that does not, calls, a renewal, a step up, a gateway, and the way out.
fn everything(world: &World) -> Vec<(String, Ran)> {
    let url = world.server.url();
    world.home.write("key", KEY);
    world.home.configure(&format!(
        r#"{{ "signIn": {{ "vault": "file" }}, "mcpServers": {{
            "api": {{ "url": "{url}" }},
            "token": {{ "url": "{url}", "auth": {{ "kind": "bearer", "token": "${{PLANTED_TOKEN}}" }} }},
            "key": {{ "url": "{url}", "auth": {{ "kind": "apiKey", "key": "file:~/key" }} }},
            "basic": {{ "url": "{url}", "auth": {{ "kind": "basic", "username": "ada", "password": "${{PLANTED_PASSWORD}}" }} }},
            "header": {{ "url": "{url}", "headers": {{ "Authorization": "Bearer ${{PLANTED_TOKEN}}" }} }} }} }}"#
    ));
    let mut run = Run { world, said: Vec::new() };
    for refused in ["api", "token", "key", "basic", "header"] {
        run.ends(3, &["tools", refused], "");
    }
    world.login.told([Quirk::SecretClients, Quirk::CodesEnd, Quirk::Repeats]);
    run.signs_in(3);
    world.login.told([Quirk::SecretClients, Quirk::Lasts(0)]);
    run.signs_in(0);
    world.login.told([Quirk::SecretClients]);
    run.ends(0, &["call", "api.hello"], "");
    run.ends(0, &["call", "api.hello", "-o", "human"], "");
    world.server.told([Oddity::NeverEnough]);
    run.ends(3, &["call", "api.hello"], "");
    world.server.told([]);
    for words in [&["auth", "status"][..], &["auth", "status", "-o", "human"], &["status"], &["config", "show"]] {
        run.ends(0, words, "");
    }
    run.ends(4, &["doctor"], "");
    run.serves();
    world.login.told([Quirk::Lasts(0)]);
    run.signs_in(0);
    world.login.told([Quirk::Repeats, Quirk::RefusesRenewals]);
    run.ends(3, &["call", "api.hello"], "");
    run.ends(0, &["logout", "api"], "");
    run.ends(3, &["call", "api.hello"], "");
    run.said
}

#[test]
fn no_command_says_logs_or_leaves_behind_a_secret() {
    let world = World::new();
    let said = everything(&world);
    for endpoint in [Endpoint::Registration, Endpoint::Code, Endpoint::Renewal] {
        assert!(world.login.count(endpoint) != 0, "{endpoint:?} was not met");
    }
    let talked = |words: &str, text: &str| {
        said.iter().any(|(ran_with, ran)| ran_with.starts_with(words) && ran.talk.contains(text))
    };
    assert!(talked("call api.hello", "tools/call"), "nothing is shown that could betray one");
    assert!(talked("serve", r#""event":"call""#), "no record was written");

    let mut secrets = world.login.secrets();
    secrets.extend(GIVEN.map(|(_, secret)| secret.to_owned()));
    secrets.push(KEY.to_owned());
    let scan = SecretScan::of(&secrets);
    assert!(40 < scan.size(), "{} is not what such a run has", scan.size());
    for (words, ran) in &said {
        for text in [&ran.out, &ran.talk] {
            assert_eq!(scan.found_in(text.as_bytes()), Vec::<&str>::new(), "{words}: {text}");
        }
    }
    let found = scan.found_below(&world.home.path("")).unwrap();
    let own = world.home.path("key");
    assert!(found.iter().all(|place| place.starts_with(own.to_str().unwrap())), "{found:?}");
    assert!(!found.is_empty(), "what is planted in a file is found");
    assert!(world.home.path(".local/state/toolway/vault/credentials").exists(), "the sealed file is among them");
}
