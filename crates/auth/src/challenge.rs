//! What a server says with its refusal: all `WWW-Authenticate` headers, all challenges in each, quotes and commas.

use crate::scope::Scopes;

/// One challenge of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Its scheme, as written.
    pub scheme: String,
    /// Its parameters: names in small letters, values without their quotes.
    pub params: Vec<(String, String)>,
}

/// What a refusal asks for, as far as tokens go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Where the resource says who signs people in.
    pub resource_metadata: Option<String>,
    /// What the operation needs.
    pub scopes: Option<Scopes>,
    /// What was wrong: `invalid_token`, `insufficient_scope`, `use_dpop_nonce` …
    pub error: Option<String>,
}

/// More headers, challenges or parameters say nothing more.
const MAX_PARTS: usize = 64;
/// A longer header is not read.
const MAX_HEADER: usize = 16 * 1024;

// === impl Challenge ===

impl Challenge {
    /// The challenges of one header; what cannot be read ends it.
    pub fn read(header: &str) -> Vec<Self> {
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

    /// The first value of a parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a token answers it.
    pub fn wants_token(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("bearer") || self.scheme.eq_ignore_ascii_case("dpop")
    }
}

// === impl Demand ===

impl Demand {
    /// What these headers ask for; of each parameter the first one of a challenge that a token answers.
    pub fn read<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        let challenges = headers.into_iter().take(MAX_PARTS).flat_map(Challenge::read);
        let challenges: Vec<Challenge> = challenges.filter(Challenge::wants_token).collect();
        let first = |name: &str| challenges.iter().find_map(|challenge| challenge.param(name));
        Self {
            resource_metadata: first("resource_metadata").map(str::to_owned),
            scopes: first("scope").and_then(|text| Scopes::parse(text).ok()).filter(|scopes| !scopes.is_empty()),
            error: first("error").map(str::to_owned),
        }
    }

    /// Whether more scopes would help.
    pub fn wants_scopes(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// What is left of a header.
struct Reader<'a>(&'a str);

enum Part<'a> {
    Scheme(&'a str),
    Param(&'a str, String),
}

impl<'a> Reader<'a> {
    /// The next scheme or parameter.
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

    /// A token or a quoted text.
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

    /// `Negotiate YII=`: one word after the scheme that is no parameter.
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

    use super::{Challenge, Demand, MAX_HEADER, MAX_PARTS};

    fn read(header: &str) -> String {
        let shown = |challenge: &Challenge| {
            let params: Vec<_> = challenge.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{}({})", challenge.scheme, params.join(";"))
        };
        Challenge::read(header).iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn challenges_are_told_apart_from_their_parameters() {
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
    fn a_demand_is_gathered_from_all_headers_that_ask_for_a_token() {
        let headers = [
            r#"Basic realm="x", resource_metadata="https://evil.example/""#,
            r#"bearer error="insufficient_scope", scope="read write""#,
            r#"DPoP resource_metadata="https://example.org/prm", scope="other""#,
        ];
        let demand = Demand::read(headers);
        assert_eq!(demand.resource_metadata.as_deref(), Some("https://example.org/prm"));
        assert_eq!(demand.scopes.as_ref().unwrap().to_string(), "read write");
        assert!(demand.wants_scopes());
        assert_eq!(Demand::read([r#"Bearer scope="a\"b""#]).scopes, None);
        assert_eq!(Demand::read([]), Demand::default());
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_harm(header in ".*") {
            Challenge::read(&header);
        }

        #[test]
        fn what_is_quoted_is_read_as_it_was(value in "[^\\p{Cc}]{0,40}") {
            let quoted = value.replace('\\', r"\\").replace('"', "\\\"");
            let header = format!(r#"Basic realm="x, y", Bearer a=b, scope="{quoted}", error=none"#);
            let found = Challenge::read(&header);
            prop_assert_eq!(found.len(), 2);
            prop_assert_eq!(found[1].param("scope"), Some(value.as_str()));
            prop_assert_eq!(found[1].param("error"), Some("none"));
        }
    }

    #[test]
    fn endless_headers_are_not_read() {
        assert!(Challenge::read(&format!("Bearer a={}", "b".repeat(MAX_HEADER))).is_empty());
        assert_eq!(Challenge::read(&"A,".repeat(1000)).len(), MAX_PARTS);
        let crowded = Challenge::read(&format!("Bearer {}", "a=b,".repeat(1000)));
        assert_eq!(crowded[0].params.len(), MAX_PARTS);
    }
}
