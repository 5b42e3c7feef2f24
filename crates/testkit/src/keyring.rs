//! A D-Bus session with GNOME Keyring in a directory of its own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test helpers")]

use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use toolway_config::Environment;

/// A session that ends when it is dropped.
#[derive(Debug)]
pub struct KeyringSession {
    bus: Child,
    /// Process id of the keyring; the bus ends with it.
    keyring: String,
    environment: Environment,
    _output: BufReader<ChildStdout>,
}

const PASSWORD: &str = "the password of the session";
/// Prints the process id and the bus address, then becomes the keyring.
const SCRIPT: &str = r#"echo "$$ $DBUS_SESSION_BUS_ADDRESS"
exec gnome-keyring-daemon --foreground --components=secrets --control-directory="$XDG_RUNTIME_DIR/keyring" "$@""#;

// === impl Session ===

impl KeyringSession {
    /// A session with an unlocked keyring, as after a desktop login.
    pub fn open(home: &Path) -> Self {
        Self::start(home, &["--unlock"])
    }

    /// A session with a locked keyring, as after a login without a password.
    pub fn locked(home: &Path) -> Self {
        Self::start(home, &[])
    }

    fn start(home: &Path, options: &[&str]) -> Self {
        for folder in ["run", "data"] {
            toolway_config::ownership::create_private_folder(&home.join(folder)).unwrap();
        }
        let mut command = Command::new("dbus-run-session");
        command.args(["--", "sh", "-c", SCRIPT, "keyring"]).args(options);
        command.env_clear().envs(environment(home)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut bus = command.spawn().expect("dbus-run-session is missing; `./test` installs it");
        bus.stdin.take().unwrap().write_all(PASSWORD.as_bytes()).unwrap();
        let mut output = BufReader::new(bus.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let (keyring, address) = line.trim().split_once(' ').expect("no bus");
        let mut environment = environment(home);
        environment.insert("DBUS_SESSION_BUS_ADDRESS".into(), address.into());
        let session = Self { bus, keyring: keyring.to_owned(), environment, _output: output };
        session.wait();
        session
    }

    /// Waits until the keyring is on the bus. A request to it would start a second one.
    fn wait(&self) {
        let began = Instant::now();
        let question = ["--session", "--print-reply=literal", "--dest=org.freedesktop.DBus", "/org/freedesktop/DBus"];
        let name = ["org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.secrets"];
        while !self.run("dbus-send", &[&question[..], &name].concat()).contains("true") {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "gnome-keyring-daemon is missing or does not start; `./test` installs it"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Environment variables of this session.
    pub fn environment(&self) -> Environment {
        self.environment.clone()
    }

    /// Runs a program in the session and returns its output.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        let ended = command.args(arguments).env_clear().envs(&self.environment).stdin(Stdio::null()).output();
        let ended = ended.unwrap_or_else(|error| panic!("{program}: {error}; `./test` installs it"));
        String::from_utf8(ended.stdout).unwrap()
    }

    /// Stores a secret of another program.
    pub fn keep(&self, label: &str, attributes: &[&str], secret: &str) {
        let mut command = Command::new("secret-tool");
        command.args(["store", "--label", label]).args(attributes).env_clear().envs(&self.environment);
        let mut tool = command.stdin(Stdio::piped()).spawn().expect("secret-tool is missing; `./test` installs it");
        tool.stdin.take().unwrap().write_all(secret.as_bytes()).unwrap();
        assert!(tool.wait().unwrap().success());
    }
}

impl Drop for KeyringSession {
    fn drop(&mut self) {
        drop(Command::new("kill").arg(&self.keyring).status());
        drop(self.bus.wait());
    }
}

/// Excludes the session of the machine, and sets a home for the files of the keyring.
fn environment(home: &Path) -> Environment {
    let folders =
        [("HOME", "home"), ("XDG_RUNTIME_DIR", "run"), ("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state")];
    let folders = folders.map(|(name, folder)| (OsString::from(name), home.join(folder).into_os_string()));
    let path = std::env::vars_os().find(|(name, _)| name == "PATH");
    folders.into_iter().chain(path).collect()
}
