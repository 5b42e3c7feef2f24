//! What a command says: data to standard output, talk to standard error.
//!
//! Everything that goes to a terminal passes [`clean`]; the only control sequences that get there are ours.

pub(crate) mod clean;
pub(crate) mod content;
pub(crate) mod progress;
pub(crate) mod spinner;
mod table;

use std::io::{self, IsTerminal, Write};

use toolway_wire::json::{Raw, one_line};

use crate::{exit_code::ExitCode, report::Report};

/// In which form data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people; the default on a terminal
    Human,
    /// The protocol's own objects, byte for byte; the default elsewhere
    Json,
    /// One object per line: each item of a list, each happening of a call, then the result
    Ndjson,
    /// Only the content: text and bytes as they are, names of a list one per line
    Raw,
}

/// The two streams of a command.
pub(crate) struct Output {
    data: Box<dyn Write + Send>,
    talk: Box<dyn Write + Send>,
    pub(crate) format: Format,
    data_is_terminal: bool,
    talk_is_terminal: bool,
    colour: Colour,
    /// A line of progress stands on standard error, without an end.
    under_way: bool,
}

/// Whether words may be bold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Yes,
    No,
}

impl Output {
    /// The process's own; `format` as it was asked for.
    pub(crate) fn standard(format: Option<Format>, colour: Option<Colour>) -> Self {
        let data_is_terminal = io::stdout().is_terminal();
        let usual = if data_is_terminal { Format::Human } else { Format::Json };
        let colour = colour.unwrap_or(if data_is_terminal { Colour::Yes } else { Colour::No });
        Self {
            data: Box::new(io::stdout()),
            talk: Box::new(io::stderr()),
            format: format.unwrap_or(usual),
            data_is_terminal,
            talk_is_terminal: io::stderr().is_terminal(),
            colour,
            under_way: false,
        }
    }

    /// Lines of data for people. Nobody may be reading any more; then there is nobody to tell.
    pub(crate) fn line(&mut self, text: &str) {
        self.still();
        let _gone = writeln!(self.data, "{}", clean::text(text)).and_then(|()| self.data.flush());
    }

    /// The same, with the first words set off.
    pub(crate) fn entry(&mut self, name: &str, rest: &str) {
        let (name, rest) = (clean::flat(name), clean::flat(rest));
        let name = if self.colour == Colour::Yes { format!("\u{1b}[1m{name}\u{1b}[0m") } else { name };
        self.still();
        let _gone = writeln!(self.data, "{name}{rest}").and_then(|()| self.data.flush());
    }

    /// One JSON value, byte for byte, except that a terminal is not shown what it would act on.
    pub(crate) fn json(&mut self, value: &Raw) {
        let value = match self.format {
            Format::Ndjson => one_line(value.bytes().clone()),
            _ => value.bytes().clone(),
        };
        self.still();
        let written = if self.data_is_terminal {
            writeln!(self.data, "{}", clean::json(&String::from_utf8_lossy(&value)))
        } else {
            self.data.write_all(&value).and_then(|()| self.data.write_all(b"\n"))
        };
        let _gone = written.and_then(|()| self.data.flush());
    }

    /// Content as it is; on a terminal only text, and cleaned.
    pub(crate) fn content(&mut self, bytes: &[u8]) {
        self.still();
        let written = if self.data_is_terminal {
            writeln!(self.data, "{}", clean::text(&String::from_utf8_lossy(bytes)))
        } else {
            self.data.write_all(bytes)
        };
        let _gone = written.and_then(|()| self.data.flush());
    }

    /// Lines of talk.
    pub(crate) fn say(&mut self, text: &str) {
        self.still();
        let _gone = writeln!(self.talk, "{}", clean::text(text)).and_then(|()| self.talk.flush());
    }

    /// Shows how far a call is, on a line that the next one replaces; nowhere but on a terminal.
    pub(crate) fn progress(&mut self, line: &str) {
        if self.talk_is_terminal {
            self.under_way = true;
            let _gone = write!(self.talk, "\r\u{1b}[K{}", clean::line(line, 78)).and_then(|()| self.talk.flush());
        }
    }

    /// Says why a command failed, in the form its output has; gives its exit code.
    pub(crate) fn report(&mut self, report: &Report) -> ExitCode {
        match self.format {
            Format::Human | Format::Raw => self.say(&report.for_people()),
            Format::Json | Format::Ndjson => self.say(&clean::json(&report.for_programs())),
        }
        report.exit
    }

    /// The same, where there is only a sentence.
    pub(crate) fn failed(&mut self, code: ExitCode, why: &str) -> ExitCode {
        self.report(&Report::new(code, "failed", why))
    }

    /// Takes a line of progress away before anything else is said.
    fn still(&mut self) {
        if std::mem::take(&mut self.under_way) {
            let _gone = write!(self.talk, "\r\u{1b}[K").and_then(|()| self.talk.flush());
        }
    }
}

/// Whether a person is there to answer.
pub(crate) fn person_present() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}
