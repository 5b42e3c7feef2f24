//! Runs the guides: every `sh` block, compared with the `text` block after it.

use std::{path::PathBuf, process::Command, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use toolway_testkit::postgres::TestDatabase;

use crate::{
    home::{Home, root},
    terminal::Terminal,
};

/// Home directory in the guides.
const ADA: &str = "/home/ada";
/// Gateway port in the guides.
const PORT: &str = "7717";

/// What the blocks of a page find, besides an empty home.
#[derive(Clone, Copy)]
struct Setting<'a> {
    /// Ports that the page uses; each run has others.
    ports: &'a [&'a str],
    variables: &'a [(&'a str, &'a str)],
    /// Files with the ids of processes in the background.
    processes: &'a [&'a str],
}

const ONE_GATEWAY: Setting<'_> = Setting { ports: &[PORT], variables: &[], processes: &["gateway.pid"] };

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

/// Where a reader pastes the commands.
#[derive(Clone, Copy)]
enum Shell {
    /// Both streams in one pipe; the output is compared with the page.
    Pipe,
    /// A terminal, whose output has colours and progress lines.
    Terminal,
}

/// Longest time of one block.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs all blocks of a page in one home.
fn follow(page: &str, at: Shell) {
    follow_in(page, at, ONE_GATEWAY);
}

fn follow_in(page: &str, at: Shell, setting: Setting<'_>) {
    let home = Home::new();
    let _background: Vec<_> = setting.processes.iter().map(|file| Background(home.path(file))).collect();
    let ports = free_ports(setting.ports.len());
    let path = root().join("docs/guide").join(page);
    let blocks = blocks(&std::fs::read_to_string(&path).unwrap());
    assert!(blocks.iter().any(|block| block.language == "sh"), "{page} has no commands");
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "sh") {
        // The environment of the other tests, and both streams in one, as a reader sees them.
        let script = format!("exec 2>&1\n{}", replace_each(&block.text, setting.ports, &ports));
        let mut shell = Command::new("timeout");
        shell.args(["--foreground", &PATIENCE.as_secs().to_string(), "sh", "-euc", &script]).env_clear();
        for (name, value) in home.command(&[]).get_envs() {
            shell.env(name, value.unwrap());
        }
        shell.envs(setting.variables.iter().copied());
        shell.env_remove("TOOLWAY_OUTPUT").current_dir(home.path(""));
        let (status, said) = match at {
            Shell::Terminal => Terminal::start(shell).end(2 * PATIENCE),
            Shell::Pipe => {
                let ran = shell.output().unwrap();
                (ran.status, String::from_utf8(ran.stdout).unwrap())
            }
        };
        let said = said.replace(home.path("").to_str().unwrap().trim_end_matches('/'), ADA);
        let said = replace_each(&said, &ports, setting.ports);
        assert!(status.success(), "{page}:{}: {said}", block.line);
        if matches!(at, Shell::Terminal) {
            continue;
        }
        if let Some(expected) = blocks.get(index + 1).filter(|next| next.language == "text") {
            assert_eq!(without_chance(&said), without_chance(&expected.text), "{page}:{}", expected.line);
        }
    }
}

/// Removes digests and PIDs, which differ in every run.
fn without_chance(text: &str) -> String {
    let text = without(text, "--digest ", |letter| letter.is_ascii_hexdigit());
    without(&text, "(PID ", |letter| letter.is_ascii_digit())
}

fn without(text: &str, before: &str, is_chance: fn(char) -> bool) -> String {
    let mut parts = text.split(before);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{text}{before}…{}", part.trim_start_matches(is_chance)))
}

/// The text with each of some words replaced by the one at its place in others.
fn replace_each(text: &str, words: &[impl AsRef<str>], others: &[impl AsRef<str>]) -> String {
    let pairs = words.iter().zip(others);
    pairs.fold(text.to_owned(), |text, (word, other)| text.replace(word.as_ref(), other.as_ref()))
}

/// Unused ports.
fn free_ports(count: usize) -> Vec<String> {
    let bind = |_| std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // All at once, so that each is another one.
    let listeners: Vec<_> = (0..count).map(bind).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port().to_string()).collect()
}

/// Kills the background process of a page on drop.
struct Background(PathBuf);

impl Drop for Background {
    fn drop(&mut self) {
        let number = std::fs::read_to_string(&self.0).ok().and_then(|text| text.trim().parse().ok());
        if let Some(process) = number.and_then(Pid::from_raw) {
            // The page may have stopped it already.
            let _gone = kill_process(process, Signal::KILL);
        }
    }
}

#[test]
fn servers_guide_works() {
    follow("servers.md", Shell::Pipe);
}

#[test]
fn tasks_guide_works() {
    follow("tasks.md", Shell::Pipe);
}

#[test]
fn migration_guide_works() {
    follow("migrating.md", Shell::Pipe);
}

#[test]
fn first_steps_guide_works() {
    follow("first-steps.md", Shell::Pipe);
}

#[test]
fn scripting_guide_works() {
    follow("scripting.md", Shell::Pipe);
}

#[test]
fn team_guide_works() {
    follow("team.md", Shell::Pipe);
}

#[test]
fn gateway_guide_works_in_a_pipe_and_at_a_terminal() {
    follow("gateway.md", Shell::Pipe);
    follow("gateway.md", Shell::Terminal);
}

#[test]
fn policy_guide_works() {
    follow("policy.md", Shell::Pipe);
}

#[test]
fn trust_guide_works() {
    follow("trust.md", Shell::Pipe);
}

#[test]
fn models_guide_works() {
    follow("models.md", Shell::Pipe);
}

#[test]
fn client_capabilities_guide_works() {
    follow("client-capabilities.md", Shell::Pipe);
}

#[test]
fn approvals_guide_works() {
    follow("approvals.md", Shell::Pipe);
}

#[test]
fn commands_of_the_readme_work() {
    follow("../../README.md", Shell::Pipe);
}

#[test]
fn chat_guide_works() {
    follow("chat.md", Shell::Pipe);
}

#[test]
fn assistants_guide_works() {
    follow("assistants.md", Shell::Pipe);
}

#[test]
fn context_guide_works() {
    follow("context.md", Shell::Pipe);
}

#[test]
fn run_guide_works() {
    follow("run.md", Shell::Pipe);
}

#[test]
fn outcomes_guide_works() {
    follow("outcomes.md", Shell::Pipe);
}

#[test]
fn audit_guide_works() {
    follow("audit.md", Shell::Pipe);
}

#[test]
fn troubleshooting_guide_works() {
    follow("troubleshooting.md", Shell::Pipe);
}

#[test]
fn replicas_guide_works() {
    let database = TestDatabase::new();
    let url = database.url();
    let setting = Setting {
        ports: &[PORT, "7719", "7727", "7729", "7700"],
        variables: &[("TOOLWAY_STORE_URL", url.expose())],
        processes: &["first.pid", "second.pid", "haproxy.pid"],
    };
    follow_in("replicas.md", Shell::Pipe, setting);
}

#[test]
fn best_practices_guide_works() {
    follow("best-practices.md", Shell::Pipe);
}
