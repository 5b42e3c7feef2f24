//! A cloned repository with untrusted project files: nothing is started or connected before it is accepted.

use std::{
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::{
    configuring::{run_in, stable},
    home::{Home, Ran, TOOLWAY},
    terminal::Terminal,
};

/// A listener that counts connections.
struct CountingListener {
    url: String,
    connections: Arc<AtomicUsize>,
}

impl CountingListener {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        thread::spawn(move || {
            for _stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { url, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Commands that a user may run before reading the project file.
const USUAL: [&[&str]; 14] = [
    &["servers"],
    &["config", "show"],
    &["config", "check"],
    &["config", "path"],
    &["import"],
    &["import", "all", "--copy"],
    &["tools", "theirs"],
    &["call", "theirs.anything"],
    &["ping", "theirs"],
    &["tools"],
    &["status"],
    &["doctor"],
    &["doctor", "theirs"],
    &["__complete", "--", "call", "theirs."],
];

/// The failure of a command that uses a server that is not accepted.
fn refused(home: &Home, folder: &str, name: &str) -> Value {
    let error = run_in(home, folder, &["ping", name]).failed(7, "not_accepted");
    assert!(
        error["hint"].as_str().unwrap().lines().last().unwrap().starts_with("to accept exactly this, run: "),
        "{error}"
    );
    error
}

/// Runs the command in the hint of the refusal.
pub(crate) fn accept(home: &Home, folder: &str, name: &str) -> Ran {
    let error = refused(home, folder, name);
    let advice = error["hint"].as_str().unwrap().lines().last().unwrap().to_owned();
    let command = advice.strip_prefix("to accept exactly this, run: toolway ").unwrap().to_owned();
    run_in(home, folder, &command.split(' ').collect::<Vec<_>>())
}

/// The shown definition of the server.
fn shown(home: &Home, folder: &str, name: &str) -> Vec<String> {
    let error = refused(home, folder, name);
    let hint = stable(home, error["hint"].as_str().unwrap());
    hint.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
}

fn trap(file: &std::path::Path) -> String {
    format!(r#"{{ "mcpServers": {{ "theirs": {{ "command": "sh", "args": ["-c", "touch {}"] }} }} }}"#, file.display())
}

#[test]
fn untrusted_command_is_not_run() {
    let home = Home::with_sample();
    let ran = home.path("ran");
    home.write("clone/toolway.json", &trap(&ran));
    for words in USUAL {
        let _ignored = run_in(&home, "clone", words);
        assert!(!ran.exists(), "{words:?}");
    }
    let error = refused(&home, "clone", "theirs");
    assert_eq!(
        stable(&home, error["message"].as_str().unwrap()),
        "server `theirs` comes from a project file (HOME/clone/toolway.json:1) and is not used until you accept it"
    );
    assert_eq!(
        shown(&home, "clone", "theirs"),
        ["command: sh", "argument 1: -c", "argument 2: touch HOME/ran", "directory: HOME/clone"]
    );
    // Commands about other servers print no notice.
    let said = run_in(&home, "clone", &["call", "sample.echo", "text=hi", "-o", "raw"]);
    assert_eq!((said.ok(), said.talk.as_str()), ("hi\n", ""));
    // A command about all servers prints a notice.
    let said = run_in(&home, "clone", &["config", "show"]);
    assert!(said.talk.contains("servers of the project are ignored until you accept them: theirs;"), "{said:?}");

    // After acceptance it runs.
    accept(&home, "clone", "theirs").ok();
    run_in(&home, "clone", &["ping", "theirs"]).failed(4, "ended");
    assert!(ran.exists());
}

#[test]
fn secret_in_a_header_is_not_sent() {
    let home = Home::new();
    let listener = CountingListener::new();
    home.write("secret.txt", "s3cret");
    home.write(
        "clone/toolway.json",
        &format!(
            r#"{{ "mcpServers": {{ "theirs": {{ "url": "{}", "headers": {{
                "X-A": "${{GITHUB_TOKEN}}", "X-B": "file:~/secret.txt", "X-C": "keychain:github/token" }} }} }} }}"#,
            listener.url
        ),
    );
    for words in USUAL {
        let mut command = home.command(words);
        command.current_dir(home.path("clone")).env("GITHUB_TOKEN", "ghp_0123456789abcdef");
        let ran = Ran::of(&command.output().unwrap());
        assert!(!ran.out.contains("ghp_") && !ran.talk.contains("ghp_") && !ran.talk.contains("s3cret"), "{ran:?}");
        assert_eq!(listener.connections(), 0, "{words:?}");
    }
    assert_eq!(
        shown(&home, "clone", "theirs"),
        [
            &format!("address: {}", listener.url),
            "header X-A: ${GITHUB_TOKEN}",
            "header X-B: file:~/secret.txt",
            "header X-C: keychain:github/token",
            "transport: Streamable HTTP or HTTP+SSE",
            "hands over variable GITHUB_TOKEN: in `headers.X-A`",
            "hands over file ~/secret.txt: in `headers.X-B`, which is outside of the project: HOME/secret.txt",
            "hands over keychain entry github/token: in `headers.X-C`",
        ]
    );
    // After acceptance the listener is contacted.
    let url = listener.url.clone();
    home.write("clone/toolway.json", &format!(r#"{{ "mcpServers": {{ "theirs": {{ "url": "{url}" }} }} }}"#));
    accept(&home, "clone", "theirs").ok();
    assert_eq!(listener.connections(), 0);
    let _refused = run_in(&home, "clone", &["ping", "theirs", "--timeout", "5"]);
    assert_ne!(listener.connections(), 0);
}

#[test]
fn project_cannot_relax_user_settings() {
    let home = Home::new();
    let ran = home.path("ran");
    home.configure(&trap(&ran).replace("\"command\"", "\"enabled\": false, \"excludeTools\": [\"x\"], \"command\""));
    let not_allowed = "is not allowed: a project file may only add servers, disable servers, narrow filters and \
                       add policy rules";
    let of_user = "is a server of the user: a project file may only disable it and narrow its filters";
    for (text, key) in [
        (r#"{ "policy": { "mode": "allow" } }"#, "policy.mode"),
        (r#"{ "imports": ["cursor"] }"#, "imports"),
        (r#"{ "autoConnect": true }"#, "autoConnect"),
        (r#"{ "mcpServers": { "theirs": { "enabled": true } } }"#, "mcpServers.theirs"),
        (r#"{ "mcpServers": { "theirs": { "env": { "LD_PRELOAD": "x" } } } }"#, "mcpServers.theirs"),
    ] {
        home.write("clone/toolway.json", text);
        let refused = run_in(&home, "clone", &["ping", "theirs"]);
        refused.failed(2, "disabled");
        let talk = stable(&home, &refused.talk);
        let why = if key.starts_with("mcpServers") { of_user } else { not_allowed };
        assert!(talk.contains(&format!("is not used: `{key}` {why}\n")), "{talk}");
        let checked = run_in(&home, "clone", &["config", "check"]);
        checked.failed(2, "config");
        assert!(checked.out.contains(": a project file may only "), "{checked:?}");
    }
    assert!(!ran.exists());
}

#[test]
fn changed_server_must_be_accepted_again() {
    let home = Home::new();
    let ran = home.path("ran");
    let good = format!(r#"{{ "mcpServers": {{ "theirs": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#);
    home.write("clone/toolway.json", &good);
    let old_error = refused(&home, "clone", "theirs");
    let old = old_error["hint"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
    let said = accept(&home, "clone", "theirs");
    assert_eq!(stable(&home, &said.talk), "Accepted server `theirs` of HOME/clone/toolway.json:1.\n");
    run_in(&home, "clone", &["ping", "theirs"]).ok();
    // Moving lines is not a change.
    home.write("clone/toolway.json", &format!("\n// moved\n{good}"));
    run_in(&home, "clone", &["ping", "theirs"]).ok();

    home.write("clone/toolway.json", &trap(&ran));
    let error = refused(&home, "clone", "theirs");
    assert_eq!(
        stable(&home, error["message"].as_str().unwrap()),
        "server `theirs` has changed in a project file (HOME/clone/toolway.json:1) and is not used until you accept it again"
    );
    let hint = stable(&home, error["hint"].as_str().unwrap());
    let difference = format!(
        "Changes since you accepted it:\n  command: {TOOLWAY} → sh\n  argument 1: sample → -c\n  \
         argument 2: (nothing) → touch HOME/ran\nIt would start:\n"
    );
    assert!(hint.starts_with(&difference), "{hint}");
    for words in USUAL {
        let _ignored = run_in(&home, "clone", words);
    }
    // Neither the old acceptance, nor the old digest, nor a short prefix of the new one is valid.
    run_in(&home, "clone", &["servers", "accept", "theirs", "--digest", &old]).failed(7, "not_accepted");
    let new = hint.rsplit(' ').next().unwrap()[..8].to_owned();
    run_in(&home, "clone", &["servers", "accept", "theirs", "--digest", &new]).failed(7, "not_accepted");
    run_in(&home, "clone", &["servers", "accept", "theirs"]).failed(7, "not_accepted");
    assert!(!ran.exists());
    let json = run_in(&home, "clone", &["servers"]).json();
    assert_eq!(json["servers"][0]["state"], "changed, not accepted");
}

#[test]
fn symbolic_links_and_world_writable_files_are_refused() {
    let home = Home::new();
    let ran = home.path("ran");
    home.configure(r#"{ "imports": ["claude-code"] }"#);
    let outside = home.write("elsewhere/trap.json", &trap(&ran));
    std::fs::create_dir_all(home.path("clone/.git")).unwrap();
    let file: PathBuf = home.path("clone/toolway.json");

    symlink(&outside, &file).unwrap();
    let said = run_in(&home, "clone", &["ping", "theirs"]);
    said.failed(2, "unknown_server");
    assert!(stable(&home, &said.talk).contains(
        "HOME/clone/toolway.json: the project file is not used: it is a link to `HOME/elsewhere/trap.json`, outside of its folder"
    ));
    std::fs::remove_file(&file).unwrap();

    std::fs::write(&file, trap(&ran)).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let said = run_in(&home, "clone", &["ping", "theirs"]);
    said.failed(2, "unknown_server");
    assert!(stable(&home, &said.talk).contains("HOME/clone/toolway.json` is writable by all users"), "{said:?}");
    std::fs::remove_file(&file).unwrap();

    // The same rules apply to files of other applications.
    home.write("clone/.mcp.json", &trap(&ran));
    refused(&home, "clone", "theirs");
    std::fs::remove_file(home.path("clone/.mcp.json")).unwrap();
    symlink(&outside, home.path("clone/.mcp.json")).unwrap();
    let said = run_in(&home, "clone", &["ping", "theirs"]);
    said.failed(2, "unknown_server");
    assert!(said.talk.contains(".mcp.json: the project file is not used: it is a link to "), "{said:?}");
    assert!(!ran.exists());
}

#[test]
fn acceptance_is_bound_to_the_real_directory() {
    let home = Home::new();
    let (near, far) = (home.path("near"), home.path("far"));
    home.write("clone/toolway.json", &trap(&near));
    home.write("elsewhere/toolway.json", &trap(&far));
    std::fs::create_dir_all(home.path("elsewhere/inner")).unwrap();
    symlink(home.path("elsewhere/inner"), home.path("clone/link")).unwrap();
    accept(&home, "clone", "theirs").ok();

    // The acceptance in the clone does not apply to the linked directory.
    let error = refused(&home, "clone/link", "theirs");
    assert!(error["message"].as_str().unwrap().contains("elsewhere/toolway.json:1"), "{error}");
    assert!(!near.exists() && !far.exists());
}

#[test]
fn terminal_asks_for_acceptance() {
    let home = Home::new();
    let entry = format!(r#"{{ "mcpServers": {{ "theirs": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#);
    home.write("clone/toolway.json", &entry);
    let ask = |early: &str, keys: &str| {
        let mut command = home.command(&["call", "theirs.echo", "text=hello"]);
        command.current_dir(home.path("clone"));
        let mut terminal = Terminal::start(command);
        terminal.types(early);
        terminal.answers("Accept this server? [y/N] ", keys);
        terminal.end(Duration::from_secs(20))
    };
    // What was typed before the question is no answer to it.
    for (early, keys) in [("", "n"), ("", "\r"), ("", "\u{4}"), ("y\ny", "n")] {
        let (status, text) = ask(early, keys);
        assert_eq!(status.code(), Some(7), "{text}");
        assert!(text.contains("argument 1: sample") && text.contains("Accept this server? [y/N] "), "{text}");
        assert!(text.contains("server `theirs` was not accepted, and nothing of it was used"), "{text}");
    }
    let (status, text) = ask("", "y");
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(text.ends_with("hello\r\n"), "{text}");
    // The second call does not ask.
    let said = run_in(&home, "clone", &["call", "theirs.echo", "text=again", "-o", "raw"]);
    assert_eq!(said.ok(), "again\n");
    let kept = std::fs::metadata(home.path(".local/state/toolway/accepted.json")).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);

    run_in(&home, "clone", &["servers", "revoke", "theirs"]).ok();
    refused(&home, "clone", "theirs");
}

#[test]
fn accept_and_revoke_print_json() {
    let home = Home::new();
    home.write("clone/toolway.json", r#"{ "mcpServers": { "theirs": { "command": "x" } } }"#);
    let told = |ran: Ran| {
        let said = ran.json();
        (said["changed"].clone(), said["server"]["name"].clone(), said["server"]["state"].clone())
    };
    let expected = |changed: bool, state: &str| (changed.into(), "theirs".into(), state.into());
    assert_eq!(told(accept(&home, "clone", "theirs")), expected(true, "enabled"));
    let state = std::fs::metadata(home.path(".local/state/toolway")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&state.permissions()) & 0o777, 0o700, "for the user alone");
    assert_eq!(told(run_in(&home, "clone", &["servers", "accept", "theirs"])), expected(false, "enabled"));
    assert_eq!(told(run_in(&home, "clone", &["servers", "revoke", "theirs"])), expected(true, "not accepted"));
    assert_eq!(told(run_in(&home, "clone", &["servers", "revoke", "theirs"])), expected(false, "not accepted"));
}

#[test]
fn server_added_by_the_user_is_accepted() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("work/deep")).unwrap();
    std::fs::create_dir_all(home.path("work/.git")).unwrap();
    let stdio = format!("{TOOLWAY} sample");
    let said = run_in(&home, "work/deep", &["servers", "add", "ours", "--stdio", &stdio, "--project", "-o", "human"]);
    assert!(stable(&home, said.ok()).starts_with("Added `ours` in HOME/work/toolway.json\n"), "{said:?}");
    run_in(&home, "work", &["ping", "ours"]).ok();
    // A later change by another user is not.
    let text = std::fs::read_to_string(home.path("work/toolway.json")).unwrap();
    home.write("work/toolway.json", &text.replace("\"sample\"", "\"sample\", \"--era\", \"legacy\""));
    refused(&home, "work", "ours");
}

#[test]
fn damaged_acceptance_file_accepts_nothing() {
    let home = Home::new();
    let ran = home.path("ran");
    home.write("clone/toolway.json", &trap(&ran));
    home.write(".local/state/toolway/accepted.json", "not json");
    refused(&home, "clone", "theirs");
    accept(&home, "clone", "theirs").failed(1, "state");
    assert!(!ran.exists());
}
