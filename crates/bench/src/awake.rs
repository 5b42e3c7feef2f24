//! Cores that do not fall asleep between two messages.
//!
//! A round trip of ten microseconds leaves a core idle for five. On a machine with nothing else to do it goes to sleep
//! then, and what is measured is how it wakes up, not what a loop costs. A process of the lowest priority, one thread for
//! each core, keeps them awake; it ends with whoever started it. For the gateway, where three processes take turns, it runs
//! only while nobody else wants to; for a loop alone that was measured to be worse: 46 µs instead of 9 for a round trip.

use std::{
    io::{self, Read},
    process::Stdio,
    thread,
};

use tokio::process::{Child, Command};

/// Keeps the cores awake until the handle is dropped.
#[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
pub(crate) fn keep() -> io::Result<Child> {
    spawned(Command::new(std::env::current_exe()?))
}

/// As [`keep`], by a process that runs only while nobody else wants to, where the system has such a thing.
#[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
pub(crate) fn keep_aside() -> io::Result<Child> {
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
