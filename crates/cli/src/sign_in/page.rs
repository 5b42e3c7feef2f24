//! Signing in from the console: the page shows the address, and the callback arrives on loopback.

use std::{collections::BTreeMap, fmt, sync::Arc, time::SystemTime};

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
use toolway_gateway::access::KnownClient;
use toolway_host::{Host, connection::Phase, record::kind};
use url::Url;

use super::browser;
use crate::{
    app::App,
    commands::{
        clients,
        login::{probe, sign_in_failure},
    },
    report::Report,
};

/// The sign-ins that wait for their browser, at most one for each server.
#[derive(Default)]
pub(crate) struct PageSignIns {
    // Nothing awaits under these locks.
    waiting: Mutex<BTreeMap<ServerName, AbortOnDropHandle<()>>>,
    failures: Failures,
}

/// Why the last sign-in to a server failed, and when.
type Failures = Arc<Mutex<BTreeMap<ServerName, (String, SystemTime)>>>;

/// Hands the address to the console instead of opening it.
#[derive(Debug)]
struct PageBrowser {
    port: Option<u16>,
    redirect: Option<Url>,
    page: PageSender,
    /// Page of the console that the browser is offered afterwards.
    back: Option<Url>,
}

/// Where the page is waited for, once.
type PageSender = Arc<Mutex<Option<oneshot::Sender<SignInPage>>>>;

struct PageVisit {
    listener: CallbackListener,
    page: PageSender,
    back: Option<Url>,
}

impl PageSignIns {
    /// Begins a sign-in; it goes on in the background until the callback arrives or the time is over.
    /// `back` is the page of the console that the browser is offered then.
    pub(crate) async fn begin(
        &self,
        app: &Arc<App>,
        host: &Host,
        server: &ServerName,
        back: Option<Url>,
    ) -> Result<SignInPage, Report> {
        let prepared = {
            let (app, server) = (Arc::clone(app), server.clone());
            let prepared = tokio::task::spawn_blocking(move || prepare(&app, &server)).await;
            prepared.map_err(|error| Report::from_code("internal", &error.to_string()))??
        };
        self.end(server).await;
        let (sender, page) = oneshot::channel();
        let (failed, failure) = oneshot::channel();
        let browser = PageBrowser { page: Arc::new(Mutex::new(Some(sender))), back, ..prepared.browser };
        let session = SessionOptions { browser: Some(Arc::new(browser)), ..prepared.session };
        let (app, host, name, failures) = (Arc::clone(app), host.clone(), server.clone(), Arc::clone(&self.failures));
        let signing_in = async move {
            match sign_in(session).await {
                Ok(()) => {
                    let details = json!({ "change": "signed in", "surface": "console" });
                    app.audit(kind::SIGN_IN, Some(name.as_str()), None, &details);
                }
                Err(needed) => {
                    let reason = needed.reason.to_string();
                    tracing::warn!(server = %name, %reason, "the sign-in from the console failed");
                    let _answered = failed.send(needed);
                    // Signed in elsewhere, disconnected or disabled meanwhile: nothing waits for this one.
                    if !is_required(&host, &name) {
                        return;
                    }
                    failures.lock().insert(name.clone(), (reason, SystemTime::now()));
                }
            }
            // With the new credential, or to tell the pages that the sign-in has ended.
            drop(host.reconnect(&name).await);
        };
        let task = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(signing_in));
        drop(self.waiting.lock().insert(server.clone(), task));
        let Ok(mut page) = page.await else {
            let stopped = || Report::from_code("internal", "the sign-in stopped");
            return Err(failure.await.map_or_else(|_| stopped(), |needed| sign_in_failure(&needed.reason)));
        };
        page.notices.extend(prepared.notice);
        Ok(page)
    }

    /// Ends the sign-in to a server that waits, and forgets why the last one failed. Its callback port is free afterwards.
    async fn end(&self, server: &ServerName) {
        self.failures.lock().remove(server);
        let waiting = self.waiting.lock().remove(server);
        if let Some(waiting) = waiting {
            waiting.abort();
            let _aborted = waiting.await;
        }
    }

    /// Why the last sign-in to a server failed, as long as it still requires one.
    pub(crate) fn failure(&self, host: &Host, server: &ServerName) -> Option<String> {
        let (reason, at) = self.failures.lock().get(server).cloned()?;
        let connected = host.status(server).ok()?.last_connected;
        let is_current = is_required(host, server) && connected.is_none_or(|connected| connected < at);
        is_current.then_some(reason)
    }
}

fn is_required(host: &Host, server: &ServerName) -> bool {
    host.status(server).is_ok_and(|status| matches!(status.phase, Phase::SignInRequired { .. }))
}

/// What a sign-in needs.
struct Prepared {
    session: SessionOptions,
    browser: PageBrowser,
    /// Further sentence for the page.
    notice: Option<String>,
}

/// Reads the configuration, and maybe the keychain.
fn prepare(app: &App, server: &ServerName) -> Result<Prepared, Report> {
    let config = app.load()?.config;
    let entry = crate::target::entry(&config, server.as_str())?;
    let account = app.account(&config, entry, &app.principal())?;
    let notice = account.is_private.then(|| clients_notice(app, server)).flatten();
    let browser =
        PageBrowser { port: account.callback_port, redirect: account.redirect, page: Arc::default(), back: None };
    Ok(Prepared { session: account.options, browser, notice })
}

/// Says that clients of the gateway need their own sign-in, if there are any that may use the server.
fn clients_notice(app: &App, server: &ServerName) -> Option<String> {
    let known = clients::key_file(app).ok()?.list().ok()?;
    let sees = |client: &KnownClient| client.servers.as_ref().is_none_or(|names| names.contains(server.as_str()));
    let mut names = known.into_iter().filter(sees).map(|client| client.name);
    let (first, others) = (names.next()?, names.count());
    let name = if others == 0 { first } else { "NAME".to_owned() };
    Some(format!(
        "Note: each client of the gateway uses its own account; sign it in with `toolway login {server} --client {name}`."
    ))
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
            let page = Arc::clone(&self.page);
            Ok(Box::new(PageVisit { listener, page, back: self.back.clone() }) as Box<dyn Visit>)
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
            let received = browser::await_callback(&self.listener, &prompt.state).await?;
            Ok(received.with_way_back(self.back))
        })
    }
}

impl fmt::Debug for PageSignIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageSignIns").field("waiting", &self.waiting.lock().len()).finish()
    }
}
