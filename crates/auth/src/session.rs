//! One principal at one server, over time: the credential that each request carries, and what follows a refusal.
//!
//! A request carries the token there is; one that is about to end is renewed before. A refusal is answered by a renewal,
//! by a sign-in or by a step up, once, and by one task for all that were refused together. What needs a person and has
//! none ends in a [`SignInNeeded`], which stays until somebody has signed in; a sign-in of another process is noticed.

pub(crate) mod holding;
pub(crate) mod presentable;
mod round;

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
    up::credential::{Challenge, Credentials, Next, Sending},
};
use url::Url;

use self::{holding::Holding, presentable::Presentable};
use crate::{
    browser::Browser,
    challenge::Demand,
    credential::{Credential, CredentialKey, now},
    needed::{SignInNeeded, Why},
    renewal::{Renewal, RenewalError},
    renewals::Renewals,
    rest::{AFTER_FAILURE, Rest},
    scope::Rounds,
    sign_in::SignIn,
};

/// The credentials of one principal at one server. Cloning is cheap; every clone is the same session.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

/// What a session is made of.
#[derive(Debug)]
pub struct SessionOptions {
    /// The server's name, for people.
    pub name: String,
    /// What somebody has to do where a sign-in is needed: a sentence without a full stop.
    pub remedy: String,
    /// How a person is reached; without one, a refusal that needs a person is a [`SignInNeeded`] at once.
    pub browser: Option<Arc<dyn Browser>>,
    /// Who signs in, where, with what.
    pub sign_in: SignIn,
    /// Where renewals are kept track of: whoever ends the process waits for them.
    pub renewals: Renewals,
}

struct Shared {
    options: SessionOptions,
    held: Holding,
    // Nothing awaits under this lock.
    rounds: Mutex<Rounds>,
    /// One refusal is answered at a time.
    answering: Semaphore,
    /// One renewal of ours at a time; other processes wait at the vault.
    renewing: Semaphore,
    /// Whoever could not renew is not asked again at once.
    resting: Rest<RenewalError>,
    /// How many rounds ended without a credential.
    failed: AtomicU64,
    needed: watch::Sender<Option<SignInNeeded>>,
}

// === impl Session ===

impl Session {
    /// A session; nothing is looked up before it is used.
    pub fn new(options: SessionOptions) -> Self {
        let shared = Shared {
            options,
            held: Holding::default(),
            rounds: Mutex::default(),
            answering: Semaphore::new(1),
            renewing: Semaphore::new(1),
            resting: Rest::default(),
            failed: AtomicU64::new(0),
            needed: watch::Sender::new(None),
        };
        Self { shared: Arc::new(shared) }
    }

    /// What the server is waiting for, if it is.
    pub fn needed(&self) -> Option<SignInNeeded> {
        self.shared.needed.borrow().clone()
    }

    /// The same, as it changes.
    pub fn watch(&self) -> watch::Receiver<Option<SignInNeeded>> {
        self.shared.needed.subscribe()
    }

    /// Signs in now, whatever is held, as a person asked for it.
    pub async fn sign_in(&self, demand: &Demand) -> Result<(), SignInNeeded> {
        let _one = self.shared.answering.acquire().await;
        let signed_in = self.shared.round(demand, None, Why::Never).await;
        self.shared.concluded(signed_in)
    }

    /// Whether requests wait for a renewal now.
    pub fn is_renewing(&self) -> bool {
        self.shared.renewing.available_permits() == 0
    }

    /// Waits for renewals that are under way, so that what they bring is kept.
    pub async fn settle(&self) {
        let SessionOptions { renewals, sign_in, .. } = &self.shared.options;
        renewals.settle(&*sign_in.vault).await;
    }
}

impl Credentials for Session {
    fn headers<'a>(&'a self, sending: Sending<'a>) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        Box::pin(self.shared.headers(sending))
    }

    fn challenged(&self, challenge: Challenge) -> BoxFuture<'_, Next> {
        Box::pin(async move {
            match self.shared.answer(&challenge).await {
                Answer::Again => {
                    self.shared.needed.send_replace(None);
                    Next::Again
                }
                Answer::Final => Next::GiveUp,
                Answer::Needed(needed) => {
                    self.shared.needed.send_replace(Some(*needed));
                    Next::GiveUp
                }
            }
        })
    }

    fn instead(&self) -> Option<WireError> {
        self.shared.needed.borrow().as_ref().and_then(SignInNeeded::instead)
    }

    fn heard(&self, url: &Url, headers: &HeaderMap) {
        self.shared.held.hears(url, headers);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("name", &self.shared.options.name).finish_non_exhaustive()
    }
}

