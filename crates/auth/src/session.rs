//! Credentials of one principal at one server: headers of requests, and reactions to refusals.
//!
//! A request carries the current access token, which is refreshed before it expires. A refusal leads to a refresh, a
//! sign-in or a step-up, once, and in one task for all requests that were refused together. If a user is needed and no
//! browser is available, the result is a [`SignInRequired`] until a sign-in succeeds; a sign-in by another process is
//! noticed.

pub(crate) mod active;
mod round;
pub(crate) mod slot;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use toolway_config::Secret;
use toolway_wire::{
    error::WireError,
    up::credential::{Challenge, ChallengeAction, Credentials, OutgoingRequest},
};
use url::Url;

use self::{active::ActiveCredential, slot::CredentialSlot};
use crate::{
    browser::Browser,
    challenge::TokenChallenge,
    cooldown::{AFTER_FAILURE, Cooldown},
    credential::{Credential, CredentialKey, now},
    refresh::{RefreshError, TokenRefresh},
    refresh_tracker::RefreshTracker,
    scope::Rounds,
    sign_in::SignIn,
    sign_in_required::{SignInReason, SignInRequired},
};

/// Credentials of one principal at one server. Clones share the same state.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

/// Options of a session.
#[derive(Debug)]
pub struct SessionOptions {
    /// Server name, for messages.
    pub name: String,
    /// Instruction to the user if a sign-in is required, without a full stop.
    pub remedy: String,
    /// Opens the browser; without one, a refusal that needs a user becomes a [`SignInRequired`].
    pub browser: Option<Arc<dyn Browser>>,
    /// Principal, server and settings of the sign-in.
    pub sign_in: SignIn,
    /// Refreshes in progress, awaited at shutdown.
    pub refreshes: RefreshTracker,
}

struct Shared {
    options: SessionOptions,
    held: CredentialSlot,
    // Nothing awaits under this lock.
    rounds: Mutex<Rounds>,
    /// Only one refusal is handled at a time.
    handling: Semaphore,
    /// Only one refresh runs at a time; other processes wait for the lock of the vault.
    refreshing: Semaphore,
    /// Pause after a failed refresh.
    cooldown: Cooldown<RefreshError>,
    /// Number of sign-in rounds that failed.
    failed: AtomicU64,
    needed: watch::Sender<Option<SignInRequired>>,
}

// === impl Session ===

impl Session {
    /// Creates a session; nothing is loaded before it is used.
    pub fn new(options: SessionOptions) -> Self {
        let shared = Shared {
            options,
            held: CredentialSlot::default(),
            rounds: Mutex::default(),
            handling: Semaphore::new(1),
            refreshing: Semaphore::new(1),
            cooldown: Cooldown::default(),
            failed: AtomicU64::new(0),
            needed: watch::Sender::new(None),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Why the server requires sign-in, if it does.
    pub fn required(&self) -> Option<SignInRequired> {
        self.shared.needed.borrow().clone()
    }

    /// The same, as a watch channel.
    pub fn watch(&self) -> watch::Receiver<Option<SignInRequired>> {
        self.shared.needed.subscribe()
    }

    /// Signs in now, regardless of the current credential.
    pub async fn sign_in(&self, demand: &TokenChallenge) -> Result<(), SignInRequired> {
        let _one = self.shared.handling.acquire().await;
        let signed_in = self.shared.round(demand, None, SignInReason::NotSignedIn).await;
        self.shared.publish(signed_in)
    }

    /// Whether requests wait for a refresh.
    pub fn is_refreshing(&self) -> bool {
        self.shared.refreshing.available_permits() == 0
    }

    /// Waits for refreshes in progress and stores their results.
    pub async fn settle(&self) {
        let SessionOptions { refreshes, sign_in, .. } = &self.shared.options;
        refreshes.settle(&*sign_in.vault).await;
    }
}

impl Credentials for Session {
    fn headers<'a>(
        &'a self,
        sending: OutgoingRequest<'a>,
    ) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        Box::pin(self.shared.headers(sending))
    }

    fn handle_challenge(&self, challenge: Challenge) -> BoxFuture<'_, ChallengeAction> {
        Box::pin(async move {
            match self.shared.react_to_challenge(&challenge).await {
                Reaction::Retry => {
                    self.shared.needed.send_replace(None);
                    ChallengeAction::Retry
                }
                Reaction::Final => ChallengeAction::GiveUp,
                Reaction::SignInRequired(needed) => {
                    self.shared.needed.send_replace(Some(*needed));
                    ChallengeAction::GiveUp
                }
            }
        })
    }

    fn replacement_error(&self) -> Option<WireError> {
        self.shared.needed.borrow().as_ref().and_then(SignInRequired::replacement_error)
    }

    fn observe_response(&self, url: &Url, headers: &HeaderMap) {
        self.shared.held.record_nonce(url, headers);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("name", &self.shared.options.name).finish_non_exhaustive()
    }
}

/// Reaction to a refusal.
enum Reaction {
    Retry,
    /// No credential would help, or the reason is already known.
    Final,
    SignInRequired(Box<SignInRequired>),
}

