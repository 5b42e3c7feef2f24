//! What a command says: data to standard output, talk to standard error.

use std::io::{self, IsTerminal, Write};

use crate::exit_code::ExitCode;

/// The two streams of a command.
pub(crate) struct Output {
    data: Box<dyn Write + Send>,
    talk: Box<dyn Write + Send>,
}

impl Output {
    /// The process's own.
    pub(crate) fn standard() -> Self {
        Self { data: Box::new(io::stdout()), talk: Box::new(io::stderr()) }
    }

    /// A line of data. Nobody may be reading any more; then there is nobody to tell.
    pub(crate) fn line(&mut self, text: &str) {
        let _gone = writeln!(self.data, "{text}").and_then(|()| self.data.flush());
    }

    /// A line of talk.
    pub(crate) fn say(&mut self, text: &str) {
        let _gone = writeln!(self.talk, "{text}").and_then(|()| self.talk.flush());
    }

    /// Says why a command failed; gives its exit code.
    pub(crate) fn failed(&mut self, code: ExitCode, why: &str) -> ExitCode {
        self.say(&format!("toolway: {why}"));
        code
    }
}

/// Whether a person is there to answer.
pub(crate) fn person_present() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}
