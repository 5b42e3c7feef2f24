//! An MCP server that wants to see a token, in the ways servers ask for one, and in ways that none should.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    AuthorizationServer, heard,
    signed::{Trusted, checked},
};
use crate::odd::{
    http::{OddHttp, Reply, Seen, polite_http},
    polite::{Speaks, answered, text, tools},
};

/// A protected server on a port of its own, at `/mcp`. Dropping it closes everything.
#[derive(Debug)]
pub struct ProtectedServer {
    http: OddHttp,
    shared: Arc<Shared>,
}

/// One departure from the usual.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// Its metadata is about another resource.
    SpeaksFor(String),
    /// Its refusals say that the metadata is there.
    DocumentAt(String),
    /// Its refusals have exactly these headers; `{document}` stands for where the metadata is.
    Challenges(Vec<String>),
    /// It names these as those who sign people in.
    Names(Vec<String>),
    /// A tool needs a scope.
    Needs {
        /// The tool.
        tool: String,
        /// The scope.
        scope: String,
    },
    /// Whatever a token has, one more scope is needed.
    NeverEnough,
    /// Everybody is answered, with a token or without; a token says who they are.
    Open,
    /// Whoever has a token is listed a tool that is theirs.
    OwnTool,
    /// Every token is refused.
    TakesNothing,
    /// Calls are redirected there, with the method and the body.
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
    oddities: Vec<Oddity>,
    /// The numbers of the last tokens that are not taken any more.
    stale: Vec<(String, u64)>,
    asked_for_more: usize,
}

const DOCUMENT: &str = "/.well-known/oauth-protected-resource/mcp";

// === impl ProtectedServer ===

impl ProtectedServer {
    /// Starts one whose people are signed in by `login`.
    pub async fn start(login: &AuthorizationServer) -> io::Result<Self> {
        let known = Known { trusted: vec![login.shared.trusted()], ..Known::default() };
        let shared = Arc::new(Shared { origin: OnceLock::new(), known: Mutex::new(known) });
        let script = Arc::clone(&shared);
        let http = OddHttp::start(move |seen| script.answer(seen)).await?;
        // Nobody else sets it, and nobody knows the port before.
        let _first = shared.origin.set(format!("http://{}", http.authority()));
        Ok(Self { http, shared })
    }

    /// Its address, which is also its name as a resource.
    pub fn url(&self) -> String {
        self.shared.resource()
    }

    /// From now on it does exactly these things differently.
    pub fn told(&self, oddities: impl IntoIterator<Item = Oddity>) {
        self.shared.known.lock().oddities = oddities.into_iter().collect();
    }

    /// Takes the tokens of this one too.
    pub fn trusts(&self, login: &AuthorizationServer) {
        self.shared.known.lock().trusted.push(login.shared.trusted());
    }

    /// From now on everybody is signed in by this one, and nobody by those before.
    pub fn moves_to(&self, login: &AuthorizationServer) {
        self.shared.known.lock().trusted = vec![login.shared.trusted()];
    }

    /// Takes no token any more that this one gave so far.
    pub fn drops_tokens_of(&self, login: &AuthorizationServer) {
        let last = login.shared.ledger().serial;
        self.shared.known.lock().stale.push((login.issuer(), last));
    }

    /// Calls of tools that were answered.
    pub fn calls(&self) -> usize {
        let has_token = |seen: &&Seen| seen.method() == "tools/call" && self.shared.claims(seen).is_some();
        self.http.seen().iter().filter(has_token).count()
    }

    /// Waits until so many calls of tools have come, answered or not.
    pub async fn until_called(&self, times: usize) {
        self.http.until(|seen| times <= seen.iter().filter(|seen| seen.method() == "tools/call").count()).await;
    }

    /// How many calls of tools came, answered or not.
    pub fn called(&self) -> usize {
        self.http.seen().iter().filter(|seen| seen.method() == "tools/call").count()
    }

    /// How many requests came at all.
    pub fn requests(&self) -> usize {
        self.http.seen().len()
    }

    /// Everything that arrived, as text.
    pub fn heard(&self) -> String {
        heard(&self.http)
    }
}

// === impl Shared ===

impl Shared {
    fn resource(&self) -> String {
        format!("{}/mcp", self.origin.get().map_or("", String::as_str))
    }

