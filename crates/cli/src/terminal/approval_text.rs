//! The text of approval prompts: one call, or several that wait at the same time. No input and no output.

use toolway_host::{
    inbox::{ApprovalDetails, InboxItem, approval_rows::ArgumentRow},
    policy::{Before, Proposal, RuleId, Scope, Subject},
};

use super::{
    argument_diff::{self, ShownArgument},
    text::{self, Line, Style},
};
use crate::output::clean;

/// How much of the arguments is shown. A call is approved only after all of them were shown.
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

/// Columns of a title that are shown.
const TITLE: usize = 400;

impl Fold {
    /// Lines of one value.
    fn lines(self) -> usize {
        match self {
            Self::Long => 40,
            Self::Short => 12,
            Self::Nothing => usize::MAX,
        }
    }

    /// Arguments of one call.
    fn rows(self) -> usize {
        match self {
            Self::Long => 64,
            Self::Short => 24,
            Self::Nothing => usize::MAX,
        }
    }
}

/// The prompt for one call, up to the answers.
pub(crate) fn call(item: &InboxItem, details: &ApprovalDetails, width: usize, fold: Fold) -> Folded {
    let mut shown = Folded::default();
    let time = match details.proposal.number {
        1 => String::new(),
        number => format!(" ({} time)", ordinal(number)),
    };
    shown.lines.extend(text::lines(Style::Strong, &format!("Approval required: {}{time}", name(details)), width));
    if let Some(title) = &details.title {
        let visible = clean::exact_flat(title);
        let length = match text::columns(&visible) <= TITLE {
            true => String::new(),
            false => format!(" ({} bytes in all)", title.len()),
        };
        let title = format!("title by the server: {}{length}", text::cut(&visible, TITLE));
        shown.lines.extend(text::lines(Style::Plain, &title, width));
    }
    shown.add_arguments(details, width, fold);
    shown.add_warnings(details, width);
    // From here on what matters less: who asks, by which rule, and what an answer covers.
    if let Some(caller) = &item.caller {
        let surface = item.surface.map(|surface| format!(" ({surface})")).unwrap_or_default();
        shown.lines.extend(text::lines(Style::Faint, &format!("caller: {}{surface}", caller.label()), width));
    }
    shown.lines.extend(asked_by(details, width));
    if let Some(remedy) = &details.remedy {
        shown.lines.extend(text::lines(Style::Faint, &format!("allow it always with: {remedy}"), width));
    }
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
        shown.lines.extend(asked_by(details, width));
    }
    shown
}

/// The rule and the reason, complete. What has changed of a definition has a line for each change.
fn asked_by(details: &ApprovalDetails, width: usize) -> Vec<Line> {
    let reason = details.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let text = format!("asked by {}{reason}", details.rule);
    let style = if text.contains('\n') || details.rule == RuleId::Drift { Style::Plain } else { Style::Faint };
    text.split('\n').flat_map(|line| text::lines(style, line, width)).collect()
}

/// The item that is to be used.
pub(crate) fn name(details: &ApprovalDetails) -> String {
    let Subject { server, kind, raw_name } = &details.subject;
    format!("{kind} `{}` of `{server}`", clean::name(raw_name))
}

/// What answers for longer than this call cover.
pub(crate) fn covers(item: &InboxItem, details: &ApprovalDetails, changed: Option<&Scope>, width: usize) -> Vec<Line> {
    let Proposal { conversation, always, .. } = &details.proposal;
    let shown = |scope: &Scope| clean::exact_flat(&scope.to_string());
    let text = match changed {
        Some(scope) => format!("covers: {}", shown(scope)),
        None if conversation == always || !item.has_conversation() => format!("covers: {}", shown(always)),
        None => format!("covers: this conversation {}; always {}", shown(conversation), shown(always)),
    };
    let mut lines = text::lines(Style::Faint, &text, width);
    if !details.proposal.arguments.is_empty() {
        lines.extend(text::lines(Style::Faint, "1-9 change what is covered of an argument, * covers any", width));
    }
    lines
}

/// The name of an argument, with the key that changes what is covered of it, and how it compares to the call before.
fn label(row: &ArgumentRow, details: &ApprovalDetails, fold: Fold) -> String {
    let choices = &details.proposal.arguments;
    let position = choices.iter().position(|choice| choice.name == row.argument);
    let label = match &row.whole {
        Some(whole) => format!("all arguments ({} bytes, sha256 {})", whole.bytes, whole.sha256),
        None => clean::exact_flat(&row.label),
    };
    let number = position.map(|position| position + 1).filter(|number| fold != Fold::Short && *number <= 9);
    let number = number.map(|number| format!("{number} ")).unwrap_or_default();
    let before = match position.and_then(|position| choices.get(position)).map(|choice| choice.before) {
        Some(Before::Same) => " (as before)",
        Some(Before::Differs) => " (differs)",
        Some(Before::First) | None => "",
    };
    format!("{number}{label}{before}")
}

