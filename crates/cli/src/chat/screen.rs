//! What a chat writes to the terminal: messages as they stream, one line per call, and a status line while it waits.
//! Everything else is appended; nothing above the last line changes.

use std::{
    collections::HashSet,
    io::{self, Write},
    time::Instant,
};

use parking_lot::Mutex;
use toolway_agent::{AgentEvent, EndedCall, EndedTask, StartedCall};
use toolway_host::{Host, visible::StreamedText};
use toolway_model::ModelEvent;

use super::{
    call_line,
    status_line::{self, Running},
    usage,
};
use crate::{
    markdown::MarkdownWriter,
    output::{self, Colour, clean},
    record_id,
    terminal::text,
};

/// The screen of a chat.
pub(crate) struct Screen {
    host: Host,
    colour: Colour,
    kind: ScreenKind,
    // Nothing awaits under this lock.
    state: Mutex<State>,
}

/// Where the output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScreenKind {
    /// A terminal: markdown is rendered, and there is a status line.
    Terminal,
    /// A pipe or a file: text as the model writes it.
    Plain,
}

struct State {
    out: Box<dyn Write + Send>,
    /// The message that is being written.
    message: Option<MarkdownWriter>,
    /// The end of the message in plain output, which its next piece may continue.
    unfinished: StreamedText,
    /// Whether the last character of plain output was a line break.
    is_at_line_start: bool,
    running: Vec<Running>,
    /// What the status line says, and since when; `None` between turns.
    status: Option<(String, Instant)>,
    is_status_shown: bool,
    /// What the user has typed meanwhile, on the row below the output; empty: nothing.
    typed: String,
    is_typed_shown: bool,
    /// Prompts that have the terminal.
    holders: usize,
    /// What is printed when they are over, so that a prompt stays the last thing on the screen.
    held: String,
    left_out: HashSet<String>,
    /// Results of the calls, in order.
    results: Vec<ShownResult>,
}

/// The result of a call that was shown on one line.
#[derive(Clone, Debug)]
pub(super) struct ShownResult {
    /// Server, tool and arguments.
    pub(super) label: String,
    /// Id of the record; `None` if the agent answered the call itself.
    pub(super) call_id: Option<String>,
    /// As the model got it.
    pub(super) text: String,
}

/// Characters of a queued message on the row below the output.
const QUEUED: usize = 30;
/// Erases the row below the cursor, which stays.
const ERASE_BELOW: &str = "\u{1b}7\u{1b}[1B\r\u{1b}[K\u{1b}8";
/// Makes sure that there is a row below the cursor, which stays in its row and column.
const ROOM_BELOW: &str = "\u{b}\u{1b}[1A";

/// Columns of a terminal that does not tell its width.
const USUAL_WIDTH: usize = 80;

impl Screen {
    pub(crate) fn new(host: Host, kind: ScreenKind, colour: Colour) -> Self {
        Self::writing_to(host, kind, colour, Box::new(io::stdout()))
    }

    fn writing_to(host: Host, kind: ScreenKind, colour: Colour, out: Box<dyn Write + Send>) -> Self {
        let state = State {
            out,
            message: None,
            unfinished: StreamedText::default(),
            is_at_line_start: true,
            running: Vec::new(),
            status: None,
            is_status_shown: false,
            typed: String::new(),
            is_typed_shown: false,
            holders: 0,
            held: String::new(),
            left_out: HashSet::new(),
            results: Vec::new(),
        };
        Self { host, colour, kind, state: Mutex::new(state) }
    }

    /// Prints lines.
    pub(crate) fn line(&self, text: &str) {
        self.state.lock().print(&format!("{}\n", self.wrapped(&clean::text(text))));
    }

    /// Prints lines that matter less.
    pub(crate) fn note(&self, text: &str) {
        let text = self.wrapped(&clean::text(text));
        let text = if self.colour == Colour::Yes { format!("\u{1b}[2m{text}\u{1b}[0m") } else { text };
        self.state.lock().print(&format!("{text}\n"));
    }

    /// Prints a whole message of markdown.
    pub(crate) fn markdown(&self, text: &str) {
        if self.kind == ScreenKind::Plain {
            return self.line(text);
        }
        let mut writer = MarkdownWriter::new(width(), self.colour);
        let shown = writer.push(text) + &writer.finish();
        self.state.lock().print(&shown);
    }

    /// Shows that something is going on, until [`Self::idle`].
    pub(crate) fn busy(&self, what: &str) {
        let mut state = self.state.lock();
        state.status = Some((what.to_owned(), Instant::now()));
        self.draw_status(&mut state);
    }

