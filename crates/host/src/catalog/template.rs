//! Matches URIs against URI templates (RFC 6570).
//!
//! A template is parsed into literals and expressions. Matching keeps the set of positions that can be reached after
//! each part, so the work is at most the length of the URI times the number of parts. Values are not extracted; the
//! server does that.

/// A parsed URI template.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matcher(Vec<TemplatePart>);

#[derive(Debug, PartialEq, Eq)]
enum TemplatePart {
    Literal(Vec<u8>),
    Expression { lead: Option<u8>, allowed: Allowed },
}

/// Bytes that the value of an expression can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    /// All bytes.
    Anything,
    /// All but `#`.
    Query,
    /// All but `?` and `#`.
    Path,
    /// All but `/`, `?` and `#`.
    Segment,
}

/// Maximum number of parts of a template. Templates with more match nothing.
const PARTS: usize = 16;
/// Maximum length of a URI in bytes. Longer ones match nothing.
const URI_BYTES: usize = 8 * 1024;

// === impl Matcher ===

impl Matcher {
    /// Parses a template; `None` if it is invalid or has too many parts.
    pub(super) fn read(template: &str) -> Option<Self> {
        let (mut parts, mut rest) = (Vec::new(), template);
        while !rest.is_empty() {
            let (literal, tail) = rest.split_once('{').map_or((rest, None), |(before, after)| (before, Some(after)));
            if literal.contains('}') || PARTS < parts.len() {
                return None;
            }
            if !literal.is_empty() {
                parts.push(TemplatePart::Literal(literal.as_bytes().to_vec()));
            }
            let Some(tail) = tail else { break };
            let (expression, after) = tail.split_once('}')?;
            parts.push(TemplatePart::expression(expression)?);
            rest = after;
        }
        Some(Self(parts))
    }

    /// Whether a URI can be an expansion of the template.
    pub(super) fn matches(&self, uri: &str) -> bool {
        let uri = uri.as_bytes();
        if URI_BYTES < uri.len() || self.begins_otherwise(uri) {
            return false;
        }
        let mut places = vec![false; uri.len() + 1];
        places[0] = true;
        for part in &self.0 {
            places = part.advance(uri, &places);
        }
        places[uri.len()]
    }

    /// Fast path for templates that begin with another literal.
    fn begins_otherwise(&self, uri: &[u8]) -> bool {
        matches!(self.0.first(), Some(TemplatePart::Literal(literal)) if !uri.starts_with(literal))
    }
}

// === impl TemplatePart ===

impl TemplatePart {
    fn expression(text: &str) -> Option<Self> {
        let (operator, variables) = match text.as_bytes().first()? {
            b'+' | b'#' | b'.' | b'/' | b';' | b'?' | b'&' => text.split_at(1),
            _ => ("", text),
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.%,:*-".contains(&byte);
        if variables.is_empty() || !variables.bytes().all(is_name) {
            return None;
        }
        let several = variables.contains(['*', ',']);
        let (lead, allowed) = match operator {
            "+" => (None, Allowed::Anything),
            "#" => (Some(b'#'), Allowed::Anything),
            "?" => (Some(b'?'), Allowed::Query),
            "&" => (Some(b'&'), Allowed::Query),
            "/" if several => (Some(b'/'), Allowed::Path),
            "." | "/" | ";" => (operator.bytes().next(), Allowed::Segment),
            _ => (None, Allowed::Segment),
        };
        Some(Self::Expression { lead, allowed })
    }

    /// Returns the positions that can be reached after this part.
    fn advance(&self, uri: &[u8], places: &[bool]) -> Vec<bool> {
        match self {
            Self::Literal(literal) => moved(uri, places, literal),
            Self::Expression { lead: None, allowed } => allowed.spread(uri, places),
            // An expression with a lead expands to nothing if its variables are undefined.
            Self::Expression { lead: Some(lead), allowed } => {
                let begun = moved(uri, places, &[*lead]);
                let spread = allowed.spread(uri, &begun);
                let any = |at: usize| places[at] || begun[at] || spread[at];
                (0..places.len()).map(any).collect()
            }
        }
    }
}

fn moved(uri: &[u8], places: &[bool], literal: &[u8]) -> Vec<bool> {
    let mut reached = vec![false; places.len()];
    for at in (0..uri.len()).filter(|at| places[*at] && uri[*at..].starts_with(literal)) {
        reached[at + literal.len()] = true;
    }
    reached
}

// === impl Allowed ===

impl Allowed {
    fn holds(self, byte: u8) -> bool {
        match self {
            Self::Anything => true,
            Self::Query => byte != b'#',
            Self::Path => !matches!(byte, b'?' | b'#'),
            Self::Segment => !matches!(byte, b'/' | b'?' | b'#'),
        }
    }

