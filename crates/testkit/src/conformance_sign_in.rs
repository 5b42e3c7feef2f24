//! How the client of the official suite signs in: a session for a scenario, and a person whose browser goes wherever it
//! is sent, as the suite's own does.

use std::{error::Error, future::pending, io, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use toolway_auth::{
    browser::{Browser, Declined, Invitation, Visit},
    callback::{Arrival, CallbackListener},
    challenge::Demand,
    dialer::GuardedDialer,
    discovery::Discovery,
    dpop::DpopKeys,
    needed::SignInNeeded,
    proof::ProofKeys,
    renewals::Renewals,
    session::{Session, SessionOptions},
    settings::{OldServers, Settings},
    sign_in::SignIn,
    vault::MemoryVault,
};
use toolway_config::Secret;
use toolway_wire::{revision::Revision, up::connector::HttpOptions};
use url::Url;

/// The address of the client's document that the suite knows.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// A browser follows more; the suite needs one.
const REDIRECTS: usize = 4;
/// The suite's answers to a browser are short.
const MAX_REPLY: u64 = 64 * 1024;

/// The session of a scenario: its server, its revision, and what the suite says about it.
pub async fn session(
    server: &Url,
    scenario: &str,
    revision: Revision,
    context: &Value,
) -> Result<Session, Box<dyn Error>> {
    let said = |name: &str| context[name].as_str().map(str::to_owned);
    let fetch = Arc::new(GuardedDialer::new(server.clone(), HttpOptions::default()));
    let client_secret = said("client_secret").map(Secret::new);
    // The suite does not say whom a secret is for; an operator would look it up once, and write it down.
    let issuer = match &client_secret {
        Some(_) => Some(Discovery::of(&*fetch, server, &Settings::default(), &Demand::default(), None).await?),
        None => None,
    };
    let settings = Settings {
        client_id: said("client_id"),
        client_secret,
        issuer: issuer.map(|found| found.server.issuer),
        client_document: Url::parse(CLIENT_DOCUMENT).ok(),
        old_servers: if revision == Revision::V2025_03_26 { OldServers::Allow } else { OldServers::Refuse },
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
        browser: Some(Arc::new(Follower)),
        sign_in,
        renewals: Renewals::default(),
    }))
}

/// Where a scenario sets a trap, it has to end in a sign-in that is needed, and for the right reason.
pub fn judge(
    scenario: &str,
    needed: Option<SignInNeeded>,
    played: Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let trap = match scenario {
        "auth/scope-retry-limit" => "again and again",
        "auth/resource-mismatch" => "which is not http://localhost",
        "auth/metadata-issuer-mismatch" => "none of it is used",
        "auth/iss-supported-missing" | "auth/iss-wrong-issuer" | "auth/iss-unexpected" | "auth/iss-normalized" => {
            "nothing of it was used"
        }
        _ => return played.map_err(|error| needed.map_or(error, Into::into)),
    };
    match needed.map(|needed| needed.to_string()) {
        Some(why) if why.contains(trap) && played.is_err() => Ok(()),
        other => Err(format!("it was to be refused with `{trap}`: {other:?}").into()),
    }
}

/// A person who agrees to everything.
#[derive(Debug)]
struct Follower;

struct Following(CallbackListener);

impl Browser for Follower {
    fn ready<'a>(&'a self, before: Option<&'a Url>) -> BoxFuture<'a, Result<Box<dyn Visit>, Declined>> {
        Box::pin(async move {
            let listener = CallbackListener::bind_again(before).await.map_err(|error| failed(&error))?;
            Ok(Box::new(Following(listener)) as Box<dyn Visit>)
        })
    }
}

impl Visit for Following {
    fn redirect(&self) -> Url {
        self.0.redirect().clone()
    }

    fn begin(self: Box<Self>, invitation: Invitation) -> BoxFuture<'static, Result<Arrival, Declined>> {
        Box::pin(async move {
            let address = Url::parse(invitation.address.expose()).map_err(|error| failed(&error))?;
            // The last page is not waited for: it comes when the sign-in is over.
            let browsing = async {
                match browse(address).await {
                    Ok(()) => pending().await,
                    Err(error) => Err(failed(&error)),
                }
            };
            tokio::select! {
                arrival = self.0.callback(&invitation.state) => Ok(arrival),
                failed = browsing => failed,
            }
        })
    }
}

fn failed(error: &impl ToString) -> Declined {
    Declined::Failed(error.to_string())
}

/// Goes to an address of this machine and wherever it leads.
async fn browse(mut address: Url) -> io::Result<()> {
    for _ in 0..REDIRECTS {
        match get(&address).await?.lines().find_map(|line| line.split_once(": ").filter(is_location)) {
            Some((_, location)) => address = address.join(location).map_err(io::Error::other)?,
            None => return Ok(()),
        }
    }
    Err(io::Error::other("redirected too often"))
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
