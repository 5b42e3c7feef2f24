//! The ways to a person who signs in: a browser that comes back to this machine, an address and what is pasted back, or
//! nobody who is there now.
//!
//! Addresses come from strangers: each is shown, and opened as [`super::opener`] says. They are https, or http on this
//! machine.

use std::io::{BufRead, IsTerminal, Read};

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use toolway_auth::{
    authorize::PENDING,
    browser::{Browser, Declined, Invitation, Visit},
    callback::{Arrival, CallbackListener},
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
/// A terminal gives no more of one line, and does not say that there was more.
const MAX_TYPED: usize = if cfg!(target_os = "macos") { 1023 } else { 4095 };
const CUT: &str = "the terminal cut the address, which is too long for it: begin with `toolway login <server> </dev/null`, \
                   put the address into a file, and finish with `toolway login <server> --callback - <file`";
/// How often something may be pasted.
const TRIES: usize = 3;

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

    fn begin(self: Box<Self>, invitation: Invitation) -> BoxFuture<'static, Result<Arrival, Declined>> {
        Box::pin(async move {
            let address = fit(&invitation.address)?;
            warned(&invitation).iter().for_each(|sentence| say(sentence));
            if self.way == Way::Later {
                return Err(Declined::Later);
            }
            say(&format!("Open this address:\n\n  {address}\n"));
            match &self.listener {
                Some(listener) => {
                    // Where none is there, the address that was shown is enough.
                    if self.way == Way::Opened && !self.openers.open(&address).await {
                        say("No browser could be started here; open the address yourself.");
                    }
                    come_back(listener, &invitation.state).await
                }
                None => pasted(&self.redirect).await.map(Arrival::brought),
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

/// What a person is to know before they go there, a sentence each.
fn warned(invitation: &Invitation) -> Vec<String> {
    let Invitation { server, issuer, before, elsewhere, scopes, .. } = invitation;
    let mut said = vec![format!("Sign in to `{server}` at {issuer}.")];
    let changed =
        |before| format!("Until now it was {before} that signed people in to it. Go on only if you expected that.");
    said.extend(before.as_ref().map(changed));
    let foreign = |page| format!("The page is at {page}, which is not {issuer}. Go on only if you expected that.");
    said.extend(elsewhere.as_ref().map(foreign));
    said.extend((!scopes.is_empty()).then(|| format!("It asks for: {scopes}")));
    said
}

async fn come_back(listener: &CallbackListener, state: &Secret) -> Result<Arrival, Declined> {
    timeout(PENDING, listener.callback(state)).await.map_err(|_| Declined::TimedOut)
}

/// What a person pastes; something else, pasted by mistake, can be pasted again.
async fn pasted(redirect: &Url) -> Result<Secret, Declined> {
    say("Then paste the whole address that the browser was sent to, even if it shows an error there:");
    for _ in 1..TRIES {
        let line = line_of_input().await?;
        if line.expose().starts_with(redirect.as_str()) {
            return Ok(line);
        }
        say(&format!("This is not it: the address begins with {redirect}. Paste it again:"));
    }
    line_of_input().await
}

/// One line that somebody typed, pasted or piped; nothing of it is shown.
pub(crate) async fn line_of_input() -> Result<Secret, Declined> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().take(MAX_PASTED).read_line(&mut line).map(|_| Secret::new(line.trim()))
    });
    let line = timeout(PENDING, reading).await.map_err(|_| Declined::TimedOut)?;
    let line = line.ok().and_then(Result::ok).filter(|line| !line.expose().is_empty()).ok_or(Declined::Refused)?;
    if std::io::stdin().is_terminal() && MAX_TYPED <= line.expose().len() {
        return Err(Declined::Failed(CUT.to_owned()));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use toolway_auth::{browser::Invitation, scope::Scopes};
    use toolway_config::Secret;

    use super::warned;

    #[test]
    fn a_person_is_told_who_asks_and_where_the_page_is() {
        let usual = Invitation {
            server: "tickets".to_owned(),
            issuer: "https://login.example".to_owned(),
            before: None,
            elsewhere: None,
            scopes: Scopes::default(),
            address: Secret::new("https://login.example/authorize"),
            state: Secret::new("state"),
        };
        assert_eq!(warned(&usual), ["Sign in to `tickets` at https://login.example."]);
        let odd = Invitation {
            before: Some("https://old.example".to_owned()),
            elsewhere: Some("https://bank.example".to_owned()),
            scopes: Scopes::parse("read").unwrap(),
            ..usual
        };
        assert_eq!(
            warned(&odd)[1..],
            [
                "Until now it was https://old.example that signed people in to it. Go on only if you expected that.",
                "The page is at https://bank.example, which is not https://login.example. Go on only if you expected that.",
                "It asks for: read",
            ]
        );
    }
}
