//! The ways to a person who signs in: a browser that comes back to this machine, an address and what is pasted back, or
//! nobody who is there now.
//!
//! Addresses come from strangers: each is shown, and opened as [`super::opener`] says. They are https, or http on this
//! machine.

use std::io::{BufRead, Read};

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use toolway_auth::{
    authorize::PENDING,
    browser::{Browser, Declined, Invitation, Visit},
    callback::CallbackListener,
    dialer::is_this_machine,
};
use toolway_config::Secret;
use url::Url;

use super::{opener::Openers, say};

/// How the person is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A browser is opened, and comes back to this machine.
    Opened,
    /// The person opens the address, and the browser comes back to this machine.
    Shown,
    /// The person opens the address anywhere, and pastes what the browser was sent back to.
    Pasted,
    /// Nobody is there; somebody finishes it later.
    Later,
}

/// A person, reached in one of the ways.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) way: Way,
    /// The port of this machine that is registered for us.
    pub(crate) port: Option<u16>,
    /// What opens addresses.
    pub(crate) openers: Openers,
}

struct Sent {
    way: Way,
    openers: Openers,
    redirect: Url,
    /// None where the callback comes another way.
    listener: Option<CallbackListener>,
}

/// More than any callback has.
const MAX_PASTED: u64 = 64 * 1024;

impl Browser for Person {
    fn ready<'a>(&'a self, before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, Declined>> {
        Box::pin(async move {
            let bound = match self.port {
                Some(port) => CallbackListener::bind(Some(port)).await,
                None => CallbackListener::bind_again(before).await,
            };
            let failed = |error| Declined::Failed(format!("this machine cannot be called back: {error}"));
            let listener = bound.map_err(failed)?;
            let redirect = listener.redirect().clone();
            let listener = Some(listener).filter(|_| matches!(self.way, Way::Opened | Way::Shown));
            Ok(Box::new(Sent { way: self.way, openers: self.openers.clone(), redirect, listener }) as Box<dyn Visit>)
        })
    }
}

impl Visit for Sent {
    fn redirect(&self) -> Url {
        self.redirect.clone()
    }

    fn begin(self: Box<Self>, invitation: Invitation) -> BoxFuture<'static, Result<Secret, Declined>> {
        Box::pin(async move {
            if self.way == Way::Later {
                return Err(Declined::Later);
            }
            let address = fit(&invitation.address)?;
            invite(&invitation);
            match &self.listener {
                Some(listener) => {
                    // Where none is there, the address that was shown is enough.
                    if self.way == Way::Opened && !self.openers.open(&address).await {
                        say("No browser could be started here; open the address yourself.");
                    }
                    come_back(listener, &invitation.state).await
                }
                None => pasted().await,
            }
        })
    }
}

/// An address that may be shown and opened.
fn fit(address: &Secret) -> Result<Url, Declined> {
    let url = Url::parse(address.expose()).ok();
    let is_fit = |url: &Url| url.scheme() == "https" || url.scheme() == "http" && is_this_machine(url);
    let unfit = || Declined::Failed("the address to sign in at is neither https nor on this machine".to_owned());
    url.filter(is_fit).ok_or_else(unfit)
}

fn invite(invitation: &Invitation) {
    let Invitation { server, issuer, before, scopes, address, .. } = invitation;
    say(&format!("Sign in to `{server}` at {issuer}."));
    if let Some(before) = before {
        say(&format!("Until now it was {before} that signed people in to it. Go on only if you expected that."));
    }
    if !scopes.is_empty() {
        say(&format!("It asks for: {scopes}"));
    }
    say(&format!("Open this address:\n\n  {}\n", address.expose()));
}

async fn come_back(listener: &CallbackListener, state: &Secret) -> Result<Secret, Declined> {
    let called = timeout(PENDING, listener.callback(state)).await.map_err(|_| Declined::TimedOut)?;
    called.map_err(|error| Declined::Failed(format!("this machine cannot be called back: {error}")))
}

async fn pasted() -> Result<Secret, Declined> {
    say("Then paste the whole address that the browser was sent to, even if it shows an error there:");
    let reading = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().take(MAX_PASTED).read_line(&mut line).map(|_| Secret::new(line.trim()))
    });
    let line = timeout(PENDING, reading).await.map_err(|_| Declined::TimedOut)?;
    match line {
        Ok(Ok(line)) if !line.expose().is_empty() => Ok(line),
        _ => Err(Declined::Refused),
    }
}
