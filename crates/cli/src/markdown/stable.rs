//! How much of an unfinished block can be written, because nothing that follows changes how it looks.

/// Free columns that an unfinished word needs, so that its end probably fits on the line.
const ROOM_FOR_A_WORD: usize = 24;

/// The part of an unfinished block that can be written; `None` if nothing is certain yet.
pub(super) fn prefix(block: &str, room: usize) -> Option<&str> {
    let first = block.trim_start();
    if first.starts_with('|') || first.starts_with('<') {
        // A table needs the widths of all its rows.
        return None;
    }
    if first.starts_with("```") || first.starts_with("~~~") {
        let lines = block.rfind('\n')?;
        return Some(&block[..=lines]);
    }
    let block = without_marker_line(block)?;
    let block = &block[..open_markup(block)];
    let word = block.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let unfinished = block[word..].chars().count();
    // Only a short word, so that a long one is wrapped as a whole.
    if unfinished > 0 && room < unfinished + ROOM_FOR_A_WORD {
        // The space may be inside markup.
        let words = &block[..word];
        return Some(words[..open_markup(words)].trim_end()).filter(|text| !text.is_empty());
    }
    Some(block.trim_end()).filter(|text| !text.is_empty())
}

/// Leaves out a last line that has only marker characters: it may become an item, a rule, a heading or text.
fn without_marker_line(block: &str) -> Option<&str> {
    let line = block.rfind('\n').map_or(0, |at| at + 1);
    let is_marker = |letter: char| letter.is_ascii_digit() || " \t-*+_=#>|.)`~[]x".contains(letter);
    if block[line..].chars().all(is_marker) {
        return if line == 0 { None } else { Some(&block[..line - 1]) };
    }
    Some(block)
}

/// Where the first inline markup begins that is not closed.
fn open_markup(block: &str) -> usize {
    let mut at = 0;
    while let Some(letter) = block[at..].chars().next() {
        let rest = &block[at..];
        let before = block[..at].chars().next_back();
        let closed = match letter {
            '\\' => rest.chars().nth(1).map(|next| 1 + next.len_utf8()),
            '`' => code_span(rest),
            '*' | '_' | '~' => emphasis(rest, letter, before),
            '[' | '!' if letter == '[' || rest.len() == 1 || rest.starts_with("![") => link(rest),
            '<' => angle(rest),
            '&' => entity(rest),
            _ => Some(letter.len_utf8()),
        };
        match closed {
            Some(length) => at += length,
            None => return at,
        }
    }
    block.len()
}

/// Length of a code span; `None` if it is open.
fn code_span(rest: &str) -> Option<usize> {
    let run = rest.len() - rest.trim_start_matches('`').len();
    let fence = &rest[..run];
    let mut from = run;
    loop {
        let found = from + rest[from..].find(fence)?;
        let end = found + run;
        let longer = rest[end..].len() - rest[end..].trim_start_matches('`').len();
        if longer == 0 {
            return Some(end);
        }
        from = end + longer;
    }
}

/// Length of a run of `*`, `_` or `~` that opens nothing, or of the whole emphasis; `None` if it is open.
fn emphasis(rest: &str, letter: char, before: Option<char>) -> Option<usize> {
    let run = rest.len() - rest.trim_start_matches(letter).len();
    let after = rest[run..].chars().next()?;
    let is_inside_word = letter == '_' && before.is_some_and(char::is_alphanumeric);
    if after.is_whitespace() || is_inside_word || (letter == '~' && run == 1) {
        return Some(run);
    }
    let marks = &rest[..run];
    let mut from = run;
    loop {
        let found = from + rest[from..].find(marks)?;
        let closes = !rest[..found].ends_with(char::is_whitespace);
        // A longer run may follow.
        rest[found + run..].chars().next()?;
        if closes {
            return Some(found + run);
        }
        from = found + run;
    }
}

/// Length of a link, or of a bracket that begins no link; `None` if it is not closed yet.
fn link(rest: &str) -> Option<usize> {
    let close = rest.find(']')?;
    match rest[close + 1..].chars().next()? {
        '(' => Some(close + 1 + rest[close + 1..].find(')')? + 1),
        '[' => Some(close + 1 + rest[close + 1..].find(']')? + 1),
        _ => Some(close + 1),
    }
}

/// Length of an autolink or an HTML tag; `None` if it is open.
fn angle(rest: &str) -> Option<usize> {
    let next = rest[1..].chars().next()?;
    if !(next.is_alphabetic() || next == '/' || next == '!') {
        return Some(1);
    }
    rest.find('>').map(|end| end + 1)
}

/// Length of an entity or of a plain `&`; `None` if it may become an entity.
fn entity(rest: &str) -> Option<usize> {
    let name = rest[1..].find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '#'))?;
    if rest[1 + name..].starts_with(';') { Some(name + 2) } else { Some(1) }
}
