//! References in a message: `@` with a path, a resource or a prompt, at the beginning of a word. `@"a b.txt"` and `@a\ b.txt` have a
//! space. What they mean is decided in `attaching`.

/// A reference as it stands in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The name, without quotes.
    pub(crate) name: String,
    /// The name without the punctuation of a sentence at its end; equal to `name` for a quoted one.
    pub(crate) trimmed: String,
}

/// The reference that ends at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenReference {
    /// Byte where its `@` stands.
    pub(crate) start: usize,
    /// What was typed of the name, without quotes.
    pub(crate) typed: String,
}

/// References in one message.
const MOST: usize = 32;
/// What may end a sentence behind a name.
const PUNCTUATION: [char; 9] = ['.', ',', ';', ':', '!', '?', ')', ']', '\''];

/// The references of a message, in order, each once.
pub(crate) fn references(text: &str) -> Vec<Reference> {
    let mut found: Vec<Reference> = Vec::new();
    for start in starts(text) {
        let Name { name, is_quoted, .. } = Name::read(&text[start + 1..]);
        let trimmed = if is_quoted { name.clone() } else { name.trim_end_matches(PUNCTUATION).to_owned() };
        let reference = Reference { name, trimmed };
        if !reference.trimmed.is_empty() && !found.contains(&reference) && found.len() < MOST {
            found.push(reference);
        }
    }
    found
}

/// The reference that is being typed at the end of this text.
pub(crate) fn open_reference(typed: &str) -> Option<OpenReference> {
    let start = *starts(typed).last()?;
    let Name { name, is_closed, .. } = Name::read(&typed[start + 1..]);
    (!is_closed).then_some(OpenReference { start, typed: name })
}

/// A name as a reference is written, with quotes where it needs them.
pub(crate) fn written(name: &str) -> String {
    match name.contains(|letter: char| letter.is_whitespace() || letter == '"' || letter == '\\') {
        true => format!("@\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
        false => format!("@{name}"),
    }
}

/// Where an `@` begins a word and is not inside the quotes of an earlier one.
fn starts(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut before = None;
    let mut end = 0;
    for (index, letter) in text.char_indices() {
        if index < end {
            before = Some(letter);
            continue;
        }
        let begins =
            before.is_none_or(|before: char| before.is_whitespace() || matches!(before, '(' | '[' | '"' | '\''));
        if letter == '@' && begins {
            starts.push(index);
            end = index + 1 + Name::read(&text[index + 1..]).length;
        }
        before = Some(letter);
    }
    starts
}

struct Name {
    name: String,
    is_quoted: bool,
    /// Whether something follows it.
    is_closed: bool,
    /// Bytes that it takes, with its quotes.
    length: usize,
}

impl Name {
    fn read(text: &str) -> Self {
        let mut letters = text.char_indices().peekable();
        let is_quoted = letters.next_if(|(_, letter)| *letter == '"').is_some();
        let mut name = String::new();
        while let Some((index, letter)) = letters.next() {
            match letter {
                '\\' if letters.peek().is_some_and(|(_, next)| *next == '"' || *next == '\\' || *next == ' ') => {
                    name.extend(letters.next().map(|(_, next)| next));
                }
                '"' if is_quoted => return Self { name, is_quoted, is_closed: true, length: index + 1 },
                // A quoted name is on one line, so that a forgotten quote does not take the rest of a message.
                '\n' => return Self { name, is_quoted, is_closed: true, length: index },
                letter if !is_quoted && letter.is_whitespace() => {
                    return Self { name, is_quoted, is_closed: true, length: index };
                }
                letter => name.push(letter),
            }
        }
        Self { name, is_quoted, is_closed: false, length: text.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenReference, open_reference, references, written};

    fn names(text: &str) -> Vec<String> {
        references(text).into_iter().map(|reference| reference.trimmed).collect()
    }

    #[test]
    fn references_begin_a_word_and_may_be_quoted() {
        assert_eq!(names("compare @a.txt with @b/c.txt."), ["a.txt", "b/c.txt"]);
        assert_eq!(names("mail me@example.org"), Vec::<String>::new());
        assert_eq!(names(r#"read @"my notes.txt" and @other\ notes.txt, please"#), ["my notes.txt", "other notes.txt"]);
        assert_eq!(names(r#"@"say \"hi\".txt""#), [r#"say "hi".txt"#]);
        assert_eq!(names("(@notes.txt) [@x.md]"), ["notes.txt", "x.md"]);
        assert_eq!(names("@docs.memo://today?"), ["docs.memo://today"]);
        assert_eq!(names("@a @a @ @"), ["a"]);
        assert_eq!(names("@\"no end\nsecond line"), ["no end"]);
        assert_eq!(names(&"@x1 ".repeat(1_000)), ["x1"]);
    }

    #[test]
    fn the_reference_at_the_cursor_is_open_until_its_end() {
        let open = |typed: &str| open_reference(typed).map(|OpenReference { start, typed }| (start, typed));
        assert_eq!(open("see @no"), Some((4, "no".to_owned())));
        assert_eq!(open("see @\"my no"), Some((4, "my no".to_owned())));
        assert_eq!(open("see @"), Some((4, String::new())));
        assert_eq!(open("see @no and"), None);
        assert_eq!(open("see @\"my notes\""), None);
        assert_eq!(open("me@ex"), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for name in ["a.txt", "my notes.txt", r#"say "hi".txt"#, r"back\slash", "ü/日本.txt", "docs.memo://a"] {
            assert_eq!(references(&written(name))[0].name, name);
        }
    }
}
