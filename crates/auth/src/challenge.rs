//! Parser of `WWW-Authenticate`: all headers, all challenges in each, quoted strings and commas.

use crate::scope::Scopes;

/// One challenge of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Scheme, as written.
    pub scheme: String,
    /// Parameters: lower-case names, unquoted values.
    pub params: Vec<(String, String)>,
}

/// What the challenges of a response say about tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenChallenge {
    /// URL of the protected resource metadata.
    pub resource_metadata: Option<String>,
    /// Scopes that the operation needs.
    pub scopes: Option<Scopes>,
    /// Error code: `invalid_token`, `insufficient_scope`, `use_dpop_nonce` …
    pub error: Option<String>,
}

/// Maximum number of headers, challenges and parameters that are read.
const MAX_PARTS: usize = 64;
/// Maximum length of a header in bytes; a longer one is ignored.
const MAX_HEADER: usize = 16 * 1024;

// === impl Challenge ===

impl Challenge {
    /// Parses the challenges of one header, up to the first syntax error.
    pub fn parse(header: &str) -> Vec<Self> {
        if MAX_HEADER < header.len() {
            return Vec::new();
        }
        let (mut reader, mut found) = (Reader(header), Vec::<Self>::new());
        while let Some(part) = reader.next_part().filter(|_| found.len() < MAX_PARTS) {
            match (part, found.last_mut()) {
                (Part::Scheme(scheme), _) => found.push(Self { scheme: scheme.to_owned(), params: Vec::new() }),
                (Part::Param(name, value), Some(challenge)) if challenge.params.len() < MAX_PARTS => {
                    challenge.params.push((name.to_ascii_lowercase(), value));
                }
                (Part::Param(..), _) => {}
            }
        }
        found
    }

    /// First value of a parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a token satisfies this challenge.
    pub fn accepts_token(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("bearer") || self.scheme.eq_ignore_ascii_case("dpop")
    }
}

// === impl Demand ===

impl TokenChallenge {
    /// Collects the parameters of all token challenges; the first value of each counts.
    pub fn parse<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        let challenges = headers.into_iter().take(MAX_PARTS).flat_map(Challenge::parse);
        let challenges: Vec<Challenge> = challenges.filter(Challenge::accepts_token).collect();
        let first = |name: &str| challenges.iter().find_map(|challenge| challenge.param(name));
        Self {
            resource_metadata: first("resource_metadata").map(str::to_owned),
            scopes: first("scope").and_then(|text| Scopes::parse(text).ok()).filter(|scopes| !scopes.is_empty()),
            error: first("error").map(str::to_owned),
        }
    }

    /// Whether a token with more scopes would help.
    pub fn needs_more_scopes(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Rest of a header.
struct Reader<'a>(&'a str);

