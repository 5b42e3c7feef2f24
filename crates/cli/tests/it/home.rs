//! A temporary home directory, and commands that run in it.

use std::{
    io::Write,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::terminal::Terminal;

/// Temporary home directory.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

/// Result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) talk: String,
}

/// The program under test.
pub(crate) const TOOLWAY: &str = env!("CARGO_BIN_EXE_toolway");

/// The sample server as a command line.
pub(crate) fn sample() -> String {
    format!("{TOOLWAY} sample")
}

/// An odd server as a command line. Tests are built into `deps`, programs next to it.
pub(crate) fn odd(what: &str) -> String {
    let here = std::env::current_exe().unwrap();
    let path = here.ancestors().nth(2).unwrap().join("odd-server");
    assert!(path.exists(), "{} is missing: run ./test, which builds it", path.display());
    format!("{} {what}", path.display())
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

impl Home {
    /// An empty home.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A home with the sample server, and the turns of a scripted model in `script.json`.
    pub(crate) fn with_script(turns: &Value) -> Self {
        let home = Self::new();
        let server = json!({ "command": TOOLWAY, "args": ["sample"] });
        home.configure(&json!({ "mcpServers": { "sample": server } }).to_string());
        home.write("script.json", &json!({ "turns": turns }).to_string());
        home
    }

    /// A home with the sample server configured twice.
    pub(crate) fn with_sample() -> Self {
        let home = Self::new();
        home.configure(&format!(
            r#"{{
                // the way READMEs show it
                "mcpServers": {{
                    "sample": {{ "command": "{TOOLWAY}", "args": ["sample"] }},
                    "Old Sample": {{ "command": "{TOOLWAY}", "args": ["sample", "--era", "legacy"] }},
                }}
            }}"#
        ));
        home
    }

    pub(crate) fn configure(&self, text: &str) {
        self.write(".config/toolway/toolway.json", text);
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a directory in the home.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A command as a program runs it, with JSON output; at a terminal the output is text.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let bin = root().join(".interop/node_modules/.bin");
        let beside = Path::new(TOOLWAY).parent().unwrap();
        let paths = [beside, bin.as_path(), Path::new("/usr/bin"), Path::new("/bin")];
        let mut command = Command::new(TOOLWAY);
        command
            .args(words)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("LANG", "C.UTF-8")
            .env("TOOLWAY_OUTPUT", "json")
            // No model of the machine that runs the tests.
            .env("OLLAMA_HOST", "127.0.0.1:1")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program and waits for it.
    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&self.command(words).output().unwrap())
    }

    /// Like [`Self::run`], with standard input.
    pub(crate) fn run_with_input(&self, words: &[&str], input: &str) -> Ran {
        self.run_with(words, &[], input)
    }

    /// Like [`Self::run`], with environment variables and standard input.
    pub(crate) fn run_with(&self, words: &[&str], variables: &[(&str, &str)], input: &str) -> Ran {
        let mut command = self.command(words);
        command.envs(variables.iter().copied());
        let mut child = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.output()
    }

    /// Runs the program on a terminal and types these keys; returns all terminal output.
    pub(crate) fn run_at_terminal(&self, command: Command, keys: &str) -> (ExitStatus, String) {
        let mut terminal = Terminal::start(command);
        terminal.types(keys);
        terminal.end(Duration::from_secs(20))
    }
}

/// A process of a story. It ends with the story, also with one that fails.
pub(crate) struct Running {
    /// Absent once its output was taken.
    child: Option<Child>,
}

impl Running {
    /// Starts a process.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self { child: Some(command.spawn().unwrap()) }
    }

    /// Waits for its end and returns what it wrote.
    pub(crate) fn output(mut self) -> Ran {
        Ran::of(&self.child.take().unwrap().wait_with_output().unwrap())
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.child.as_ref().unwrap()
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.child.as_mut().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ended = child.kill();
            let _ended = child.wait();
        }
    }
}

/// Waits for a process; panics if it does not exit in time.
pub(crate) fn wait(child: &mut Child, patience: Duration) -> ExitStatus {
    let began = std::time::Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if patience < began.elapsed() {
            child.kill().unwrap();
            panic!("still running after {patience:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

impl Ran {
    pub(crate) fn of(output: &std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            bytes: output.stdout.clone(),
            talk: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts success; returns standard output.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        &self.out
    }

    /// Like [`Self::ok`], parsed as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.ok()).unwrap()
    }

    /// Asserts the exit code and error code; returns the error object on the last line of standard error.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, word: &str) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        let last = self.talk.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{self:?}"));
        assert_eq!(error["error"]["exit"], code, "{error}");
        assert_eq!(error["error"]["code"], word, "{error}");
        error["error"].clone()
    }
}
