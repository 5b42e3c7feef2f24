//! Keeps cores from entering a sleep state between two messages.
//!
//! When three processes take turns, a core is idle for microseconds. On an idle machine it then enters a sleep state, and
//! the wake-up time would be measured. A process of idle priority with one thread per core prevents this; it ends with its
//! parent.

use std::{
    io::{self, Read},
    process::Stdio,
    thread,
};

use tokio::process::{Child, Command};

/// Starts a process of idle priority that keeps the cores awake until the handle is dropped.
#[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
pub(crate) fn start() -> io::Result<Child> {
    let own = std::env::current_exe()?;
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(&own);
    match spawn(idle) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => spawn(Command::new(own)),
        other => other,
    }
}

fn spawn(mut command: Command) -> io::Result<Child> {
    command.arg("awake").stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true).spawn()
}

/// Entry point of that process.
pub(crate) fn run() -> io::Result<()> {
    rustix::process::nice(19)?;
    for _ in 0..thread::available_parallelism()?.get() {
        thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    // The parent has ended when its end of the pipe closes.
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