// === impl Shared ===

impl Shared {
    async fn headers(
        self: &Arc<Self>,
        sending: OutgoingRequest<'_>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, WireError> {
        // A token is sent only to the origin that it is for.
        if sending.url.origin() != self.options.sign_in.server.origin() {
            return Ok(Vec::new());
        }
        let Some(held) = self.current_credential().await.map_err(WireError::Vault)? else { return Ok(Vec::new()) };
        self.save(&held.key);
        let held = if held.needs_refresh() { self.refresh_before_expiry(held).await? } else { Some(held) };
        held.map_or_else(|| Ok(Vec::new()), |held| held.headers(sending).map_err(wire_refused))
    }

    /// The refreshed token; the old one if the refresh failed and it is still valid; `None` if the sign-in has expired.
    async fn refresh_before_expiry(
        self: &Arc<Self>,
        held: Arc<ActiveCredential>,
    ) -> Result<Option<Arc<ActiveCredential>>, WireError> {
        match self.refresh_in_task(&held).await {
            Ok(refreshed) => Ok(Some(refreshed)),
            Err(RefreshError::Expired | RefreshError::Rejected(_)) => Ok(None),
            Err(_) if !held.tokens.is_expired(now()) => Ok(Some(held)),
            Err(RefreshError::Vault(error)) => Err(WireError::Vault(error.to_string())),
            Err(error @ (RefreshError::Unavailable(_) | RefreshError::Failed(_))) => {
                Err(WireError::NoToken(error.to_string()))
            }
        }
    }

    async fn react_to_challenge(self: &Arc<Self>, challenge: &Challenge) -> Reaction {
        let demand = TokenChallenge::parse(challenge.challenges.iter().map(String::as_str));
        let for_scopes = challenge.status == StatusCode::FORBIDDEN;
        if (for_scopes && !demand.needs_more_scopes()) || challenge.url.origin() != self.options.sign_in.server.origin()
        {
            return Reaction::Final;
        }
        let failed = self.failed.load(Ordering::Relaxed);
        let _one = self.handling.acquire().await;
        let held = match self.latest(challenge.presented.as_ref()).await {
            Ok(held) => held,
            Err(problem) => return self.require_sign_in(SignInReason::Vault(problem)),
        };
        if let Some(held) = &held {
            if !held.matches(challenge.presented.as_ref()) {
                return Reaction::Retry;
            }
            // The nonce was recorded with the response.
            if challenge.wants_nonce() && held.uses_proofs() {
                return Reaction::Retry;
            }
        }
        // A user who has just declined is not asked again for each request that was waiting.
        if self.failed.load(Ordering::Relaxed) != failed {
            return Reaction::Final;
        }
        if for_scopes { self.step_up(&demand, held).await } else { self.recover(&demand, held).await }
    }

    /// Reacts to a 401: refreshes if possible, otherwise signs in.
    async fn recover(self: &Arc<Self>, demand: &TokenChallenge, held: Option<Arc<ActiveCredential>>) -> Reaction {
        let why = if held.is_some() || self.has_stored_credential().await {
            SignInReason::Expired
        } else {
            SignInReason::NotSignedIn
        };
        if let Some(held) = held.as_ref().filter(|held| held.may_refresh_after_refusal()) {
            match self.refresh_in_task(held).await {
                Ok(_) => return Reaction::Retry,
                Err(RefreshError::Unavailable(error)) => {
                    return self.require_sign_in(SignInReason::Unavailable(Box::new(error)));
                }
                Err(RefreshError::Vault(error)) => return self.require_sign_in(SignInReason::Vault(error.to_string())),
                Err(RefreshError::Failed(problem)) => return self.require_sign_in(SignInReason::Failed(problem)),
                Err(RefreshError::Expired | RefreshError::Rejected(_)) => {}
            }
        }
        self.interactive(demand, None, why).await
    }

    /// Reacts to a 403 that names scopes: signs in with them and with all scopes requested before.
    async fn step_up(self: &Arc<Self>, demand: &TokenChallenge, held: Option<Arc<ActiveCredential>>) -> Reaction {
        let why = SignInReason::MoreScopes(demand.scopes.clone().unwrap_or_default());
        self.interactive(demand, held, why).await
    }

