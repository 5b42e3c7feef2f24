//! `toolway login` and what follows: real authorization servers, real callbacks, and nobody at a terminal unless said.

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
    authorization::{Endpoint, Oddity, Quirk},
    secret_scan::SecretScan,
};
use url::Url;

use crate::{
    home::{Home, Ran},
    terminal::Terminal,
    world::{World, open},
};

#[test]
fn without_a_terminal_a_sign_in_is_begun_here_and_finished_by_another_command() {
    let world = World::new();
    let error = world.home.run(&["tools", "api"]).failed(3, "unauthorized");
    assert_eq!(error["message"], "Somebody has to sign in: run `toolway login api`.");
    assert!(error["hint"].is_null(), "it is said once: {error}");
    let error = world.home.run(&["tools", "api", "--profile", "work"]).failed(3, "unauthorized");
    assert_eq!(error["message"], "Somebody has to sign in: run `toolway login api --profile work`.");
    assert!(error["hint"].is_null(), "and nothing else: {error}");

    let began = Instant::now();
    let begun = world.home.run(&["login", "api"]);
    assert!(began.elapsed() < Duration::from_secs(10), "it waits for nobody");
    let data: serde_json::Value = serde_json::from_str(&begun.out).unwrap();
    assert_eq!(data["finish"], "toolway login api --callback '<address>'");
    begun.failed(3, "sign_in_needed");
    let address = data["address"].as_str().unwrap();
    assert!(address.starts_with(&world.login.issuer()), "{address}");

    let callback = world.visit(address, "ada");
    let done = world.home.run(&["login", "api", "--callback", &callback]);
    let done: serde_json::Value = serde_json::from_str(done.ok()).unwrap();
    assert_eq!((&done["issuer"], &done["state"]), (&world.login.issuer().into(), &"signed in".into()));
    world.home.run(&["tools", "api"]).ok();

    // What was used once is worth nothing.
    world.home.run(&["login", "api", "--callback", &callback]).failed(3, "unauthorized");
    world.home.run(&["tools", "api"]).ok();
    let scan = SecretScan::of(&world.login.secrets());
    assert!(0 < scan.size(), "there is something to look for");
    assert!(scan.found_in(done.to_string().as_bytes()).is_empty());
    let state = world.home.path(".local/state/toolway");
    assert_eq!(scan.found_below(&state).unwrap(), Vec::<String>::new(), "what is kept is sealed");
    assert!(state.join("vault").exists(), "and it is there");
}

