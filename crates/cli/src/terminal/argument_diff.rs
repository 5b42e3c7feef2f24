//! Two arguments that are an old and a new text, as the difference between them. Every line of both is shown.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};
use toolway_host::inbox::approval_rows::ArgumentRow;

use super::text::{self, Line, MARK, Style};
use crate::output::clean;

/// Longest search for the smallest difference; a larger one is shown after that.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is shown of the arguments of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShownArgument<'a> {
    Row(&'a ArgumentRow),
    /// Two rows that are an old and a new text.
    Change {
        old: &'a ArgumentRow,
        new: &'a ArgumentRow,
    },
}

/// Rows with the pairs among them: `oldText` and `newText`, `edits[0].old_string` and `edits[0].new_string` … A name that occurs
/// twice belongs to no pair: which of its texts counts is not known.
pub(super) fn with_changes(rows: &[ArgumentRow]) -> Vec<ShownArgument<'_>> {
    let pair_of = |old: &ArgumentRow| {
        let wanted = new_label(&old.label)?;
        let is_single = |label: &str| rows.iter().filter(|row| row.label == label).count() == 1;
        rows.iter().find(|row| row.label == wanted).filter(|new| is_single(&old.label) && is_single(&new.label))
    };
    let is_new_of_pair = |row: &ArgumentRow| rows.iter().filter_map(pair_of).any(|new| std::ptr::eq(new, row));
    let shown = rows.iter().filter(|row| !is_new_of_pair(row));
    shown
        .map(|row| match pair_of(row) {
            Some(new) => ShownArgument::Change { old: row, new },
            None => ShownArgument::Row(row),
        })
        .collect()
}

/// The label of the new text that belongs to an old one; `None` if the label is not that of an old text.
fn new_label(label: &str) -> Option<String> {
    let (path, name) = label.rsplit_once('.').map_or(("", label), |(path, name)| (path, name));
    let rest = name.strip_prefix("old")?;
    let is_word = rest.is_empty() || rest.starts_with(|letter: char| letter == '_' || letter.is_ascii_uppercase());
    let dot = if path.is_empty() { "" } else { "." };
    is_word.then(|| format!("{path}{dot}new{rest}"))
}

/// The difference of two texts that others wrote: made visible, with a mark and a sign before each line.
pub(super) fn lines(old: &str, new: &str, width: usize) -> Vec<Line> {
    let difference = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    let mut lines = Vec::new();
    for change in difference.iter_all_changes() {
        let (style, sign) = match change.tag() {
            ChangeTag::Equal => (Style::Plain, ' '),
            ChangeTag::Delete => (Style::Removed, '-'),
            ChangeTag::Insert => (Style::Added, '+'),
        };
        let line = change.value();
        let line = line.strip_suffix("\r\n").or_else(|| line.strip_suffix('\n')).unwrap_or(line);
        let mark = format!("{MARK}{sign} ");
        let visible = clean::exact(line).replace('\t', "    ");
        lines.extend(text::wrap(&visible, width, &mark, &mark).into_iter().map(|text| Line::new(style, text)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{ArgumentRow, ShownArgument, Style, lines, with_changes};

    fn row(label: &str) -> ArgumentRow {
        ArgumentRow {
            argument: label.to_owned(),
            label: label.to_owned(),
            value: String::new(),
            important: false,
            has_hidden: false,
            whole: None,
        }
    }

    #[test]
    fn an_old_and_a_new_text_of_the_same_place_belong_together() {
        let labels =
            ["path", "edits[0].oldText", "edits[0].newText", "edits[1].oldText", "older", "new_string", "old_string"];
        let rows: Vec<ArgumentRow> = labels.into_iter().map(row).collect();
        let shown: Vec<String> = with_changes(&rows)
            .iter()
            .map(|shown| match shown {
                ShownArgument::Row(row) => row.label.clone(),
                ShownArgument::Change { old, new } => format!("{} → {}", old.label, new.label),
            })
            .collect();
        let expected =
            ["path", "edits[0].oldText → edits[0].newText", "edits[1].oldText", "older", "old_string → new_string"];
        assert_eq!(shown, expected);
        let twice = ["old", "new", "new"].map(row);
        assert!(with_changes(&twice).iter().all(|shown| matches!(shown, ShownArgument::Row(_))));
    }

    #[test]
    fn every_line_of_both_texts_is_shown_and_hidden_characters_are_escaped() {
        let shown = lines("one\ntwo\nthree\n", "one\ntwo\u{1b}[2K\rthree\n+ four\n", 40);
        let shown: Vec<(Style, &str)> = shown.iter().map(|line| (line.style, line.text.as_str())).collect();
        let (plain, removed, added) = (Style::Plain, Style::Removed, Style::Added);
        assert_eq!(
            shown,
            [
                (plain, "  │   one"),
                (removed, "  │ - two"),
                (added, "  │ + two\\u{1b}[2K\\u{d}"),
                (plain, "  │   three"),
                (added, "  │ + + four"),
            ]
        );
    }

    #[test]
    fn long_lines_are_broken_and_not_cut() {
        let text = "a".repeat(50);
        let shown = lines("", &text, 30);
        assert!(shown.iter().all(|line| line.style == Style::Added && line.text.starts_with("  │ + ")), "{shown:?}");
        let whole: String = shown.iter().map(|line| line.text.trim_start_matches("  │ + ")).collect();
        assert_eq!(whole, text);
    }
}
