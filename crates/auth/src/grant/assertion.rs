//! What somebody else says about us, as it is when it is needed: such texts are replaced while the program runs.

use std::{fmt, slice};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use toolway_config::Secret;

use super::GrantError;
use crate::address;

/// Gives a text that may be another one next time.
pub trait Supply: Send + Sync + fmt::Debug {
    /// The text as it is now; otherwise a sentence that says what is missing.
    fn supply(&self) -> BoxFuture<'_, Result<Secret, String>>;
}

/// Always the same.
impl Supply for Secret {
    fn supply(&self) -> BoxFuture<'_, Result<Secret, String>> {
        let text = self.clone();
        Box::pin(async { Ok(text) })
    }
}

/// What a text says about itself is cut here in messages.
const MAX_SHOWN: usize = 200;
/// Platforms write a few hundred bytes.
const MAX_ASSERTION: usize = 64 * 1024;

/// Takes a signed text, without the line end that files have.
pub(super) async fn take(what: &'static str, supply: &dyn Supply) -> Result<Secret, GrantError> {
    let missing = |problem: &str| GrantError::Supply(format!("{what} {problem}"));
    let text = supply.supply().await.map_err(|problem| missing(&format!("is missing: {problem}")))?;
    match text.expose().trim() {
        "" => Err(missing("is empty")),
        long if MAX_ASSERTION < long.len() => Err(missing("is longer than any")),
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

/// Says what speaks against sending a signed text to somebody of one of these names.
///
/// It stands for us wherever it is taken, so it is not shown to those it is not for. One that cannot be looked into is
/// the platform's business.
pub(super) fn check(what: &'static str, text: &Secret, names: &[&str], now: u64) -> Result<(), GrantError> {
    let claims = text.expose().split('.').nth(1).and_then(|claims| URL_SAFE_NO_PAD.decode(claims).ok());
    let Some(Claims { aud, exp }) = claims.and_then(|claims| serde_json::from_slice(&claims).ok()) else {
        return Ok(());
    };
    if exp.is_some_and(|exp| exp <= now as f64) {
        return Err(GrantError::Supply(format!("{what} has ended; it needs to be replaced by a new one")));
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
    let shown = address::told(&audiences.join(", "), MAX_SHOWN);
    Err(GrantError::Supply(format!("{what} is for {shown} and not for {}; it was not sent", names.join(" or "))))
}
