//! `toolway trust show|server|folder`, and what `policy explain` says about the levels.

use serde_json::{Value, json};

use crate::{configuring::run_in, home::Home, project_servers::accept};

fn configured(entry: &str) -> Home {
    let home = Home::new();
    home.configure(&format!(
        r#"{{"mcpServers":{{"sample":{{"command":"{}","args":["sample"]{entry}}}}}}}"#,
        crate::home::TOOLWAY
    ));
    home
}

fn explained(home: &Home, folder: &str, words: &[&str]) -> Value {
    run_in(home, folder, &[&["policy", "explain"], words].concat()).json()
}

#[test]
fn a_tool_is_trusted_or_asked_about_by_its_entry() {
    let home = configured(r#","trustedTools":["write_*"],"requireConfirmation":["echo"]"#);
    let write = explained(&home, ".", &["sample.write_memo", "text=x"]);
    assert_eq!((&write["decision"], &write["trustLevel"]), (&json!("allow"), &json!("tool-allowlisted")), "{write}");
    let echo = explained(&home, ".", &["sample.echo", "text=x", "--mode", "allow"]);
    assert_eq!(echo["decision"], "ask", "{echo}");
    assert_eq!(echo["rule"], "`requireConfirmation` of server `sample`", "{echo}");
    assert_eq!((&echo["trustLevel"], &echo["risk"]), (&json!("server-trusted"), &json!("medium")), "{echo}");
    home.run(&["call", "sample.echo", "text=x"]).failed(7, "no_approver");
}

#[test]
fn paths_outside_the_roots_are_refused_without_file_access() {
    let home = configured(r#","allowFileAccess":false,"roots":[{"path":"/srv/notes"}]"#);
    home.run(&["call", "sample.echo", "text=/srv/notes/a"]).ok();
    let refused = home.run(&["call", "sample.echo", "text=/srv/notes-evil/a"]).failed(7, "denied");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("`/srv/notes-evil/a` is outside the roots of the server"), "{message}");
}

#[test]
fn the_trust_of_a_server_is_set_in_the_users_file() {
    let home = configured("");
    home.run(&["trust", "server", "sample", "full"]).ok();
    let shown = home.run(&["trust", "show", "sample"]).json();
    assert_eq!((&shown["trust"], &shown["by"]), (&json!("full"), &json!("entry")), "{shown}");
    let write = explained(&home, ".", &["sample.write_memo", "text=x"]);
    assert_eq!(write["decision"], "allow", "{write}");
    home.run(&["trust", "server", "other", "full"]).failed(2, "unknown_server");
}

#[test]
fn a_folder_trusts_accepted_servers_of_its_projects_only() {
    let home = Home::new();
    home.configure("{}");
    let server = format!(r#"{{"mcpServers":{{"theirs":{{"command":"{}","args":["sample"]}}}}}}"#, crate::home::TOOLWAY);
    home.write("work/clone/toolway.json", &server);
    home.write("work-evil/clone/toolway.json", &server);
    let work = home.path("work").display().to_string();
    home.run(&["trust", "folder", "add", &work, "full"]).ok();
    run_in(&home, "work/clone", &["ping", "theirs"]).failed(7, "not_accepted");
    accept(&home, "work/clone", "theirs");
    accept(&home, "work-evil/clone", "theirs");
    let inside = explained(&home, "work/clone", &["theirs.write_memo", "text=x"]);
    assert_eq!((&inside["decision"], &inside["trustLevel"]), (&json!("allow"), &json!("trusted-folder")), "{inside}");
    let outside = explained(&home, "work-evil/clone", &["theirs.echo", "text=x"]);
    assert_eq!((&outside["decision"], &outside["trustLevel"]), (&json!("ask"), &json!("untrusted")), "{outside}");
    let refused = run_in(&home, "work/clone", &["trust", "server", "theirs", "full"]).failed(2, "project_server");
    assert!(refused["hint"].as_str().unwrap().contains("trust folder add"), "{refused}");
    home.run(&["trust", "folder", "remove", &work]).ok();
    assert_eq!(explained(&home, "work/clone", &["theirs.echo", "text=x"])["decision"], "ask");
}
