//! The lines in which two texts differ.

/// Lines of context around a change.
const CONTEXT: usize = 2;

/// The lines that differ, with `+`, `-` or a space in front: everything between the first and the last of them.
pub(crate) fn line_difference(before: &str, after: &str) -> Vec<String> {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let marked = |mark: char, lines: &[&str]| lines.iter().map(|line| format!("{mark} {line}")).collect::<Vec<_>>();
    let last = new.len() - end;
    [
        marked(' ', &new[start.saturating_sub(CONTEXT)..start]),
        marked('-', &old[start..old.len() - end]),
        marked('+', &new[start..last]),
        marked(' ', &new[last..(last + CONTEXT).min(new.len())]),
    ]
    .concat()
}
