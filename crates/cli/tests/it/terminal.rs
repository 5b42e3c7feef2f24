//! A pseudo-terminal that runs the program, types keys and reads its output.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, ExitStatus},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::home::wait;

/// A pseudo-terminal and its process.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    // Nothing awaits under this lock.
    shown: Arc<Mutex<Vec<u8>>>,
    reading: JoinHandle<()>,
}

/// Longest wait for a text.
const PATIENCE: Duration = Duration::from_secs(20);

impl Terminal {
    /// Starts a command at a new terminal.
    pub(crate) fn start(mut command: Command) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        command.stdin(side()).stdout(side()).stderr(side());
        command.env_remove("TOOLWAY_OUTPUT");
        let child = command.spawn().unwrap();
        drop(command);
        let keyboard = File::from(terminal);
        let mut screen = keyboard.try_clone().unwrap();
        let shown = Arc::<Mutex<Vec<u8>>>::default();
        let text = Arc::clone(&shown);
        let reading = thread::spawn(move || {
            let mut chunk = [0; 4096];
            // Reading fails when the process has exited.
            while let Ok(length @ 1..) = screen.read(&mut chunk) {
                text.lock().extend_from_slice(&chunk[..length]);
            }
        });
        Self { child, keyboard, shown, reading }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the output contains `text`; returns all output.
    pub(crate) fn until(&self, text: &str) -> String {
        let began = Instant::now();
        loop {
            let shown = String::from_utf8_lossy(&self.shown.lock()).into_owned();
            if shown.contains(text) {
                return shown;
            }
            assert!(began.elapsed() < PATIENCE, "`{text}` is not there: {shown}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the process to exit; returns its status and all output.
    pub(crate) fn end(mut self, patience: Duration) -> (ExitStatus, String) {
        let status = wait(&mut self.child, patience);
        self.reading.join().unwrap();
        let shown = String::from_utf8_lossy(&self.shown.lock()).into_owned();
        (status, shown)
    }
}
