//! Credentials for a server without a user: headers of requests, and reactions to refusals.
//!
//! Without a token, the challenge of the server starts discovery. A token is replaced before it expires, by one request
//! for all waiting tasks and processes: the holder of the lock ([`Vault::lock`]) checks first whether another one has
//! already replaced it. After a refusal by the authorization server, requests pause for a while.

mod obtain;

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use toolway_wire::{
    error::WireError,
    up::credential::{Challenge, ChallengeAction, Credentials, OutgoingRequest},
};
use url::Url;

use self::obtain::ObtainError;
use crate::{
    challenge::TokenChallenge,
    cooldown::Cooldown,
    counters::RefreshCounters,
    credential::{Credential, CredentialKey, now},
    discovery::Discovery,
    fetch::Fetch,
    grant::{Grant, GrantError},
    proof::ProofKeys,
    scope::{Rounds, Scopes},
    session::{
        active::{ActiveCredential, FRESH},
        slot::CredentialSlot,
    },
    settings::Settings,
    sign_in_required::{SignInReason, SignInRequired},
    vault::Vault,
};

/// Credentials of one principal at one server, obtained without a user.
pub struct Unattended {
    options: UnattendedOptions,
    held: CredentialSlot,
    // Nothing awaits under these locks.
    found: Mutex<Option<Arc<Discovery>>>,
    rounds: Mutex<Rounds>,
    cooldown: Cooldown<GrantError>,
    /// Time at which a refused token was last replaced, in seconds since 1970.
    replaced: Mutex<Option<u64>>,
    /// Only one refusal is handled at a time.
    handling: Semaphore,
    needed: watch::Sender<Option<SignInRequired>>,
    counters: RefreshCounters,
}

/// Options of [`Unattended`].
#[derive(Debug)]
pub struct UnattendedOptions {
    /// Server name, for messages.
    pub name: String,
    /// Instruction to the operator if no token is issued, without a full stop.
    pub remedy: String,
    /// Principal that the tokens belong to.
    pub principal: String,
    /// URL of the server.
    pub server: Url,
    /// Grant that requests tokens.
    pub grant: Grant,
    /// The operator's settings for scopes and the authorization server.
    pub settings: Settings,
    /// Guarded dialer for this server.
    pub fetch: Arc<dyn Fetch>,
    /// Credential storage.
    pub vault: Arc<dyn Vault>,
    /// DPoP keys, if tokens must be bound to one.
    pub proofs: Option<Arc<dyn ProofKeys>>,
}

// === impl Unattended ===

impl Unattended {
    /// Nothing is loaded before it is used.
    pub fn new(mut options: UnattendedOptions) -> Self {
        // There is no sign-in page, so the token endpoint is all that must be discovered.
        let settings = &mut options.settings;
        settings.authorization_url = settings.token_url.clone();
        Self {
            options,
            held: CredentialSlot::default(),
            found: Mutex::default(),
            rounds: Mutex::default(),
            cooldown: Cooldown::default(),
            replaced: Mutex::default(),
            handling: Semaphore::new(1),
            needed: watch::Sender::new(None),
            counters: RefreshCounters::default(),
        }
    }

    /// Counts token requests in `counters`.
    pub fn counted_by(self, counters: RefreshCounters) -> Self {
        Self { counters, ..self }
    }

    /// Why the server has no token, if that is so, as a watch channel.
    pub fn watch(&self) -> watch::Receiver<Option<SignInRequired>> {
        self.needed.subscribe()
    }

