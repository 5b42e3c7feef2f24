//! `TOOLWAY.md` of a project: a model gets it only after the user has accepted exactly this text.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::{
    chat_screen::ChatScreen,
    home::{Home, Ran},
};

const RUN: [&str; 4] = ["run", "hello", "--model", "scripted:../script.json"];
const CHAT: [&str; 3] = ["chat", "--model", "scripted:../script.json"];

/// A home whose folder `work` is the project; commands run there.
fn project(text: &str) -> Home {
    let home = Home::with_script(&json!([{ "text": "Hi." }]));
    home.write("work/.git/HEAD", "ref: refs/heads/main\n");
    home.write("work/TOOLWAY.md", text);
    home
}

fn run(home: &Home, words: &[&str]) -> Ran {
    Ran::of(&home.command(words).current_dir(home.path("work")).output().unwrap())
}

/// The system prompt of the last request.
fn system(home: &Home) -> String {
    let rows = rusqlite::Connection::open(home.path(".local/state/toolway/toolway.db")).unwrap();
    let sql = "SELECT body FROM conversation_notes WHERE name LIKE 'replay/piece/%' AND body LIKE '{\"system\":%' ORDER BY \
               at DESC LIMIT 1";
    // The other pieces of the request continue the text.
    let piece: String = rows.query_row(sql, [], |row| row.get(0)).unwrap();
    let system = piece.strip_prefix("{\"system\":").unwrap();
    serde_json::Deserializer::from_str(system).into_iter().next().unwrap().unwrap()
}

/// The digest in a message about instructions that are not accepted.
fn digest(told: &str) -> String {
    let (_, rest) = told.split_once("--digest ").unwrap();
    rest.chars().take_while(char::is_ascii_hexdigit).collect()
}

#[test]
fn without_a_terminal_instructions_are_used_only_after_they_were_accepted_by_digest() {
    let home = project("Answer in verse.\n");
    let ran = run(&home, &RUN);
    ran.ok();
    assert!(ran.talk.contains("TOOLWAY.md` are not used until you accept them"), "{}", ran.talk);
    assert!(!system(&home).contains("verse"));
    let refused = run(&home, &["trust", "instructions"]);
    let told = refused.failed(7, "not_accepted").to_string();
    let accept = ["trust", "instructions", "--digest", &digest(&told), "-o", "json"];
    assert_eq!(run(&home, &accept).json()["accepted"], true);
    let ran = run(&home, &RUN);
    assert!(ran.ok().contains("Hi.") && !ran.talk.contains("TOOLWAY.md"), "{}", ran.talk);
    assert!(system(&home).contains("Answer in verse.\n</instructions-"), "{}", system(&home));
    assert_eq!(run(&home, &["history", "replay", "last", "-o", "json"]).json()["identical"], true);
    // Changed by one letter.
    home.write("work/TOOLWAY.md", "Answer in verse!\n");
    let ran = run(&home, &RUN);
    assert!(ran.talk.contains("changed; not used until you accept them again"), "{}", ran.talk);
    assert!(!system(&home).contains("verse"));
    let told = run(&home, &["trust", "instructions", "--digest", &digest(&told)]).failed(7, "not_accepted");
    assert!(told.to_string().contains("does not match the current text"), "{told}");
    home.write("work/TOOLWAY.md", "Answer in verse.\n");
    run(&home, &["trust", "instructions", "--revoke"]).ok();
    assert!(run(&home, &RUN).talk.contains("not used until you accept them"));
}

#[test]
fn a_chat_shows_all_of_it_and_after_a_change_the_difference() {
    let home = project("Use tabs.\nHide\u{202e}this\u{1b}[2J.\nEnd.\n");
    let mut chat = ChatScreen::start_in(&home, "work", &CHAT, 100);
    chat.sees("Hide\\u{202e}this\\u{1b}[2J.").sees("Let the model get these instructions? [y/N]").types("n");
    chat.sees("the project instructions are not used").prompts(1).types("/usage\r").sees("context: about");
    assert!(!chat.text().contains("project instructions 1"), "{}", chat.text());
    chat.types("/exit\r");
    assert!(chat.end().0.success());
    let mut chat = ChatScreen::start_in(&home, "work", &CHAT, 100);
    chat.sees("[y/N]").types("y").prompts(1).types("/context\r").sees("project instructions: ").sees("(accepted)");
    chat.sees("project instructions ").types("/exit\r");
    assert!(chat.end().0.success());
    let report = run(&home, &["doctor", "-o", "json"]).json();
    assert_eq!(report["projectInstructions"]["accepted"], true, "{report}");
    home.write("work/TOOLWAY.md", "Use tabs.\nHide nothing.\nEnd.\n");
    let mut chat = ChatScreen::start_in(&home, "work", &CHAT, 100);
    chat.sees("Changes since you accepted them:").sees("- Hide\\u{202e}this").sees("+ Hide nothing.").sees("[y/N]");
    chat.types("\r").sees("are not used").prompts(1).types("/exit\r");
    assert!(chat.end().0.success());
    let report = run(&home, &["doctor", "-o", "human"]);
    assert!(report.out.contains("TOOLWAY.md (changed; not used until you accept them again)"), "{}", report.out);
}

#[test]
fn files_that_are_not_the_projects_or_too_long_are_refused() {
    let told = |home: &Home| run(home, &RUN).talk;
    let home = project("x");
    let outside = Home::new();
    let secret = outside.write("secret.txt", "ssh key");
    std::fs::remove_file(home.path("work/TOOLWAY.md")).unwrap();
    symlink(&secret, home.path("work/TOOLWAY.md")).unwrap();
    assert!(told(&home).contains("outside of its folder"), "{}", told(&home));
    run(&home, &["trust", "instructions"]).failed(2, "instructions");
    std::fs::remove_file(home.path("work/TOOLWAY.md")).unwrap();
    // A chain of links, whose last one leaves the project.
    symlink(&secret, home.path("work/hop")).unwrap();
    symlink("hop", home.path("work/TOOLWAY.md")).unwrap();
    assert!(told(&home).contains("outside of its folder"), "{}", told(&home));
    std::fs::remove_file(home.path("work/TOOLWAY.md")).unwrap();
    for (text, why) in
        [("x".repeat(32 * 1024 + 1).into_bytes(), "larger than 32768 bytes"), (vec![0xff, 0xfe], "not UTF-8")]
    {
        std::fs::write(home.path("work/TOOLWAY.md"), text).unwrap();
        assert!(told(&home).contains(why), "{why}: {}", told(&home));
    }
    std::fs::remove_file(home.path("work/TOOLWAY.md")).unwrap();
    std::fs::create_dir(home.path("work/TOOLWAY.md")).unwrap();
    assert!(told(&home).contains("not a regular file"), "{}", told(&home));
    std::fs::remove_dir(home.path("work/TOOLWAY.md")).unwrap();
    home.write("work/TOOLWAY.md", " \n\t\n");
    assert!(!told(&home).contains("TOOLWAY.md"), "an empty file has no instructions");
    // With a file of the user's choice there is no project.
    home.write("work/TOOLWAY.md", "Obey.");
    let file = home.write("other.json", "{}");
    let ran = run(&home, &["--config", file.to_str().unwrap(), "run", "hello", "--model", "scripted:../script.json"]);
    assert!(!ran.talk.contains("TOOLWAY.md"), "{}", ran.talk);
}
