//! A cloned repository with a stranger's files in it: nothing runs, nothing is dialled, each is explained.

use std::{
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::Value;

use crate::{
    configuring::{run_in, stable},
    home::{Home, Ran, TOOLWAY},
};

/// An address, and how often somebody knocked.
struct Door {
    url: String,
    knocks: Arc<AtomicUsize>,
}

impl Door {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let knocks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&knocks);
        thread::spawn(move || {
            for _stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { url, knocks }
    }

    fn knocks(&self) -> usize {
        self.knocks.load(Ordering::SeqCst)
    }
}

/// Everything somebody may do in a folder before they have read the file in it.
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

/// What is told about a server that waits.
fn refused(home: &Home, folder: &str, name: &str) -> Value {
    let error = run_in(home, folder, &["ping", name]).failed(7, "not_accepted");
    assert!(error["hint"].as_str().unwrap().lines().last().unwrap().starts_with("To accept exactly this: "), "{error}");
    error
}

/// Follows the advice of a refusal.
pub(crate) fn accept(home: &Home, folder: &str, name: &str) -> Ran {
    let error = refused(home, folder, name);
    let advice = error["hint"].as_str().unwrap().lines().last().unwrap().to_owned();
    let command = advice.strip_prefix("To accept exactly this: toolway ").unwrap().to_owned();
    run_in(home, folder, &command.split(' ').collect::<Vec<_>>())
}

/// What would be started or dialled, as it is shown.
fn shown(home: &Home, folder: &str, name: &str) -> Vec<String> {
    let error = refused(home, folder, name);
    let hint = stable(home, error["hint"].as_str().unwrap());
    hint.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
}

fn trap(file: &std::path::Path) -> String {
    format!(r#"{{ "mcpServers": {{ "theirs": {{ "command": "sh", "args": ["-c", "touch {}"] }} }} }}"#, file.display())
}

#[test]
fn a_program_of_a_stranger_does_not_run() {
    let home = Home::with_sample();
    let ran = home.path("ran");
    home.write("clone/toolway.json", &trap(&ran));
    for words in USUAL {
        let _whatever = run_in(&home, "clone", words);
        assert!(!ran.exists(), "{words:?}");
    }
    let error = refused(&home, "clone", "theirs");
    assert_eq!(
        stable(&home, error["message"].as_str().unwrap()),
        "`theirs` comes from a project's file (HOME/clone/toolway.json:1) and is not used until you accept it."
    );
    assert_eq!(
        shown(&home, "clone", "theirs"),
        ["command: sh", "argument 1: -c", "argument 2: touch HOME/ran", "directory: HOME/clone"]
    );
    // One's own servers work as ever, and say nothing of it.
    let said = run_in(&home, "clone", &["call", "sample.echo", "text=hi", "-o", "raw"]);
    assert_eq!((said.ok(), said.talk.as_str()), ("hi\n", ""));
    // Somebody who looks at everything is told.
    let said = run_in(&home, "clone", &["config", "show"]);
    assert!(said.talk.contains("not used until you accept it, since a project's file says so: theirs."), "{said:?}");

    // The trap is a real one.
    accept(&home, "clone", "theirs").ok();
    run_in(&home, "clone", &["ping", "theirs"]).failed(4, "ended");
    assert!(ran.exists());
}

#[test]
fn a_secret_in_a_header_is_not_sent() {
    let home = Home::new();
    let door = Door::new();
    home.write("secret.txt", "s3cret");
    home.write(
        "clone/toolway.json",
        &format!(
            r#"{{ "mcpServers": {{ "theirs": {{ "url": "{}", "headers": {{
                "X-A": "${{GITHUB_TOKEN}}", "X-B": "file:~/secret.txt", "X-C": "keychain:github/token" }} }} }} }}"#,
            door.url
        ),
    );
    for words in USUAL {
        let mut command = home.command(words);
        command.current_dir(home.path("clone")).env("GITHUB_TOKEN", "ghp_0123456789abcdef");
        let ran = Ran::of(&command.output().unwrap());
        assert!(!ran.out.contains("ghp_") && !ran.talk.contains("ghp_") && !ran.talk.contains("s3cret"), "{ran:?}");
        assert_eq!(door.knocks(), 0, "{words:?}");
    }
    assert_eq!(
        shown(&home, "clone", "theirs"),
        [
            &format!("address: {}", door.url),
            "header X-A: ${GITHUB_TOKEN}",
            "header X-B: file:~/secret.txt",
            "header X-C: keychain:github/token",
            "transport: Streamable HTTP or HTTP+SSE",
            "hands over variable GITHUB_TOKEN: in `headers.X-A`",
            "hands over file ~/secret.txt: in `headers.X-B`",
            "hands over keychain entry github/token: in `headers.X-C`",
        ]
    );
    // The door is a real one.
    let url = door.url.clone();
    home.write("clone/toolway.json", &format!(r#"{{ "mcpServers": {{ "theirs": {{ "url": "{url}" }} }} }}"#));
    accept(&home, "clone", "theirs").ok();
    assert_eq!(door.knocks(), 0);
    let _refused = run_in(&home, "clone", &["ping", "theirs", "--timeout", "5"]);
    assert_ne!(door.knocks(), 0);
}

#[test]
fn a_project_cannot_loosen_what_the_user_said() {
    let home = Home::new();
    let ran = home.path("ran");
    home.configure(&trap(&ran).replace("\"command\"", "\"enabled\": false, \"excludeTools\": [\"x\"], \"command\""));
    let may = "is not for a project's file: it may add servers and switch things off, nothing else";
    for (text, key) in [
        (r#"{ "policy": { "default": "allow" } }"#, "policy"),
        (r#"{ "imports": ["cursor"] }"#, "imports"),
        (r#"{ "autoConnect": true }"#, "autoConnect"),
        (r#"{ "mcpServers": { "theirs": { "enabled": true } } }"#, "mcpServers.theirs of the user"),
        (r#"{ "mcpServers": { "theirs": { "env": { "LD_PRELOAD": "x" } } } }"#, "mcpServers.theirs of the user"),
    ] {
        home.write("clone/toolway.json", text);
        let refused = run_in(&home, "clone", &["ping", "theirs"]);
        refused.failed(2, "disabled");
        let talk = stable(&home, &refused.talk);
        assert!(talk.contains(&format!("is not used: `{key}` {may}\n")), "{talk}");
        let checked = run_in(&home, "clone", &["config", "check"]);
        checked.failed(2, "config");
        assert!(checked.out.contains("is not for a project's file"), "{checked:?}");
    }
    assert!(!ran.exists());
}

#[test]
fn what_changes_after_a_yes_is_asked_about_again_with_the_difference() {
    let home = Home::new();
    let ran = home.path("ran");
    let good = format!(r#"{{ "mcpServers": {{ "theirs": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#);
    home.write("clone/toolway.json", &good);
    let old_error = refused(&home, "clone", "theirs");
    let old = old_error["hint"].as_str().unwrap().rsplit(' ').next().unwrap().to_owned();
    let said = accept(&home, "clone", "theirs");
    assert_eq!(stable(&home, &said.talk), "Accepted: `theirs` of HOME/clone/toolway.json:1.\n");
    run_in(&home, "clone", &["ping", "theirs"]).ok();
    // A line moved is no change.
    home.write("clone/toolway.json", &format!("\n// moved\n{good}"));
    run_in(&home, "clone", &["ping", "theirs"]).ok();

    home.write("clone/toolway.json", &trap(&ran));
    let error = refused(&home, "clone", "theirs");
    assert_eq!(
        stable(&home, error["message"].as_str().unwrap()),
        "`theirs` has changed in a project's file (HOME/clone/toolway.json:1) and is not used until you accept it again."
    );
    let hint = stable(&home, error["hint"].as_str().unwrap());
    let difference = format!(
        "What is different from what you accepted:\n  command: {TOOLWAY} → sh\n  argument 1: sample → -c\n  \
         argument 2: (nothing) → touch HOME/ran\nThis would be started:\n"
    );
    assert!(hint.starts_with(&difference), "{hint}");
    for words in USUAL {
        let _whatever = run_in(&home, "clone", words);
    }
    // The yes of before does not hold, nor does its digest, nor a short piece of the new one.
    run_in(&home, "clone", &["servers", "accept", "theirs", "--digest", &old]).failed(7, "not_accepted");
    let new = hint.rsplit(' ').next().unwrap()[..8].to_owned();
    run_in(&home, "clone", &["servers", "accept", "theirs", "--digest", &new]).failed(7, "not_accepted");
    run_in(&home, "clone", &["servers", "accept", "theirs"]).failed(7, "not_accepted");
    assert!(!ran.exists());
    let json = run_in(&home, "clone", &["servers"]).json();
    assert_eq!(json["servers"][0]["state"], "changed, not accepted");
}

#[test]
fn links_and_files_of_everybody_are_refused_by_name() {
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
        "HOME/clone/toolway.json: the project's file is not used: it leads out of its folder, to HOME/elsewhere/trap.json"
    ));
    std::fs::remove_file(&file).unwrap();

    std::fs::write(&file, trap(&ran)).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let said = run_in(&home, "clone", &["ping", "theirs"]);
    said.failed(2, "unknown_server");
    assert!(stable(&home, &said.talk).contains("everybody may change HOME/clone/toolway.json"), "{said:?}");
    std::fs::remove_file(&file).unwrap();

    // Another host's file waits like ours, and is refused like ours.
    home.write("clone/.mcp.json", &trap(&ran));
    refused(&home, "clone", "theirs");
    std::fs::remove_file(home.path("clone/.mcp.json")).unwrap();
    symlink(&outside, home.path("clone/.mcp.json")).unwrap();
    let said = run_in(&home, "clone", &["ping", "theirs"]);
    said.failed(2, "unknown_server");
    assert!(said.talk.contains(".mcp.json: the project's file is not used: it leads out of its folder"), "{said:?}");
    assert!(!ran.exists());
}

#[test]
fn a_linked_folder_belongs_to_where_it_really_is() {
    let home = Home::new();
    let (near, far) = (home.path("near"), home.path("far"));
    home.write("clone/toolway.json", &trap(&near));
    home.write("elsewhere/toolway.json", &trap(&far));
    std::fs::create_dir_all(home.path("elsewhere/inner")).unwrap();
    symlink(home.path("elsewhere/inner"), home.path("clone/link")).unwrap();
    accept(&home, "clone", "theirs").ok();

    // What was accepted in the clone says nothing about the folder that the link leads to.
    let error = refused(&home, "clone/link", "theirs");
    assert!(error["message"].as_str().unwrap().contains("elsewhere/toolway.json:1"), "{error}");
    assert!(!near.exists() && !far.exists());
}

#[test]
fn at_a_terminal_the_person_is_asked() {
    let home = Home::new();
    let entry = format!(r#"{{ "mcpServers": {{ "theirs": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#);
    home.write("clone/toolway.json", &entry);
    let ask = |keys: &str| {
        let mut command = home.command(&["call", "theirs.echo", "text=hello"]);
        command.current_dir(home.path("clone"));
        home.run_at_terminal(command, keys)
    };
    for keys in ["n\n", "\n", "\u{4}"] {
        let (status, text) = ask(keys);
        assert_eq!(status.code(), Some(7), "{text}");
        assert!(text.contains("argument 1: sample") && text.contains("Accept it? [y/N] "), "{text}");
        assert!(text.contains("`theirs` was not accepted; nothing of it was used."), "{text}");
    }
    let (status, text) = ask("y\n");
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(text.ends_with("hello\r\n"), "{text}");
    // It is not asked twice.
    let said = run_in(&home, "clone", &["call", "theirs.echo", "text=again", "-o", "raw"]);
    assert_eq!(said.ok(), "again\n");
    let kept = std::fs::metadata(home.path(".local/state/toolway/accepted.json")).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);

    run_in(&home, "clone", &["servers", "revoke", "theirs"]).ok();
    refused(&home, "clone", "theirs");
}

#[test]
fn a_yes_and_its_end_are_told_to_programs() {
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
fn what_one_adds_oneself_needs_no_yes() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("work/deep")).unwrap();
    std::fs::create_dir_all(home.path("work/.git")).unwrap();
    let stdio = format!("{TOOLWAY} sample");
    let said = run_in(&home, "work/deep", &["servers", "add", "ours", "--stdio", &stdio, "--project", "-o", "human"]);
    assert!(stable(&home, said.ok()).starts_with("Added `ours` in HOME/work/toolway.json\n"), "{said:?}");
    run_in(&home, "work", &["ping", "ours"]).ok();
    // What somebody else adds to it does.
    let text = std::fs::read_to_string(home.path("work/toolway.json")).unwrap();
    home.write("work/toolway.json", &text.replace("\"sample\"", "\"sample\", \"--era\", \"legacy\""));
    refused(&home, "work", "ours");
}

#[test]
fn a_broken_list_of_yeses_accepts_nothing() {
    let home = Home::new();
    let ran = home.path("ran");
    home.write("clone/toolway.json", &trap(&ran));
    home.write(".local/state/toolway/accepted.json", "not json");
    refused(&home, "clone", "theirs");
    accept(&home, "clone", "theirs").failed(1, "state");
    assert!(!ran.exists());
}
