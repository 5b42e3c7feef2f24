//! Output of a command: results to standard output, notices and errors to standard error.
//!
//! Everything printed to a terminal passes [`clean`], so that the only control sequences are ours.

pub(crate) mod clean;
pub(crate) mod content;
mod listing;
pub(crate) mod progress;
pub(crate) mod spinner;
pub(crate) mod state;
mod table;

pub(crate) use listing::Listing;

use std::io::{self, IsTerminal, Write};

use toolway_host::keeper::Descent;
use toolway_wire::json::{Raw, one_line};

use crate::{clock::Clock, exit_code::ExitCode, report::Report, terminal::text};

/// Output format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Readable text, the default; also `text`
    #[value(alias = "text")]
    Human,
    /// The protocol objects, byte for byte
    Json,
    /// One object per line: each item of a list, each event of a call, then the result; also `stream-json`
    #[value(alias = "stream-json")]
    Ndjson,
    /// Content only: text and bytes unchanged, names of a list one per line
    Raw,
}

/// The two streams of a command.
pub(crate) struct Output {
    stdout: Box<dyn Write + Send>,
    stderr: Box<dyn Write + Send>,
    pub(crate) format: Format,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    colour: Colour,
    /// Columns of the terminal; `None` if standard output is not one.
    width: Option<usize>,
    /// Whether an unterminated progress line is on standard error.
    progress_shown: bool,
}

/// Whether to use bold text and colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Yes,
    No,
}

impl Output {
    /// Output to the process's standard streams; without a `format` as text, without a `colour` for the terminal.
    pub(crate) fn standard(format: Option<Format>, colour: Option<Colour>) -> Self {
        let stdout_is_terminal = io::stdout().is_terminal();
        let colour = colour.unwrap_or(if stdout_is_terminal { Colour::Yes } else { Colour::No });
        Self {
            stdout: Box::new(io::stdout()),
            stderr: Box::new(io::stderr()),
            format: format.unwrap_or(Format::Human),
            stdout_is_terminal,
            stderr_is_terminal: io::stderr().is_terminal(),
            colour,
            width: stdout_is_terminal.then(|| terminal_width(io::stdout())),
            progress_shown: false,
        }
    }

    /// Whether results go to a terminal, so that only the user sees them.
    pub(crate) fn shows_results_at_terminal(&self) -> bool {
        self.stdout_is_terminal
    }

    /// Whether notices go to a terminal, so that only the user sees them.
    pub(crate) fn shows_notices_at_terminal(&self) -> bool {
        self.stderr_is_terminal
    }

    /// How times are shown.
    pub(crate) fn clock(&self) -> Clock {
        if self.stdout_is_terminal { Clock::local() } else { Clock::exact() }
    }

    /// Whether to use bold text and colours.
    pub(crate) fn colour(&self) -> Colour {
        self.colour
    }

    /// Prints lines of text to standard output. Write errors are ignored, because the reader may be gone.
    pub(crate) fn line(&mut self, text: &str) {
        self.clear_progress();
        let _gone = writeln!(self.stdout, "{}", clean::text(text)).and_then(|()| self.stdout.flush());
    }

    /// Like [`Self::line`], with `name` in bold.
    pub(crate) fn entry(&mut self, name: &str, rest: &str) {
        let name = clean::flat(name);
        let rest = self.folded_after(text::columns(&name), &clean::flat(rest));
        let name = if self.colour == Colour::Yes { format!("\u{1b}[1m{name}\u{1b}[0m") } else { name };
        self.clear_progress();
        let _gone = writeln!(self.stdout, "{name}{rest}").and_then(|()| self.stdout.flush());
    }

    /// Prints a line in bold, broken between words.
    pub(crate) fn heading(&mut self, text: &str) {
        let text = self.folded_after(0, &clean::flat(text));
        let text = if self.colour == Colour::Yes { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text };
        self.print_clean(&text);
    }

