//! Calls tools of a protected server with the credentials of a session.

use std::sync::Arc;

use http::HeaderMap;
use toolway_auth::{
    browser::Browser,
    dialer::GuardedDialer,
    refresh_tracker::RefreshTracker,
    session::{Session, SessionOptions},
    settings::Settings,
    sign_in::SignIn,
    vault::Vault,
};
use toolway_wire::{
    exchange::Outcome,
    limit::Limits,
    up::{ConnectOptions, EraChoice, Peer, client::HttpClient, connector::HttpOptions, http::HttpTransport},
};
use url::{ParseError, Url};

use super::user::TestUser;

/// A caller. Clones share the same session.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Sign-in of this caller.
    pub sign_in: SignIn,
    /// Credentials of this caller.
    pub session: Session,
    url: Url,
    era: EraChoice,
}

impl Caller {
    /// A caller of this server; without a user, sign-in is not possible.
    pub fn new(
        server: &str,
        principal: &str,
        settings: Settings,
        vault: Arc<dyn Vault>,
        user: Option<TestUser>,
    ) -> Result<Self, ParseError> {
        let url = Url::parse(server)?;
        let sign_in = SignIn {
            principal: principal.to_owned(),
            server: url.clone(),
            settings,
            fetch: Arc::new(GuardedDialer::new(url.clone(), HttpOptions::default())),
            vault,
            proofs: None,
        };
        let session = Session::new(SessionOptions {
            name: "files".to_owned(),
            remedy: "run `toolway login files`".to_owned(),
            browser: user.map(|user| Arc::new(user) as Arc<dyn Browser>),
            sign_in: sign_in.clone(),
            refreshes: RefreshTracker::default(),
        });
        Ok(Self { sign_in, session, url, era: EraChoice::Modern })
    }

    /// The same caller, who speaks what the server speaks.
    #[must_use]
    pub fn detecting_the_era(self) -> Self {
        Self { era: EraChoice::Auto, ..self }
    }

    /// Connects and calls a tool. Returns its text, or the error and the state of the sign-in.
    pub async fn call(&self, tool: &str) -> Result<String, String> {
        let limits = Limits::default();
        let client = HttpClient::new(HttpOptions::default(), &limits);
        let credentials = Arc::new(self.session.clone());
        let transport = HttpTransport::new(client, self.url.clone(), HeaderMap::new(), credentials, limits);
        let options = ConnectOptions { era: self.era, ..ConnectOptions::default() };
        let peer = Peer::connect(Arc::new(transport), options).await.map_err(|error| self.problem(&error))?;
        let called = peer.call_tool(tool, None).map_err(|error| self.problem(&error))?;
        let outcome = called.outcome().await;
        peer.close().await;
        match outcome {
            Outcome::Answered(result) => Ok(text_of(&result.to_string())),
            Outcome::Failed(error) => Err(self.problem(&error)),
            other => Err(format!("{other:?}")),
        }
    }

    /// An error, and the state of the sign-in.
    fn problem(&self, error: &impl ToString) -> String {
        let needed = self.session.required().map(|needed| format!("; {needed}")).unwrap_or_default();
        format!("{}{needed}", error.to_string())
    }
}

fn text_of(result: &str) -> String {
    let result: serde_json::Value = serde_json::from_str(result).unwrap_or_default();
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}
