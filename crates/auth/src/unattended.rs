//! A server that is signed in to without a person, over time: the token that each request carries, and what follows a
//! refusal.
//!
//! Where there is no token, the server's refusal says whom to ask. A token that is about to end is replaced by another one
//! before, by one request for all who wait, across tasks and processes: whoever has the turn ([`Vault::turn`]) looks
//! first whether somebody else was quicker. An authorization server that says no is left alone for a while.

mod obtaining;

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use toolway_wire::{
    error::WireError,
    up::credential::{Challenge, Credentials, Next, Sending},
};
use url::Url;

use self::obtaining::Trouble;
use crate::{
    challenge::Demand,
    credential::{Credential, CredentialKey, now},
    discovery::Discovery,
    fetch::Fetch,
    grant::{Grant, GrantError},
    needed::{SignInNeeded, Why},
    proof::ProofKeys,
    rest::Rest,
    scope::{Rounds, Scopes},
    session::{
        holding::Holding,
        presentable::{FRESH, Presentable},
    },
    settings::Settings,
    vault::Vault,
};

/// The credentials of one principal at one server, got without anybody.
pub struct Unattended {
    options: UnattendedOptions,
    held: Holding,
    // Nothing awaits under these locks.
    found: Mutex<Option<Arc<Discovery>>>,
    rounds: Mutex<Rounds>,
    resting: Rest<GrantError>,
    /// When a refused token was last replaced.
    replaced: Mutex<Option<u64>>,
    /// One refusal is answered at a time.
    answering: Semaphore,
    needed: watch::Sender<Option<SignInNeeded>>,
}

/// What it is made of.
#[derive(Debug)]
pub struct UnattendedOptions {
    /// The server's name, for people.
    pub name: String,
    /// What somebody has to do where no token is given: a sentence without a full stop.
    pub remedy: String,
    /// On whose behalf.
    pub principal: String,
    /// The server.
    pub server: Url,
    /// How a token is asked for.
    pub grant: Grant,
    /// What the operator wrote about scopes and about whom to ask.
    pub settings: Settings,
    /// The guarded dialer for this server.
    pub fetch: Arc<dyn Fetch>,
    /// Where tokens are kept.
    pub vault: Arc<dyn Vault>,
    /// Where the tokens are to be bound to a key.
    pub proofs: Option<Arc<dyn ProofKeys>>,
}

// === impl Unattended ===

impl Unattended {
    /// Nothing is looked up before it is used.
    pub fn new(mut options: UnattendedOptions) -> Self {
        // Nobody is sent to a page here, so where tokens come from is all there is to find out.
        let settings = &mut options.settings;
        settings.authorization_url = settings.token_url.clone();
        Self {
            options,
            held: Holding::default(),
            found: Mutex::default(),
            rounds: Mutex::default(),
            resting: Rest::default(),
            replaced: Mutex::default(),
            answering: Semaphore::new(1),
            needed: watch::Sender::new(None),
        }
    }

    /// What the server is waiting for, if it is, as it changes.
    pub fn watch(&self) -> watch::Receiver<Option<SignInNeeded>> {
        self.needed.subscribe()
    }