    /// Like [`Self::entry`]; what a tool may do stands last in `rest` and is painted by its meaning.
    pub(crate) fn tool_entry(&mut self, name: &str, rest: &str) {
        let name = clean::flat(name);
        let mut rest = self.folded_after(text::columns(&name), &clean::flat(rest));
        if self.colour == Colour::Yes {
            // The name of a tool may say the same: ours is the last one.
            for (word, code) in [("destructive", "1;31"), ("read-only", "2")] {
                if let Some(at) = rest.rfind(word).filter(|_| rest.ends_with(']')) {
                    rest.replace_range(at..at + word.len(), &format!("\u{1b}[{code}m{word}\u{1b}[0m"));
                }
            }
        }
        let name = if self.colour == Colour::Yes { format!("\u{1b}[1m{name}\u{1b}[0m") } else { name };
        self.print_clean(&format!("{name}{rest}"));
    }

    /// Prints text with an indent before each line; on a terminal, long lines are broken at spaces.
    pub(crate) fn print_wrapped(&mut self, indent: &str, text: &str) {
        let text = clean::text(text);
        let lines: Vec<String> = text.lines().flat_map(|line| self.broken(line, indent, indent)).collect();
        self.line(&lines.join("\n"));
    }

    /// Like [`Self::entry`]; on a terminal, a long line is continued with this indent.
    pub(crate) fn print_wrapped_entry(&mut self, name: &str, rest: &str, indent: &str) {
        let first = " ".repeat(text::columns(&clean::flat(name)));
        let lines = self.broken(&clean::flat(rest), &first, indent);
        let (head, more) = lines.split_first().map_or(("", &[][..]), |(head, more)| (head.as_str(), more));
        self.entry(name, head.strip_prefix(&first).unwrap_or_default());
        if !more.is_empty() {
            self.line(&more.join("\n"));
        }
    }

    /// A line with a prefix, broken if standard output is a terminal.
    fn broken(&self, line: &str, first: &str, rest: &str) -> Vec<String> {
        match self.width {
            Some(width) => text::wrap(line, width, first, rest),
            None => vec![format!("{first}{line}")],
        }
    }

    /// Like [`Self::entry`], with a state between name and rest that is coloured by its meaning. `columns` is the width of
    /// the state.
    pub(crate) fn state_entry(&mut self, name: &str, state: &str, columns: usize, rest: &str) {
        let (name, state, rest) = (clean::flat(name), clean::flat(state), clean::flat(rest));
        let padding = " ".repeat(columns.saturating_sub(state.chars().count()));
        let used = text::columns(&format!("{name}  {state}{padding}"));
        let rest = self.folded_after(used, &format!("  {rest}"));
        let line = match self.colour {
            Colour::Yes => format!("\u{1b}[1m{name}\u{1b}[0m  {}{padding}{rest}", state::painted(&state)),
            Colour::No => format!("{name}  {state}{padding}{rest}"),
        };
        self.clear_progress();
        let _gone = writeln!(self.stdout, "{}", line.trim_end()).and_then(|()| self.stdout.flush());
    }

    /// Prints lines; on a terminal, a long one is continued with an indent, and long words stay whole.
    pub(crate) fn field(&mut self, text: &str) {
        let text = clean::text(text);
        let lines: Vec<String> = text.split('\n').map(|line| self.folded_after(0, line)).collect();
        self.print_clean(&lines.join("\n"));
    }

    /// Text after `used` columns, broken between words if standard output is a terminal.
    fn folded_after(&self, used: usize, text: &str) -> String {
        let Some(width) = self.width else { return text.to_owned() };
        let before = " ".repeat(used);
        let folded = text::fold(&format!("{before}{text}"), width, "      ");
        folded.strip_prefix(&before).map(str::to_owned).unwrap_or(folded)
    }

    /// Prints a line that is clean already, and may have our own control sequences.
    fn print_clean(&mut self, line: &str) {
        self.clear_progress();
        let _gone = writeln!(self.stdout, "{line}").and_then(|()| self.stdout.flush());
    }

    /// The first line of a text, cut to what a line of the terminal has left after `used` columns.
    pub(crate) fn fit(&self, used: usize, text: &str) -> String {
        let room = self.width.map_or(LONGEST_LINE, |width| width.saturating_sub(used).max(SHORTEST_LINE));
        clean::line(text.trim().lines().next().unwrap_or_default(), room)
    }