enum Part<'a> {
    Scheme(&'a str),
    Param(&'a str, String),
}

impl<'a> Reader<'a> {
    /// Next scheme or parameter.
    fn next_part(&mut self) -> Option<Part<'a>> {
        self.0 = self.0.trim_start_matches([',', ' ', '\t']);
        let name = self.token()?;
        let rest = self.0.trim_start_matches([' ', '\t']);
        if let Some(value) = rest.strip_prefix('=') {
            self.0 = value.trim_start_matches([' ', '\t']);
            return self.value().map(|value| Part::Param(name, value));
        }
        self.skip_token68();
        Some(Part::Scheme(name))
    }

    fn token(&mut self) -> Option<&'a str> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let end = self.0.bytes().position(|byte| !is_part(byte)).unwrap_or(self.0.len());
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }

    /// A token or a quoted string.
    fn value(&mut self) -> Option<String> {
        let Some(quoted) = self.0.strip_prefix('"') else { return self.token().map(str::to_owned) };
        let (mut value, mut letters) = (String::new(), quoted.char_indices());
        while let Some((place, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.0 = &quoted[place + 1..];
                    return Some(value);
                }
                '\\' => value.push(letters.next()?.1),
                letter => value.push(letter),
            }
        }
        None
    }

    /// Skips a token68 such as `YII=` in `Negotiate YII=`.
    fn skip_token68(&mut self) {
        let rest = self.0.trim_start_matches([' ', '\t']);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        let end = rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let after = rest[end..].trim_start_matches('=').trim_start_matches([' ', '\t']);
        if rest.len() < self.0.len() && 0 < end && (after.is_empty() || after.starts_with(',')) {
            self.0 = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert_eq, proptest};

    use super::{Challenge, MAX_HEADER, MAX_PARTS, TokenChallenge};

    fn read(header: &str) -> String {
        let shown = |challenge: &Challenge| {
            let params: Vec<_> = challenge.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{}({})", challenge.scheme, params.join(";"))
        };
        Challenge::parse(header).iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn challenges_are_separated_from_their_parameters() {
        for (header, expected) in [
            ("Bearer", "Bearer()"),
            (
                r#"Bearer realm="a, b", Scope="x y" , error=invalid_token"#,
                "Bearer(realm=a, b;scope=x y;error=invalid_token)",
            ),
            (r#"Basic realm="x", Bearer scope="a\"b""#, r#"Basic(realm=x) Bearer(scope=a"b)"#),
            ("Negotiate YII==, Bearer realm = z", "Negotiate() Bearer(realm=z)"),
            ("Negotiate, Bearer scope=a,DPoP algs=\"ES256\"", "Negotiate() Bearer(scope=a) DPoP(algs=ES256)"),
            (",, Bearer ,a=b,", "Bearer(a=b)"),
            (r#"Bearer scope="never closed"#, "Bearer()"),
            ("a=b", ""),
            ("", ""),
            ("Bearer \u{e9}", "Bearer()"),
        ] {
            assert_eq!(read(header), expected, "{header}");
        }
    }

    #[test]
    fn parameters_are_collected_from_all_token_challenges() {
        let headers = [
            r#"Basic realm="x", resource_metadata="https://evil.example/""#,
            r#"bearer error="insufficient_scope", scope="read write""#,
            r#"DPoP resource_metadata="https://example.org/prm", scope="other""#,
        ];
        let demand = TokenChallenge::parse(headers);
        assert_eq!(demand.resource_metadata.as_deref(), Some("https://example.org/prm"));
        assert_eq!(demand.scopes.as_ref().unwrap().to_string(), "read write");
        assert!(demand.needs_more_scopes());
        assert_eq!(TokenChallenge::parse([r#"Bearer scope="a\"b""#]).scopes, None);
        assert_eq!(TokenChallenge::parse([]), TokenChallenge::default());
    }

    proptest! {
        #[test]
        fn any_header_is_parsed_without_panic(header in ".*") {
            Challenge::parse(&header);
        }

        #[test]
        fn quoted_values_round_trip(value in "[^\\p{Cc}]{0,40}") {
            let quoted = value.replace('\\', r"\\").replace('"', "\\\"");
            let header = format!(r#"Basic realm="x, y", Bearer a=b, scope="{quoted}", error=none"#);
            let found = Challenge::parse(&header);
            prop_assert_eq!(found.len(), 2);
            prop_assert_eq!(found[1].param("scope"), Some(value.as_str()));
            prop_assert_eq!(found[1].param("error"), Some("none"));
        }
    }

    #[test]
    fn oversized_headers_are_ignored() {
        assert!(Challenge::parse(&format!("Bearer a={}", "b".repeat(MAX_HEADER))).is_empty());
        assert_eq!(Challenge::parse(&"A,".repeat(1000)).len(), MAX_PARTS);
        let crowded = Challenge::parse(&format!("Bearer {}", "a=b,".repeat(1000)));
        assert_eq!(crowded[0].params.len(), MAX_PARTS);
    }
}
