//! An MCP server that requires a token, in correct and in malicious ways.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    AuthorizationServer, received,
    signed::{Trusted, verify},
};
use crate::odd::{
    compliant::{SupportedEras, answered, text, tools},
    http::{OddHttp, RecordedRequest, Reply, compliant_http},
};

/// A protected server on a port of its own, at `/mcp`. Dropping it closes everything.
#[derive(Debug)]
pub struct ProtectedServer {
    http: OddHttp,
    shared: Arc<Shared>,
}

/// One deviation from the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerQuirk {
    /// Its metadata is for another resource.
    WrongResource(String),
    /// Its challenges name this metadata URL.
    MetadataAt(String),
    /// Its challenges are exactly these headers; `{document}` stands for the metadata URL.
    Challenges(Vec<String>),
    /// Its metadata names these authorization servers.
    AuthorizationServers(Vec<String>),
    /// A tool requires a scope.
    RequiresScope {
        /// Tool name.
        tool: String,
        /// Required scope.
        scope: String,
    },
    /// One more scope is required, whatever scopes a token has.
    AlwaysRequiresMoreScopes,
    /// Requests without a token are answered; a token identifies the user.
    AllowsAnonymous,
    /// Users with a token see an additional tool of their own.
    ToolPerUser,
    /// Every token is refused.
    RejectsAllTokens,
    /// Calls are redirected to this URL, keeping method and body.
    Redirects(String),
}

#[derive(Debug)]
struct Shared {
    origin: OnceLock<String>,
    // Nothing awaits under this lock.
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    trusted: Vec<Trusted>,
    quirks: Vec<ServerQuirk>,
    /// Issuer and number of the last token that is no longer accepted.
    stale: Vec<(String, u64)>,
    asked_for_more: usize,
}

const DOCUMENT: &str = "/.well-known/oauth-protected-resource/mcp";

// === impl ProtectedServer ===

impl ProtectedServer {
    /// Starts a server with the authorization server `login`.
    pub async fn start(login: &AuthorizationServer) -> io::Result<Self> {
        let known = Known { trusted: vec![login.shared.trusted()], ..Known::default() };
        let shared = Arc::new(Shared { origin: OnceLock::new(), known: Mutex::new(known) });
        let script = Arc::clone(&shared);
        let http = OddHttp::start(move |seen| script.answer(seen)).await?;
        // Set only here, before the port is known to any client.
        let _first = shared.origin.set(format!("http://{}", http.authority()));
        Ok(Self { http, shared })
    }

    /// URL of the server, which is also its resource identifier.
    pub fn url(&self) -> String {
        self.shared.resource()
    }

    /// Replaces the current deviations by these.
    pub fn set_quirks(&self, quirks: impl IntoIterator<Item = ServerQuirk>) {
        self.shared.known.lock().quirks = quirks.into_iter().collect();
    }

    /// Also accepts tokens of this authorization server.
    pub fn trust(&self, login: &AuthorizationServer) {
        self.shared.known.lock().trusted.push(login.shared.trusted());
    }

    /// Names and accepts only this authorization server from now on.
    pub fn set_authorization_server(&self, login: &AuthorizationServer) {
        self.shared.known.lock().trusted = vec![login.shared.trusted()];
    }

    /// Refuses all tokens that this authorization server has issued so far.
    pub fn reject_tokens_of(&self, login: &AuthorizationServer) {
        let last = login.shared.ledger().serial;
        self.shared.known.lock().stale.push((login.issuer(), last));
    }

    /// Number of tool calls with an accepted token.
    pub fn calls(&self) -> usize {
        let has_token = |seen: &&RecordedRequest| seen.method() == "tools/call" && self.shared.claims(seen).is_some();
        self.http.seen().iter().filter(has_token).count()
    }

    /// Waits until this many tool calls have arrived, answered or not.
    pub async fn until_called(&self, times: usize) {
        self.http.until(|seen| times <= seen.iter().filter(|seen| seen.method() == "tools/call").count()).await;
    }

    /// Number of tool calls, answered or not.
    pub fn called(&self) -> usize {
        self.http.seen().iter().filter(|seen| seen.method() == "tools/call").count()
    }

    /// Number of all requests.
    pub fn requests(&self) -> usize {
        self.http.seen().len()
    }

    /// Everything that was received, as text.
    pub fn received(&self) -> String {
        received(&self.http)
    }
}

// === impl Shared ===

impl Shared {
    fn resource(&self) -> String {
        format!("{}/mcp", self.origin.get().map_or("", String::as_str))
    }

    fn find_quirk<T>(&self, fitting: impl FnMut(&ServerQuirk) -> Option<T>) -> Option<T> {
        self.known.lock().quirks.iter().find_map(fitting)
    }

    fn answer(&self, seen: &RecordedRequest) -> Reply {
        match seen.path.as_str() {
            DOCUMENT => self.document(),
            "/mcp" => self.message(seen),
            _ => Reply::empty(404),
        }
    }