    /// Shows what was typed while the model works: messages that wait, and the draft.
    pub(super) fn typing<'a>(&self, queued: impl Iterator<Item = &'a str>, draft: &str) {
        if self.kind == ScreenKind::Plain {
            return;
        }
        let mut words: Vec<String> = queued.map(|text| format!("queued: {}", clean::line(text, QUEUED))).collect();
        words.extend((!draft.is_empty()).then(|| format!("» {}", clean::flat(draft))));
        // The end is what the user types.
        let line = words.join("  ");
        let width = width().saturating_sub(1);
        let mut used = 0;
        let units: Vec<&str> = clean::units(&line).collect();
        let fits = |unit: &&&str| {
            used += clean::columns(unit);
            used <= width
        };
        let kept = units.iter().rev().take_while(fits).count();
        let line = units[units.len() - kept..].concat();
        let line =
            if self.colour == Colour::Yes && !line.is_empty() { format!("\u{1b}[2m{line}\u{1b}[0m") } else { line };
        let mut state = self.state.lock();
        state.typed = line;
        state.write("");
    }

    /// Ends what is unfinished.
    pub(crate) fn idle(&self) {
        let mut state = self.state.lock();
        state.typed.clear();
        state.end_message();
        state.erase_status();
        (state.status, state.running) = (None, Vec::new());
        state.write("");
    }

    /// The result with this number, or the last one.
    pub(super) fn result(&self, number: Option<usize>) -> Option<ShownResult> {
        let state = self.state.lock();
        let index = number.unwrap_or(state.results.len()).checked_sub(1)?;
        state.results.get(index).cloned()
    }

    /// Whether lists to choose from can be shown.
    pub(super) fn is_terminal(&self) -> bool {
        self.kind == ScreenKind::Terminal && output::is_interactive()
    }

    /// Redraws the status line.
    pub(crate) fn tick(&self) {
        self.draw_status(&mut self.state.lock());
    }

    /// Gives the terminal to a prompt.
    pub(crate) fn hold(&self) {
        let mut state = self.state.lock();
        state.end_message();
        state.erase_status();
        state.erase_typed();
        state.holders += 1;
    }

    /// Takes the terminal back.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        state.holders = state.holders.saturating_sub(1);
        let held = std::mem::take(&mut state.held);
        state.write(&held);
    }

    /// Shows what happens in a turn.
    pub(crate) fn event(&self, event: AgentEvent) {
        let mut state = self.state.lock();
        match event {
            AgentEvent::Model(ModelEvent::Text(text)) => self.text(&mut state, &text),
            AgentEvent::Model(ModelEvent::Reasoning(_)) => state.say("thinking"),
            AgentEvent::Model(ModelEvent::ToolCallStart { name, .. }) => {
                state.end_message();
                state.say(&format!("preparing {}", self.name_of(&name)));
            }
            AgentEvent::Model(_) => {}
            AgentEvent::Usage(_) => state.end_message(),
            AgentEvent::Attached(attached) => {
                state.print(&format!("{}\n", self.wrapped(&clean::text(&attached.words()))));
            }
            AgentEvent::Compacted(compacted) => {
                state.print(&format!("{}\n", self.wrapped(&format!("{}.", usage::sentence(&compacted)))));
            }
            AgentEvent::LeftOut(reason) => {
                if state.left_out.insert(reason.clone()) {
                    state.print(&format!("{}\n", self.wrapped(&clean::text(&reason))));
                }
            }
            AgentEvent::CallStarted(call) => self.start_call(&mut state, &call),
            AgentEvent::CallProgress(progress) => {
                if let Some(call) = state.running.iter_mut().find(|call| call.id == progress.id) {
                    call.progress(&progress);
                }
            }
            AgentEvent::CallEnded(call) => self.end_call(&mut state, &call),
            AgentEvent::TaskEnded(task) => self.end_task(&mut state, &task),
        }
        self.draw_status(&mut state);
    }

    fn text(&self, state: &mut State, text: &str) {
        if self.kind == ScreenKind::Plain {
            state.is_at_line_start = text.ends_with('\n');
            let text = state.unfinished.push(text);
            state.print(&clean::text(&text));
            return;
        }
        let message = state.message.get_or_insert_with(|| MarkdownWriter::new(width(), self.colour));
        let shown = message.push(text);
        if !shown.is_empty() {
            state.print(&shown);
        }
    }

    fn start_call(&self, state: &mut State, call: &StartedCall) {
        state.end_message();
        let label = call_line::label(call, &self.name_of(&call.tool));
        state.running.push(Running::new(call.call.id.clone(), label));
    }

    fn end_call(&self, state: &mut State, call: &EndedCall) {
        let running = state.running.iter().position(|running| running.id == call.result.call_id);
        let label = running.map_or_else(|| self.name_of(&call.made.name), |index| state.running.remove(index).label);
        let text = match &call.problem {
            Some(problem) => problem.as_str().to_owned(),
            None => call_line::text(call),
        };
        state.results.push(ShownResult { label: label.clone(), call_id: call.made.call_id.clone(), text });
        let number = Some(state.results.len()).filter(|_| self.kind == ScreenKind::Terminal);
        let (line, problem) = call_line::ended(call, &label, number, self.width());
        state.print(&format!("{}\n", self.painted(&line)));
        if let Some(problem) = problem {
            state.print(&format!("{}\n", text::fold(&format!("  {problem}"), self.width(), "  ")));
        }
        state.say("thinking");
    }

    /// Shows the end of a background task as that of a call.
    fn end_task(&self, state: &mut State, task: &EndedTask) {
        let label = format!("{} (task {})", self.name_of(&task.row.tool), record_id::short(&task.row.id));
        let text = call_line::text_of(&task.content);
        state.results.push(ShownResult { label: label.clone(), call_id: Some(task.row.id.to_string()), text });
        let number = Some(state.results.len()).filter(|_| self.kind == ScreenKind::Terminal);
        let line = call_line::ended_task(task, &label, number, self.width());
        state.print(&format!("{}\n", self.painted(&line)));
    }

    /// The mark of a call in colour.
    fn painted(&self, line: &str) -> String {
        let code = match line.chars().next() {
            Some('✓') => "32",
            Some('…') => "36",
            Some('⊘') => "33",
            _ => "31",
        };
        match (self.colour, line.split_once(' ')) {
            (Colour::Yes, Some((mark, rest))) => format!("\u{1b}[{code}m{mark}\u{1b}[0m {rest}"),
            _ => line.to_owned(),
        }
    }

    /// `server.tool`, as commands write it.
    fn name_of(&self, public: &str) -> String {
        let catalog = self.host.catalog();
        let entry = public.parse().ok().and_then(|name| catalog.find_tool(&name));
        entry.map_or_else(|| public.to_owned(), |entry| format!("{}.{}", entry.origin.server, entry.origin.raw_name))
    }

    fn draw_status(&self, state: &mut State) {
        let Some((what, since)) = &state.status else { return };
        if self.kind == ScreenKind::Plain || state.holders > 0 || state.message.is_some() {
            return;
        }
        let text = status_line::text(&state.running, *since, what);
        let text = clean::line(&text, width().saturating_sub(1));
        let text = if self.colour == Colour::Yes { format!("\u{1b}[2m{text}\u{1b}[0m") } else { text };
        state.is_status_shown = true;
        state.write(&format!("\r\u{1b}[K{text}"));
    }

    /// Text with long lines broken between words.
    fn wrapped(&self, text: &str) -> String {
        let width = self.width();
        let lines = text
            .split('\n')
            .map(|line| if line.chars().count() <= width { line.to_owned() } else { text::fold(line, width, "  ") });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn width(&self) -> usize {
        match self.kind {
            ScreenKind::Terminal => width(),
            ScreenKind::Plain => 120,
        }
    }
}

