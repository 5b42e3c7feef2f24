//! The fixture server of testkit as a process.

use std::{path::PathBuf, time::Duration};

use toolway_host::connection::{Program, ServerAddress, WantedServer, Way};
use toolway_testkit::test_host::name;

/// The fixture server as a wanted server.
pub(crate) fn process(server: &str, words: &[&str]) -> WantedServer {
    WantedServer::new(name(server), Way::Address(ServerAddress::Process(program(server, words))))
}

pub(crate) fn program(server: &str, words: &[&str]) -> Program {
    let arguments = [server].iter().chain(words).map(|word| (*word).to_owned()).collect();
    Program { arguments, ..Program::new(path().to_str().unwrap()) }
}

/// A server at a URL.
pub(crate) fn address(server: &str, url: &str) -> WantedServer {
    WantedServer::new(name(server), Way::Address(ServerAddress::http(url.parse().unwrap())))
}

/// Path of the fixture server, which is built with the tests.
pub(crate) fn path() -> PathBuf {
    let story = std::env::current_exe().unwrap();
    let path = story.ancestors().nth(2).unwrap().join("examples/stdio_fixture");
    assert!(path.exists(), "{} is missing: `cargo build --examples` builds it", path.display());
    path
}

/// Whether a process, or any of its threads, is running. A zombie is not.
pub(crate) fn runs(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        let state = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    })
}

/// Waits until a process has ended.
pub(crate) async fn gone(pid: u32) {
    while runs(pid) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Kills a process.
pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
