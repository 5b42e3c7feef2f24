//! One authorization round: discovers the authorization server, opens the browser and handles the callback, within the
//! limit of rounds.

use std::sync::Arc;

use toolway_config::Secret;
use url::Url;

use super::{Shared, active::ActiveCredential};
use crate::{
    authorize::PendingSignIn,
    browser::{Browser, BrowserError, SignInPrompt},
    callback::CallbackOutcome,
    challenge::TokenChallenge,
    credential::now,
    discovery::FoundBy,
    sign_in::{Plan, SignInError},
    sign_in_required::{SignInReason, SignInRequired},
};

impl Shared {
    /// Runs one interactive sign-in if a browser is available; `held` is the current credential in a step-up.
    pub(super) async fn round(
        &self,
        demand: &TokenChallenge,
        held: Option<Arc<ActiveCredential>>,
        why: SignInReason,
    ) -> Result<(), Box<SignInRequired>> {
        let Some(browser) = &self.options.browser else { return Err(self.requirement(why, None)) };
        self.visit(browser, demand, held).await
    }

    async fn visit(
        &self,
        browser: &Arc<dyn Browser>,
        demand: &TokenChallenge,
        held: Option<Arc<ActiveCredential>>,
    ) -> Result<(), Box<SignInRequired>> {
        let sign_in = &self.options.sign_in;
        let plan = sign_in.plan(demand, held.as_ref().map(|held| &held.tokens.requested)).await;
        let plan = plan.map_err(|error| self.failed(error))?;
        // In a step-up, scopes that were requested recently would not help.
        let stepping = demand.scopes.as_ref().filter(|_| held.is_some());
        let begun = self.rounds.lock().begin(stepping, &plan.scopes, now());
        begun.map_err(|_| self.requirement(SignInReason::TooManyRounds, None))?;

        let visit = browser.prepare(kept_redirect(&plan).as_ref()).await;
        let visit = visit.map_err(|declined| self.requirement(SignInReason::Failed(declined.to_string()), None))?;
        let (before, found_by) = (plan.before.clone(), plan.discovery.found_by);
        let pending = sign_in.begin(plan, visit.redirect()).await.map_err(|error| self.failed(error))?;
        let callback = visit.begin(self.prompt(&pending, before, found_by)).await;
        let callback = match callback {
            Ok(callback) => callback,
            Err(declined) => return Err(self.on_browser_error(&pending, declined).await),
        };
        let finished = sign_in.finish(&pending, &callback.address).await;
        callback.respond(if finished.is_ok() { CallbackOutcome::SignedIn } else { CallbackOutcome::NotSignedIn }).await;
        let (key, credential) = finished.map_err(|error| self.failed(error))?;
        let held = self
            .presentable(key, &credential)
            .map_err(|problem| self.requirement(SignInReason::Failed(problem), None))?;
        self.held.set(held);
        Ok(())
    }

    fn prompt(&self, pending: &PendingSignIn, before: Option<String>, found_by: FoundBy) -> SignInPrompt {
        let settings = &self.options.sign_in.settings;
        SignInPrompt {
            server: self.options.name.clone(),
            issuer: pending.issuer.name.clone(),
            before,
            page_origin: settings.authorization_url.is_none().then(|| pending.foreign_page_origin()).flatten(),
            found_by,
            scopes: pending.scopes.clone(),
            address: Secret::new(pending.address()),
            state: pending.state().clone(),
        }
    }

    /// Stores a sign-in that is to be finished later.
    async fn on_browser_error(&self, pending: &PendingSignIn, declined: BrowserError) -> Box<SignInRequired> {
        if declined != BrowserError::Deferred {
            return self.requirement(SignInReason::Failed(declined.to_string()), None);
        }
        match pending.store(&*self.options.sign_in.vault).await {
            Ok(()) => self.requirement(SignInReason::Pending, Some(Secret::new(pending.address()))),
            Err(error) => self.requirement(SignInReason::Vault(error.to_string()), None),
        }
    }

    fn failed(&self, error: SignInError) -> Box<SignInRequired> {
        self.requirement(error.reason(), None)
    }
}

/// Redirect URL with which the client was registered.
fn kept_redirect(plan: &Plan) -> Option<Url> {
    plan.client.as_ref()?.redirect.as_deref()?.parse().ok()
}
