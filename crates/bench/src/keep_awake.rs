//! Cores that do not fall asleep between two messages.
//!
//! Where three processes take turns, a core is idle for microseconds at a time. On a machine with nothing else to do it
//! goes to sleep then, and what is measured is how it wakes up. A process that runs only while nobody else wants to, one
//! thread for each core, keeps them awake; it ends with whoever started it.

use std::{
    io::{self, Read},
    process::Stdio,
    thread,
};

use tokio::process::{Child, Command};

/// Keeps the cores awake until the handle is dropped, by a process of the lowest class there is.
#[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
pub(crate) fn keep() -> io::Result<Child> {
    let own = std::env::current_exe()?;
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(&own);
    match spawned(idle) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => spawned(Command::new(own)),
        other => other,
    }
}

fn spawned(mut command: Command) -> io::Result<Child> {
    command.arg("awake").stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true).spawn()
}

/// The process that does it.
pub(crate) fn stay() -> io::Result<()> {
    rustix::process::nice(19)?;
    for _ in 0..thread::available_parallelism()?.get() {
        thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    // Whoever started this has gone when its end of the pipe closes.
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
