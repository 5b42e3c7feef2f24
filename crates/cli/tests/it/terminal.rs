//! A pseudo-terminal that runs the program, types keys and reads its output.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Command, ExitStatus},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::home::{Running, wait};

/// A pseudo-terminal and its process.
pub(crate) struct Terminal {
    child: Running,
    keyboard: File,
    // Nothing awaits under this lock.
    shown: Arc<Mutex<Vec<u8>>>,
    /// Bytes of the output that a story has waited for.
    seen: usize,
    reading: JoinHandle<()>,
}

/// Questions of a program to its terminal, and the answers: the place of the cursor (the last line), the kind of terminal.
const QUESTIONS: [(&[u8], &[u8]); 2] = [(b"\x1b[6n", b"\x1b[24;1R"), (b"\x1b[c", b"\x1b[?1;2c")];

/// Longest wait for a text.
const PATIENCE: Duration = Duration::from_secs(60);

impl Terminal {
    /// Starts a command at a new terminal of 80 columns.
    pub(crate) fn start(command: Command) -> Self {
        Self::start_with(command, 80)
    }

    /// Starts a command at a new terminal with this number of columns.
    pub(crate) fn start_with(mut command: Command, columns: u16) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        command.stdin(side()).stdout(side()).stderr(side());
        command.env_remove("TOOLWAY_OUTPUT");
        let child = Running::start(&mut command);
        drop(command);
        let keyboard = File::from(terminal);
        let (mut screen, mut answers) = (keyboard.try_clone().unwrap(), keyboard.try_clone().unwrap());
        let shown = Arc::<Mutex<Vec<u8>>>::default();
        let text = Arc::clone(&shown);
        let reading = thread::spawn(move || {
            let (mut chunk, mut unread) = ([0; 4096], Vec::new());
            // Reading fails when the process has exited.
            while let Ok(length @ 1..) = screen.read(&mut chunk) {
                unread.extend_from_slice(&chunk[..length]);
                answer_questions(&mut unread, &mut answers);
                text.lock().extend_from_slice(&chunk[..length]);
            }
        });
        Self { child, keyboard, shown, seen: 0, reading }
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

    /// Waits for `text` after what was waited for before, then types `keys`.
    pub(crate) fn answers(&mut self, text: &str, keys: &str) -> &mut Self {
        let began = Instant::now();
        loop {
            let shown = String::from_utf8_lossy(&self.shown.lock()).into_owned();
            if let Some(found) = shown[self.seen..].find(text) {
                self.seen += found + text.len();
                break;
            }
            assert!(began.elapsed() < PATIENCE, "`{text}` is not there: {}", &shown[self.seen..]);
            thread::sleep(Duration::from_millis(5));
        }
        self.types(keys);
        self
    }

    /// Sends SIGINT to the command, as Ctrl-C does at a terminal that is not in raw mode.
    pub(crate) fn interrupts(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Whether the terminal echoes and edits lines itself, as before a prompt.
    pub(crate) fn is_restored(&self) -> bool {
        let modes = tcgetattr(&self.keyboard).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits for the process to exit; returns its status and all output.
    pub(crate) fn end(mut self, patience: Duration) -> (ExitStatus, String) {
        let status = wait(&mut self.child, patience);
        self.reading.join().unwrap();
        let shown = String::from_utf8_lossy(&self.shown.lock()).into_owned();
        (status, shown)
    }
}

/// Answers what is asked in the output, and keeps what may be the beginning of a question.
fn answer_questions(unread: &mut Vec<u8>, answers: &mut File) {
    let place = |unread: &[u8], question: &[u8]| unread.windows(question.len()).position(|part| part == question);
    while let Some((end, answer)) = QUESTIONS
        .iter()
        .filter_map(|(question, answer)| Some((place(unread, question)? + question.len(), *answer)))
        .min_by_key(|(end, _)| *end)
    {
        unread.drain(..end);
        // The process may have exited.
        let _gone = answers.write_all(answer);
    }
    let rest = unread.len().saturating_sub(3);
    unread.drain(..rest);
}
