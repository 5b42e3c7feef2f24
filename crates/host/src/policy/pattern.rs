//! What a saved approval covers: the arguments that decide what a call touches, with their values.
//!
//! These are the arguments whose name or value says that they are a path, an address or a command, anywhere inside. A
//! later call is covered if exactly the same arguments do so, with the same values; its other arguments may differ. An
//! argument that appears later and names a path is therefore asked about. Arguments that are too large to be shown are
//! covered as a whole, by their digest.

use std::{collections::BTreeMap, fmt};

use ring::digest::{SHA256, digest};
use toolway_wire::json::{JsonKind, Raw};

use crate::inbox::approval_rows;

/// Arguments that must be the same, with their values in canonical JSON, by JSON Pointer. The empty pointer stands for
/// arguments as a whole that cannot be told apart by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ArgumentPattern {
    values: BTreeMap<String, String>,
}

/// Bytes of arguments that are looked into. Of larger ones the digest of the whole is kept.
const MAX_ARGUMENTS: usize = 64 * 1024;
/// Levels of arguments that are looked into: each costs one pass over what is inside.
const MAX_LEVELS: usize = 32;
/// Bytes of a pattern. Instead of a larger one the digest of all arguments is kept.
const MAX_PATTERN: usize = 8 * 1024;
/// Bytes of a value that is kept. Of a longer one the digest is kept.
const MAX_VALUE: usize = 1_000;
/// Marks a pointer whose value is a digest. No pointer to a member ends like this: `~` is followed by `0` or `1` there.
const DIGEST_MARK: &str = "~sha256";

impl ArgumentPattern {
    /// The pattern of a call with these arguments.
    pub fn of(arguments: Option<&Raw>) -> Self {
        let mut pattern = Self::default();
        let Some(arguments) = arguments else { return pattern };
        if MAX_ARGUMENTS < arguments.as_bytes().len() || MAX_LEVELS < levels(arguments.as_bytes()) {
            return Self::of_digest(arguments);
        }
        let mut members = match arguments.kind() {
            JsonKind::Object => arguments.members(),
            _ => return Self::of_whole(arguments),
        };
        members.sort_by(|one, other| one.key.cmp(&other.key));
        // Servers differ in which of two members of the same name counts.
        if members.windows(2).any(|pair| pair[0].key == pair[1].key) {
            return Self::of_whole(arguments);
        }
        for member in members.iter().filter(|member| approval_rows::touches(&member.key, &member.value)) {
            let pointer = format!("/{}", member.key.replace('~', "~0").replace('/', "~1"));
            pattern.insert(pointer, canonical(&member.value));
        }
        if pattern.kept_bytes() <= MAX_PATTERN { pattern } else { Self::of_digest(arguments) }
    }

    /// Reads a pattern as [`ArgumentPattern::to_json`] writes it; `None` if the text is not an object.
    pub fn parse(text: &str) -> Option<Self> {
        let object = Raw::parse(text.to_owned()).ok().filter(|value| value.kind() == JsonKind::Object)?;
        let values = object.members().into_iter().map(|member| (member.key.clone(), canonical(&member.value)));
        Some(Self { values: values.collect() })
    }

    /// A JSON object of pointer to value. Equal patterns have equal texts.
    pub fn to_json(&self) -> String {
        let members = self.values.iter().map(|(pointer, value)| format!("{}:{value}", Raw::of(pointer)));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// The arguments that may differ, for a sentence about what is covered.
    pub fn free_arguments(&self) -> &'static str {
        if self.values.contains_key("") || self.values.contains_key(DIGEST_MARK) {
            return "All arguments must be the same.";
        }
        "Other arguments may differ, unless they name a path, an address or a command."
    }

    /// About how many bytes it takes.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.values.iter().map(|(pointer, value)| pointer.len() + value.len()).sum()
    }

    fn of_digest(arguments: &Raw) -> Self {
        Self { values: BTreeMap::from([(DIGEST_MARK.to_owned(), sha256(arguments.as_bytes()))]) }
    }

    fn of_whole(arguments: &Raw) -> Self {
        let mut pattern = Self::default();
        pattern.insert(String::new(), canonical(arguments));
        pattern
    }

    fn insert(&mut self, pointer: String, value: String) {
        if value.len() <= MAX_VALUE {
            self.values.insert(pointer, value);
            return;
        }
        self.values.insert(pointer + DIGEST_MARK, sha256(value.as_bytes()));
    }
}

