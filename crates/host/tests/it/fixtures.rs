//! testkit's fixture server as a real process, and a look at whether it runs.

use std::{path::PathBuf, time::Duration};

use toolway_host::connection::{Program, ServerAddress, WantedServer, Way};
use toolway_testkit::test_host::name;

/// The fixture as a process.
pub(crate) fn process(server: &str, words: &[&str]) -> WantedServer {
    WantedServer::new(name(server), Way::Address(ServerAddress::Process(program(server, words))))
}

pub(crate) fn program(server: &str, words: &[&str]) -> Program {
    let arguments = [server].iter().chain(words).map(|word| (*word).to_owned()).collect();
    Program { arguments, ..Program::new(path().to_str().unwrap()) }
}

/// An address.
pub(crate) fn address(server: &str, url: &str) -> WantedServer {
    WantedServer::new(name(server), Way::Address(ServerAddress::http(url.parse().unwrap())))
}

/// Where the fixture is; it is built with the tests.
pub(crate) fn path() -> PathBuf {
    let story = std::env::current_exe().unwrap();
    let path = story.ancestors().nth(2).unwrap().join("examples/stdio_fixture");
    assert!(path.exists(), "{} is missing: `cargo build --examples` builds it", path.display());
    path
}

/// Whether a process runs, or any thread of it that still holds its streams. One that nobody has looked after yet does
/// not.
pub(crate) fn runs(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    })
}

/// Waits until it does not.
pub(crate) async fn gone(pid: u32) {
    while runs(pid) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Kills it, as a deployment does.
pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