    /// Prints one JSON value byte for byte; on a terminal, control characters are escaped.
    pub(crate) fn json(&mut self, value: &Raw) {
        let value = match self.format {
            Format::Ndjson => one_line(value.bytes().clone()),
            _ => value.bytes().clone(),
        };
        self.clear_progress();
        let written = if self.stdout_is_terminal {
            writeln!(self.stdout, "{}", clean::json(&String::from_utf8_lossy(&value)))
        } else {
            self.stdout.write_all(&value).and_then(|()| self.stdout.write_all(b"\n"))
        };
        let _gone = written.and_then(|()| self.stdout.flush());
    }

    /// Prints content unchanged; on a terminal, hidden characters are escaped.
    pub(crate) fn content(&mut self, bytes: &[u8]) {
        self.clear_progress();
        let written = if self.stdout_is_terminal {
            writeln!(self.stdout, "{}", clean::content(&String::from_utf8_lossy(bytes), self.colour))
        } else {
            self.stdout.write_all(bytes)
        };
        let _gone = written.and_then(|()| self.stdout.flush());
    }

    /// Prints lines to standard error. On a terminal, our sentences are broken between words; what may be copied, such as a
    /// command or a hint, is not.
    pub(crate) fn notice(&mut self, text: &str) {
        self.clear_progress();
        let text = clean::text(text);
        let is_sentence = |line: &str| self.stderr_is_terminal && line.starts_with("toolway: ");
        let lines = text.split('\n').map(|line| {
            if is_sentence(line) { text::fold(line, terminal_width(io::stderr()), "  ") } else { line.to_owned() }
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        let _gone = writeln!(self.stderr, "{text}").and_then(|()| self.stderr.flush());
    }

    /// Prints progress on a line that the next output replaces; only on a terminal.
    pub(crate) fn progress(&mut self, line: &str) {
        if self.stderr_is_terminal {
            self.progress_shown = true;
            let room = terminal_width(io::stderr()).saturating_sub(1).min(LONGEST_PROGRESS);
            let _gone = write!(self.stderr, "\r\u{1b}[K{}", clean::line(line, room)).and_then(|()| self.stderr.flush());
        }
    }

    /// Prints the failure of a command in the output format, and returns its exit code.
    pub(crate) fn report(&mut self, report: &Report) -> ExitCode {
        match self.format {
            Format::Human | Format::Raw => self.notice(&report.to_human()),
            Format::Json | Format::Ndjson => self.notice(&clean::json(&report.to_json())),
        }
        report.exit
    }

    /// Like [`Self::report`], for a plain message.
    pub(crate) fn fail(&mut self, code: ExitCode, why: &str) -> ExitCode {
        self.report(&Report::new(code, "failed", why))
    }

    /// Erases the progress line before other output.
    fn clear_progress(&mut self) {
        if std::mem::take(&mut self.progress_shown) {
            let _gone = write!(self.stderr, "\r\u{1b}[K").and_then(|()| self.stderr.flush());
        }
    }
}

/// Longest line of progress.
const LONGEST_PROGRESS: usize = 100;
/// Longest line of a description if the output is not a terminal.
const LONGEST_LINE: usize = 400;
/// Columns of a description on a narrow terminal.
const SHORTEST_LINE: usize = 20;
/// Columns of a terminal that does not tell its width.
const USUAL_WIDTH: usize = 80;

/// Columns of the terminal of a stream.
#[cfg(unix)]
fn terminal_width(stream: impl rustix::fd::AsFd) -> usize {
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { USUAL_WIDTH } else { columns }
}

/// Columns of the terminal of a stream.
#[cfg(not(unix))]
fn terminal_width<T>(_stream: T) -> usize {
    USUAL_WIDTH
}

/// Whether a user can answer prompts: standard input and standard error are terminals. The terminal of a server's process
/// is not the user's.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !Descent::own().is_of_server()
}
