//! Patterns about a command, such as `git *`.
//!
//! `git *` means one program with any arguments. `git log; rm -rf ~` matches it as a text and starts a second program, so a
//! text with what a shell treats specially is unclear. Quotes and wildcards in arguments start nothing and are accepted.
//! In `cat /tmp/*` the `*` ends with its word: `cat /tmp/a /etc/passwd` is unclear, and so is `cat -n /etc/passwd` for
//! `cat /etc/*`.

use super::{Fit, IsMatch, address::NOT_AN_ADDRESS, compare as compare_text};

const UNCLEAR: &str = "contains characters that a shell treats specially";

/// Characters with which a shell starts another program, redirects or expands.
const SPECIAL: [char; 10] = [';', '&', '|', '<', '>', '(', ')', '$', '`', '\\'];

/// Compares a pattern about a command; `None` for other patterns.
pub(super) fn compare(pattern: &str, text: &str, is_match: IsMatch) -> Option<Fit> {
    let program_end = pattern.find([' ', '\t', '*'])?;
    let program = &pattern[..program_end];
    if program.is_empty() || !is_program(program) || !pattern.contains('*') {
        return None;
    }
    let is_written_match = is_match(pattern, text);
    if pattern.trim_end().contains([' ', '\t']) {
        return Some(of_command(pattern, text, is_match));
    }
    if program.contains('/') {
        return None;
    }
    // One word, `git*`: it may be about a command or not.
    let is_part = |part: &str| is_match(pattern, part.trim());
    let starts_one = !is_plain(text) && (is_written_match || text.split(separates).any(is_part));
    Some(if starts_one { Fit::Unclear(UNCLEAR) } else { Fit::of(is_written_match) })
}

fn of_command(pattern: &str, text: &str, is_match: IsMatch) -> Fit {
    let words: Vec<&str> = text.split_whitespace().collect();
    let first = words.first().copied().unwrap_or_default();
    if !is_plain(text) || !is_program(first) {
        return Fit::Unclear(UNCLEAR);
    }
    let pattern_words = pattern.split_whitespace().collect::<Vec<_>>().join(" ");
    let program = first.rsplit('/').next().unwrap_or_default();
    let by_name = [&[program], words.get(1..).unwrap_or_default()].concat().join(" ");
    let readings = [is_match(pattern, text), is_match(&pattern_words, &words.join(" "))].into_iter();
    // The same program by its path.
    let by_path = (program != first).then(|| is_match(&pattern_words, &by_name));
    let places: Vec<&str> =
        pattern.split_whitespace().filter(|word| word.contains('/') && word.contains('*')).collect();
    match Fit::of_readings(readings, "is a command that can be read in several ways") {
        Fit::Mismatch if by_path == Some(true) => Fit::Unclear("names the program by its path"),
        Fit::Match if !places.is_empty() && !goes_no_further(pattern, &words, is_match) => {
            Fit::Unclear("has more words than the pattern")
        }
        Fit::Mismatch
            if !places.is_empty() && starts_same(pattern, first) && contains_all(&places, &words, is_match) =>
        {
            Fit::Unclear("has other words than the pattern")
        }
        fit => fit,
    }
}

/// Whether every word of a pattern with paths or addresses is one word of the text. Only `*` alone matches several.
fn goes_no_further(pattern: &str, words: &[&str], is_match: IsMatch) -> bool {
    let wanted: Vec<&str> = pattern.split_whitespace().collect();
    let is_place = |word: &&str| word.contains('/');
    let Some(last) = wanted.iter().rposition(is_place) else { return true };
    // What follows `*` is compared from the end.
    let is_open = |word: &&str| *word == "*";
    match (wanted.iter().position(is_open), wanted.iter().rposition(is_open)) {
        (None, _) => wanted.len() == words.len() && fits(&wanted, words, is_match),
        (Some(open), _) if last < open => words.get(..open).is_some_and(|words| fits(&wanted[..open], words, is_match)),
        (Some(open), Some(close)) if open == close => {
            let after = wanted.len() - open - 1;
            let from = words.len().checked_sub(after).filter(|from| open < *from);
            from.is_some_and(|from| {
                fits(&wanted[..open], &words[..open], is_match) && fits(&wanted[open + 1..], &words[from..], is_match)
            })
        }
        _ => false,
    }
}

fn fits(wanted: &[&str], words: &[&str], is_match: IsMatch) -> bool {
    wanted.iter().zip(words).all(|(wanted, word)| compare_text(wanted, word, is_match) == Fit::Match)
}

/// Whether pattern and text begin with the same program, by name or path.
fn starts_same(pattern: &str, first: &str) -> bool {
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    pattern.split_whitespace().next().is_some_and(|wanted| name(wanted) == name(first))
}

/// Whether each path and address of the pattern may be one of the words.
fn contains_all(places: &[&str], words: &[&str], is_match: IsMatch) -> bool {
    let may_be = |place: &str, word: &str| match compare_text(place, word, is_match) {
        Fit::Mismatch => false,
        Fit::Unclear(NOT_AN_ADDRESS) => {
            // Programs add the scheme.
            let full = |scheme: &str| compare_text(place, &format!("{scheme}://{word}"), is_match);
            !word.starts_with('-') && [full("https"), full("http")].contains(&Fit::Match)
        }
        Fit::Match | Fit::Unclear(_) => true,
    };
    places.iter().all(|place| {
        words.iter().any(|word| {
            let unquoted = word.trim_matches(['\'', '"']);
            let value = unquoted.split_once('=').map_or(unquoted, |(_, value)| value).trim_matches(['\'', '"']);
            may_be(place, unquoted) || may_be(place, value)
        })
    })
}

fn is_program(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.+~/-".contains(letter))
}

fn separates(letter: char) -> bool {
    SPECIAL.contains(&letter) || (letter.is_control() && letter != '\t')
}

fn is_plain(text: &str) -> bool {
    !text.contains(separates)
}
