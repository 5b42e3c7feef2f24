//! Cores that do not fall asleep between two messages.
//!
//! A round trip of ten microseconds leaves a core idle for five. On a machine with nothing else to do it goes to sleep
//! then, and what is measured is how it wakes up, not what a loop costs. A process of the lowest priority, one thread for
//! each core, gives way to everything else and keeps them awake; it ends with whoever started it.

use std::{
    io::{self, Read},
    process::Stdio,
    thread,
};

use tokio::process::{Child, Command};

/// Keeps the cores awake until the handle is dropped.
#[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
pub(crate) fn keep() -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
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