/// Each refresh token is good once: one that was used up by a command that did not wait would be the last.
#[test]
fn a_renewal_that_a_command_does_not_see_the_end_of_is_not_lost() {
    for interrupted in [false, true] {
        let world = World::new();
        world.login.told([Quirk::Lasts(0)]);
        world.sign_in("ada", &[]);
        world.login.told([Quirk::Late(Endpoint::Renewal, Duration::from_secs(3))]);
        let limit = if interrupted { "60" } else { "1" };
        let mut command = world.home.command(&["call", "api.hello", "--timeout", limit]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        world.runtime.block_on(world.login.until(Endpoint::Renewal, 1));
        if interrupted {
            rustix::process::kill_process(Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
        }
        let ended = Ran::of(&child.wait_with_output().unwrap());
        let (code, word) = if interrupted { (130, "interrupted") } else { (4, "timed_out") };
        ended.failed(code, word);
        assert!(ended.talk.contains("a sign-in is being renewed"), "{}", ended.talk);

        world.home.run(&["call", "api.hello"]).ok();
        assert_eq!((world.login.count(Endpoint::Renewal), world.login.taken_back()), (1, 0));
    }
}

#[test]
fn who_is_signed_in_is_shown_without_anything_that_could_be_used_and_can_be_ended() {
    let world = World::new();
    assert_eq!(
        world.home.run(&["auth", "status", "api", "-o", "human"]).ok().lines().next().unwrap(),
        "api  nobody has signed in"
    );
    world.sign_in("ada", &[]);
    world.sign_in("ben", &["--profile", "work"]);

    let status = world.home.run(&["auth", "status", "api"]);
    let shown = status.json();
    let sign_ins = shown["servers"][0]["signIns"].as_array().unwrap();
    let mut profiles: Vec<_> = sign_ins.iter().map(|it| it["profile"].as_str().unwrap_or("-")).collect();
    profiles.sort_unstable();
    assert_eq!(profiles, ["-", "work"]);
    assert!(sign_ins.iter().all(|it| it["issuer"] == world.login.issuer() && it["expiresAt"].is_u64()), "{shown}");
    for secret in world.login.secrets() {
        assert!(!status.out.contains(&secret) && !status.talk.contains(&secret));
    }
    world.home.run(&["logout", "api"]).ok();
    world.home.run(&["tools", "api"]).failed(3, "unauthorized");
    world.home.run(&["tools", "api", "--profile", "work"]).ok();
    assert_eq!(world.home.run(&["logout", "api"]).json()["forgotten"], 0);
}

#[test]
fn a_browser_comes_back_to_this_machine() {
    let world = World::new();
    world.configure(r#", "oauth": { "clientName": "Mine" }"#);
    let mut child =
        world.home.command(&["login", "api", "--wait"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut talk = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = talk.find_map(|line| address_in(&line.unwrap())).unwrap();
    let callback = world.visit(&address, "ada");
    assert!(open(&callback).starts_with("HTTP/1.1 200 OK"), "{callback}");
    assert!(child.wait().unwrap().success());
    world.home.run(&["tools", "api"]).ok();
    assert_eq!(world.login.count(Endpoint::Code), 1);
}

/// The address that a line says to open.
fn address_in(line: &str) -> Option<String> {
    Some(line.trim()).filter(|line| line.starts_with("http")).map(str::to_owned)
}

#[test]
fn a_browser_comes_back_though_this_machine_was_out_of_descriptors_for_a_while() {
    let world = World::new();
    let mut child =
        world.home.command(&["login", "api", "--wait"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut talk = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = talk.find_map(|line| address_in(&line.unwrap())).unwrap();
    let callback = world.visit(&address, "ada");
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
fn the_address_can_be_pasted_at_a_terminal_and_pasted_again_if_it_was_another() {
    let world = World::new();
    let mut terminal = Terminal::start(world.home.command(&["login", "api", "--no-browser", "-o", "human"]));
    let shown = terminal.until("even if it shows an error there:");
    let address = shown.lines().find_map(address_in).unwrap();
    terminal.types("https://elsewhere.example/callback?code=x\n");
    terminal.until("This is not it: the address begins with http://127.0.0.1:");
    let callback = world.visit(&address, "ada");
    let port = Url::parse(&callback).unwrap().port().unwrap();
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_err(),
        "nobody listens where a browser of this machine would come"
    );
    terminal.types(&format!("{callback}\n"));
    let (status, shown) = terminal.end(Duration::from_secs(20));
    assert!(status.success(), "{shown}");
    assert!(shown.contains(&format!("Signed in to `api` at {}", world.login.issuer())), "{shown}");
    world.home.run(&["tools", "api"]).ok();
}

#[test]
fn what_is_pasted_may_come_to_nothing() {
    let cut = "x".repeat(5000);
    for (keys, code, said) in [
        ("\u{4}", 3, "The sign-in was given up."),
        ("\n", 3, "The sign-in was given up."),
        (&*format!("{cut}\n"), 3, "The terminal cut the address"),
        ("a\nb\nc\n", 3, "This is not the address that the browser was sent back to"),
    ] {
        let world = World::new();
        let mut terminal = Terminal::start(world.home.command(&["login", "api", "--no-browser", "-o", "human"]));
        terminal.until("even if it shows an error there:");
        terminal.types(keys);
        let (status, shown) = terminal.end(Duration::from_secs(20));
        assert!(status.code() == Some(code) && shown.contains(said), "{keys:?}: {shown}");
        assert_eq!(world.login.count(Endpoint::Code), 0);
    }
}

#[test]
fn the_address_can_come_from_standard_input_so_that_no_process_shows_it() {
    let world = World::new();
    let begun: serde_json::Value = serde_json::from_str(&world.home.run(&["login", "api"]).out).unwrap();
    let words = ["login", "api", "--callback", "-"];
    world.home.run(&words).failed(2, "arguments");
    world.home.run_with_input(&words, "http://127.0.0.1:9/callback?code=x\n").failed(3, "unauthorized");
    let callback = world.visit(begun["address"].as_str().unwrap(), "ada");
    world.home.run_with_input(&words, &format!("{callback}\n")).ok();
    world.home.run(&["tools", "api"]).ok();
}

/// A program that opens addresses: it keeps what it was given.
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
fn at_a_terminal_the_browser_is_opened_with_the_address_as_its_one_argument() {
    let world = World::new();
    let opened = opener(&world.home);
    let mut command = world.home.command(&["login", "api", "-o", "human"]);
    let paths = [world.home.path("bin"), "/usr/bin".into(), "/bin".into()];
    command.env("PATH", std::env::join_paths(paths).unwrap());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.home.run_at_terminal(command, ""));
        let given = until_there(&opened);
        let (number, address) = given.trim_end().split_once('\n').unwrap();
        assert_eq!(number, "1");
        let callback = world.visit(address, "ada");
        assert!(open(&callback).starts_with("HTTP/1.1 200 OK"));
        let (status, shown) = running.join().unwrap();
        assert!(status.success(), "{shown}");
        assert!(shown.contains(&format!("Signed in to `api` at {}", world.login.issuer())), "{shown}");
        assert!(shown.contains(address), "the address is shown too: {shown}");
    });
}

#[test]
fn what_stands_in_the_way_of_a_sign_in_is_said_before_anybody_is_sent_anywhere() {
    let world = World::new();
    let url = world.server.url();
    world.home.configure(&format!(
        r#"{{ "signIn": {{ "vault": "memory" }}, "mcpServers": {{
            "api": {{ "url": "{url}" }}, "away": {{ "url": "http://127.0.0.1:1/mcp" }} }} }}"#
    ));
    let away = world.home.run(&["login", "away"]).failed(4, "unreachable");
    assert!(away["message"].as_str().unwrap().starts_with("Cannot reach http://127.0.0.1:1"), "{away}");
    let forgotten = world.home.run(&["login", "api"]);
    let error = forgotten.failed(3, "unauthorized");
    assert!(error["message"].as_str().unwrap().starts_with("Nothing can be kept here"), "{error}");
    assert_eq!(forgotten.out, "", "no address that leads nowhere");
}