impl State {
    /// Changes what the status line says.
    fn say(&mut self, what: &str) {
        if let Some((said, since)) = &mut self.status
            && said != what
        {
            (*said, *since) = (what.to_owned(), Instant::now());
        }
    }

    fn print(&mut self, text: &str) {
        self.erase_status();
        self.write(text);
    }

    fn end_message(&mut self) {
        if let Some(mut message) = self.message.take() {
            let rest = message.finish();
            self.print(&rest);
        }
        let rest = self.unfinished.finish();
        if !rest.is_empty() {
            self.print(&clean::text(&rest));
        }
        if !std::mem::replace(&mut self.is_at_line_start, true) {
            self.write("\n");
        }
    }

    fn erase_status(&mut self) {
        if std::mem::take(&mut self.is_status_shown) {
            self.write("\r\u{1b}[K");
        }
    }

    /// Write errors are ignored, because the reader may be gone.
    fn write(&mut self, text: &str) {
        if self.holders > 0 {
            return self.held.push_str(text);
        }
        let erased = if std::mem::take(&mut self.is_typed_shown) { ERASE_BELOW } else { "" };
        let mut text = format!("{erased}{text}");
        if !self.typed.is_empty() {
            self.is_typed_shown = true;
            text += &format!("{ROOM_BELOW}\u{1b}7\u{1b}[1B\r\u{1b}[K{}\u{1b}8", self.typed);
        }
        let _gone = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    /// Erases what was typed; it is drawn again with the next output.
    fn erase_typed(&mut self) {
        let typed = std::mem::take(&mut self.typed);
        self.write("");
        self.typed = typed;
    }
}

/// Columns of the terminal.
pub(super) fn width() -> usize {
    crossterm::terminal::size()
        .map_or(USUAL_WIDTH, |(columns, _)| if columns == 0 { USUAL_WIDTH } else { columns.into() })
}