/// Levels of objects and lists in a JSON text.
fn levels(text: &[u8]) -> usize {
    let (mut level, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' if !is_text => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The digest as a JSON string.
fn sha256(bytes: &[u8]) -> String {
    let hex: String = digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Raw::of(&hex).to_string()
}

/// `path="/tmp/a", url="https://example.org"`. Values come from a model or a client: a surface removes control sequences.
impl fmt::Display for ArgumentPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.values.is_empty() {
            return f.write_str("no path, address or command in its arguments");
        }
        for (index, (pointer, value)) in self.values.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            let (pointer, is_digest) = match pointer.strip_suffix(DIGEST_MARK) {
                Some(pointer) => (pointer, true),
                None => (pointer.as_str(), false),
            };
            let name = pointer.trim_start_matches('/').replace("~1", "/").replace("~0", "~");
            let name = if name.is_empty() { "arguments" } else { &name };
            if is_digest {
                let short: String = value.trim_matches('"').chars().take(12).collect();
                write!(f, "the same long {name} (sha256 {short}…)")?;
            } else {
                write!(f, "{name}={value}")?;
            }
        }
        Ok(())
    }
}

/// A value with sorted keys and one spelling of each string. Members that occur twice keep their order. The depth of the
/// recursion is bounded by the parser.
fn canonical(value: &Raw) -> String {
    match value.kind() {
        JsonKind::Object => {
            let mut members = value.members();
            members.sort_by(|one, other| one.key.cmp(&other.key));
            let members = members.iter().map(|member| format!("{}:{}", Raw::of(&member.key), canonical(&member.value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        JsonKind::Array => {
            let elements = value.elements().iter().map(canonical).collect::<Vec<_>>();
            format!("[{}]", elements.join(","))
        }
        JsonKind::String => value.as_str().map_or_else(|| value.to_string(), |text| Raw::of(&*text).to_string()),
        JsonKind::Number | JsonKind::Boolean | JsonKind::Null => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::ArgumentPattern;

    fn pattern(arguments: &str) -> ArgumentPattern {
        ArgumentPattern::of(Some(&Raw::parse(arguments.to_owned()).unwrap()))
    }

    /// Approved arguments, later arguments, whether the approval covers them.
    const TABLE: &[(&str, &str, bool)] = &[
        ("{}", "{}", true),
        (r#"{"text":"a"}"#, r#"{"text":"b"}"#, true),
        (r#"{"text":"a"}"#, r#"{"text":"b","count":3}"#, true),
        // A path, an address or a command must be the same.
        (r#"{"path":"a.txt","text":"a"}"#, r#"{"path":"a.txt","text":"b"}"#, true),
        (r#"{"path":"a.txt"}"#, r#"{"path":"b.txt"}"#, false),
        (r#"{"path":"/tmp/a"}"#, r#"{"path":"/tmp/a/../../etc/passwd"}"#, false),
        (r#"{"url":"https://a.org"}"#, r#"{"url":"https://b.org"}"#, false),
        (r#"{"command":"ls"}"#, r#"{"command":"ls; rm -rf ~"}"#, false),
        (r#"{"amount":1}"#, r#"{"amount":1000}"#, false),
        // Whatever its name.
        (r#"{"text":"a"}"#, r#"{"text":"/etc/passwd"}"#, false),
        (r#"{"x":"/tmp/a"}"#, r#"{"x":"/tmp/b"}"#, false),
        (r#"{"x":"/tmp/a"}"#, r#"{"x":"plain"}"#, false),
        // A further or missing one is asked about.
        (r#"{"text":"a"}"#, r#"{"text":"a","path":"b"}"#, false),
        (r#"{"source":"a","destination":"b"}"#, r#"{"source":"a"}"#, false),
        // Also inside lists and objects, at any depth.
        (r#"{"paths":["a"]}"#, r#"{"paths":["a","b"]}"#, false),
        (r#"{"edit":{"file":"a","old":"x"}}"#, r#"{"edit":{"old":"x","file":"a"}}"#, true),
        (r#"{"edit":{"file":"a","old":"x"}}"#, r#"{"edit":{"file":"a","old":"y"}}"#, false),
        (r#"{"a":{"b":{"c":{"d":{"e":1}}}}}"#, r#"{"a":{"b":{"c":{"d":{"e":"/etc"}}}}}"#, false),
        // Another spelling is the same value; a member that occurs twice is not.
        (r#"{"path":"\u0061"}"#, r#"{ "path" : "a" }"#, true),
        (r#"{"path":"a"}"#, r#"{"path":"a","path":"b"}"#, false),
        (r#"{"path":"a","text":"x","text":"y"}"#, r#"{"path":"a","text":"x","text":"z"}"#, false),
        (r#"{"edit":{"path":"a"}}"#, r#"{"edit":{"path":"a","path":"b"}}"#, false),
        ("[1]", "[2]", false),
    ];

    #[test]
    fn a_later_call_is_covered_if_it_touches_the_same() {
        for (approved, later, expected) in TABLE {
            assert_eq!(pattern(approved) == pattern(later), *expected, "{approved} {later}");
        }
        assert_eq!(ArgumentPattern::of(None), pattern("{}"));
    }

    #[test]
    fn long_values_are_kept_as_digests_that_no_argument_can_imitate() {
        let long = pattern(&format!(r#"{{"script":"{}"}}"#, "x".repeat(5_000)));
        assert!(long.to_json().len() < 200, "{long:?}");
        assert_ne!(long, pattern(&format!(r#"{{"script":"{}y"}}"#, "x".repeat(4_999))));
        let imitated = pattern(&long.to_json());
        assert_ne!(long, imitated);
        let member = long.to_json().replace("/script", "script");
        assert_ne!(long, pattern(&member));
        assert!(long.to_string().starts_with("the same long script (sha256 "), "{long}");
    }

    #[test]
    fn large_arguments_are_covered_as_a_whole_by_their_digest() {
        let large = |text: &str| pattern(&format!(r#"{{"path":"a","text":"{}"}}"#, text.repeat(70_000)));
        assert!(large("x").to_string().starts_with("the same long arguments (sha256 "), "{}", large("x"));
        assert_eq!(large("x").free_arguments(), "All arguments must be the same.");
        assert_eq!(large("x"), large("x"));
        assert_ne!(large("x"), large("y"), "no argument of it may differ");
        assert_eq!(ArgumentPattern::parse(&large("x").to_json()), Some(large("x")));
        let many = |last: &str| {
            let paths: Vec<_> = (0..500).map(|number| format!(r#""path{number}":"/tmp/{number}""#)).collect();
            pattern(&format!("{{{},\"x\":\"{last}\"}}", paths.join(",")))
        };
        assert!(many("a").kept_bytes() < 100, "{:?}", many("a"));
        assert_ne!(many("a"), many("b"));
    }

    #[test]
    fn deeply_nested_arguments_are_covered_as_a_whole_too() {
        let nested = |depth: usize| pattern(&format!(r#"{{"x":{}"[["{}}}"#, "[".repeat(depth), "]".repeat(depth)));
        assert!(nested(20).to_string().starts_with("no path"), "{}", nested(20));
        assert!(nested(40).to_string().starts_with("the same long arguments (sha256 "), "{}", nested(40));
    }

    #[test]
    fn a_pattern_is_read_as_it_was_written_and_shown_in_words() {
        let given = pattern(r#"{"path":"a \"b\"","to/cc":["x@y.z"],"text":"free"}"#);
        assert_eq!(given.to_json(), r#"{"/path":"a \"b\"","/to~1cc":["x@y.z"]}"#);
        assert_eq!(ArgumentPattern::parse(&given.to_json()), Some(given.clone()));
        assert_eq!(given.to_string(), r#"path="a \"b\"", to/cc=["x@y.z"]"#);
        assert_eq!(pattern("{}").to_string(), "no path, address or command in its arguments");
        assert_eq!(pattern("[1]").to_string(), "arguments=[1]");
        assert_eq!(ArgumentPattern::parse("3"), None);
    }
}
