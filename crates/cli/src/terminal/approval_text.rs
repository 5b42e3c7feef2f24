//! The text of approval prompts: one call, or several that wait at the same time. No input and no output.

use toolway_host::{
    inbox::{
        ApprovalDetails, InboxItem,
        approval_rows::{self, ArgumentRow},
    },
    policy::Subject,
};

use super::text::{self, Line, Style};
use crate::output::clean;

/// How much of the arguments is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// The beginning of each, for a call alone.
    Long,
    /// The beginning of each, for a call among others.
    Short,
    /// Long values in full.
    Nothing,
}

/// Lines of a prompt, and whether a part is hidden.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub(crate) lines: Vec<Line>,
    pub(crate) is_folded: bool,
}

/// Longest label of an argument.
const LABEL: usize = 40;

impl Fold {
    /// Lines of one value.
    fn lines(self) -> usize {
        match self {
            Self::Long => 4,
            Self::Short => 2,
            Self::Nothing => usize::MAX,
        }
    }

    /// Arguments of one call.
    fn rows(self) -> usize {
        match self {
            Self::Long => 16,
            Self::Short => 6,
            Self::Nothing => usize::MAX,
        }
    }
}

/// The prompt for one call, up to the answers.
pub(crate) fn call(item: &InboxItem, details: &ApprovalDetails, width: usize, fold: Fold) -> Folded {
    let mut shown = Folded::default();
    shown.lines.extend(text::lines(Style::Strong, &format!("Approval required: {}", name(details)), width));
    if let Some(title) = &details.title {
        let title = text::cut(&clean::flat(title), width.saturating_sub(24).max(20));
        shown.lines.extend(text::lines(Style::Plain, &format!("title by the server: {title}"), width));
    }
    if let Some(caller) = &item.caller {
        let surface = item.surface.map(|surface| format!(" ({surface})")).unwrap_or_default();
        shown.lines.extend(text::lines(Style::Plain, &format!("caller: {}{surface}", caller.label()), width));
    }
    shown.add_arguments(details, width, fold);
    shown.add_warnings(details, width);
    let reason = details.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    shown.lines.extend(text::lines(Style::Faint, &format!("asked by {}{reason}", details.rule), width));
    let remedy = format!("this rule would allow it: {}", details.remedy);
    shown.lines.extend(text::lines(Style::Faint, &remedy, width));
    shown
}

/// The prompt for several calls, up to the answers.
pub(crate) fn calls(items: &[(&InboxItem, &ApprovalDetails)], width: usize, fold: Fold) -> Folded {
    let mut shown = Folded::default();
    shown.lines.extend(text::lines(Style::Strong, &format!("{} calls require approval", items.len()), width));
    for (number, (_, details)) in (1..).zip(items) {
        shown.lines.extend(text::lines(Style::Strong, &format!("{number}. {}", name(details)), width));
        shown.add_arguments(details, width, fold);
        shown.add_warnings(details, width);
        shown.lines.extend(text::lines(Style::Faint, &format!("asked by {}", details.rule), width));
    }
    shown
}

/// The item that is to be used.
pub(crate) fn name(details: &ApprovalDetails) -> String {
    let Subject { server, kind, raw_name } = &details.subject;
    format!("{kind} `{}` of `{server}`", clean::flat(raw_name))
}

/// What an answer of "always" covers, before it is given.
pub(crate) fn allowed(item: &InboxItem, details: &ApprovalDetails) -> String {
    let (name, caller, pattern) = (name(details), caller(item), &details.pattern);
    let (covers, free) = (clean::flat(&pattern.to_string()), pattern.free_arguments());
    format!(
        "Allow every later call of {name} by `{caller}` with {covers}, until its definition changes. {free} {LISTED}"
    )
}

/// What an answer of "never" covers, before it is given.
pub(crate) fn refused(item: &InboxItem, details: &ApprovalDetails) -> String {
    let (name, caller) = (name(details), caller(item));
    format!(
        "Refuse every later call of {name} by `{caller}`, with any arguments, until its definition changes. {LISTED}"
    )
}

/// Where saved answers are found again.
const LISTED: &str = "`toolway trust` lists and removes such answers.";

fn caller(item: &InboxItem) -> String {
    let caller = item.caller.as_ref().map(toolway_host::call::Caller::label).unwrap_or_default();
    caller.split(':').next().filter(|kind| *kind == "agent").map_or(caller.clone(), str::to_owned)
}

// === impl Folded ===

impl Folded {
    fn add_arguments(&mut self, details: &ApprovalDetails, width: usize, fold: Fold) {
        let rows = approval_rows::rows(details.arguments.as_ref());
        if rows.is_empty() {
            self.lines.push(Line::new(Style::Plain, "  (no arguments)"));
        }
        for row in rows.iter().take(fold.rows()) {
            self.add_row(row, width, fold);
        }
        if let more @ 1.. = rows.len().saturating_sub(fold.rows()) {
            self.fold(&format!("… {more} more arguments; v shows all"), width);
        }
    }

    fn add_row(&mut self, row: &ArgumentRow, width: usize, fold: Fold) {
        let label = text::cut(&clean::flat(&row.label), LABEL);
        let style = if row.important { Style::Strong } else { Style::Plain };
        let value = clean::text(&row.value);
        let inline = format!("  {label}: {value}");
        if !value.contains('\n') && text::columns(&inline) <= width {
            self.lines.push(Line::new(style, inline));
            return;
        }
        let lines = text::marked(&row.value, width);
        self.lines.push(Line::new(style, format!("  {label}:")));
        // The note takes a line itself.
        let most = if lines.len() == fold.lines().saturating_add(1) { lines.len() } else { fold.lines() };
        let hidden = lines.len().saturating_sub(most);
        self.lines.extend(lines.into_iter().take(most));
        if 0 < hidden {
            self.fold(&format!("… {hidden} more lines, {} bytes in all; v shows all", row.value.len()), width);
        }
    }

    fn add_warnings(&mut self, details: &ApprovalDetails, width: usize) {
        for warning in approval_rows::warnings(details.annotations, details.trust) {
            self.lines.extend(text::lines(Style::Warning, &format!("! {warning}"), width));
        }
    }

    fn fold(&mut self, note: &str, width: usize) {
        let lines = text::wrap(note, width, "  ", "    ");
        self.lines.extend(lines.into_iter().map(|line| Line::new(Style::Faint, line)));
        self.is_folded = true;
    }
}