/// `2nd`
fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// What an answer of "always" covers, before it is given.
pub(crate) fn allowed(item: &InboxItem, details: &ApprovalDetails, scope: &Scope) -> String {
    let (name, caller) = (name(details), caller(item));
    let covers = clean::exact_flat(&scope.to_string());
    if scope.is_about_hosts() {
        let server = &details.subject.server;
        return format!(
            "Allow `{caller}` always: {covers}, with every tool of `{server}` as it is configured now. {LISTED}"
        );
    }
    format!(
        "Allow every later call of {name} by `{caller}` with {covers}, until the server or the definition changes. \
         {LISTED}"
    )
}

/// What an answer of "never" covers, before it is given.
pub(crate) fn refused(item: &InboxItem, details: &ApprovalDetails) -> String {
    let (name, caller) = (name(details), caller(item));
    format!(
        "Refuse every later call of {name} by `{caller}`, with any arguments, until the entry of the server changes. \
         {LISTED}"
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
        let rows = &details.rows;
        if rows.is_empty() {
            self.lines.push(Line::new(Style::Plain, "  (no arguments)"));
        }
        let shown = argument_diff::with_changes(rows);
        for argument in shown.iter().take(fold.rows()) {
            match argument {
                ShownArgument::Row(row) => self.add_row(row, &label(row, details, fold), width, fold),
                ShownArgument::Change { old, new } => {
                    // Both are parts of one argument, or arguments of their own.
                    let new_label = match new.label.rsplit('.').next() {
                        Some(name) if new.argument == old.argument => clean::exact_flat(name),
                        _ => label(new, details, fold),
                    };
                    let label = format!("{} → {new_label}", label(old, details, fold));
                    self.add_label(&label, Style::Plain, width);
                    let bytes = old.value.len() + new.value.len();
                    self.add_value(argument_diff::lines(&old.value, &new.value, width), bytes, width, fold);
                }
            }
        }
        if let more @ 1.. = shown.len().saturating_sub(fold.rows()) {
            self.fold(&format!("… {more} more arguments; v shows all"), width);
        }
    }

    fn add_row(&mut self, row: &ArgumentRow, label: &str, width: usize, fold: Fold) {
        let style = if row.important { Style::Strong } else { Style::Plain };
        let value = clean::exact(&row.value).replace('\t', "    ");
        let inline = format!("  {label}: {value}");
        if !value.contains('\n') && text::columns(&inline) <= width {
            self.lines.push(Line::new(style, inline));
            return;
        }
        self.add_label(label, style, width);
        if row.whole.is_some() && fold != Fold::Nothing {
            self.fold("… too large to be shown one by one; v shows all", width);
            return;
        }
        self.add_value(text::marked(&row.value, width), row.value.len(), width, fold);
    }

    fn add_label(&mut self, label: &str, style: Style, width: usize) {
        let label = text::wrap(&format!("{label}:"), width, "  ", "    ");
        self.lines.extend(label.into_iter().map(|line| Line::new(style, line)));
    }

    /// Adds the lines of a value of so many bytes, or the beginning of them.
    fn add_value(&mut self, lines: Vec<Line>, bytes: usize, width: usize, fold: Fold) {
        // The note takes a line itself.
        let most = if lines.len() == fold.lines().saturating_add(1) { lines.len() } else { fold.lines() };
        let hidden = lines.len().saturating_sub(most);
        self.lines.extend(lines.into_iter().take(most));
        if 0 < hidden {
            self.fold(&format!("… {hidden} more lines, {bytes} bytes in all; v shows all"), width);
        }
    }

    fn add_warnings(&mut self, details: &ApprovalDetails, width: usize) {
        for warning in details.warnings() {
            self.lines.extend(text::lines(Style::Warning, &format!("! {warning}"), width));
        }
    }

    fn fold(&mut self, note: &str, width: usize) {
        let lines = text::wrap(note, width, "  ", "    ");
        self.lines.extend(lines.into_iter().map(|line| Line::new(Style::Faint, line)));
        self.is_folded = true;
    }
}
