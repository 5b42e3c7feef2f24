//! `toolway login`, `logout` and `auth` with real authorization servers and callbacks.

use std::{
    io::{BufRead, BufReader},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use toolway_testkit::{
    authorization::{Endpoint, Quirk, ServerQuirk},
    secret_scan::SecretScan,
};
use url::Url;

use crate::{
    home::{Home, Running},
    sign_in_fixture::{SignInFixture, open},
    terminal::Terminal,
};

#[test]
fn sign_in_without_a_terminal_is_finished_by_a_second_command() {
    let fixture = SignInFixture::new();
    let error = fixture.home.run(&["tools", "api"]).failed(3, "unauthorized");
    assert_eq!(error["message"], "sign-in required: run `toolway login api`");
    assert!(error["hint"].is_null(), "the message is enough: {error}");
    let error = fixture.home.run(&["tools", "api", "--profile", "work"]).failed(3, "unauthorized");
    assert_eq!(error["message"], "sign-in required: run `toolway login api --profile work`");
    assert!(error["hint"].is_null(), "no other hint: {error}");

    let began = Instant::now();
    let begun = fixture.home.run(&["login", "api"]);
    assert!(began.elapsed() < Duration::from_secs(10), "the command does not wait");
    let data: serde_json::Value = serde_json::from_str(&begun.out).unwrap();
    assert_eq!(data["finish"], "toolway login api --callback '<url>'");
    begun.failed(3, "sign_in_needed");
    let address = data["address"].as_str().unwrap();
    assert!(address.starts_with(&fixture.login.issuer()), "{address}");

    let callback = fixture.visit(address, "ada");
    let done = fixture.home.run(&["login", "api", "--callback", &callback]);
    let done: serde_json::Value = serde_json::from_str(done.ok()).unwrap();
    assert_eq!((&done["issuer"], &done["state"]), (&fixture.login.issuer().into(), &"signed in".into()));
    fixture.home.run(&["tools", "api"]).ok();

    // A callback can be used only once.
    fixture.home.run(&["login", "api", "--callback", &callback]).failed(3, "unauthorized");
    fixture.home.run(&["tools", "api"]).ok();
    let scan = SecretScan::of(&fixture.login.secrets());
    assert!(0 < scan.size(), "there are secrets to search for");
    assert!(scan.found_in(done.to_string().as_bytes()).is_empty());
    let state = fixture.home.path(".local/state/toolway");
    assert_eq!(scan.found_below(&state).unwrap(), Vec::<String>::new(), "stored credentials are encrypted");
    assert!(state.join("vault").exists(), "the vault exists");
}

/// Each refresh token can be used only once, so a command that exits during a refresh would lose the sign-in.
#[test]
fn token_refresh_in_progress_is_not_lost() {
    for interrupted in [false, true] {
        let fixture = SignInFixture::new();
        fixture.login.set_quirks([Quirk::TokenLifetime(0)]);
        fixture.sign_in("ada", &[]);
        fixture.login.set_quirks([Quirk::Late(Endpoint::Refresh, Duration::from_secs(3))]);
        let limit = if interrupted { "60" } else { "1" };
        let mut command = fixture.home.command(&["call", "api.hello", "--timeout", limit]);
        let child = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        fixture.runtime.block_on(fixture.login.until(Endpoint::Refresh, 1));
        if interrupted {
            rustix::process::kill_process(Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
        }
        let ended = child.output();
        let (code, word) = if interrupted { (130, "interrupted") } else { (4, "timed_out") };
        ended.failed(code, word);
        assert!(ended.talk.contains("waiting for a token refresh"), "{}", ended.talk);

        fixture.home.run(&["call", "api.hello"]).ok();
        assert_eq!((fixture.login.count(Endpoint::Refresh), fixture.login.revoked_sign_ins()), (1, 0));
    }
}

#[test]
fn status_shows_sign_ins_without_tokens_and_logout_deletes_them() {
    let fixture = SignInFixture::new();
    assert_eq!(
        fixture.home.run(&["auth", "status", "api", "-o", "human"]).ok().lines().next().unwrap(),
        "api  not signed in"
    );
    fixture.sign_in("ada", &[]);
    fixture.sign_in("ben", &["--profile", "work"]);

    let status = fixture.home.run(&["auth", "status", "api"]);
    let shown = status.json();
    let sign_ins = shown["servers"][0]["signIns"].as_array().unwrap();
    let mut profiles: Vec<_> = sign_ins.iter().map(|it| it["profile"].as_str().unwrap_or("-")).collect();
    profiles.sort_unstable();
    assert_eq!(profiles, ["-", "work"]);
    assert!(sign_ins.iter().all(|it| it["issuer"] == fixture.login.issuer() && it["expiresAt"].is_u64()), "{shown}");
    for secret in fixture.login.secrets() {
        assert!(!status.out.contains(&secret) && !status.talk.contains(&secret));
    }
    fixture.home.run(&["logout", "api"]).ok();
    fixture.home.run(&["tools", "api"]).failed(3, "unauthorized");
    fixture.home.run(&["tools", "api", "--profile", "work"]).ok();
    assert_eq!(fixture.home.run(&["logout", "api"]).json()["forgotten"], 0);
}

#[test]
fn callback_arrives_on_loopback() {
    let fixture = SignInFixture::new();
    fixture.configure(r#", "oauth": { "clientName": "Mine" }"#);
    let mut child =
        Running::start(fixture.home.command(&["login", "api", "--wait"]).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut talk = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = talk.find_map(|line| address_in(&line.unwrap())).unwrap();
    let callback = fixture.visit(&address, "ada");
    assert!(open(&callback).starts_with("HTTP/1.1 200 OK"), "{callback}");
    assert!(child.wait().unwrap().success());
    fixture.home.run(&["tools", "api"]).ok();
    assert_eq!(fixture.login.count(Endpoint::Code), 1);
}

#[test]
fn registered_client_keeps_its_redirect_uri() {
    let fixture = SignInFixture::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let redirect = format!("http://localhost:{port}/oauth/back");
    fixture.login.register_at("ours", &redirect);
    fixture.configure(&format!(r#", "oauth": {{ "clientId": "ours", "redirectUri": "{redirect}" }}"#));
    let mut command = fixture.home.command(&["login", "api", "--wait"]);
    let mut child = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut talk = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = talk.find_map(|line| address_in(&line.unwrap())).unwrap();
    let callback = fixture.visit(&address, "ada");
    assert!(callback.starts_with(&redirect), "{callback}");
    assert!(open(&callback.replace("localhost", "127.0.0.1")).starts_with("HTTP/1.1 421"), "another host");
    assert!(open(&callback).starts_with("HTTP/1.1 200 OK"), "{callback}");
    assert!(child.wait().unwrap().success());
    fixture.home.run(&["tools", "api"]).ok();
}

#[test]
fn callback_to_another_machine_is_passed_to_a_second_command() {
    let fixture = SignInFixture::new();
    fixture.login.register_at("ours", "https://app.example/back");
    fixture.configure(r#", "oauth": { "clientId": "ours", "redirectUri": "https://app.example/back" }"#);
    let error = fixture.home.run(&["login", "api", "--wait"]).failed(3, "unauthorized");
    assert!(error["message"].as_str().unwrap().contains("https://app.example/back is not on this machine"), "{error}");
    fixture.sign_in("ada", &[]);
    fixture.home.run(&["tools", "api"]).ok();
}

/// The URL in a line.
fn address_in(line: &str) -> Option<String> {
    Some(line.trim()).filter(|line| line.starts_with("http")).map(str::to_owned)
}

#[test]
fn callback_survives_a_lack_of_file_descriptors() {
    let fixture = SignInFixture::new();
    let mut child =
        Running::start(fixture.home.command(&["login", "api", "--wait"]).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut talk = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = talk.find_map(|line| address_in(&line.unwrap())).unwrap();
    let callback = fixture.visit(&address, "ada");
    let process = Pid::from_child(&child);
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(0), maximum: before.maximum };
    prlimit(Some(process), Resource::Nofile, none).unwrap();
    let page = std::thread::spawn(move || open(&callback));
    std::thread::sleep(Duration::from_millis(400));
    assert!(child.try_wait().unwrap().is_none(), "it did not wait");
    prlimit(Some(process), Resource::Nofile, before).unwrap();
    assert!(page.join().unwrap().contains("You are signed in."));
    assert!(child.wait().unwrap().success());
}

#[test]
fn callback_url_can_be_pasted_again() {
    let fixture = SignInFixture::new();
    let mut terminal = Terminal::start(fixture.home.command(&["login", "api", "--no-browser", "-o", "human"]));
    let shown = terminal.until("even if it shows an error page:");
    let address = shown.lines().find_map(address_in).unwrap();
    terminal.types("https://elsewhere.example/callback?code=x\n");
    terminal.until("Not the callback URL; it starts with http://127.0.0.1:");
    let callback = fixture.visit(&address, "ada");
    let port = Url::parse(&callback).unwrap().port().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "no listener is needed for a pasted callback");
    terminal.types(&format!("{callback}\n"));
    let (status, shown) = terminal.end(Duration::from_secs(20));
    assert!(status.success(), "{shown}");
    assert!(shown.contains(&format!("Signed in to `api` at {}", fixture.login.issuer())), "{shown}");
    fixture.home.run(&["tools", "api"]).ok();
}

#[test]
fn invalid_pasted_callback_fails_the_sign_in() {
    let cut = "x".repeat(5000);
    for (keys, code, said) in [
        ("\u{4}", 3, "the sign-in was cancelled"),
        ("\n", 3, "the sign-in was cancelled"),
        (&*format!("{cut}\n"), 3, "the URL is too long for a terminal line"),
        ("a\nb\nc\n", 3, "this is not the callback URL"),
    ] {
        let fixture = SignInFixture::new();
        let mut terminal = Terminal::start(fixture.home.command(&["login", "api", "--no-browser", "-o", "human"]));
        terminal.until("even if it shows an error page:");
        terminal.types(keys);
        let (status, shown) = terminal.end(Duration::from_secs(20));
        assert!(status.code() == Some(code) && shown.contains(said), "{keys:?}: {shown}");
        assert_eq!(fixture.login.count(Endpoint::Code), 0);
    }
}

#[test]
fn callback_url_is_read_from_standard_input() {
    let fixture = SignInFixture::new();
    let begun: serde_json::Value = serde_json::from_str(&fixture.home.run(&["login", "api"]).out).unwrap();
    let words = ["login", "api", "--callback", "-"];
    fixture.home.run(&words).failed(2, "arguments");
    fixture.home.run_with_input(&words, "http://127.0.0.1:9/callback?code=x\n").failed(3, "unauthorized");
    let callback = fixture.visit(begun["address"].as_str().unwrap(), "ada");
    fixture.home.run_with_input(&words, &format!("{callback}\n")).ok();
    fixture.home.run(&["tools", "api"]).ok();
}

/// A program that opens URLs and records its arguments.
fn opener(home: &Home) -> std::path::PathBuf {
    let script = home.write(
        "bin/xdg-open",
        "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$1\" > \"$HOME/opened.part\"\nmv \"$HOME/opened.part\" \"$HOME/opened\"\n",
    );
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    home.path("opened")
}

fn until_there(file: &Path) -> String {
    let began = Instant::now();
    while !file.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "no browser was opened");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn browser_is_opened_with_the_url_as_its_only_argument() {
    let fixture = SignInFixture::new();
    let opened = opener(&fixture.home);
    let mut command = fixture.home.command(&["login", "api", "-o", "human"]);
    let paths = [fixture.home.path("bin"), "/usr/bin".into(), "/bin".into()];
    command.env("PATH", std::env::join_paths(paths).unwrap());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| fixture.home.run_at_terminal(command, ""));
        let given = until_there(&opened);
        let (number, address) = given.trim_end().split_once('\n').unwrap();
        assert_eq!(number, "1");
        let callback = fixture.visit(address, "ada");
        assert!(open(&callback).starts_with("HTTP/1.1 200 OK"));
        let (status, shown) = running.join().unwrap();
        assert!(status.success(), "{shown}");
        assert!(shown.contains(&format!("Signed in to `api` at {}", fixture.login.issuer())), "{shown}");
        assert!(shown.contains(address), "the URL is printed too: {shown}");
    });
}

#[test]
fn sign_in_problems_are_reported_before_a_url_is_printed() {
    let fixture = SignInFixture::new();
    let url = fixture.server.url();
    fixture.home.configure(&format!(
        r#"{{ "signIn": {{ "vault": "memory" }}, "mcpServers": {{
            "api": {{ "url": "{url}" }}, "away": {{ "url": "http://127.0.0.1:1/mcp" }} }} }}"#
    ));
    let away = fixture.home.run(&["login", "away"]).failed(4, "unreachable");
    assert!(away["message"].as_str().unwrap().starts_with("cannot reach `http://127.0.0.1:1"), "{away}");
    let forgotten = fixture.home.run(&["login", "api"]);
    let error = forgotten.failed(3, "unauthorized");
    assert!(error["message"].as_str().unwrap().starts_with("credentials cannot be stored"), "{error}");
    assert_eq!(forgotten.out, "", "no URL that cannot be finished");
}

