//! Scopes: selection for the first request and after a refusal, and limits on repeated requests.

use std::{collections::VecDeque, fmt, time::Duration};

/// A set of scopes, in the order in which they were named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

/// Why a list of scopes is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScopes {
    /// A character that RFC 6749 does not allow in scopes.
    #[error("a scope contains an invalid character")]
    InvalidCharacter,
    /// Too many scopes.
    #[error("more than {MAX_SCOPES} scopes")]
    TooMany,
    /// A scope is too long.
    #[error("a scope is longer than {MAX_SCOPE} bytes")]
    TooLong,
}

/// Maximum number of scopes; a user could not judge more.
pub const MAX_SCOPES: usize = 200;
/// Maximum length of a scope in bytes.
pub const MAX_SCOPE: usize = 512;
/// Scope that requests a refresh token, used if the authorization server lists it.
pub const OFFLINE_ACCESS: &str = "offline_access";

// === impl Scopes ===

impl Scopes {
    /// Parses scopes separated by spaces.
    pub fn parse(text: &str) -> Result<Self, InvalidScopes> {
        Self::from_names(text.split(' ').filter(|name| !name.is_empty()))
    }

    /// Builds a set from names; duplicates are removed.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidScopes> {
        let mut scopes = Self::default();
        for name in names {
            scopes.add(checked(name)?);
            if MAX_SCOPES < scopes.0.len() {
                return Err(InvalidScopes::TooMany);
            }
        }
        Ok(scopes)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set contains this scope.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }

    /// Whether the set contains all of `others`.
    pub fn covers(&self, others: &Self) -> bool {
        others.0.iter().all(|name| self.contains(name))
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(&self, others: &Self) -> Self {
        let mut all = self.clone();
        others.0.iter().for_each(|name| all.add(name));
        all
    }

    /// Names of the scopes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn add(&mut self, name: &str) {
        if !self.contains(name) {
            self.0.push(name.to_owned());
        }
    }
}

/// Scopes separated by spaces, as in requests.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// RFC 6749, 3.3: visible ASCII without quote and backslash.
fn checked(name: &str) -> Result<&str, InvalidScopes> {
    if MAX_SCOPE < name.len() {
        return Err(InvalidScopes::TooLong);
    }
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    if name.is_empty() || !name.bytes().all(fits) { Err(InvalidScopes::InvalidCharacter) } else { Ok(name) }
}

/// Sources of the scopes of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeSources<'a> {
    /// Configured by the operator; overrides the server.
    pub configured: Option<&'a Scopes>,
    /// Requested before; set for a step-up.
    pub before: Option<&'a Scopes>,
    /// Named in the challenge.
    pub challenged: Option<&'a Scopes>,
    /// Listed in the protected resource metadata.
    pub resource: Option<&'a Scopes>,
    /// Listed in the authorization server metadata.
    pub server: Option<&'a Scopes>,
}

impl ScopeSources<'_> {
    /// Scopes to request; empty if no source names any.
    ///
    /// The challenge says what an operation needs, so it precedes the list of the resource; scopes that were requested
    /// before are never dropped. `offline_access` is added only if the authorization server lists it.
    pub fn choose(&self) -> Scopes {
        let named = match (self.configured, self.challenged) {
            (Some(configured), Some(challenged)) if self.before.is_some() => configured.union(challenged),
            (Some(configured), _) => configured.clone(),
            (None, Some(challenged)) => challenged.clone(),
            (None, None) => self.resource.cloned().unwrap_or_default(),
        };
        let mut all = self.before.map(|before| before.union(&named)).unwrap_or(named);
        if self.configured.is_none() && self.server.is_some_and(|server| server.contains(OFFLINE_ACCESS)) {
            all.add(OFFLINE_ACCESS);
        }
        all
    }
}

/// Maximum number of interactive sign-ins within [`ROUNDS_WITHIN`].
pub const MAX_ROUNDS: usize = 3;
/// How long a round and its scopes are remembered.
pub const ROUNDS_WITHIN: Duration = Duration::from_secs(600);

/// Recent sign-in rounds, so that a server cannot request them endlessly.
#[derive(Debug, Default)]
pub struct Rounds {
    /// Start of each round in seconds, and the requested scopes.
    taken: VecDeque<(u64, Scopes)>,
}

