//! The guides, run as they are written: every `sh` block, and the `text` block after it is what it must say.

use std::process::Command;

use crate::home::{Home, root};

/// The home in the guides.
const ADA: &str = "/home/ada";

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
    let path = root().join("docs/guide").join(page);
    let blocks = blocks(&std::fs::read_to_string(&path).unwrap());
    assert!(blocks.iter().any(|block| block.language == "sh"), "{page} has no commands");
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "sh") {
        let mut shell = Command::new("sh");
        // The environment of the program's own stories, and what it says on one stream as a reader sees it.
        shell.args(["-euc", &format!("exec 2>&1\n{}", block.text)]).env_clear();
        for (name, value) in home.command(&[]).get_envs() {
            shell.env(name, value.unwrap());
        }
        shell.envs(output.map(|output| ("TOOLWAY_OUTPUT", output))).current_dir(home.path(""));
        let ran = shell.output().unwrap();
        let said =
            String::from_utf8(ran.stdout).unwrap().replace(home.path("").to_str().unwrap().trim_end_matches('/'), ADA);
        assert!(ran.status.success(), "{page}:{}: {said}", block.line);
        if let Some(expected) = blocks.get(index + 1).filter(|next| next.language == "text") {
            assert_eq!(without_digests(&said), without_digests(&expected.text), "{page}:{}", expected.line);
        }
    }
}

/// A digest is another one in every home.
fn without_digests(text: &str) -> String {
    let mut parts = text.split("--digest ");
    let first = parts.next().unwrap_or_default().to_owned();
    let is_hex = |letter: char| letter.is_ascii_hexdigit();
    parts.fold(first, |text, part| format!("{text}--digest …{}", part.trim_start_matches(is_hex)))
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
