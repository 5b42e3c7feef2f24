//! Signing in from the console: the page shows the address, and the callback arrives on loopback.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use toolway_auth::{
    browser::{Browser, BrowserError, SignInPrompt, Visit},
    callback::{self, CallbackListener, ReceivedCallback},
    session::{Session, SessionOptions},
    sign_in_required::SignInRequired,
};
use toolway_config::ServerName;
use toolway_console::backend::SignInPage;
use toolway_host::{Host, record::kind};
use url::Url;

use super::browser;
use crate::{
    app::App,
    commands::login::{probe, sign_in_failure},
    report::Report,
};

/// The sign-ins that wait for their browser, at most one for each server.
#[derive(Default)]
pub(crate) struct PageSignIns {
    // Nothing awaits under these locks.
    waiting: Mutex<BTreeMap<ServerName, AbortOnDropHandle<()>>>,
    failures: Failures,
}

/// Why the last sign-in to a server failed.
type Failures = Arc<Mutex<BTreeMap<ServerName, String>>>;

/// Hands the address to the console instead of opening it.
#[derive(Debug)]
struct PageBrowser {
    port: Option<u16>,
    redirect: Option<Url>,
    page: PageSender,
}

/// Where the page is waited for, once.
type PageSender = Arc<Mutex<Option<oneshot::Sender<SignInPage>>>>;

struct PageVisit {
    listener: CallbackListener,
    page: PageSender,
}

impl PageSignIns {
    /// Begins a sign-in; it goes on in the background until the callback arrives or the time is over.
    pub(crate) async fn begin(&self, app: &Arc<App>, host: &Host, server: &ServerName) -> Result<SignInPage, Report> {
        let options = options(app, server)?;
        let (sender, page) = oneshot::channel();
        let (failed, failure) = oneshot::channel();
        let browser = PageBrowser { page: Arc::new(Mutex::new(Some(sender))), ..options.browser };
        let session = SessionOptions { browser: Some(Arc::new(browser)), ..options.session };
        let (app, host, name) = (Arc::clone(app), host.clone(), server.clone());
        let failures = Arc::clone(&self.failures);
        failures.lock().remove(server);
        let signing_in = async move {
            if let Err(needed) = sign_in(session).await {
                tracing::warn!(server = %name, reason = %needed.reason, "the sign-in from the console failed");
                failures.lock().insert(name.clone(), needed.reason.to_string());
                let _answered = failed.send(needed);
            } else {
                let details = json!({ "change": "signed in", "surface": "console" });
                app.audit(kind::SIGN_IN, Some(name.as_str()), None, &details);
            }
            // With the new credential, or to tell the pages that the sign-in has ended.
            drop(host.reconnect(&name).await);
        };
        let task = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(signing_in));
        drop(self.waiting.lock().insert(server.clone(), task));
        let Ok(page) = page.await else {
            let stopped = || Report::from_code("internal", "the sign-in stopped");
            return Err(failure.await.map_or_else(|_| stopped(), |needed| sign_in_failure(&needed.reason)));
        };
        Ok(page)
    }

    /// Why the last sign-in to a server failed.
    pub(crate) fn failure(&self, server: &ServerName) -> Option<String> {
        self.failures.lock().get(server).cloned()
    }
}

/// What a sign-in needs.
struct Prepared {
    session: SessionOptions,
    browser: PageBrowser,
}

fn options(app: &App, server: &ServerName) -> Result<Prepared, Report> {
    let config = app.load()?.config;
    let entry = crate::target::entry(&config, server.as_str())?;
    let account = app.account(&config, entry, &app.principal())?;
    let browser = PageBrowser { port: account.callback_port, redirect: account.redirect, page: Arc::default() };
    Ok(Prepared { session: account.options, browser })
}

/// Signs in; the credential is then in the vault.
async fn sign_in(session: SessionOptions) -> Result<(), SignInRequired> {
    let about = session.sign_in.clone();
    let probed = probe(&*about.fetch, &about.server).await;
    let challenge = probed.map(|refusal| refusal.challenge).unwrap_or_default();
    Session::new(session).sign_in(&challenge).await
}

impl Browser for PageBrowser {
    fn prepare<'a>(&'a self, before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, BrowserError>> {
        Box::pin(async move {
            if let Some(redirect) = self.redirect.as_ref().filter(|redirect| !callback::is_local(redirect)) {
                let message =
                    format!("the redirect URI {redirect} is not on this machine; sign in with `toolway login`");
                return Err(BrowserError::Failed(message));
            }
            let listener = browser::bind(self.redirect.as_ref(), self.port, before).await?;
            Ok(Box::new(PageVisit { listener, page: Arc::clone(&self.page) }) as Box<dyn Visit>)
        })
    }
}

impl Visit for PageVisit {
    fn redirect(&self) -> Url {
        self.listener.redirect().clone()
    }

    fn begin(self: Box<Self>, prompt: SignInPrompt) -> BoxFuture<'static, Result<ReceivedCallback, BrowserError>> {
        Box::pin(async move {
            let url = browser::checked_url(&prompt.address)?;
            let page = SignInPage { url: url.to_string(), notices: browser::notices(&prompt) };
            let sender = self.page.lock().take();
            let shown = sender.is_some_and(|sender| sender.send(page).is_ok());
            if !shown {
                return Err(BrowserError::Cancelled);
            }
            browser::await_callback(&self.listener, &prompt.state).await
        })
    }
}

impl fmt::Debug for PageSignIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageSignIns").field("waiting", &self.waiting.lock().len()).finish()
    }
}
