//! The browser part of a sign-in: a browser with a loopback callback, a pasted callback URL, or deferred to a later command.
//!
//! URLs come from remote servers: each is shown to the user, must be https (or http on loopback), and is opened as
//! described in [`super::opener`].

use std::io::{BufRead, IsTerminal, Read};

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use toolway_auth::{
    authorize::PENDING_TIMEOUT,
    browser::{Browser, BrowserError, SignInPrompt, Visit},
    callback::{self, CallbackListener, ReceivedCallback},
    dialer::is_this_machine,
    discovery::FoundBy,
};
use toolway_config::Secret;
use url::Url;

use super::{opener::Openers, print_notice};

/// How the user completes the sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignInMethod {
    /// Opens a browser; the callback arrives on loopback.
    OpenBrowser,
    /// The user opens the URL; the callback arrives on loopback.
    ShowUrl,
    /// The user opens the URL on any machine and pastes the callback URL.
    PasteCallback,
    /// No interactive terminal; a later command completes the sign-in.
    Deferred,
}

/// The user's browser, used in one of these ways.
#[derive(Clone, Debug)]
pub(crate) struct UserBrowser {
    pub(crate) method: SignInMethod,
    /// Fixed loopback port of the callback, if the entry has one.
    pub(crate) port: Option<u16>,
    /// Redirect URI, if the entry has one; the port is not used then.
    pub(crate) redirect: Option<Url>,
    /// Programs that open URLs.
    pub(crate) openers: Openers,
}

struct PendingVisit {
    method: SignInMethod,
    openers: Openers,
    redirect: Url,
    /// `None` if the callback is pasted or deferred.
    listener: Option<CallbackListener>,
}

/// Longest pasted line in bytes.
const MAX_PASTED: u64 = 64 * 1024;
/// Longest line that a terminal passes on; longer lines are truncated silently.
const MAX_TERMINAL_LINE: usize = if cfg!(target_os = "macos") { 1023 } else { 4095 };
const TRUNCATED: &str = "the URL is too long for a terminal line and was truncated: start again with `toolway login <server> </dev/null`, \
put the callback URL into a file, and finish with `toolway login <server> --callback - <file`";
/// Attempts to paste the callback URL.
const TRIES: usize = 3;

impl Browser for UserBrowser {
    fn prepare<'a>(&'a self, before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, BrowserError>> {
        Box::pin(async move {
            let openers = self.openers.clone();
            if let Some(redirect) = self.redirect.clone().filter(|redirect| !callback::is_local(redirect)) {
                let method = self.method_without_listener(&redirect)?;
                return Ok(Box::new(PendingVisit { method, openers, redirect, listener: None }) as Box<dyn Visit>);
            }
            let listener = bind(self.redirect.as_ref(), self.port, before).await?;
            let redirect = listener.redirect().clone();
            let listener =
                Some(listener).filter(|_| matches!(self.method, SignInMethod::OpenBrowser | SignInMethod::ShowUrl));
            Ok(Box::new(PendingVisit { method: self.method, openers, redirect, listener }) as Box<dyn Visit>)
        })
    }
}

impl UserBrowser {
    /// The method if the callback arrives at another machine: it is pasted, or passed to a later command.
    fn method_without_listener(&self, redirect: &Url) -> Result<SignInMethod, BrowserError> {
        match self.method {
            SignInMethod::OpenBrowser | SignInMethod::PasteCallback => Ok(SignInMethod::PasteCallback),
            SignInMethod::Deferred => Ok(SignInMethod::Deferred),
            SignInMethod::ShowUrl => Err(BrowserError::Failed(format!(
                "the redirect URI {redirect} is not on this machine, so that `--wait` cannot receive the callback; use \
                 `--callback`"
            ))),
        }
    }
}

impl Visit for PendingVisit {
    fn redirect(&self) -> Url {
        self.redirect.clone()
    }

    fn begin(self: Box<Self>, invitation: SignInPrompt) -> BoxFuture<'static, Result<ReceivedCallback, BrowserError>> {
        Box::pin(async move {
            let address = checked_url(&invitation.address)?;
            notices(&invitation).iter().for_each(|sentence| print_notice(sentence));
            if self.method == SignInMethod::Deferred {
                return Err(BrowserError::Deferred);
            }
            print_notice(&format!("Open this URL in a browser:\n\n  {address}\n"));
            match &self.listener {
                Some(listener) => {
                    // Without a browser the printed URL is enough.
                    if self.method == SignInMethod::OpenBrowser && !self.openers.open(&address).await {
                        print_notice("Cannot start a browser; open the URL yourself.");
                    }
                    await_callback(listener, &invitation.state).await
                }
                None => read_pasted_callback(&self.redirect).await.map(ReceivedCallback::pasted),
            }
        })
    }
}

/// Listens for the callback, at the redirect URI or port of the entry if it has one.
pub(super) async fn bind(
    redirect: Option<&Url>,
    port: Option<u16>,
    before: Option<&Url>,
) -> Result<CallbackListener, BrowserError> {
    let bound = match (redirect, port) {
        (Some(redirect), _) => CallbackListener::bind_at(redirect).await,
        (None, Some(port)) => CallbackListener::bind(Some(port)).await,
        (None, None) => CallbackListener::bind_again(before).await,
    };
    bound.map_err(|error| BrowserError::Failed(format!("cannot listen for the callback: {error}")))
}

