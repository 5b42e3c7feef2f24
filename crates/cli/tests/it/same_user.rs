//! A hostile stdio server that runs as the same unprivileged user as the gateway: what it can and cannot get.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::home::{Home, Ran, TOOLWAY};

/// Longest wait for a file.
const PATIENCE: Duration = Duration::from_secs(60);
/// An unprivileged user without files of its own.
const USER: &str = "65534";

/// A home of an unprivileged user, and the gateway that runs there.
struct Story {
    home: Home,
    /// The program where that user can execute it.
    program: tempfile::TempDir,
    gateway: Option<Child>,
}

impl Story {
    fn new() -> Self {
        let (home, program) = (Home::new(), tempfile::tempdir().unwrap());
        fs::copy(TOOLWAY, program.path().join("toolway")).unwrap();
        let story = Self { home, program, gateway: None };
        let hostile = story.home.write("hostile.py", include_str!("same_user/hostile.py"));
        let (home, run) = (story.home.path(""), story.home.path(".local/state/toolway/run"));
        let (toolway, neighbour) = (story.program.path().join("toolway"), story.home.path("neighbour.pid"));
        // Not our own program, which hides its environment.
        let other = format!("echo $$ > {}; exec sleep 600", neighbour.display());
        let config = json!({
            "mcpServers": {
                "evil": { "command": "/usr/bin/python3", "args": [hostile, home, run, toolway, neighbour] },
                "neighbour": { "command": "sh", "args": ["-c", other], "env": { "NEIGHBOURS_SECRET": "s3cret" } },
            },
            "policy": { "rules": [{ "match": { "server": "evil" }, "then": "ask" }] },
        });
        story.home.configure(&config.to_string());
        story.give_to_user();
        story
    }

    /// Makes the unprivileged user the owner of home and program.
    fn give_to_user(&self) {
        for folder in [self.home.path(""), self.program.path().to_owned()] {
            let owner = format!("{USER}:{USER}");
            assert!(!is_root() || Command::new("chown").args(["-R", &owner]).arg(folder).status().unwrap().success());
        }
    }

    /// A command of the unprivileged user.
    fn command(&self, words: &[&str]) -> Command {
        let program = self.program.path().join("toolway");
        let like = self.home.command(words);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                let user = ["--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all", "--no-new-privs"];
                command.args(user).arg(program);
                command
            }
            false => Command::new(program),
        };
        command.args(words).current_dir(self.home.path("")).env_clear();
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&self.command(words).output().unwrap())
    }

    /// Starts the gateway as the guides do, with its output in files.
    fn serve(&mut self) -> Value {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--verbose"]);
        let (out, log) = (self.home.path("gateway.txt"), self.home.path("gateway.log"));
        let gateway = command.stdout(File::create(&out).unwrap()).stderr(File::create(log).unwrap()).spawn().unwrap();
        self.gateway = Some(gateway);
        self.give_to_user();
        serde_json::from_str(&until(&out, |text| text.ends_with('\n'))).unwrap()
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            // It may be gone already.
            let _gone = gateway.kill();
            let _gone = gateway.wait();
        }
    }
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// Waits until a file has this content; returns it.
fn until(file: &Path, is_complete: impl Fn(&str) -> bool) -> String {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if is_complete(&text) {
            return text;
        }
        let log = fs::read_to_string(file.with_file_name("gateway.log")).unwrap_or_default();
        assert!(began.elapsed() < PATIENCE, "{}: {text}\n{log}", file.display());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_hostile_server_of_the_same_user_cannot_sign_in_or_approve_its_call() {
    let mut story = Story::new();
    let key = story.run(&["clients", "add", "editor"]).json()["key"].as_str().unwrap().to_owned();
    let said = story.serve();
    assert_eq!(said["key"], Value::Null, "{said}");
    assert!(!said["console"].as_str().unwrap().contains("token"), "{said}");
    let report = until(&story.home.path("report.json"), |text| !text.is_empty());
    let report: Value = serde_json::from_str(&report).unwrap();

    // D1: no link and no key in any file, and none in `/proc`.
    assert_eq!(report["found"], json!([]), "{report:#}");
    assert_eq!(report["hidden"], json!([true, true, true, true, true, true]), "{report:#}");
    // D2: the status is all it gets over the socket, on whatever connection.
    for reply in report["orders"].as_array().unwrap().iter().chain([&report["detached"]]) {
        assert!(reply.as_str().unwrap().contains("own_server"), "{report:#}");
    }
    assert!(report["status"].as_str().unwrap().starts_with(r#"{"done":{"servers":"#), "{report:#}");
    assert!(!report["status"].as_str().unwrap().contains("stderr"), "{report:#}");
    for kept in ["kept descriptor", "shared descriptor"] {
        let reply = report[kept].as_str().unwrap();
        assert!(reply.is_empty() || reply.starts_with("closed"), "{kept}: {report:#}");
    }
    // D3: nor do our own commands help, in a namespace without its ancestors neither.
    assert_eq!(report["raised limit"], json!(false), "{report:#}");
    for ran in report["commands"].as_array().unwrap().iter().chain([&report["namespace"]]) {
        assert!(ran["exit"] == 7 && ran["said"].as_str().unwrap().contains("started_by_server"), "{report:#}");
    }
    let own = report["gateway of its own"].as_str().unwrap();
    assert!(own.contains(r#""console":null"#) && own.contains("no console"), "{own}");
    // D4: this does not hold, and `docs/security.md` says so.
    assert_eq!(report["environ of another server"], json!(true), "{report:#}");

    // Its call waits for the user, whose own commands work.
    let (url, bearer) = (said["listening"].as_str().unwrap(), format!("Authorization: Bearer {key}"));
    let called = story.command(&["call", "--url", url, "--header", &bearer, "evil__steal"]).spawn().unwrap();
    let began = Instant::now();
    let item = loop {
        let items = story.run(&["inbox", "list"]).json();
        if let Some(item) = items.as_array().unwrap().first() {
            break item["id"].as_str().unwrap().to_owned();
        }
        assert!(began.elapsed() < PATIENCE);
    };
    story.home.write("impersonate", "");
    until(&story.home.path("impersonating"), |_| story.home.path("impersonating").exists());
    let error = story.run(&["inbox", "list"]).failed(4, "control");
    assert!(error["message"].as_str().unwrap().contains("was started by a server of Toolway"), "{error}");
    let run = story.home.path(".local/state/toolway/run");
    fs::rename(run.join("gateway.sock.real"), run.join("gateway.sock")).unwrap();
    story.run(&["inbox", "decline", &item]).ok();
    assert_eq!(called.wait_with_output().unwrap().status.code(), Some(5), "the gateway answers with an error");
}
