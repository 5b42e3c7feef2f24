//! Patterns of names in configuration. Everything that matches with `*` uses this one.

/// A name in which `*` stands for any number of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Creates a pattern. Every text is valid.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a name matches. Takes at most time proportional to the product of the lengths, without recursion.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut seen) = (0, 0);
        // Where to resume after a mismatch: behind the last star, one byte further in the name.
        let mut star: Option<(usize, usize)> = None;
        while seen < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at + 1, seen));
                    at += 1;
                }
                Some(byte) if *byte == name[seen] => (at, seen) = (at + 1, seen + 1),
                _ => match star {
                    Some((after, tried)) => {
                        star = Some((after, tried + 1));
                        (at, seen) = (after, tried + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn star_matches_any_text() {
        for (pattern, name, matches) in [
            ("read", "read", true),
            ("read", "reader", false),
            ("read*", "read", true),
            ("read*", "reader", true),
            ("*_file", "read_file", true),
            ("*_file", "read_files", false),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1c2b", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("**x", "x", true),
            ("Read", "read", false),
            ("r*d*e", "read_file", true),
            ("a*a", "a", false),
        ] {
            assert_eq!(Pattern::from(pattern).matches(name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_are_matched_fast() {
        let pattern = Pattern::new("a*".repeat(2_000) + "b");
        assert!(!pattern.matches(&"a".repeat(10_000)));
    }
}
