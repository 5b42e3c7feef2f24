//! Which arguments decide what a call touches: paths, addresses and commands, by their names and values.

use toolway_wire::json::{JsonKind, Raw};

/// Words in the name of an argument that decides what a call touches.
const IMPORTANT_WORDS: &str = "path paths file files filename dir directory folder source destination target url urls uri \
    uris endpoint host hostname domain command commands cmd script shell program executable args sql statement code \
    recipient recipients to cc bcc email emails branch repo repository amount cwd workdir filepath hosts scripts argv \
    query expression src dst dest link links href address addresses location pathname dirname";
/// Endings of such words that are written together with what is before them: `baseurl`.
const IMPORTANT_ENDINGS: &[&str] =
    &["path", "paths", "url", "urls", "uri", "uris", "dir", "directory", "command", "filename"];

/// Whether an argument, or anything inside, is a path, an address or a command by its name or value. The depth of the
/// recursion is bounded by the parser.
pub(crate) fn touches(name: &str, value: &Raw) -> bool {
    let inside = match value.kind() {
        JsonKind::Object => value.members().iter().any(|member| touches(&member.key, &member.value)),
        JsonKind::Array => value.elements().iter().any(|element| touches("", element)),
        JsonKind::String => value.as_str().is_none_or(|text| may_name_a_place(&text)),
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => false,
    };
    inside || is_important_name(name) || may_name_a_place(name)
}

/// Whether any word of a text could be a path or an address. Wider than [`is_place`]: what is missed here is covered by a
/// saved approval without being asked about.
fn may_name_a_place(text: &str) -> bool {
    text.split_whitespace().any(|word| {
        word.contains(['/', '\\', '@'])
            || word.starts_with(['~', '$', '%'])
            || word.contains("..")
            || word.split_once(':').is_some_and(|(_, rest)| !rest.is_empty())
    })
}

/// Whether the name, or the name of its parent, has one of the words.
pub(super) fn is_important_name(label: &str) -> bool {
    words(label).iter().any(|word| {
        IMPORTANT_WORDS.split_whitespace().any(|important| important == word)
            || IMPORTANT_ENDINGS.iter().any(|ending| word.ends_with(ending))
    })
}

/// The words of a label in snake case, kebab case or camel case, without numbers. Capitals before a word in camel case are
/// taken as part of it and as a word of their own: `URLPath`, `URLs`.
fn words(label: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in label.split(|letter: char| !letter.is_alphabetic()) {
        let mut rest = part;
        while !rest.is_empty() {
            let (word, after) = rest.split_at(camel_case_end(rest));
            words.push(word.to_lowercase());
            // `URLPath` is `URL` and `Path`.
            let capitals: Vec<_> = word.char_indices().take_while(|(_, letter)| letter.is_uppercase()).collect();
            if let [_, .., (last, _)] = capitals[..]
                && word.chars().any(char::is_lowercase)
            {
                words.extend([word[..last].to_lowercase(), word[last..].to_lowercase()]);
            }
            rest = after;
        }
    }
    words
}

/// Where the first capital after a small letter stands.
fn camel_case_end(text: &str) -> usize {
    let pairs = text.char_indices().zip(text.char_indices().skip(1));
    let mut ends = pairs.filter(|((_, one), (_, next))| !one.is_uppercase() && next.is_uppercase());
    ends.next().map_or(text.len(), |(_, (end, _))| end)
}

/// Whether a text is a path or a URL.
pub(super) fn is_place(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let is_path = ["/", "~/", "./", "../", "\\\\"].iter().any(|start| first.starts_with(start)) && 1 < first.len();
    let is_drive = matches!(first.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    let scheme = first.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
    let is_url = !scheme.is_empty()
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'));
    is_path || is_drive || is_url
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn hidden_forms_of_paths_and_addresses_are_found() {
        let texts = [" /etc/passwd", "a\n/etc/passwd", "/", "~", "~root/.ssh", "..", "..\\x", "C:x", "a/../../b"];
        let more = ["$HOME/.ssh", "file:/etc/passwd", "mailto:x", "a@evil.example", "evil.example/x", "rm /tmp/x"];
        for text in texts.into_iter().chain(more) {
            assert!(super::may_name_a_place(text), "{text}");
        }
        for text in ["milk", "Release on Thursday: freeze on Tuesday.", ""] {
            assert!(!super::may_name_a_place(text), "{text}");
        }
    }

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(words("sourceFile_name[0].toURL"), ["source", "file", "name", "to", "url"]);
        assert_eq!(words("URLPath2x"), ["urlpath", "url", "path", "x"]);
        assert_eq!(words("URLs"), ["urls", "ur", "ls"]);
        assert_eq!(words("[0]"), Vec::<String>::new());
    }

    #[test]
    fn names_of_paths_are_found_in_every_spelling() {
        for name in [
            "path2",
            "2path",
            "file_path_1",
            "URLPath",
            "XMLFile",
            "imageURL",
            "URLs",
            "s3Uri",
            "PATH",
            "baseurl",
            "outDir",
        ] {
            assert!(super::is_important_name(name), "{name}");
        }
        for name in ["text", "count2", "HTMLBody", "note_1", "isDirty"] {
            assert!(!super::is_important_name(name), "{name}");
        }
    }
}