impl Rounds {
    /// Starts a round unless the limit is reached; `needed` are the scopes in the challenge.
    ///
    /// A step-up to scopes that were requested recently would fail again, so it is refused.
    pub fn begin(&mut self, needed: Option<&Scopes>, asked: &Scopes, now: u64) -> Result<(), TooManyRounds> {
        while self.taken.front().is_some_and(|(then, _)| then + ROUNDS_WITHIN.as_secs() <= now) {
            self.taken.pop_front();
        }
        let tried = needed.is_some_and(|needed| self.taken.iter().any(|(_, before)| before.covers(needed)));
        if MAX_ROUNDS <= self.taken.len() || tried {
            return Err(TooManyRounds);
        }
        self.taken.push_back((now, asked.clone()));
        Ok(())
    }
}

/// The server keeps requesting authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server still requires authorization after it was granted")]
pub struct TooManyRounds;

#[cfg(test)]
mod tests {
    use super::{InvalidScopes, MAX_SCOPES, Rounds, ScopeSources, Scopes, TooManyRounds};

    fn scopes(text: &str) -> Scopes {
        Scopes::parse(text).unwrap()
    }

    #[test]
    fn scopes_are_deduplicated_and_bounded() {
        assert_eq!(scopes(" a b  a c ").to_string(), "a b c");
        assert_eq!(Scopes::parse("a\"b"), Err(InvalidScopes::InvalidCharacter));
        assert_eq!(Scopes::parse("a\r\nb"), Err(InvalidScopes::InvalidCharacter));
        assert_eq!(Scopes::from_names([""]), Err(InvalidScopes::InvalidCharacter));
        assert_eq!(Scopes::parse(&"x".repeat(513)), Err(InvalidScopes::TooLong));
        let many: Vec<String> = (0..=MAX_SCOPES).map(|number| number.to_string()).collect();
        assert_eq!(Scopes::parse(&many.join(" ")), Err(InvalidScopes::TooMany));
    }

    #[test]
    fn challenge_precedes_the_resource_list() {
        let (challenged, listed) = (scopes("files"), scopes("files mail"));
        let sources =
            ScopeSources { challenged: Some(&challenged), resource: Some(&listed), ..ScopeSources::default() };
        assert_eq!(sources.choose(), challenged);
        assert_eq!(ScopeSources { challenged: None, ..sources }.choose(), listed);
        assert!(ScopeSources::default().choose().is_empty());
    }

    #[test]
    fn step_up_keeps_scopes_requested_before() {
        let (before, challenged, listed) = (scopes("read"), scopes("write"), scopes("admin"));
        let sources = ScopeSources {
            before: Some(&before),
            challenged: Some(&challenged),
            resource: Some(&listed),
            ..ScopeSources::default()
        };
        assert_eq!(sources.choose(), scopes("read write"), "and not what the resource lists");
        let configured = scopes("own");
        let sources = ScopeSources { configured: Some(&configured), ..sources };
        assert_eq!(sources.choose(), scopes("read own write"));
        assert_eq!(ScopeSources { before: None, ..sources }.choose(), configured, "manual settings win");
    }

    #[test]
    fn offline_access_is_requested_only_if_listed() {
        let (challenged, with, without) = (scopes("read"), scopes("read offline_access"), scopes("read"));
        let sources = ScopeSources { challenged: Some(&challenged), server: Some(&with), ..ScopeSources::default() };
        assert_eq!(sources.choose(), with);
        assert_eq!(ScopeSources { server: Some(&without), ..sources }.choose(), challenged);
        assert_eq!(ScopeSources { server: None, ..sources }.choose(), challenged);
        assert_eq!(ScopeSources { configured: Some(&without), ..sources }.choose(), without);
    }

    #[test]
    fn rounds_are_limited_within_the_window() {
        let mut rounds = Rounds::default();
        for round in 0..3 {
            rounds.begin(None, &Scopes::default(), round).unwrap();
        }
        assert_eq!(rounds.begin(None, &Scopes::default(), 4), Err(TooManyRounds));
        assert_eq!(rounds.begin(None, &Scopes::default(), 600), Ok(()), "the first is forgotten");
        assert_eq!(rounds.begin(None, &Scopes::default(), 600), Err(TooManyRounds));
    }

    #[test]
    fn scopes_that_did_not_help_are_not_requested_again() {
        let (mut rounds, needed) = (Rounds::default(), scopes("write"));
        rounds.begin(Some(&needed), &scopes("read write"), 0).unwrap();
        assert_eq!(rounds.begin(Some(&needed), &scopes("read write"), 1), Err(TooManyRounds));
        assert_eq!(rounds.begin(Some(&scopes("admin")), &scopes("read write admin"), 1), Ok(()));
    }
}
