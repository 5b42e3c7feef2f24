//! Processes of `toolway serve` and of the relays.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, ChildStdin, Command},
};

use crate::{
    callgrind::Callgrind,
    load::{Load, Target},
    memory,
    peer::{Era, PeerProcess, Way},
};

/// A running gateway.
pub(crate) struct GatewayProcess {
    process: u32,
    address: String,
    key: Option<String>,
    /// Link that signs in to its console.
    pub(crate) console: Option<String>,
    _child: Child,
    _home: tempfile::TempDir,
}

/// A running relay.
pub(crate) struct Relay {
    pub(crate) address: String,
    child: Child,
    _alive: ChildStdin,
}

/// How a process is started.
pub(crate) enum Launcher<'a> {
    Plain,
    /// Under a profiler.
    Callgrind(&'a Callgrind),
}

/// Runs a command of the program; returns its JSON output.
async fn own_command(program: &Path, home: &Path, words: &[&str]) -> io::Result<Value> {
    let output = command(program, home).args(words).args(["--output", "json"]).output().await?;
    serde_json::from_slice(&output.stdout).map_err(io::Error::other)
}

impl GatewayProcess {
    /// Starts a gateway with these servers and a temporary key.
    pub(crate) async fn start(program: &Path, servers: Value) -> io::Result<Self> {
        Self::start_with_log(program, servers, "text").await
    }

    /// As [`GatewayProcess::start`], with this log format; the log is discarded.
    pub(crate) async fn start_with_log(program: &Path, servers: Value, log: &str) -> io::Result<Self> {
        Self::start_with(program, servers, &["--log", log]).await
    }

    /// As [`GatewayProcess::start`], with these options.
    pub(crate) async fn start_with(program: &Path, servers: Value, options: &[&str]) -> io::Result<Self> {
        Self::start_configured(program, json!({ "mcpServers": servers }), options).await
    }

    /// Starts a gateway with this configuration and these options.
    pub(crate) async fn start_configured(program: &Path, content: Value, options: &[&str]) -> io::Result<Self> {
        Self::start_under(&Launcher::Plain, program, content, options).await
    }

    /// As [`GatewayProcess::start_configured`], in this way.
    pub(crate) async fn start_under(
        launcher: &Launcher<'_>,
        program: &Path,
        content: Value,
        options: &[&str],
    ) -> io::Result<Self> {
        let home = tempfile::tempdir()?;
        let config = home.path().join("toolway.json");
        fs::write(&config, content.to_string())?;
        let key =
            own_command(program, home.path(), &["clients", "add", "bench"]).await?["key"].as_str().map(str::to_owned);
        let mut child = isolated(launcher.command(program), home.path())
            .args(["serve", "--output", "json", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the gateway has no output"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        let said: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
        let url = said["listening"].as_str().unwrap_or_default();
        let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let console = match said["console"].as_str() {
            None => None,
            Some(_) => {
                let words = ["console", "--no-open", "--config", config.to_str().unwrap_or_default()];
                own_command(program, home.path(), &words).await?["console"].as_str().map(str::to_owned)
            }
        };
        let process = child.id().ok_or_else(|| io::Error::other("the gateway ended"))?;
        Ok(Self { process, address, key, console, _child: child, _home: home })
    }

    /// A load of this era on the gateway, for tools of this server.
    pub(crate) async fn load(&self, era: Era, server: &str) -> io::Result<Load> {
        let (address, key) = (self.address.clone(), self.key.clone());
        Load::new(Target { address, era, prefix: format!("{server}__"), key }).await
    }

    /// Waits until all these tools are listed; returns the time taken.
    pub(crate) async fn wait_for_tools(&self, names: &[String]) -> io::Result<Duration> {
        let begun = Instant::now();
        let mut load = self.load(Era::Modern, "").await?;
        while begun.elapsed() < Duration::from_secs(60) {
            let (_, reply) = load.first_byte("list").await?;
            if names.iter().all(|name| memchr::memmem::find(&reply, name.as_bytes()).is_some()) {
                return Ok(begun.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(io::Error::other(format!("the gateway does not list {names:?}")))
    }

    /// Memory use in bytes, including the keeper process.
    pub(crate) fn memory(&self) -> io::Result<u64> {
        memory::proportional_set_size(self.process)
    }

    pub(crate) fn process(&self) -> u32 {
        self.process
    }
}

impl Relay {
    /// Starts a relay to an HTTP server.
    pub(crate) async fn over_http(server: &PeerProcess) -> io::Result<Self> {
        Self::start_under(&Launcher::Plain, &["relay", "http", &server.address]).await
    }

    /// Starts a relay to its own server process.
    pub(crate) async fn over_pipes(era: Era) -> io::Result<Self> {
        Self::start_under(&Launcher::Plain, &["relay", "stdio", era.word()]).await
    }

    /// Starts a relay with these arguments.
    pub(crate) async fn start_under(launcher: &Launcher<'_>, arguments: &[&str]) -> io::Result<Self> {
        let mut command = launcher.command(&std::env::current_exe()?);
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let (Some(alive), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the relay has no pipes"));
        };
        let mut address = String::new();
        BufReader::new(stdout).read_line(&mut address).await?;
        Ok(Self { address: address.trim().to_owned(), child, _alive: alive })
    }

    pub(crate) fn process(&self) -> Option<u32> {
        self.child.id()
    }

    /// A load of this era on the relay.
    pub(crate) async fn load(&self, era: Era) -> io::Result<Load> {
        let address = self.address.clone();
        Load::new(Target { address, era, prefix: String::new(), key: None }).await
    }
}

/// The entry of a server in a configuration.
pub(crate) fn entry(way: Way, server: Option<&PeerProcess>, tools: usize) -> io::Result<Value> {
    match server {
        Some(server) if way.is_http() => Ok(json!({ "type": "http", "url": format!("http://{}/mcp", server.address) })),
        _ => Ok(json!({ "command": std::env::current_exe()?, "args": way.role(tools) })),
    }
}

/// Path of `toolway`: built first if cargo runs this, else next to this executable.
#[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs, and is no part of one")]
pub(crate) async fn program() -> io::Result<PathBuf> {
    if let Some(cargo) = std::env::var_os("CARGO") {
        let built = Command::new(cargo).args(["build", "--quiet", "--release", "-p", "toolway-cli"]).status().await?;
        if !built.success() {
            return Err(io::Error::other("building `toolway` failed"));
        }
    }
    let program = std::env::current_exe()?.with_file_name("toolway");
    if program.exists() {
        Ok(program)
    } else {
        Err(io::Error::other(format!("`{}` does not exist", program.display())))
    }
}

impl Launcher<'_> {
    #[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
    fn command(&self, program: &Path) -> Command {
        match self {
            Self::Plain => Command::new(program),
            Self::Callgrind(callgrind) => callgrind.command(program.as_os_str()),
        }
    }
}

/// A command of the program with an empty home directory.
pub(crate) fn command(program: &Path, home: &Path) -> Command {
    isolated(Launcher::Plain.command(program), home)
}

/// The command with an empty home directory and no environment, so that no configuration or proxy of the user applies.
fn isolated(mut command: Command, home: &Path) -> Command {
    command.env_clear().env("HOME", home).current_dir(home);
    for name in ["CONFIG", "STATE", "CACHE", "DATA"] {
        command.env(format!("XDG_{name}_HOME"), home.join(name.to_lowercase()));
    }
    command
}
