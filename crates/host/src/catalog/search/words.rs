//! Splits text into normalised words: `read_file`, `readFile`, `read-file` and "Reads files." give the same two words.
//!
//! Words are split at characters other than letters and digits, and between lower and upper case. They are converted to
//! lower case, and English endings are removed. Each character of a script without spaces is a word.

/// Maximum number of characters of a text that are indexed.
const LOOKED_AT: usize = 16 * 1024;
/// Maximum length of a word in bytes; longer words are truncated.
const LONGEST: usize = 40;

/// Calls `visit` with each word.
pub(super) fn each(text: &str, mut visit: impl FnMut(&str)) {
    let mut word = String::new();
    let mut letters = text.chars().take(LOOKED_AT).peekable();
    let mut before = None;
    while let Some(letter) = letters.next() {
        if begins_word(before, letter, letters.peek().copied()) {
            finish(&mut word, &mut visit);
        }
        if letter.is_alphanumeric() && word.len() < LONGEST {
            word.extend(letter.to_lowercase());
        }
        before = Some(letter);
    }
    finish(&mut word, &mut visit);
}

/// Whether a character starts a new word.
fn begins_word(before: Option<char>, letter: char, after: Option<char>) -> bool {
    let Some(before) = before else { return true };
    if !letter.is_alphanumeric() || stands_alone(letter) || stands_alone(before) {
        return true;
    }
    // `readFile` before `F`; `HTTPServer` before `S`.
    let small_after = after.is_some_and(char::is_lowercase);
    letter.is_uppercase() && (before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && small_after))
}

/// Kana, ideographs and Hangul syllables.
fn stands_alone(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

fn finish(word: &mut String, visit: &mut impl FnMut(&str)) {
    if !word.is_empty() {
        let ending = without_ending(word);
        word.truncate(ending);
        visit(word);
        word.clear();
    }
}

/// Length of a word without its English ending. This is approximate, but the same for query and text.
fn without_ending(word: &str) -> usize {
    let keeps = |ending: &str, least: usize| word.strip_suffix(ending).map(str::len).filter(|left| least <= *left);
    let stem = keeps("ies", 2)
        .or_else(|| keeps("ing", 3))
        .or_else(|| word.ends_with("ss").then_some(word.len()))
        .or_else(|| keeps("es", 3))
        .or_else(|| keeps("ed", 3))
        .or_else(|| keeps("s", 2))
        .unwrap_or(word.len());
    // `file` and `files`, `directory` and `directories` get the same stem.
    let vowel = word[..stem].strip_suffix(['e', 'y']).map(str::len);
    vowel.filter(|left| 2 < *left).unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::each;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn words_are_split_at_separators_and_case_changes() {
        for (text, expected) in [
            ("read_file", vec!["read", "fil"]),
            ("readFile", vec!["read", "fil"]),
            ("Reads files.", vec!["read", "fil"]),
            ("HTTPServer2Go", vec!["http", "server2", "go"]),
            ("getS3Object", vec!["get", "s3", "object"]),
            ("base64", vec!["base64"]),
            ("  --  ", vec![]),
            ("日本x", vec!["日", "本", "x"]),
            ("Über-Größe", vec!["über", "größ"]),
            ("class classes", vec!["class", "class"]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn forms_of_a_word_have_the_same_stem() {
        for (one, other) in
            [("directory", "directories"), ("search", "searches"), ("list", "listing"), ("create", "created")]
        {
            assert_eq!(words(one), words(other));
        }
    }

    #[test]
    fn long_input_is_bounded() {
        assert!(words(&"x".repeat(1_000_000))[0].len() <= 44);
        assert!(words(&"a ".repeat(1_000_000)).len() <= 16 * 1024);
    }
}