#[test]
fn client_secret_requires_a_configured_issuer() {
    let fixture = SignInFixture::new();
    fixture.login.register("ours", Some("the-operators-secret"));
    fixture.configure(r#", "oauth": { "clientId": "ours", "clientSecret": "the-operators-secret" }"#);
    let begun = fixture.home.run(&["login", "api"]);
    let (error, issuer) = (begun.failed(3, "unauthorized"), fixture.login.issuer());
    assert_eq!(
        error["message"],
        format!(
            "the client secret was not sent to `{issuer}`: only the server names this issuer; if it is correct, set `oauth.issuer`"
        )
    );
    assert_eq!(begun.out, "", "no URL to open");
    let said = format!(r#""clientId": "ours", "clientSecret": "the-operators-secret", "issuer": "{issuer}""#);
    fixture.configure(&format!(r#", "oauth": {{ {said} }}"#));
    fixture.sign_in("ada", &[]);
    fixture.home.run(&["tools", "api"]).ok();
}

#[test]
fn unavailable_authorization_server_is_not_a_refusal() {
    let fixture = SignInFixture::new();
    fixture.server.set_quirks([ServerQuirk::AuthorizationServers(vec!["http://127.0.0.1:1".to_owned()])]);
    let error = fixture.home.run(&["login", "api"]).failed(4, "unreachable");
    assert!(error["message"].as_str().unwrap().starts_with("cannot reach `http://127.0.0.1:1"), "{error}");

    for lasts in [0, 3600] {
        let fixture = SignInFixture::new();
        fixture.login.set_quirks([Quirk::TokenLifetime(lasts)]);
        fixture.sign_in("ada", &[]);
        fixture.login.set_quirks([Quirk::RespondsWith(Endpoint::Refresh, 503)]);
        fixture.server.set_quirks([ServerQuirk::RejectsAllTokens]);
        if lasts == 0 {
            let error = fixture.home.run(&["call", "api.hello"]).failed(4, "no_token");
            assert!(error["message"].as_str().unwrap().starts_with("no access token available: "), "{error}");
            let doctor = fixture.home.run(&["doctor", "-o", "human"]);
            assert!(
                !doctor.out.contains("violates the protocol") && doctor.out.contains("Toolway retries"),
                "{}",
                doctor.out
            );
        } else {
            // The token is new, so a refresh would not help.
            fixture.home.run(&["call", "api.hello"]).failed(3, "unauthorized");
        }
    }
}

#[test]
fn unusable_vault_fails_every_command_the_same_way() {
    let fixture = SignInFixture::new();
    fixture.sign_in("ada", &[]);
    for words in [&["login", "api"][..], &["logout", "api"], &["auth", "status"], &["call", "api.hello"]] {
        let ran = fixture.home.run_with(words, &[("TOOLWAY_VAULT_PASSPHRASE", "another")], "");
        let error = ran.failed(1, "vault");
        assert!(error["message"].as_str().unwrap().contains("vault"), "{error}");
    }
    fixture.home.run(&["call", "api.hello"]).ok();
}

#[test]
fn status_shows_the_sign_in_that_would_be_used() {
    let fixture = SignInFixture::new();
    fixture.sign_in("ada", &[]);
    let state = || fixture.home.run(&["auth", "status", "api"]).json()["servers"][0]["signIns"][0]["state"].clone();
    assert_eq!(state(), "signed in");
    fixture.configure(r#", "oauth": { "issuer": "https://login.example" }"#);
    assert_eq!(state(), "sign-in-required", "it belongs to another issuer");
    fixture.configure(r#", "oauth": { "clientSecret": "${NOT_SET}" }"#);
    let shown = fixture.home.run(&["auth", "status", "-o", "human"]);
    assert!(shown.ok().contains("NOT_SET"), "{}", shown.out);
    assert!(!shown.out.contains("stored in"), "the vault was not read: {}", shown.out);
}

#[test]
fn logout_deletes_client_credentials_tokens_too() {
    let fixture = SignInFixture::new();
    fixture.login.register("nightly", Some("the-nightly-secret"));
    let (issuer, auth) = (
        fixture.login.issuer(),
        r#""auth": { "kind": "clientCredentials", "clientId": "nightly", "clientSecret": "the-nightly-secret" }"#,
    );
    fixture.configure(&format!(r#", {auth}, "oauth": {{ "issuer": "{issuer}" }}"#));
    fixture.home.run(&["tools", "api"]).ok();
    fixture.home.run(&["tools", "api"]).ok();
    assert_eq!(fixture.login.count(Endpoint::Grant), 1);

    // It is not a user's sign-in.
    fixture.configure("");
    fixture.home.run(&["tools", "api"]).failed(3, "unauthorized");
    assert_eq!(fixture.home.run(&["logout", "api"]).json()["forgotten"], 1);
    fixture.configure(&format!(r#", {auth}, "oauth": {{ "issuer": "{issuer}" }}"#));
    fixture.home.run(&["tools", "api"]).ok();
    assert_eq!(fixture.login.count(Endpoint::Grant), 2);
}

#[test]
fn sign_in_for_an_unknown_client_is_refused() {
    let fixture = SignInFixture::new();
    fixture.home.run(&["clients", "add", "ada"]).ok();
    let error = fixture.home.run(&["login", "api", "--client", "adda"]).failed(2, "unknown_client");
    assert_eq!(error["message"], "the gateway has no client `adda`; did you mean `ada`?");
    fixture.sign_in("ada", &["--client", "ada"]);
}

#[test]
fn sign_in_is_refused_for_stdio_and_configured_credentials() {
    let fixture = SignInFixture::new();
    let error = fixture.home.run(&["login", "files"]).failed(2, "no_sign_in");
    assert_eq!(error["message"], "server `files` is a stdio server: set its credentials in `env` of its entry");
    fixture.configure(r#", "auth": { "kind": "bearer", "token": "x" }"#);
    let error = fixture.home.run(&["login", "api"]).failed(2, "no_sign_in");
    assert_eq!(error["message"], "server `api` does not use a sign-in: its `auth` is `bearer`");
    let error = fixture.home.run(&["tools", "api"]).failed(3, "unauthorized");
    assert!(
        error["hint"].as_str().unwrap().starts_with("the server rejects the `Authorization` header set by `auth`"),
        "{error}"
    );
}

#[test]
fn required_sign_in_is_a_state_and_does_not_affect_other_servers() {
    let fixture = SignInFixture::new();
    let status = fixture.home.run(&["status"]).json();
    let of = |name: &str| status["servers"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
    assert_eq!(of("api")["state"], "sign-in-required");
    assert_eq!(of("api")["reason"], "sign-in required: run `toolway login api`");
    assert_eq!(of("files")["state"], "ready");
    let doctor = fixture.home.run(&["doctor", "-o", "human"]);
    assert!(doctor.out.contains("sign-in required: run `toolway login api`"), "{}", doctor.out);
}

#[test]
fn client_metadata_document_is_printed() {
    let home = Home::new();
    home.run(&["auth", "client-metadata"]).failed(2, "config");
    home.configure(
        r#"{ "signIn": { "clientMetadataUrl": "https://example.org/toolway.json" }, "mcpServers": {
            "api": { "url": "https://example.org/mcp", "oauth": { "callbackPort": 6276 } } } }"#,
    );
    let document = home.run(&["auth", "client-metadata"]).json();
    assert_eq!(document["client_id"], "https://example.org/toolway.json");
    let redirects = ["http://127.0.0.1/callback", "http://127.0.0.1:6276/callback"];
    assert_eq!(document["redirect_uris"], serde_json::json!(redirects));
}