    async fn interactive(
        self: &Arc<Self>,
        demand: &TokenChallenge,
        held: Option<Arc<ActiveCredential>>,
        why: SignInReason,
    ) -> Reaction {
        match self.round(demand, held, why).await {
            Ok(()) => Reaction::Retry,
            Err(needed) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                Reaction::SignInRequired(needed)
            }
        }
    }

    /// Refreshes in a task of its own, which finishes and stores the result even if the caller is cancelled.
    async fn refresh_in_task(
        self: &Arc<Self>,
        held: &Arc<ActiveCredential>,
    ) -> Result<Arc<ActiveCredential>, RefreshError> {
        let (shared, stale) = (Arc::clone(self), Arc::clone(held));
        let refresh = self.options.refreshes.spawn(async move { shared.refresh(stale).await });
        refresh.await.unwrap_or_else(|_| Err(RefreshError::Failed("the refresh task was interrupted".to_owned())))
    }

    async fn refresh(&self, stale: Arc<ActiveCredential>) -> Result<Arc<ActiveCredential>, RefreshError> {
        let _one = self.refreshing.acquire().await;
        if let Some(Some(held)) = self.held.get()
            && held.tokens.access != stale.tokens.access
        {
            return Ok(held);
        }
        self.cooldown.check()?;
        let SignIn { fetch, vault, proofs, settings, .. } = &self.options.sign_in;
        let refreshes = &self.options.refreshes;
        let refresh = TokenRefresh { fetch: &**fetch, vault: &**vault, proofs: proofs.as_deref(), settings, refreshes };
        let refreshed = refresh.run(&stale.key, &stale.tokens.access).await;
        refreshes.counters().record(&refreshed);
        match refreshed {
            // Another URL of the same resource has a sign-in of its own.
            Ok(credential) if credential.server != self.options.sign_in.identity() => {
                self.held.set(None);
                Err(RefreshError::Expired)
            }
            Ok(credential) => {
                // The authorization server answers again, so a transient reason is obsolete.
                self.needed
                    .send_if_modified(|needed| needed.take_if(|needed| needed.replacement_error().is_some()).is_some());
                let held = self.presentable(stale.key.clone(), &credential).map_err(RefreshError::Failed)?;
                self.held.set(held).ok_or(RefreshError::Expired)
            }
            Err(error) => {
                tracing::warn!(server = self.options.name, %error, "cannot refresh the access token");
                match &error {
                    RefreshError::Unavailable(_) | RefreshError::Vault(_) | RefreshError::Failed(_) => {
                        self.cooldown.start(AFTER_FAILURE, error.clone());
                    }
                    RefreshError::Expired | RefreshError::Rejected(_) => drop(self.held.set(None)),
                }
                Err(error)
            }
        }
    }

    /// Retries to store an unsaved credential in the background.
    fn save(self: &Arc<Self>, key: &CredentialKey) {
        let refreshes = &self.options.refreshes;
        if refreshes.needs_save(key) {
            let (shared, key) = (Arc::clone(self), key.clone());
            refreshes.spawn(async move {
                shared.options.refreshes.save(&*shared.options.sign_in.vault, &key).await;
            });
        }
    }

    /// The current credential; the first call loads it from the vault, once for all callers, because a keychain may
    /// prompt the user.
    async fn current_credential(&self) -> Result<Option<Arc<ActiveCredential>>, String> {
        if let Some(known) = self.held.get() {
            return Ok(known);
        }
        let _one = self.refreshing.acquire().await;
        match self.held.get() {
            Some(known) => Ok(known),
            None => self.load_from_vault().await,
        }
    }

    /// The current credential; if it was refused, the one that another process may have stored meanwhile.
    async fn latest(&self, presented: Option<&HeaderValue>) -> Result<Option<Arc<ActiveCredential>>, String> {
        match self.current_credential().await? {
            Some(held) if !held.matches(presented) => Ok(Some(held)),
            _ => self.load_from_vault().await,
        }
    }

    /// Whether the vault holds a credential for this server, with or without tokens.
    async fn has_stored_credential(&self) -> bool {
        self.options.sign_in.find().await.is_ok_and(|found| found.is_some())
    }

    async fn load_from_vault(&self) -> Result<Option<Arc<ActiveCredential>>, String> {
        let found = self.options.sign_in.find().await.map_err(|error| error.to_string())?;
        let found = found.map(|(key, kept)| (key.clone(), self.options.refreshes.newest(&key, kept)));
        if let (Some(Some(held)), Some((_, found))) = (self.held.get(), &found)
            && found.tokens.as_ref() == Some(&held.tokens)
        {
            return Ok(Some(held));
        }
        let held = found.map(|(key, credential)| self.presentable(key, &credential)).transpose()?.flatten();
        Ok(self.held.set(held))
    }

    fn presentable(
        &self,
        key: CredentialKey,
        credential: &Credential,
    ) -> Result<Option<Arc<ActiveCredential>>, String> {
        let held = ActiveCredential::of(key, credential, self.options.sign_in.proofs.as_deref())?;
        Ok(held.map(Arc::new))
    }

    fn require_sign_in(&self, why: SignInReason) -> Reaction {
        Reaction::SignInRequired(self.requirement(why, None))
    }

    fn requirement(&self, why: SignInReason, address: Option<Secret>) -> Box<SignInRequired> {
        let SessionOptions { name, remedy, .. } = &self.options;
        Box::new(SignInRequired { server: name.clone(), reason: why, remedy: remedy.clone(), address })
    }

    fn publish(&self, signed_in: Result<(), Box<SignInRequired>>) -> Result<(), SignInRequired> {
        let signed_in = signed_in.map_err(|needed| *needed);
        self.needed.send_replace(signed_in.as_ref().err().cloned());
        signed_in
    }
}

fn wire_refused(problem: impl fmt::Display) -> WireError {
    WireError::Refused(problem.to_string())
}

#[cfg(test)]
mod tests;