    fn document(&self) -> Reply {
        let own = || self.known.lock().trusted.iter().map(|login| login.issuer.clone()).collect();
        let resource =
            self.find_quirk(|odd| if let ServerQuirk::WrongResource(other) = odd { Some(other.clone()) } else { None });
        let issuers = self.find_quirk(|odd| {
            if let ServerQuirk::AuthorizationServers(names) = odd { Some(names.clone()) } else { None }
        });
        let issuers: Vec<String> = issuers.unwrap_or_else(own);
        Reply::json(
            200,
            &json!({
                "resource": resource.unwrap_or_else(|| self.resource()),
                "authorization_servers": issuers,
                "scopes_supported": ["read"],
                "bearer_methods_supported": ["header"],
            }),
        )
    }

    fn message(&self, seen: &RecordedRequest) -> Reply {
        if let Some(to) =
            self.find_quirk(|odd| if let ServerQuirk::Redirects(to) = odd { Some(to.clone()) } else { None })
        {
            return Reply::empty(308).header("Location", to);
        }
        let nothing = self.find_quirk(|odd| (*odd == ServerQuirk::RejectsAllTokens).then_some(())).is_some();
        let anonymous = || self.is_open_to(seen).then(|| json!({ "sub": "anonymous" }));
        let Some(claims) = self.claims(seen).filter(|_| !nothing).or_else(anonymous) else {
            return self.unauthorized(seen);
        };
        if let Some(scope) = self.missing(seen, &claims) {
            let header = format!(
                r#"Bearer error="insufficient_scope", scope="{scope}", resource_metadata="{}""#,
                self.document_place()
            );
            return Reply::empty(403).header("WWW-Authenticate", header);
        }
        match seen.method() {
            // The answer contains the name of the user.
            "tools/call" => {
                let whose = format!("hello {}", claims["sub"].as_str().unwrap_or_default());
                Reply::json(200, &answered(seen.id(), &text(&whose)))
            }
            "tools/list" if self.find_quirk(|odd| (*odd == ServerQuirk::ToolPerUser).then_some(())).is_some() => {
                let own = format!("of-{}", claims["sub"].as_str().unwrap_or_default());
                Reply::json(200, &answered(seen.id(), &tools(&["hello", &own])))
            }
            _ => compliant_http(SupportedEras::Both, seen),
        }
    }

    fn is_open_to(&self, seen: &RecordedRequest) -> bool {
        seen.header("authorization").is_none()
            && self.find_quirk(|odd| (*odd == ServerQuirk::AllowsAnonymous).then_some(())).is_some()
    }

    /// Claims of the token in a request, if it is accepted.
    fn claims(&self, seen: &RecordedRequest) -> Option<Value> {
        let token = seen.header("authorization")?.strip_prefix("Bearer ")?;
        let known = self.known.lock();
        let claims = verify(token, &known.trusted, &self.resource())?;
        let is_stale =
            |(issuer, last): &(String, u64)| claims["iss"] == issuer.as_str() && claims["jti"].as_u64() <= Some(*last);
        (!known.stale.iter().any(is_stale)).then_some(claims)
    }

    /// Scope that a call lacks.
    fn missing(&self, seen: &RecordedRequest, claims: &Value) -> Option<String> {
        let has = |scope: &str| claims["scope"].as_str().unwrap_or_default().split(' ').any(|known| known == scope);
        let mut known = self.known.lock();
        if known.quirks.contains(&ServerQuirk::AlwaysRequiresMoreScopes) && seen.method() == "tools/call" {
            known.asked_for_more += 1;
            return Some(format!("more-{}", known.asked_for_more));
        }
        known.quirks.iter().find_map(|odd| match odd {
            ServerQuirk::RequiresScope { tool, scope } if tool == seen.tool() && !has(scope) => Some(scope.clone()),
            _ => None,
        })
    }

    fn unauthorized(&self, seen: &RecordedRequest) -> Reply {
        let written =
            self.find_quirk(|odd| if let ServerQuirk::Challenges(all) = odd { Some(all.clone()) } else { None });
        let error = if seen.header("authorization").is_some() { r#"error="invalid_token", "# } else { "" };
        let usual = || vec![format!(r#"Bearer {error}resource_metadata="{{document}}""#)];
        let (headers, place) = (written.unwrap_or_else(usual), self.document_place());
        let add = |reply: Reply, header: String| reply.header("WWW-Authenticate", header.replace("{document}", &place));
        headers.into_iter().fold(Reply::empty(401), add)
    }

    fn document_place(&self) -> String {
        let told =
            self.find_quirk(|odd| if let ServerQuirk::MetadataAt(place) = odd { Some(place.clone()) } else { None });
        told.unwrap_or_else(|| format!("{}{DOCUMENT}", self.origin.get().map_or("", String::as_str)))
    }
}