    async fn request_headers(&self, sending: OutgoingRequest<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, WireError> {
        // A token is sent only to the origin that it is for.
        if sending.url.origin() != self.options.server.origin() {
            return Ok(Vec::new());
        }
        let held = match self.current_credential().await.map_err(|error| WireError::Vault(error.to_string()))? {
            Some(held) if held.tokens.expires_soon(now()) => self.replace_before_expiry(held).await,
            None if matches!(self.options.grant, Grant::Google(_)) => self.obtain_unprompted().await,
            held => held,
        };
        held.map_or_else(|| Ok(Vec::new()), |held| held.headers(sending).map_err(wire_refused))
    }

    /// A new token; the old one if that fails and it is still valid. For `None`, the server answers with a challenge.
    async fn replace_before_expiry(&self, held: Arc<ActiveCredential>) -> Option<Arc<ActiveCredential>> {
        let found = self.found.lock().clone();
        let replaced = match found {
            Some(found) => {
                let obtained = self.obtain(&found, held.tokens.requested.clone(), Some(&held)).await;
                let name = &self.options.name;
                obtained.inspect_err(|error| tracing::warn!(server = name, %error, "cannot replace the token")).ok()
            }
            None => None,
        };
        replaced.or_else(|| Some(held).filter(|held| !held.tokens.is_expired(now())))
    }

    /// Clears a transient reason: the authorization server has issued a token again.
    fn clear_transient_reason(&self) {
        self.needed.send_if_modified(|needed| needed.take_if(|needed| needed.replacement_error().is_some()).is_some());
    }

    /// Requests a token before any challenge, because the token endpoint is known.
    async fn obtain_unprompted(&self) -> Option<Arc<ActiveCredential>> {
        let _one = self.handling.acquire().await;
        if let Ok(Some(held)) = self.current_credential().await {
            return Some(held);
        }
        let asked = self.request_token(&TokenChallenge::default(), None, None).await;
        asked.map_err(|error| self.require_sign_in(error.reason())).ok()
    }

    async fn react_to_challenge(&self, challenge: &Challenge) -> Result<ChallengeAction, SignInReason> {
        let demand = TokenChallenge::parse(challenge.challenges.iter().map(String::as_str));
        let for_scopes = challenge.status == StatusCode::FORBIDDEN;
        if (for_scopes && !demand.needs_more_scopes()) || challenge.url.origin() != self.options.server.origin() {
            return Ok(ChallengeAction::GiveUp);
        }
        let _one = self.handling.acquire().await;
        let held = self.latest(challenge.presented.as_ref()).await.map_err(ObtainError::reason)?;
        let Some(held) = held else { return self.next(self.request_token(&demand, None, None).await) };
        if !held.matches(challenge.presented.as_ref()) || (challenge.wants_nonce() && held.uses_proofs()) {
            return Ok(ChallengeAction::Retry);
        }
        let before = held.tokens.requested.clone();
        if for_scopes {
            return self.next(self.step_up(&demand, &before, &held).await);
        }
        if !self.may_replace(now()) {
            return Err(SignInReason::Failed(format!(
                "the server refuses the token that `{}` has just issued",
                held.key.issuer
            )));
        }
        let asked = self.request_token(&demand, None, Some(&held)).await;
        if asked.is_ok() {
            *self.replaced.lock() = Some(now());
        }
        self.next(asked)
    }

    /// Whether a refused token may be replaced: not if it has itself just replaced a refused one.
    fn may_replace(&self, now: u64) -> bool {
        self.replaced.lock().is_none_or(|then| then.saturating_add(FRESH) <= now)
    }

    async fn step_up(
        &self,
        demand: &TokenChallenge,
        before: &Scopes,
        held: &ActiveCredential,
    ) -> Result<Arc<ActiveCredential>, ObtainError> {
        let asked = demand.scopes.as_ref().map(|scopes| before.union(scopes)).unwrap_or_default();
        let begun = self.rounds.lock().begin(demand.scopes.as_ref(), &asked, now());
        begun.map_err(|error| ObtainError::Other(error.to_string()))?;
        self.request_token(demand, Some(before), Some(held)).await
    }

    fn next(&self, asked: Result<Arc<ActiveCredential>, ObtainError>) -> Result<ChallengeAction, SignInReason> {
        asked.map(|_| ChallengeAction::Retry).map_err(ObtainError::reason)
    }

    /// The current credential; the first call loads it from the vault.
    async fn current_credential(&self) -> Result<Option<Arc<ActiveCredential>>, ObtainError> {
        match self.held.get() {
            Some(known) => Ok(known),
            None => self.load_from_vault().await,
        }
    }

    /// The current credential; if it was refused, the one that another process may have stored meanwhile.
    async fn latest(&self, presented: Option<&HeaderValue>) -> Result<Option<Arc<ActiveCredential>>, ObtainError> {
        match self.current_credential().await? {
            Some(held) if !held.matches(presented) => Ok(Some(held)),
            _ => self.load_from_vault().await,
        }
    }

    async fn load_from_vault(&self) -> Result<Option<Arc<ActiveCredential>>, ObtainError> {
        let wanted = self.options.settings.scopes.clone().unwrap_or_default();
        let found = self.load_stored().await?.into_iter().rev().find(|(_, kept)| self.fits(kept, &wanted, None));
        // The current credential already has the nonces of the server.
        if let (Some(Some(held)), Some((_, found))) = (self.held.get(), &found)
            && found.tokens.as_ref() == Some(&held.tokens)
        {
            return Ok(Some(held));
        }
        match found {
            Some((key, credential)) => self.hold(key, &credential).map(Some),
            None => Ok(self.held.set(None)),
        }
    }

    fn hold(&self, key: CredentialKey, credential: &Credential) -> Result<Arc<ActiveCredential>, ObtainError> {
        let held = ActiveCredential::of(key, credential, self.options.proofs.as_deref()).map_err(ObtainError::Other)?;
        let held = Arc::new(held.ok_or_else(|| ObtainError::Other("the credential has no token".to_owned()))?);
        self.held.set(Some(Arc::clone(&held)));
        Ok(held)
    }

    fn require_sign_in(&self, why: SignInReason) {
        let UnattendedOptions { name, remedy, .. } = &self.options;
        let needed = SignInRequired { server: name.clone(), reason: why, remedy: remedy.clone(), address: None };
        self.needed.send_replace(Some(needed));
    }
}

impl Credentials for Unattended {
    fn headers<'a>(
        &'a self,
        sending: OutgoingRequest<'a>,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        Box::pin(self.request_headers(sending))
    }

    fn handle_challenge(&self, challenge: Challenge) -> BoxFuture<'_, ChallengeAction> {
        Box::pin(async move {
            match self.react_to_challenge(&challenge).await {
                Ok(ChallengeAction::Retry) => {
                    self.needed.send_replace(None);
                    ChallengeAction::Retry
                }
                Ok(ChallengeAction::GiveUp) => ChallengeAction::GiveUp,
                Err(why) => {
                    self.require_sign_in(why);
                    ChallengeAction::GiveUp
                }
            }
        })
    }

    fn replacement_error(&self) -> Option<WireError> {
        self.needed.borrow().as_ref().and_then(SignInRequired::replacement_error)
    }

    fn observe_response(&self, url: &Url, headers: &HeaderMap) {
        self.held.record_nonce(url, headers);
    }
}

impl fmt::Debug for Unattended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unattended").field("name", &self.options.name).finish_non_exhaustive()
    }
}

fn wire_refused(problem: impl fmt::Display) -> WireError {
    WireError::Refused(problem.to_string())
}

#[cfg(test)]
mod tests;
