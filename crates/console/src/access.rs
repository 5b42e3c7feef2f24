//! One-time tokens for signing in, and the sessions they are exchanged for. Both are kept in memory, as digests.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use toolway_wire::seal::NoRandomness;

/// Tokens that wait to be used; beyond it the oldest is dropped.
const MAX_TOKENS: usize = 16;
/// Signed-in sessions; beyond it the oldest is dropped.
const MAX_SESSIONS: usize = 64;
/// Characters of the name of a session.
const LABEL: usize = 8;
/// Bytes of a token, a cookie and a CSRF token.
const SECRET_BYTES: usize = 32;

type Digest = [u8; 32];

/// Who may use the console.
#[derive(Debug)]
pub(crate) struct Access {
    lifetimes: Lifetimes,
    // Nothing awaits under these locks.
    tokens: Mutex<HashMap<Digest, Instant>>,
    sessions: Mutex<HashMap<Digest, Session>>,
}

/// How long a sign-in lasts.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// Of an unused one-time token.
    pub token: Duration,
    /// Of a session.
    pub session: Duration,
}

/// A signed-in browser.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Digest of the CSRF token.
    csrf: Digest,
    /// Names the session in records; it opens nothing.
    pub(crate) label: String,
    pub(crate) expires: Instant,
}

/// The secrets of a new session.
#[derive(Debug)]
pub(crate) struct NewSession {
    pub(crate) cookie: String,
    /// Value of `x-toolway-csrf` in requests that change something. A browser sends a cookie to every port of a host, so
    /// that the cookie alone must not be enough, nor lead to this.
    pub(crate) csrf: String,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { token: Duration::from_secs(10 * 60), session: Duration::from_secs(12 * 60 * 60) }
    }
}

impl Access {
    pub(crate) fn new(lifetimes: Lifetimes) -> Self {
        Self { lifetimes, tokens: Mutex::default(), sessions: Mutex::default() }
    }

    /// A new one-time token.
    pub(crate) fn issue(&self) -> Result<String, NoRandomness> {
        let (token, now) = (secret()?, Instant::now());
        let mut tokens = self.tokens.lock();
        tokens.retain(|_, expires| now < *expires);
        make_room(&mut tokens, MAX_TOKENS, |expires| *expires);
        tokens.insert(digest_of(&token), now + self.lifetimes.token);
        Ok(token)
    }

    /// Spends a token; returns a new session. `None` if the token is unknown, spent or expired.
    pub(crate) fn exchange(&self, token: &str) -> Result<Option<NewSession>, NoRandomness> {
        let now = Instant::now();
        let spent = self.tokens.lock().remove(&digest_of(token));
        if spent.is_none_or(|expires| expires <= now) {
            return Ok(None);
        }
        let (cookie, csrf) = (secret()?, secret()?);
        let label = secret()?.get(..LABEL).unwrap_or_default().to_owned();
        let session = Session { csrf: digest_of(&csrf), label, expires: now + self.lifetimes.session };
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| now < session.expires);
        make_room(&mut sessions, MAX_SESSIONS, |session| session.expires);
        sessions.insert(digest_of(&cookie), session);
        Ok(Some(NewSession { cookie, csrf }))
    }

    /// The session of a cookie, unless it has expired.
    pub(crate) fn session(&self, cookie: &str) -> Option<Session> {
        let session = self.sessions.lock().get(&digest_of(cookie)).cloned();
        session.filter(|session| Instant::now() < session.expires)
    }

    /// How long a session lasts.
    pub(crate) fn session_lifetime(&self) -> Duration {
        self.lifetimes.session
    }
}

impl Session {
    /// Compares digests, so that the time says nothing about the token.
    pub(crate) fn is_csrf(&self, given: &str) -> bool {
        self.csrf == digest_of(given)
    }
}

/// Drops the entry that expires first if there is no room for another one.
fn make_room<T>(entries: &mut HashMap<Digest, T>, most: usize, expires: impl Fn(&T) -> Instant) {
    if entries.len() < most {
        return;
    }
    let oldest = entries.iter().min_by_key(|(_, entry)| expires(entry)).map(|(digest, _)| *digest);
    if let Some(oldest) = oldest {
        entries.remove(&oldest);
    }
}

/// 256 random bits in hexadecimal.
fn secret() -> Result<String, NoRandomness> {
    let mut bytes = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn digest_of(text: &str) -> Digest {
    let mut bytes = Digest::default();
    bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Access, Lifetimes, MAX_SESSIONS, MAX_TOKENS, NewSession};

    #[test]
    fn token_works_once() {
        let access = Access::new(Lifetimes::default());
        let token = access.issue().unwrap();
        let NewSession { cookie, csrf } = access.exchange(&token).unwrap().unwrap();
        let session = access.session(&cookie).unwrap();
        assert!(session.is_csrf(&csrf) && !session.is_csrf(&cookie));
        assert!(access.session(&cookie).is_some() && access.session(&token).is_none());
        assert!(access.exchange(&token).unwrap().is_none());
    }

    #[test]
    fn tokens_and_sessions_expire() {
        let access = Access::new(Lifetimes { token: Duration::ZERO, ..Lifetimes::default() });
        let token = access.issue().unwrap();
        assert!(access.exchange(&token).unwrap().is_none());
        let access = Access::new(Lifetimes { session: Duration::ZERO, ..Lifetimes::default() });
        let NewSession { cookie, .. } = access.exchange(&access.issue().unwrap()).unwrap().unwrap();
        assert!(access.session(&cookie).is_none());
    }

    #[test]
    fn number_of_tokens_and_sessions_is_bounded() {
        let access = Access::new(Lifetimes::default());
        let tokens: Vec<_> = (0..=MAX_TOKENS).map(|_| access.issue().unwrap()).collect();
        assert!(access.exchange(&tokens[0]).unwrap().is_none(), "the oldest was dropped");
        assert!(access.exchange(&tokens[MAX_TOKENS]).unwrap().is_some());
        for _ in 0..=MAX_SESSIONS {
            assert!(access.exchange(&access.issue().unwrap()).unwrap().is_some());
        }
        assert_eq!(access.sessions.lock().len(), MAX_SESSIONS);
    }
}
