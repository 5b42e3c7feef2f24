//! Ids of records at the terminal: shown by their last eight digits, and accepted by their beginning or end.

use crate::report::Report;

/// Digits that are shown. Those of two records of one list are practically never the same: they are random.
const SHOWN: usize = 8;
/// Ids that an error lists.
const LISTED: usize = 10;

/// The last digits of an id.
pub(crate) fn short(id: &impl ToString) -> String {
    let id = id.to_string();
    let start = id.len().saturating_sub(SHOWN);
    id.get(start..).unwrap_or(&id).to_owned()
}

/// The items whose id ends with what the user typed, because lists show the end; else those whose id begins with it.
pub(crate) fn select<T>(all: Vec<T>, typed: &str, id_of: impl Fn(&T) -> String) -> Vec<T> {
    if typed.is_empty() {
        return Vec::new();
    }
    let typed = typed.to_ascii_lowercase();
    let has_end = |item: &T| id_of(item).ends_with(&typed);
    let (ending, others): (Vec<T>, Vec<T>) = all.into_iter().partition(has_end);
    if !ending.is_empty() {
        return ending;
    }
    others.into_iter().filter(|item| id_of(item).starts_with(&typed)).collect()
}

/// The error for an id that several records have.
pub(crate) fn ambiguous(code: &'static str, nouns: &str, typed: &str, ids: &[String]) -> Report {
    let listed = ids.iter().take(LISTED).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    let more = if LISTED < ids.len() { " …" } else { "" };
    let message = format!("several {nouns} have ids that begin or end with `{typed}`: {listed}{more}");
    Report::usage(code, message).hint("give more of the id")
}

#[cfg(test)]
mod tests {
    use super::{ambiguous, select, short};

    #[test]
    fn ends_are_looked_for_before_beginnings() {
        let all = || vec!["aaaa-0001".to_owned(), "aaaa-bbbb".to_owned(), "bbbb-0002".to_owned()];
        let found = |typed: &str| select(all(), typed, Clone::clone);
        assert_eq!(found("bbbb"), ["aaaa-bbbb"]);
        assert_eq!(found("AAAA"), ["aaaa-0001", "aaaa-bbbb"]);
        assert!(found("").is_empty() && found("c").is_empty());
        assert_eq!(short(&"019a8f00-0000-7000-8000-00001234abcd"), "1234abcd");
    }

    #[test]
    fn an_ambiguous_id_lists_what_it_may_mean() {
        let report = ambiguous("unknown_call", "calls", "aa", &["aa1".to_owned(), "aa2".to_owned()]);
        assert_eq!(report.message, "several calls have ids that begin or end with `aa`: `aa1`, `aa2`");
    }
}