    fn told<T>(&self, fitting: impl FnMut(&Oddity) -> Option<T>) -> Option<T> {
        self.known.lock().oddities.iter().find_map(fitting)
    }

    fn answer(&self, seen: &Seen) -> Reply {
        match seen.path.as_str() {
            DOCUMENT => self.document(),
            "/mcp" => self.message(seen),
            _ => Reply::empty(404),
        }
    }

    fn document(&self) -> Reply {
        let own = || self.known.lock().trusted.iter().map(|login| login.issuer.clone()).collect();
        let resource = self.told(|odd| if let Oddity::SpeaksFor(other) = odd { Some(other.clone()) } else { None });
        let issuers = self.told(|odd| if let Oddity::Names(names) = odd { Some(names.clone()) } else { None });
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

    fn message(&self, seen: &Seen) -> Reply {
        if let Some(to) = self.told(|odd| if let Oddity::Redirects(to) = odd { Some(to.clone()) } else { None }) {
            return Reply::empty(308).header("Location", to);
        }
        let nothing = self.told(|odd| (*odd == Oddity::TakesNothing).then_some(())).is_some();
        let nobody = || self.is_open_to(seen).then(|| json!({ "sub": "nobody" }));
        let Some(claims) = self.claims(seen).filter(|_| !nothing).or_else(nobody) else {
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
            // Whose call it was stands in the answer.
            "tools/call" => {
                let whose = format!("hello {}", claims["sub"].as_str().unwrap_or_default());
                Reply::json(200, &answered(seen.id(), &text(&whose)))
            }
            "tools/list" if self.told(|odd| (*odd == Oddity::OwnTool).then_some(())).is_some() => {
                let own = format!("of-{}", claims["sub"].as_str().unwrap_or_default());
                Reply::json(200, &answered(seen.id(), &tools(&["hello", &own])))
            }
            _ => polite_http(Speaks::Both, seen),
        }
    }

    fn is_open_to(&self, seen: &Seen) -> bool {
        seen.header("authorization").is_none() && self.told(|odd| (*odd == Oddity::Open).then_some(())).is_some()
    }

    /// The claims of the token that came along, if it is taken.
    fn claims(&self, seen: &Seen) -> Option<Value> {
        let token = seen.header("authorization")?.strip_prefix("Bearer ")?;
        let known = self.known.lock();
        let claims = checked(token, &known.trusted, &self.resource())?;
        let is_stale =
            |(issuer, last): &(String, u64)| claims["iss"] == issuer.as_str() && claims["jti"].as_u64() <= Some(*last);
        (!known.stale.iter().any(is_stale)).then_some(claims)
    }

    /// The scope that a call lacks.
    fn missing(&self, seen: &Seen, claims: &Value) -> Option<String> {
        let has = |scope: &str| claims["scope"].as_str().unwrap_or_default().split(' ').any(|known| known == scope);
        let mut known = self.known.lock();
        if known.oddities.contains(&Oddity::NeverEnough) && seen.method() == "tools/call" {
            known.asked_for_more += 1;
            return Some(format!("more-{}", known.asked_for_more));
        }
        known.oddities.iter().find_map(|odd| match odd {
            Oddity::Needs { tool, scope } if tool == seen.tool() && !has(scope) => Some(scope.clone()),
            _ => None,
        })
    }

    fn unauthorized(&self, seen: &Seen) -> Reply {
        let written = self.told(|odd| if let Oddity::Challenges(all) = odd { Some(all.clone()) } else { None });
        let error = if seen.header("authorization").is_some() { r#"error="invalid_token", "# } else { "" };
        let usual = || vec![format!(r#"Bearer {error}resource_metadata="{{document}}""#)];
        let (headers, place) = (written.unwrap_or_else(usual), self.document_place());
        let add = |reply: Reply, header: String| reply.header("WWW-Authenticate", header.replace("{document}", &place));
        headers.into_iter().fold(Reply::empty(401), add)
    }

    fn document_place(&self) -> String {
        let told = self.told(|odd| if let Oddity::DocumentAt(place) = odd { Some(place.clone()) } else { None });
        told.unwrap_or_else(|| format!("{}{DOCUMENT}", self.origin.get().map_or("", String::as_str)))
    }
}
