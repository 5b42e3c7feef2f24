//! Sources of signed assertions, which may be replaced while the program runs.

use std::{fmt, slice};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use toolway_config::Secret;

use super::GrantError;
use crate::address;

/// Supplies an assertion, maybe a new one each time.
pub trait AssertionSource: Send + Sync + fmt::Debug {
    /// Returns the current assertion, or a message that says what is missing.
    fn read(&self) -> BoxFuture<'_, Result<Secret, String>>;
}

/// A fixed assertion.
impl AssertionSource for Secret {
    fn read(&self) -> BoxFuture<'_, Result<Secret, String>> {
        let text = self.clone();
        Box::pin(async { Ok(text) })
    }
}

/// Audiences are truncated to this many characters in messages.
const MAX_SHOWN: usize = 200;
/// Maximum length in bytes; platforms write a few hundred.
const MAX_ASSERTION: usize = 64 * 1024;

/// Reads an assertion and removes surrounding white space.
pub(super) async fn take(what: &'static str, source: &dyn AssertionSource) -> Result<Secret, GrantError> {
    let missing = |problem: &str| GrantError::Configuration(format!("{what} {problem}"));
    let text = source.read().await.map_err(|problem| missing(&format!("cannot be read: {problem}")))?;
    match text.expose().trim() {
        "" => Err(missing("is empty")),
        long if MAX_ASSERTION < long.len() => Err(missing(&format!("exceeds {MAX_ASSERTION} bytes"))),
        trimmed => Ok(Secret::new(trimmed)),
    }
}

#[derive(Deserialize)]
struct Claims {
    aud: Option<Audience>,
    exp: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

/// Checks that a signed assertion is valid and meant for one of these recipients.
///
/// An assertion authenticates us wherever it is accepted, so it is not sent to other recipients. One that cannot be
/// decoded is sent unchecked.
pub(super) fn check(what: &'static str, text: &Secret, names: &[&str], now: u64) -> Result<(), GrantError> {
    let claims = text.expose().split('.').nth(1).and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
    let Some(Claims { aud, exp }) = claims.and_then(|claims| serde_json::from_slice(&claims).ok()) else {
        return Ok(());
    };
    if exp.is_some_and(|exp| exp <= now as f64) {
        return Err(GrantError::Configuration(format!("{what} has expired; replace it with a new one")));
    }
    let audiences = match &aud {
        Some(Audience::One(one)) => slice::from_ref(one),
        Some(Audience::Many(many)) => many,
        None => return Ok(()),
    };
    let same = |one: &str, other: &str| one.trim_end_matches('/') == other.trim_end_matches('/');
    if audiences.iter().any(|audience| names.iter().any(|name| same(audience, name))) {
        return Ok(());
    }
    let shown = address::sanitize(&audiences.join(", "), MAX_SHOWN);
    Err(GrantError::Configuration(format!(
        "{what} is for `{shown}`, not for `{}`; it was not sent",
        names.join("` or `")
    )))
}
