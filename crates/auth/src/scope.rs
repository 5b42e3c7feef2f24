//! Scopes: which ones are asked for at first, which ones after a refusal, and how often.

use std::{collections::VecDeque, fmt, time::Duration};

/// A set of scopes, in the order they were named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

/// Not a list of scopes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadScopes {
    /// A letter that no scope has.
    #[error("a scope has a letter that scopes cannot have")]
    Letter,
    /// More than is asked for.
    #[error("more than {MAX_SCOPES} scopes")]
    TooMany,
    /// A name beyond reason.
    #[error("a scope is longer than {MAX_SCOPE} bytes")]
    TooLong,
}

/// No server needs more; a person could not judge them either.
pub const MAX_SCOPES: usize = 200;
/// Scopes are names, some of them addresses.
pub const MAX_SCOPE: usize = 512;
/// What a refresh token is asked for with, where the authorization server lists it.
pub const OFFLINE_ACCESS: &str = "offline_access";

// === impl Scopes ===

impl Scopes {
    /// Reads names separated by spaces.
    pub fn parse(text: &str) -> Result<Self, BadScopes> {
        Self::from_names(text.split(' ').filter(|name| !name.is_empty()))
    }

    /// Takes names as they are; one that comes twice counts once.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, BadScopes> {
        let mut scopes = Self::default();
        for name in names {
            scopes.add(checked(name)?);
            if MAX_SCOPES < scopes.0.len() {
                return Err(BadScopes::TooMany);
            }
        }
        Ok(scopes)
    }

    /// Whether none is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is among them.
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }

    /// Whether all of the others are among them.
    pub fn covers(&self, others: &Self) -> bool {
        others.0.iter().all(|name| self.contains(name))
    }

    /// These and the others.
    #[must_use]
    pub fn union(&self, others: &Self) -> Self {
        let mut all = self.clone();
        others.0.iter().for_each(|name| all.add(name));
        all
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn add(&mut self, name: &str) {
        if !self.contains(name) {
            self.0.push(name.to_owned());
        }
    }
}

/// Names separated by spaces, as requests have them.
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// RFC 6749, 3.3: visible ASCII without quote and backslash.
fn checked(name: &str) -> Result<&str, BadScopes> {
    if MAX_SCOPE < name.len() {
        return Err(BadScopes::TooLong);
    }
    let fits = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    if name.is_empty() || !name.bytes().all(fits) { Err(BadScopes::Letter) } else { Ok(name) }
}

/// Where the scopes of a sign-in can come from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// What the operator wrote; wins over what the server says.
    pub configured: Option<&'a Scopes>,
    /// What was asked for before, where this is a step up.
    pub before: Option<&'a Scopes>,
    /// What the refusal names.
    pub challenged: Option<&'a Scopes>,
    /// What the resource lists.
    pub resource: Option<&'a Scopes>,
    /// What the authorization server lists.
    pub server: Option<&'a Scopes>,
}

impl Sources<'_> {
    /// What to ask for; nothing where nobody names any.
    ///
    /// A refusal is the authority on what an operation needs, so it comes before the resource's list; what was asked for
    /// before is never dropped. `offline_access` is added only where the authorization server lists it.
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

/// How many times a person is sent to sign in within [`ROUNDS_WITHIN`] before we stop.
pub const MAX_ROUNDS: usize = 3;
/// How long a round, and a set of scopes that did not help, is remembered.
pub const ROUNDS_WITHIN: Duration = Duration::from_secs(600);

/// The rounds of late, so that a server cannot send a person round and round.
#[derive(Debug, Default)]
pub struct Rounds {
    /// When each began, in seconds, and what it asked for.
    taken: VecDeque<(u64, Scopes)>,
}

impl Rounds {
    /// Begins a round, if one is left; `needed` is what the refusal names.
    ///
    /// A step up to scopes that were asked for a moment ago would end as the last one did.
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

/// The server asks again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server asks again and again, and signing in does not help")]
pub struct TooManyRounds;

#[cfg(test)]
mod tests {
    use super::{BadScopes, MAX_SCOPES, Rounds, Scopes, Sources, TooManyRounds};

    fn scopes(text: &str) -> Scopes {
        Scopes::parse(text).unwrap()
    }

    #[test]
    fn scopes_are_read_once_each_and_bounded() {
        assert_eq!(scopes(" a b  a c ").to_string(), "a b c");
        assert_eq!(Scopes::parse("a\"b"), Err(BadScopes::Letter));
        assert_eq!(Scopes::parse("a\r\nb"), Err(BadScopes::Letter));
        assert_eq!(Scopes::from_names([""]), Err(BadScopes::Letter));
        assert_eq!(Scopes::parse(&"x".repeat(513)), Err(BadScopes::TooLong));
        let many: Vec<String> = (0..=MAX_SCOPES).map(|number| number.to_string()).collect();
        assert_eq!(Scopes::parse(&many.join(" ")), Err(BadScopes::TooMany));
    }

    #[test]
    fn the_refusal_names_scopes_before_the_resource_does() {
        let (challenged, listed) = (scopes("files"), scopes("files mail"));
        let sources = Sources { challenged: Some(&challenged), resource: Some(&listed), ..Sources::default() };
        assert_eq!(sources.choose(), challenged);
        assert_eq!(Sources { challenged: None, ..sources }.choose(), listed);
        assert!(Sources::default().choose().is_empty());
    }

    #[test]
    fn a_step_up_keeps_what_was_asked_for_before() {
        let (before, challenged, listed) = (scopes("read"), scopes("write"), scopes("admin"));
        let sources = Sources {
            before: Some(&before),
            challenged: Some(&challenged),
            resource: Some(&listed),
            ..Sources::default()
        };
        assert_eq!(sources.choose(), scopes("read write"), "and not what the resource lists");
        let configured = scopes("own");
        let sources = Sources { configured: Some(&configured), ..sources };
        assert_eq!(sources.choose(), scopes("read own write"));
        assert_eq!(Sources { before: None, ..sources }.choose(), configured, "manual settings win");
    }

    #[test]
    fn offline_access_is_asked_for_only_where_it_is_listed() {
        let (challenged, with, without) = (scopes("read"), scopes("read offline_access"), scopes("read"));
        let sources = Sources { challenged: Some(&challenged), server: Some(&with), ..Sources::default() };
        assert_eq!(sources.choose(), with);
        assert_eq!(Sources { server: Some(&without), ..sources }.choose(), challenged);
        assert_eq!(Sources { server: None, ..sources }.choose(), challenged);
        assert_eq!(Sources { configured: Some(&without), ..sources }.choose(), without);
    }

    #[test]
    fn three_rounds_and_no_more_until_time_has_passed() {
        let mut rounds = Rounds::default();
        for round in 0..3 {
            rounds.begin(None, &Scopes::default(), round).unwrap();
        }
        assert_eq!(rounds.begin(None, &Scopes::default(), 4), Err(TooManyRounds));
        assert_eq!(rounds.begin(None, &Scopes::default(), 600), Ok(()), "the first is forgotten");
        assert_eq!(rounds.begin(None, &Scopes::default(), 600), Err(TooManyRounds));
    }

    #[test]
    fn scopes_that_did_not_help_are_not_asked_for_again() {
        let (mut rounds, needed) = (Rounds::default(), scopes("write"));
        rounds.begin(Some(&needed), &scopes("read write"), 0).unwrap();
        assert_eq!(rounds.begin(Some(&needed), &scopes("read write"), 1), Err(TooManyRounds));
        assert_eq!(rounds.begin(Some(&scopes("admin")), &scopes("read write admin"), 1), Ok(()));
    }
}
