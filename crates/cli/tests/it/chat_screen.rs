//! A terminal with a screen, for `toolway chat`: it interprets what is written and answers questions about the cursor.

use std::{
    fs::File,
    io::{Read, Write},
    num::NonZero,
    process::{Child, Command, ExitStatus},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::home::{Home, wait};

/// A chat at a terminal. The process is killed on drop.
pub(crate) struct ChatScreen {
    child: Child,
    keyboard: File,
    // Nothing awaits under this lock.
    screen: Arc<Mutex<vt100::Parser>>,
}

/// Longest wait for a text, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(45);
/// So many that nothing scrolls away.
const ROWS: u16 = 300;
const WHERE_IS_THE_CURSOR: &[u8] = b"\x1b[6n";
const WHAT_ARE_YOU: &[u8] = b"\x1b[c";
const WHICH_KEYS: &[u8] = b"\x1b[?u";

/// What the terminal tells about keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyboard {
    /// Shift+Enter is the same as Enter.
    Plain,
    /// The kitty keyboard protocol.
    Kitty,
}

impl ChatScreen {
    /// Runs `toolway` with these words at a terminal of this width.
    pub(crate) fn start(home: &Home, words: &[&str], columns: u16) -> Self {
        Self::start_with(home, words, columns, Keyboard::Plain)
    }

    /// Runs `toolway` in a folder of the home.
    pub(crate) fn start_in(home: &Home, folder: &str, words: &[&str], columns: u16) -> Self {
        let mut command = home.command(words);
        command.current_dir(home.path(folder));
        Self::start_command(&command, columns, Keyboard::Plain)
    }

    pub(crate) fn start_with(home: &Home, words: &[&str], columns: u16, keyboard_kind: Keyboard) -> Self {
        Self::start_command(&home.command(words), columns, keyboard_kind)
    }

    fn start_command(plain: &Command, columns: u16, keyboard_kind: Keyboard) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let side = || File::options().read(true).write(true).open(&name).unwrap();
        tcsetwinsize(&terminal, Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        // The terminal controls the process, so that Ctrl-C is a signal.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(plain.get_program()).args(plain.get_args());
        command.env_clear().envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.env_remove("TOOLWAY_OUTPUT").env("TERM", "xterm-256color").env("TZ", "UTC");
        command.current_dir(plain.get_current_dir().unwrap());
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        drop(command);
        let keyboard = File::from(terminal);
        let (rows, width) = (NonZero::new(ROWS).unwrap(), NonZero::new(columns).unwrap());
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, width, 0)));
        let (output, answers) = (keyboard.try_clone().unwrap(), keyboard.try_clone().unwrap());
        let shown = Arc::clone(&screen);
        thread::spawn(move || read(output, answers, &shown, keyboard_kind));
        Self { child, keyboard, screen }
    }

    pub(crate) fn types(&mut self, keys: &str) -> &mut Self {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self
    }

    /// The screen with every run of blanks as one, so that line breaks do not matter.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().screen().contents().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The screen line by line.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.screen.lock().screen().contents().lines().map(str::to_owned).collect()
    }

    /// Waits until the screen shows a text.
    pub(crate) fn sees(&mut self, text: &str) -> &mut Self {
        self.sees_times(text, 1)
    }

    /// Waits until the screen shows a text so many times.
    pub(crate) fn sees_times(&mut self, text: &str, times: usize) -> &mut Self {
        let began = Instant::now();
        while self.text().matches(text).count() < times {
            assert!(began.elapsed() < PATIENCE, "`{text}` is not shown: {}", self.lines().join("\n"));
            thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Waits for the prompt of a new message: the `count`th one.
    pub(crate) fn prompts(&mut self, count: usize) -> &mut Self {
        let began = Instant::now();
        while self.lines().iter().filter(|line| line.starts_with('>')).count() < count {
            assert!(began.elapsed() < PATIENCE, "prompt {count} is not shown: {}", self.lines().join("\n"));
            thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Kills the process as the system does when memory runs out.
    pub(crate) fn kills(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the process to exit; returns its status and the screen.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.child, PATIENCE);
        (status, self.text())
    }
}

impl Drop for ChatScreen {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Shows output and answers questions in it, until the process ends.
fn read(mut output: File, mut answers: File, screen: &Mutex<vt100::Parser>, keyboard: Keyboard) {
    let (mut chunk, mut unread) = ([0; 4096], Vec::new());
    while let Ok(length @ 1..) = output.read(&mut chunk) {
        unread.extend_from_slice(&chunk[..length]);
        while let Some((end, question)) = next_question(&unread) {
            let answer = {
                let mut screen = screen.lock();
                screen.process(&unread[..end]);
                let (row, column) = screen.screen().cursor_position();
                match question {
                    WHERE_IS_THE_CURSOR => format!("\x1b[{};{}R", row + 1, column + 1),
                    WHAT_ARE_YOU => "\x1b[?62c".to_owned(),
                    _ if keyboard == Keyboard::Kitty => "\x1b[?0u".to_owned(),
                    _ => String::new(),
                }
            };
            unread.drain(..end);
            let _gone = answers.write_all(answer.as_bytes());
        }
        // A question may be cut.
        let keep = (0..unread.len().min(3))
            .rev()
            .find(|&back| unread[unread.len() - back - 1] == 0x1b)
            .map_or(0, |back| back + 1);
        let shown = unread.len() - keep;
        screen.lock().process(&unread[..shown]);
        unread.drain(..shown);
    }
}

/// The first question in the output, and where it ends.
fn next_question(output: &[u8]) -> Option<(usize, &'static [u8])> {
    let find = |question: &'static [u8]| {
        let at = output.windows(question.len()).position(|window| window == question)?;
        Some((at + question.len(), question))
    };
    [WHERE_IS_THE_CURSOR, WHAT_ARE_YOU, WHICH_KEYS].into_iter().filter_map(find).min_by_key(|(end, _)| *end)
}
