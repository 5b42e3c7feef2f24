//! One authorization round: find out where, send a person there, and take the callback; not more often than is sensible.

use std::sync::Arc;

use toolway_config::Secret;
use url::Url;

use super::{Shared, presentable::Presentable};
use crate::{
    authorize::Pending,
    browser::{Browser, Declined, Invitation},
    callback::Ending,
    challenge::Demand,
    credential::now,
    needed::{SignInNeeded, Why},
    sign_in::{Plan, SignInError},
};

impl Shared {
    /// Takes a person round once, if there is one; `held` where this is a step up from it.
    pub(super) async fn round(
        &self,
        demand: &Demand,
        held: Option<Arc<Presentable>>,
        why: Why,
    ) -> Result<(), Box<SignInNeeded>> {
        let Some(browser) = &self.options.browser else { return Err(self.need(why, None)) };
        self.visit(browser, demand, held).await
    }

    async fn visit(
        &self,
        browser: &Arc<dyn Browser>,
        demand: &Demand,
        held: Option<Arc<Presentable>>,
    ) -> Result<(), Box<SignInNeeded>> {
        let sign_in = &self.options.sign_in;
        let plan = sign_in.plan(demand, held.as_ref().map(|held| &held.tokens.requested)).await;
        let plan = plan.map_err(|error| self.failed(error))?;
        // In a step up, scopes that were asked for a moment ago would lead nowhere again.
        let stepping = demand.scopes.as_ref().filter(|_| held.is_some());
        let begun = self.rounds.lock().begin(stepping, &plan.scopes, now());
        begun.map_err(|_| self.need(Why::TooOften, None))?;

        let visit = browser.ready(kept_redirect(&plan).as_ref()).await;
        let visit = visit.map_err(|declined| self.need(Why::Failed(declined.to_string()), None))?;
        let before = plan.before.clone();
        let pending = sign_in.begin(plan, visit.redirect()).await.map_err(|error| self.failed(error))?;
        let arrival = visit.begin(self.invitation(&pending, before)).await;
        let arrival = match arrival {
            Ok(arrival) => arrival,
            Err(declined) => return Err(self.declined(&pending, declined).await),
        };
        let finished = sign_in.finish(&pending, &arrival.address).await;
        arrival.told(if finished.is_ok() { Ending::SignedIn } else { Ending::NotSignedIn }).await;
        let (key, credential) = finished.map_err(|error| self.failed(error))?;
        let held = self.presentable(key, &credential).map_err(|problem| self.need(Why::Failed(problem), None))?;
        self.held.hold(held);
        Ok(())
    }

    fn invitation(&self, pending: &Pending, before: Option<String>) -> Invitation {
        let settings = &self.options.sign_in.settings;
        Invitation {
            server: self.options.name.clone(),
            issuer: pending.issuer.name.clone(),
            before,
            elsewhere: settings.authorization_url.is_none().then(|| pending.elsewhere()).flatten(),
            scopes: pending.scopes.clone(),
            address: Secret::new(pending.address()),
            state: pending.state().clone(),
        }
    }

    /// A sign-in that is to be finished later waits in the vault.
    async fn declined(&self, pending: &Pending, declined: Declined) -> Box<SignInNeeded> {
        if declined != Declined::Later {
            return self.need(Why::Failed(declined.to_string()), None);
        }
        match pending.keep(&*self.options.sign_in.vault).await {
            Ok(()) => self.need(Why::Begun, Some(Secret::new(pending.address()))),
            Err(error) => self.need(Why::Vault(error.to_string()), None),
        }
    }

    fn failed(&self, error: SignInError) -> Box<SignInNeeded> {
        self.need(error.why(), None)
    }
}

/// Where the browser was sent back to when the client registered itself.
fn kept_redirect(plan: &Plan) -> Option<Url> {
    plan.client.as_ref()?.redirect.as_deref()?.parse().ok()
}