/// What follows a refusal.
enum Answer {
    Again,
    /// No credential would help, or it is known already what is needed.
    Final,
    Needed(Box<SignInNeeded>),
}

// === impl Shared ===

impl Shared {
    async fn headers(self: &Arc<Self>, sending: Sending<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, WireError> {
        // A token goes to the server it is for, and to nobody else.
        if sending.url.origin() != self.options.sign_in.server.origin() {
            return Ok(Vec::new());
        }
        let Some(held) = self.held().await.map_err(WireError::Vault)? else { return Ok(Vec::new()) };
        self.save(&held.key);
        let held = if held.is_due() { self.renewed_in_time(held).await? } else { Some(held) };
        held.map_or_else(|| Ok(Vec::new()), |held| held.headers(sending).map_err(refused))
    }

    /// A new token; the old one where there is none and it has not ended; nothing where the sign-in has.
    async fn renewed_in_time(self: &Arc<Self>, held: Arc<Presentable>) -> Result<Option<Arc<Presentable>>, WireError> {
        match self.renewed(&held).await {
            Ok(renewed) => Ok(Some(renewed)),
            Err(RenewalError::Ended | RenewalError::Rejected(_)) => Ok(None),
            Err(_) if !held.tokens.has_ended(now()) => Ok(Some(held)),
            Err(RenewalError::Vault(error)) => Err(WireError::Vault(error.to_string())),
            Err(error @ (RenewalError::Unanswered(_) | RenewalError::Failed(_))) => {
                Err(WireError::NoToken(error.to_string()))
            }
        }
    }

    async fn answer(self: &Arc<Self>, challenge: &Challenge) -> Answer {
        let demand = Demand::read(challenge.challenges.iter().map(String::as_str));
        let for_scopes = challenge.status == StatusCode::FORBIDDEN;
        if (for_scopes && !demand.wants_scopes()) || challenge.url.origin() != self.options.sign_in.server.origin() {
            return Answer::Final;
        }
        let failed = self.failed.load(Ordering::Relaxed);
        let _one = self.answering.acquire().await;
        let held = match self.latest(challenge.presented.as_ref()).await {
            Ok(held) => held,
            Err(problem) => return self.needs(Why::Vault(problem)),
        };
        if let Some(held) = &held {
            if !held.is(challenge.presented.as_ref()) {
                return Answer::Again;
            }
            // It was heard with the answer.
            if challenge.wants_nonce() && held.proves() {
                return Answer::Again;
            }
        }
        // A person who has just said no is not asked once more for each request that waited meanwhile.
        if self.failed.load(Ordering::Relaxed) != failed {
            return Answer::Final;
        }
        if for_scopes { self.step_up(&demand, held).await } else { self.recover(&demand, held).await }
    }

    /// After a 401: a renewal where there is something to renew with, else a sign-in.
    async fn recover(self: &Arc<Self>, demand: &Demand, held: Option<Arc<Presentable>>) -> Answer {
        let why = if held.is_some() || self.has_known().await { Why::Ended } else { Why::Never };
        if let Some(held) = held.as_ref().filter(|held| held.is_worth_renewing()) {
            match self.renewed(held).await {
                Ok(_) => return Answer::Again,
                Err(RenewalError::Unanswered(error)) => return self.needs(Why::Unanswered(Box::new(error))),
                Err(RenewalError::Vault(error)) => return self.needs(Why::Vault(error.to_string())),
                Err(RenewalError::Failed(problem)) => return self.needs(Why::Failed(problem)),
                Err(RenewalError::Ended | RenewalError::Rejected(_)) => {}
            }
        }
        self.interactive(demand, None, why).await
    }

    /// After a 403 that names scopes: a sign-in that asks for them and for all that was asked for before.
    async fn step_up(self: &Arc<Self>, demand: &Demand, held: Option<Arc<Presentable>>) -> Answer {
        let why = Why::MoreScopes(demand.scopes.clone().unwrap_or_default());
        self.interactive(demand, held, why).await
    }

    async fn interactive(self: &Arc<Self>, demand: &Demand, held: Option<Arc<Presentable>>, why: Why) -> Answer {
        match self.round(demand, held, why).await {
            Ok(()) => Answer::Again,
            Err(needed) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                Answer::Needed(needed)
            }
        }
    }

    /// A renewal in a task of its own: it is finished and kept, even if nobody waits for it any more.
    async fn renewed(self: &Arc<Self>, held: &Arc<Presentable>) -> Result<Arc<Presentable>, RenewalError> {
        let (shared, stale) = (Arc::clone(self), Arc::clone(held));
        let renewal = self.options.renewals.spawn(async move { shared.renew(stale).await });
        renewal.await.unwrap_or_else(|_| Err(RenewalError::Failed("it was interrupted".to_owned())))
    }