    /// Positions reached by consuming at least one allowed byte from any of `places`.
    fn spread(self, uri: &[u8], places: &[bool]) -> Vec<bool> {
        let mut reached = vec![false; places.len()];
        let mut inside = false;
        for (at, byte) in uri.iter().enumerate() {
            inside = (inside || places[at]) && self.holds(*byte);
            reached[at + 1] = inside;
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::{Matcher, TemplatePart};

    fn matches(template: &str, uri: &str) -> bool {
        Matcher::read(template).is_some_and(|matcher| matcher.matches(uri))
    }

    #[test]
    fn uri_matches_its_template() {
        for (template, uri, expected) in [
            ("note:///{id}", "note:///7", true),
            ("note:///{id}", "note:///", false),
            ("note:///{id}", "note:///7/8", false),
            ("note:///{id}/text", "note:///7/text", true),
            ("note:///{a}-{b}", "note:///x-y-z", true),
            ("note:///{a}-{b}", "note:///xyz", false),
            ("file:///{+path}", "file:///a/b?c#d", true),
            ("file:///{path*}", "file:///a/b", false),
            ("x:{/path*}", "x:/a/b/c", true),
            ("x:{/one}", "x:/a/b", false),
            ("x:{/one}", "x:", true),
            ("q://s{?q,lang}", "q://s", true),
            ("q://s{?q,lang}", "q://s?q=1&lang=de", true),
            ("q://s{?q,lang}", "q://sq=1", false),
            ("q://s?fixed=1{&x}", "q://s?fixed=1&x=2", true),
            ("d://host{.ending}", "d://host.txt", true),
            ("d://p{;x,y}", "d://p;x=1;y=2", true),
            ("d://p{#part}", "d://p#any/thing?", true),
            ("d://{a:3}", "d://abc", true),
            ("plain://x", "plain://x", true),
            ("plain://x", "plain://xy", false),
            ("ä://{ö}", "ä://x", false),
        ] {
            assert_eq!(matches(template, uri), expected, "{template} {uri}");
        }
    }

    /// Matches by exhaustive search.
    fn tried(parts: &[TemplatePart], uri: &[u8]) -> bool {
        let Some((part, rest)) = parts.split_first() else { return uri.is_empty() };
        match part {
            TemplatePart::Literal(literal) => uri.strip_prefix(literal.as_slice()).is_some_and(|uri| tried(rest, uri)),
            TemplatePart::Expression { lead: None, allowed } => (1..=uri.len())
                .take_while(|length| allowed.holds(uri[length - 1]))
                .any(|length| tried(rest, &uri[length..])),
            TemplatePart::Expression { lead: Some(lead), allowed } => {
                let value = uri.strip_prefix(&[*lead]).is_some_and(|uri| {
                    let holds = |length: &usize| uri[..*length].iter().all(|byte| allowed.holds(*byte));
                    (0..=uri.len()).take_while(holds).any(|length| tried(rest, &uri[length..]))
                });
                value || tried(rest, uri)
            }
        }
    }

    proptest! {
        #[test]
        fn matcher_agrees_with_exhaustive_search(
            template in "([ab/]|[{][+#./?&]?[xy]([*]|,z)?[}]){0,6}", uri in "[ab/.?#&]{0,8}"
        ) {
            let matcher = Matcher::read(&template).unwrap();
            prop_assert_eq!(matcher.matches(&uri), tried(&matcher.0, uri.as_bytes()), "{} {}", template, uri);
        }

        #[test]
        fn arbitrary_input_does_not_panic(template in ".{0,60}", uri in ".{0,60}") {
            matches(&template, &uri);
        }
    }

    #[test]
    fn invalid_template_is_rejected() {
        for broken in ["{", "}", "{}", "{+}", "a{b{c}}", "a{b", "{a b}", "{=x}", &"{a}".repeat(40)] {
            assert_eq!(Matcher::read(broken), None, "{broken}");
        }
    }

    #[test]
    fn matching_is_fast_for_any_template() {
        let template = "a{+x}".repeat(8);
        let uri = "a".repeat(8_000) + "!";
        let began = Instant::now();
        assert!(matches(&template, &uri));
        assert!(!matches(&(template + "b"), &uri));
        assert!(began.elapsed() < Duration::from_secs(1));
        assert!(!matches("{+x}", &"a".repeat(10_000)), "longer than any URI we route");
    }
}