/// The URL, if it may be shown and opened. User info is refused: it can make one host look like another.
pub(super) fn checked_url(address: &Secret) -> Result<Url, BrowserError> {
    let unfit = |why: &str| BrowserError::Failed(format!("the sign-in URL {why}"));
    let url = Url::parse(address.expose()).map_err(|_| unfit("is invalid"))?;
    if url.scheme() != "https" && !(url.scheme() == "http" && is_this_machine(&url)) {
        return Err(unfit("is neither https nor on loopback"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unfit("contains a user name or password"));
    }
    Ok(url)
}

/// What the user should know before opening the URL, one sentence each.
pub(super) fn notices(invitation: &SignInPrompt) -> Vec<String> {
    let SignInPrompt { server, issuer, before, page_origin, found_by, scopes, .. } = invitation;
    let mut said = vec![format!("Sign in to `{server}` at {issuer}.")];
    let is_own = matches!(found_by, FoundBy::OwnMetadata | FoundBy::DefaultEndpoints);
    let own = || {
        format!(
            "Note: `{server}` names no authorization server; it is its own, as in revision 2025-03-26 of the protocol."
        )
    };
    said.extend(is_own.then(own));
    let changed = |before| {
        format!("Warning: the authorization server was {before} before. Continue only if you expect this change.")
    };
    said.extend(before.as_ref().map(changed));
    let foreign =
        |page| format!("Warning: the sign-in page is at {page}, not at {issuer}. Continue only if you expect this.");
    said.extend(page_origin.as_ref().map(foreign));
    said.extend((!scopes.is_empty()).then(|| format!("Requested scopes: {scopes}")));
    said
}

pub(super) async fn await_callback(
    listener: &CallbackListener,
    state: &Secret,
) -> Result<ReceivedCallback, BrowserError> {
    timeout(PENDING_TIMEOUT, listener.callback(state)).await.map_err(|_| BrowserError::TimedOut)
}

/// Reads the callback URL that the user pastes; asks again if it does not match.
async fn read_pasted_callback(redirect: &Url) -> Result<Secret, BrowserError> {
    print_notice("Then paste the full URL that the browser was redirected to, even if it shows an error page:");
    for _ in 1..TRIES {
        let line = read_line().await?;
        if line.expose().starts_with(redirect.as_str()) {
            return Ok(line);
        }
        print_notice(&format!("Not the callback URL; it starts with {redirect}. Paste it again:"));
    }
    read_line().await
}

/// Reads one line of standard input as a secret.
pub(crate) async fn read_line() -> Result<Secret, BrowserError> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().take(MAX_PASTED).read_line(&mut line).map(|_| Secret::new(line.trim()))
    });
    let line = timeout(PENDING_TIMEOUT, reading).await.map_err(|_| BrowserError::TimedOut)?;
    let line =
        line.ok().and_then(Result::ok).filter(|line| !line.expose().is_empty()).ok_or(BrowserError::Cancelled)?;
    if std::io::stdin().is_terminal() && MAX_TERMINAL_LINE <= line.expose().len() {
        return Err(BrowserError::Failed(TRUNCATED.to_owned()));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use toolway_auth::{browser::SignInPrompt, discovery::FoundBy, scope::Scopes};
    use toolway_config::Secret;

    use super::{checked_url, notices};

    #[test]
    fn only_plain_https_and_loopback_addresses_are_opened() {
        let check = |address: &str| checked_url(&Secret::new(address)).map_err(|error| error.to_string());
        for address in ["https://login.example/authorize?a=b", "http://127.0.0.1:9/authorize", "http://localhost:9/"] {
            assert!(check(address).is_ok(), "{address}");
        }
        for (address, why) in [
            ("http://login.example/", "is neither https nor on loopback"),
            ("javascript:alert(1)", "is neither https nor on loopback"),
            ("https://login.example@evil.example/", "contains a user name or password"),
            ("https://:secret@login.example/", "contains a user name or password"),
            ("nonsense", "is invalid"),
        ] {
            assert_eq!(check(address), Err(format!("the sign-in URL {why}")), "{address}");
        }
    }

    #[test]
    fn notices_name_the_issuer_the_page_and_the_scopes() {
        let usual = SignInPrompt {
            server: "tickets".to_owned(),
            issuer: "https://login.example".to_owned(),
            before: None,
            page_origin: None,
            found_by: FoundBy::ResourceMetadata,
            scopes: Scopes::default(),
            address: Secret::new("https://login.example/authorize"),
            state: Secret::new("state"),
        };
        assert_eq!(notices(&usual), ["Sign in to `tickets` at https://login.example."]);
        let odd = SignInPrompt {
            before: Some("https://old.example".to_owned()),
            page_origin: Some("https://bank.example".to_owned()),
            found_by: FoundBy::OwnMetadata,
            scopes: Scopes::parse("read").unwrap(),
            ..usual
        };
        assert_eq!(
            notices(&odd)[1..],
            [
                "Note: `tickets` names no authorization server; it is its own, as in revision 2025-03-26 of the protocol.",
                "Warning: the authorization server was https://old.example before. Continue only if you expect this change.",
                "Warning: the sign-in page is at https://bank.example, not at https://login.example. Continue only if you expect this.",
                "Requested scopes: read",
            ]
        );
    }
}