    async fn renew(&self, stale: Arc<Presentable>) -> Result<Arc<Presentable>, RenewalError> {
        let _one = self.renewing.acquire().await;
        if let Some(Some(held)) = self.held.known()
            && held.tokens.access != stale.tokens.access
        {
            return Ok(held);
        }
        self.resting.check()?;
        let SignIn { fetch, vault, proofs, settings, .. } = &self.options.sign_in;
        let renewals = &self.options.renewals;
        let renewal = Renewal { fetch: &**fetch, vault: &**vault, proofs: proofs.as_deref(), settings, renewals };
        match renewal.renew(&stale.key, &stale.tokens.access).await {
            // Another address of the same resource has a sign-in of its own.
            Ok(credential) if credential.server != self.options.sign_in.identity() => {
                self.held.hold(None);
                Err(RenewalError::Ended)
            }
            Ok(credential) => {
                // A reason that passes by itself has passed.
                self.needed.send_if_modified(|needed| needed.take_if(|needed| needed.instead().is_some()).is_some());
                let held = self.presentable(stale.key.clone(), &credential).map_err(RenewalError::Failed)?;
                self.held.hold(held).ok_or(RenewalError::Ended)
            }
            Err(error) => {
                match &error {
                    RenewalError::Unanswered(_) | RenewalError::Vault(_) | RenewalError::Failed(_) => {
                        self.resting.begin(AFTER_FAILURE, error.clone());
                    }
                    RenewalError::Ended | RenewalError::Rejected(_) => drop(self.held.hold(None)),
                }
                Err(error)
            }
        }
    }

    /// What the vault would not take is brought there again, while requests go on.
    fn save(self: &Arc<Self>, key: &CredentialKey) {
        let renewals = &self.options.renewals;
        if renewals.is_to_be_saved(key) {
            let (shared, key) = (Arc::clone(self), key.clone());
            renewals.spawn(async move {
                shared.options.renewals.save(&*shared.options.sign_in.vault, &key).await;
            });
        }
    }

    /// What is held; looked for in the vault at first, by one for all: a keychain may have to ask.
    async fn held(&self) -> Result<Option<Arc<Presentable>>, String> {
        if let Some(known) = self.held.known() {
            return Ok(known);
        }
        let _one = self.renewing.acquire().await;
        match self.held.known() {
            Some(known) => Ok(known),
            None => self.look().await,
        }
    }

    /// What is held, or what another process has put into the vault since, if what is held was refused.
    async fn latest(&self, presented: Option<&HeaderValue>) -> Result<Option<Arc<Presentable>>, String> {
        match self.held().await? {
            Some(held) if !held.is(presented) => Ok(Some(held)),
            _ => self.look().await,
        }
    }

    /// Whether something is kept for this server, with tokens or without.
    async fn has_known(&self) -> bool {
        self.options.sign_in.find().await.is_ok_and(|found| found.is_some())
    }

    async fn look(&self) -> Result<Option<Arc<Presentable>>, String> {
        let found = self.options.sign_in.find().await.map_err(|error| error.to_string())?;
        let found = found.map(|(key, kept)| (key.clone(), self.options.renewals.newest(&key, kept)));
        if let (Some(Some(held)), Some((_, found))) = (self.held.known(), &found)
            && found.tokens.as_ref() == Some(&held.tokens)
        {
            return Ok(Some(held));
        }
        let held = found.map(|(key, credential)| self.presentable(key, &credential)).transpose()?.flatten();
        Ok(self.held.hold(held))
    }

    fn presentable(&self, key: CredentialKey, credential: &Credential) -> Result<Option<Arc<Presentable>>, String> {
        let held = Presentable::of(key, credential, self.options.sign_in.proofs.as_deref())?;
        Ok(held.map(Arc::new))
    }

    fn needs(&self, why: Why) -> Answer {
        Answer::Needed(self.need(why, None))
    }

    fn need(&self, why: Why, address: Option<Secret>) -> Box<SignInNeeded> {
        let SessionOptions { name, remedy, .. } = &self.options;
        Box::new(SignInNeeded { server: name.clone(), why, remedy: remedy.clone(), address })
    }

    fn concluded(&self, signed_in: Result<(), Box<SignInNeeded>>) -> Result<(), SignInNeeded> {
        let signed_in = signed_in.map_err(|needed| *needed);
        self.needed.send_replace(signed_in.as_ref().err().cloned());
        signed_in
    }
}

fn refused(problem: impl fmt::Display) -> WireError {
    WireError::Refused(problem.to_string())
}

#[cfg(test)]
mod tests;
