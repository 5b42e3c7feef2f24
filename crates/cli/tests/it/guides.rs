//! The guides, run as they are written: every `sh` block, and the `text` block after it is what it must say.

use std::{path::PathBuf, process::Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Home, root};

/// The home in the guides.
const ADA: &str = "/home/ada";
/// The port of the gateway there.
const PORT: &str = "7717";

/// A fenced block.
struct Block {
    language: String,
    text: String,
    line: usize,
}

fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, bool) = (Vec::new(), false);
    for (number, line) in (1..).zip(page.lines()) {
        match line.strip_prefix("```") {
            Some(language) if !open => {
                blocks.push(Block { language: language.to_owned(), text: String::new(), line: number });
                open = true;
            }
            Some(_) => open = false,
            None if open => {
                let block = blocks.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    blocks
}

/// Runs a page from the top in one home; `output` is what a reader of it has.
fn follow(page: &str, output: Option<&str>) {
    let home = Home::new();
    let _gateway = Background(home.path("gateway.pid"));
    let port = free_port();
    let path = root().join("docs/guide").join(page);
    let blocks = blocks(&std::fs::read_to_string(&path).unwrap());
    assert!(blocks.iter().any(|block| block.language == "sh"), "{page} has no commands");
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "sh") {
        let mut shell = Command::new("sh");
        // The environment of the program's own stories, and what it says on one stream as a reader sees it.
        shell.args(["-euc", &format!("exec 2>&1\n{}", block.text.replace(PORT, &port))]).env_clear();
        for (name, value) in home.command(&[]).get_envs() {
            shell.env(name, value.unwrap());
        }
        shell.envs(output.map(|output| ("TOOLWAY_OUTPUT", output))).current_dir(home.path(""));
        let ran = shell.output().unwrap();
        let said = String::from_utf8(ran.stdout)
            .unwrap()
            .replace(home.path("").to_str().unwrap().trim_end_matches('/'), ADA)
            .replace(&port, PORT);
        assert!(ran.status.success(), "{page}:{}: {said}", block.line);
        if let Some(expected) = blocks.get(index + 1).filter(|next| next.language == "text") {
            assert_eq!(without_chance(&said), without_chance(&expected.text), "{page}:{}", expected.line);
        }
    }
}

/// A digest and a process are others in every home.
fn without_chance(text: &str) -> String {
    let text = without(text, "--digest ", |letter| letter.is_ascii_hexdigit());
    without(&text, "(process ", |letter| letter.is_ascii_digit())
}

fn without(text: &str, before: &str, is_chance: fn(char) -> bool) -> String {
    let mut parts = text.split(before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{text}{before}…{}", part.trim_start_matches(is_chance)))
}

/// A port nobody listens on.
fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// What a page leaves running in the background ends with its story, however that ends.
struct Background(PathBuf);

impl Drop for Background {
    fn drop(&mut self) {
        let number = std::fs::read_to_string(&self.0).ok().and_then(|text| text.trim().parse().ok());
        if let Some(process) = number.and_then(Pid::from_raw) {
            // It is gone already where the page ended it.
            let _gone = kill_process(process, Signal::KILL);
        }
    }
}

#[test]
fn servers_work_as_written() {
    follow("servers.md", Some("human"));
}

#[test]
fn the_way_from_another_host_works_as_written() {
    follow("migrating.md", Some("human"));
}

#[test]
fn the_first_steps_work_as_written() {
    follow("first-steps.md", Some("human"));
}

#[test]
fn the_scripts_work_as_written() {
    follow("scripting.md", None);
}

#[test]
fn the_gateway_works_as_written() {
    follow("gateway.md", Some("human"));
}
