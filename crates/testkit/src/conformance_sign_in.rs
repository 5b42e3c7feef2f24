//! Sign-in of the conformance client: a session for a scenario, and a browser that follows all redirects.

use std::{error::Error, future::pending, io, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use toolway_auth::{
    browser::{Browser, BrowserError, SignInPrompt, Visit},
    callback::{CallbackListener, ReceivedCallback},
    challenge::TokenChallenge,
    dialer::GuardedDialer,
    discovery::Discovery,
    dpop::DpopKeys,
    proof::ProofKeys,
    refresh_tracker::RefreshTracker,
    session::{Session, SessionOptions},
    settings::Settings,
    sign_in::SignIn,
    sign_in_required::SignInRequired,
    vault::MemoryVault,
};
use toolway_config::Secret;
use toolway_wire::up::connector::HttpOptions;
use url::Url;

/// URL of the client metadata document that the suite knows.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// Maximum number of redirects; the suite needs one.
const REDIRECTS: usize = 4;
/// Maximum length of a response in bytes.
const MAX_REPLY: u64 = 64 * 1024;

/// Creates the session of a scenario.
pub async fn session(server: &Url, scenario: &str, context: &Value) -> Result<Session, Box<dyn Error>> {
    let context_text = |name: &str| context[name].as_str().map(str::to_owned);
    let fetch = Arc::new(GuardedDialer::new(server.clone(), HttpOptions::default()));
    let client_secret = context_text("client_secret").map(Secret::new);
    // The suite does not name the issuer of a secret; an operator would look it up once and configure it.
    let issuer = match &client_secret {
        Some(_) => {
            Some(Discovery::find(&*fetch, server, &Settings::default(), &TokenChallenge::default(), None).await?)
        }
        None => None,
    };
    let settings = Settings {
        client_id: context_text("client_id"),
        client_secret,
        issuer: issuer.map(|found| found.server.issuer),
        client_document: Url::parse(CLIENT_DOCUMENT).ok(),
        ..Settings::default()
    };
    let proofs = scenario.starts_with("auth/dpop").then(|| Arc::new(DpopKeys) as Arc<dyn ProofKeys>);
    let sign_in = SignIn {
        principal: "suite".to_owned(),
        server: server.clone(),
        settings,
        fetch,
        vault: Arc::new(MemoryVault::default()),
        proofs,
    };
    Ok(Session::new(SessionOptions {
        name: scenario.to_owned(),
        remedy: "the suite signs in".to_owned(),
        browser: Some(Arc::new(AutomaticBrowser)),
        sign_in,
        refreshes: RefreshTracker::default(),
    }))
}

/// A negative scenario must end in a required sign-in with the expected reason.
pub fn check_result(
    scenario: &str,
    needed: Option<SignInRequired>,
    played: Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let trap = match scenario {
        "auth/scope-retry-limit" => "still requires",
        "auth/resource-mismatch" => "not for `http://localhost",
        "auth/metadata-issuer-mismatch" => "it is not used",
        "auth/iss-supported-missing" | "auth/iss-wrong-issuer" | "auth/iss-unexpected" | "auth/iss-normalized" => {
            "it was ignored"
        }
        _ => return played.map_err(|error| needed.map_or(error, Into::into)),
    };
    match needed.map(|needed| needed.to_string()) {
        Some(why) if why.contains(trap) && played.is_err() => Ok(()),
        other => Err(format!("expected a refusal with `{trap}`: {other:?}").into()),
    }
}

/// The browser of a user who agrees to everything.
#[derive(Debug)]
struct AutomaticBrowser;

struct AutomaticVisit(CallbackListener);

impl Browser for AutomaticBrowser {
    fn prepare<'a>(&'a self, before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, BrowserError>> {
        Box::pin(async move {
            let listener = CallbackListener::bind_again(before).await.map_err(|error| failed(&error))?;
            Ok(Box::new(AutomaticVisit(listener)) as Box<dyn Visit>)
        })
    }
}

impl Visit for AutomaticVisit {
    fn redirect(&self) -> Url {
        self.0.redirect().clone()
    }

    fn begin(self: Box<Self>, prompt: SignInPrompt) -> BoxFuture<'static, Result<ReceivedCallback, BrowserError>> {
        Box::pin(async move {
            let address = Url::parse(prompt.address.expose()).map_err(|error| failed(&error))?;
            // The last page is not awaited, because it comes when the sign-in is finished.
            let browsing = async {
                match browse(address).await {
                    Ok(()) => pending().await,
                    Err(error) => Err(failed(&error)),
                }
            };
            tokio::select! {
                callback = self.0.callback(&prompt.state) => Ok(callback),
                failed = browsing => failed,
            }
        })
    }
}

fn failed(error: &impl ToString) -> BrowserError {
    BrowserError::Failed(error.to_string())
}

/// Opens a URL of this machine and follows its redirects.
async fn browse(mut address: Url) -> io::Result<()> {
    for _ in 0..REDIRECTS {
        match get(&address).await?.lines().find_map(|line| line.split_once(": ").filter(is_location)) {
            Some((_, location)) => address = address.join(location).map_err(io::Error::other)?,
            None => return Ok(()),
        }
    }
    Err(io::Error::other("too many redirects"))
}

fn is_location((name, _): &(&str, &str)) -> bool {
    name.eq_ignore_ascii_case("location")
}

async fn get(address: &Url) -> io::Result<String> {
    let port = address.port().unwrap_or(80);
    let mut stream = TcpStream::connect((address.host_str().unwrap_or_default(), port)).await?;
    let target =
        address.query().map_or_else(|| address.path().to_owned(), |query| format!("{}?{query}", address.path()));
    let request = format!("GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", address.authority());
    stream.write_all(request.as_bytes()).await?;
    let mut reply = Vec::new();
    stream.take(MAX_REPLY).read_to_end(&mut reply).await?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}