    async fn shown(&self, sending: Sending<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, WireError> {
        // A token goes to the server it is for, and to nobody else.
        if sending.url.origin() != self.options.server.origin() {
            return Ok(Vec::new());
        }
        let held = match self.held().await.map_err(|trouble| WireError::Vault(trouble.to_string()))? {
            Some(held) if held.tokens.is_ending(now()) => self.replaced_in_time(held).await,
            None if matches!(self.options.grant, Grant::Google(_)) => self.unasked().await,
            held => held,
        };
        held.map_or_else(|| Ok(Vec::new()), |held| held.headers(sending).map_err(refused))
    }

    /// Another token; the old one where there is none and it has not ended. Without any, the server says what it wants.
    async fn replaced_in_time(&self, held: Arc<Presentable>) -> Option<Arc<Presentable>> {
        let found = self.found.lock().clone();
        let replaced = match found {
            Some(found) => self.obtain(&found, held.tokens.requested.clone(), Some(&held)).await.ok(),
            None => None,
        };
        replaced.or_else(|| Some(held).filter(|held| !held.tokens.has_ended(now())))
    }

    /// A reason that passes by itself has passed: whoever gives tokens has given one.
    fn is_answered_again(&self) {
        self.needed.send_if_modified(|needed| needed.take_if(|needed| needed.instead().is_some()).is_some());
    }

    /// A token before anybody asked for it: whom to ask is known.
    async fn unasked(&self) -> Option<Arc<Presentable>> {
        let _one = self.answering.acquire().await;
        if let Ok(Some(held)) = self.held().await {
            return Some(held);
        }
        let asked = self.ask(&Demand::default(), None, None).await;
        asked.map_err(|trouble| self.needs(trouble.why())).ok()
    }

    async fn answer(&self, challenge: &Challenge) -> Result<Next, Why> {
        let demand = Demand::read(challenge.challenges.iter().map(String::as_str));
        let for_scopes = challenge.status == StatusCode::FORBIDDEN;
        if (for_scopes && !demand.wants_scopes()) || challenge.url.origin() != self.options.server.origin() {
            return Ok(Next::GiveUp);
        }
        let _one = self.answering.acquire().await;
        let held = self.latest(challenge.presented.as_ref()).await.map_err(Trouble::why)?;
        let Some(held) = held else { return self.next(self.ask(&demand, None, None).await) };
        if !held.is(challenge.presented.as_ref()) || (challenge.wants_nonce() && held.proves()) {
            return Ok(Next::Again);
        }
        let before = held.tokens.requested.clone();
        if for_scopes {
            return self.next(self.step_up(&demand, &before, &held).await);
        }
        if !self.may_replace(now()) {
            return Err(Why::Failed(format!("it refuses the token that {} has just given", held.key.issuer)));
        }
        let asked = self.ask(&demand, None, Some(&held)).await;
        if asked.is_ok() {
            *self.replaced.lock() = Some(now());
        }
        self.next(asked)
    }

    /// Whether a refused token is replaced: not if it is the replacement of one that was refused a moment ago.
    fn may_replace(&self, now: u64) -> bool {
        self.replaced.lock().is_none_or(|then| then.saturating_add(FRESH) <= now)
    }

    async fn step_up(&self, demand: &Demand, before: &Scopes, held: &Presentable) -> Result<Arc<Presentable>, Trouble> {
        let asked = demand.scopes.as_ref().map(|scopes| before.union(scopes)).unwrap_or_default();
        let begun = self.rounds.lock().begin(demand.scopes.as_ref(), &asked, now());
        begun.map_err(|error| Trouble::Other(error.to_string()))?;
        self.ask(demand, Some(before), Some(held)).await
    }

    fn next(&self, asked: Result<Arc<Presentable>, Trouble>) -> Result<Next, Why> {
        asked.map(|_| Next::Again).map_err(Trouble::why)
    }

    /// What is held; looked for in the vault at first.
    async fn held(&self) -> Result<Option<Arc<Presentable>>, Trouble> {
        match self.held.known() {
            Some(known) => Ok(known),
            None => self.look().await,
        }
    }

    /// What is held, or what another process has put into the vault since, if what is held was refused.
    async fn latest(&self, presented: Option<&HeaderValue>) -> Result<Option<Arc<Presentable>>, Trouble> {
        match self.held().await? {
            Some(held) if !held.is(presented) => Ok(Some(held)),
            _ => self.look().await,
        }
    }

    async fn look(&self) -> Result<Option<Arc<Presentable>>, Trouble> {
        let wanted = self.options.settings.scopes.clone().unwrap_or_default();
        let found = self.kept().await?.into_iter().rev().find(|(_, kept)| self.fits(kept, &wanted, None));
        // What is held already has heard the nonces of the server.
        if let (Some(Some(held)), Some((_, found))) = (self.held.known(), &found)
            && found.tokens.as_ref() == Some(&held.tokens)
        {
            return Ok(Some(held));
        }
        match found {
            Some((key, credential)) => self.hold(key, &credential).map(Some),
            None => Ok(self.held.hold(None)),
        }
    }

    fn hold(&self, key: CredentialKey, credential: &Credential) -> Result<Arc<Presentable>, Trouble> {
        let held = Presentable::of(key, credential, self.options.proofs.as_deref()).map_err(Trouble::Other)?;
        let held = Arc::new(held.ok_or_else(|| Trouble::Other("there is no token".to_owned()))?);
        self.held.hold(Some(Arc::clone(&held)));
        Ok(held)
    }

    fn needs(&self, why: Why) {
        let UnattendedOptions { name, remedy, .. } = &self.options;
        let needed = SignInNeeded { server: name.clone(), why, remedy: remedy.clone(), address: None };
        self.needed.send_replace(Some(needed));
    }
}

impl Credentials for Unattended {
    fn headers<'a>(&'a self, sending: Sending<'a>) -> BoxFuture<'a, Result<Vec<(HeaderName, HeaderValue)>, WireError>> {
        Box::pin(self.shown(sending))
    }

    fn challenged(&self, challenge: Challenge) -> BoxFuture<'_, Next> {
        Box::pin(async move {
            match self.answer(&challenge).await {
                Ok(Next::Again) => {
                    self.needed.send_replace(None);
                    Next::Again
                }
                Ok(Next::GiveUp) => Next::GiveUp,
                Err(why) => {
                    self.needs(why);
                    Next::GiveUp
                }
            }
        })
    }

    fn instead(&self) -> Option<WireError> {
        self.needed.borrow().as_ref().and_then(SignInNeeded::instead)
    }

    fn heard(&self, url: &Url, headers: &HeaderMap) {
        self.held.hears(url, headers);
    }
}

impl fmt::Debug for Unattended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unattended").field("name", &self.options.name).finish_non_exhaustive()
    }
}

fn refused(problem: impl fmt::Display) -> WireError {
    WireError::Refused(problem.to_string())
}

#[cfg(test)]
mod tests;