#[test]
fn a_clients_secret_needs_to_know_whom_it_is_for_before_a_browser_is_opened() {
    let world = World::new();
    world.login.register("ours", Some("the-operators-secret"));
    world.configure(r#", "oauth": { "clientId": "ours", "clientSecret": "the-operators-secret" }"#);
    let begun = world.home.run(&["login", "api"]);
    let (error, issuer) = (begun.failed(3, "unauthorized"), world.login.issuer());
    assert_eq!(
        error["message"],
        format!(
            "The client's secret is not sent to {issuer}, which only the server names; if it is the right one, write it into \
             oauth.issuer."
        )
    );
    assert_eq!(begun.out, "", "no address to open");
    let said = format!(r#""clientId": "ours", "clientSecret": "the-operators-secret", "issuer": "{issuer}""#);
    world.configure(&format!(r#", "oauth": {{ {said} }}"#));
    world.sign_in("ada", &[]);
    world.home.run(&["tools", "api"]).ok();
}

#[test]
fn whoever_signs_people_in_may_be_away_and_that_is_no_refusal_of_the_server() {
    let world = World::new();
    world.server.told([Oddity::Names(vec!["http://127.0.0.1:1".to_owned()])]);
    let error = world.home.run(&["login", "api"]).failed(4, "unreachable");
    assert!(error["message"].as_str().unwrap().starts_with("Cannot reach http://127.0.0.1:1"), "{error}");

    for lasts in [0, 3600] {
        let world = World::new();
        world.login.told([Quirk::Lasts(lasts)]);
        world.sign_in("ada", &[]);
        world.login.told([Quirk::Answers(Endpoint::Renewal, 503)]);
        world.server.told([Oddity::TakesNothing]);
        if lasts == 0 {
            let error = world.home.run(&["call", "api.hello"]).failed(4, "no_token");
            assert!(error["message"].as_str().unwrap().starts_with("No token for now: "), "{error}");
            let doctor = world.home.run(&["doctor", "-o", "human"]);
            assert!(!doctor.out.contains("protocol") && doctor.out.contains("it is tried again"), "{}", doctor.out);
        } else {
            // It was just got, so that a renewal would not help.
            world.home.run(&["call", "api.hello"]).failed(3, "unauthorized");
        }
    }
}

#[test]
fn a_vault_that_cannot_be_used_is_the_same_trouble_for_every_command() {
    let world = World::new();
    world.sign_in("ada", &[]);
    for words in [&["login", "api"][..], &["logout", "api"], &["auth", "status"], &["call", "api.hello"]] {
        let ran = world.home.run_with(words, &[("TOOLWAY_VAULT_PASSPHRASE", "another")], "");
        let error = ran.failed(1, "vault");
        assert!(error["message"].as_str().unwrap().contains("vault"), "{error}");
    }
    world.home.run(&["call", "api.hello"]).ok();
}

#[test]
fn what_is_shown_of_sign_ins_is_what_would_be_used() {
    let world = World::new();
    world.sign_in("ada", &[]);
    let state = || world.home.run(&["auth", "status", "api"]).json()["servers"][0]["signIns"][0]["state"].clone();
    assert_eq!(state(), "signed in");
    world.configure(r#", "oauth": { "issuer": "https://login.example" }"#);
    assert_eq!(state(), "sign-in needed", "it is of another issuer");
    world.configure(r#", "oauth": { "clientSecret": "${NOT_SET}" }"#);
    let shown = world.home.run(&["auth", "status", "-o", "human"]);
    assert!(shown.ok().contains("NOT_SET"), "{}", shown.out);
    assert!(!shown.out.contains("Kept in"), "nothing was looked for: {}", shown.out);
}

#[test]
fn what_was_got_without_a_person_can_be_forgotten_too() {
    let world = World::new();
    world.login.register("nightly", Some("the-nightly-secret"));
    let (issuer, auth) = (
        world.login.issuer(),
        r#""auth": { "kind": "clientCredentials", "clientId": "nightly", "clientSecret": "the-nightly-secret" }"#,
    );
    world.configure(&format!(r#", {auth}, "oauth": {{ "issuer": "{issuer}" }}"#));
    world.home.run(&["tools", "api"]).ok();
    world.home.run(&["tools", "api"]).ok();
    assert_eq!(world.login.count(Endpoint::Grant), 1);

    // It is nobody's sign-in.
    world.configure("");
    world.home.run(&["tools", "api"]).failed(3, "unauthorized");
    assert_eq!(world.home.run(&["logout", "api"]).json()["forgotten"], 1);
    world.configure(&format!(r#", {auth}, "oauth": {{ "issuer": "{issuer}" }}"#));
    world.home.run(&["tools", "api"]).ok();
    assert_eq!(world.login.count(Endpoint::Grant), 2);
}

#[test]
fn nobody_signs_in_for_a_client_that_there_is_not() {
    let world = World::new();
    world.home.run(&["clients", "add", "ada"]).ok();
    let error = world.home.run(&["login", "api", "--client", "adda"]).failed(2, "unknown_client");
    assert_eq!(error["hint"], "Did you mean `ada`?");
    world.sign_in("ada", &["--client", "ada"]);
}

#[test]
fn nobody_signs_in_to_a_program_or_where_a_credential_is_configured() {
    let world = World::new();
    let error = world.home.run(&["login", "files"]).failed(2, "no_sign_in");
    assert_eq!(error["message"], "`files` is a program: what it needs to know of you stands in `env` of its entry.");
    world.configure(r#", "auth": { "kind": "bearer", "token": "x" }"#);
    let error = world.home.run(&["login", "api"]).failed(2, "no_sign_in");
    assert_eq!(error["message"], "Nobody signs in to `api`: its `auth` is of the kind `bearer`.");
    let error = world.home.run(&["tools", "api"]).failed(3, "unauthorized");
    assert!(
        error["hint"].as_str().unwrap().starts_with("What `auth` of its entry sends in `Authorization`"),
        "{error}"
    );
}

#[test]
fn a_server_that_needs_a_sign_in_is_a_state_and_the_others_are_not_affected() {
    let world = World::new();
    let status = world.home.run(&["status"]).json();
    let of = |name: &str| status["servers"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
    assert_eq!(of("api")["state"], "sign-in needed");
    assert_eq!(of("api")["reason"], "somebody has to sign in: run `toolway login api`");
    assert_eq!(of("files")["state"], "ready");
    let doctor = world.home.run(&["doctor", "-o", "human"]);
    assert!(doctor.out.contains("Somebody has to sign in: run `toolway login api`."), "{}", doctor.out);
}

#[test]
fn the_document_about_us_is_printed_for_where_it_is_hosted() {
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
