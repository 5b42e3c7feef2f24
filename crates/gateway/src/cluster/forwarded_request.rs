//! A request of a client as one gateway forwards it to another: the whole request in a request of the gateway, with the
//! client, its session, and the members that it is from and for.
//!
//! The key of the client is not in it, only its fingerprint. The receiver looks the client up in its own keys.

use std::str::FromStr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use toolway_host::cluster::{GatewayId, Member, MemberGeneration};
use toolway_wire::header as mcp;
use uuid::Uuid;

/// A request that another gateway forwards for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardedRequest {
    /// The member that forwards it.
    pub from: Member,
    /// The member that it is for.
    pub to: Member,
    /// Name of the client.
    pub caller: String,
    /// Name of the client and fingerprint of its key.
    pub identity: String,
    /// Fingerprint of the key that the client has used. It may have several while its key is rotated.
    pub key: String,
    /// Id of the row of its session; `None` for a stateless client.
    pub session: Option<Uuid>,
    /// Method of the client's request.
    pub method: Method,
    /// Path of the client's request.
    pub path: String,
    /// Headers of the client's request, those of [`ForwardedRequest::forwards`] only.
    pub headers: HeaderMap,
    /// Body of the client's request.
    pub body: Bytes,
}

/// The only path.
pub(super) const PATH: &str = "/forward";
const FROM: &str = "toolway-from";
const TO: &str = "toolway-to";
const CALLER: &str = "toolway-caller";
const IDENTITY: &str = "toolway-identity";
const KEY: &str = "toolway-key";
const SESSION: &str = "toolway-session";
const METHOD: &str = "toolway-method";
const TARGET: &str = "toolway-path";
/// Longest name of a caller, its identity, and the path of a request.
const MAX_TEXT: usize = 512;
/// Beginning of the headers that repeat arguments of a tool.
const PARAM_HEADERS: &str = "mcp-param-";

impl ForwardedRequest {
    /// Whether a header of a client is forwarded: what the protocol reads, and never a credential.
    pub fn forwards(name: &HeaderName) -> bool {
        [header::ACCEPT, header::CONTENT_TYPE].contains(name)
            || [
                mcp::PROTOCOL_VERSION,
                mcp::SESSION_ID,
                mcp::METHOD,
                mcp::NAME,
                mcp::LAST_EVENT_ID,
                mcp::IDEMPOTENCY_KEY,
            ]
            .contains(name)
            || name.as_str().starts_with(PARAM_HEADERS)
    }

    /// The headers of a client's request that are forwarded.
    pub fn chosen(headers: &HeaderMap) -> HeaderMap {
        let mut chosen = HeaderMap::new();
        for (name, value) in headers.iter().filter(|(name, _)| Self::forwards(name)) {
            chosen.append(name.clone(), value.clone());
        }
        chosen
    }

    /// The request that carries it; `None` if the name of the caller cannot be written in a header.
    pub fn to_http<B: From<Bytes>>(&self) -> Option<Request<B>> {
        let mut request = Request::new(B::from(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(PATH);
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        headers.insert(header::HOST, HeaderValue::from_static("gateway"));
        headers.insert(FROM, written(self.from)?);
        headers.insert(TO, written(self.to)?);
        headers.insert(CALLER, HeaderValue::from_str(&self.caller).ok()?);
        headers.insert(IDENTITY, HeaderValue::from_str(&self.identity).ok()?);
        headers.insert(KEY, HeaderValue::from_str(&self.key).ok()?);
        headers.insert(METHOD, HeaderValue::from_str(self.method.as_str()).ok()?);
        headers.insert(TARGET, HeaderValue::from_str(&self.path).ok()?);
        if let Some(session) = self.session {
            headers.insert(SESSION, HeaderValue::from_str(&session.to_string()).ok()?);
        }
        Some(request)
    }

    /// The client's request, with this body.
    pub(crate) fn into_request<B: From<Bytes>>(self) -> Option<Request<B>> {
        let mut request = Request::new(B::from(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path.parse().ok()?;
        *request.headers_mut() = self.headers;
        Some(request)
    }

    /// The same without its body; `None` if a header is missing, repeated or invalid.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let session = if headers.contains_key(SESSION) { Some(only(headers, SESSION)?.parse().ok()?) } else { None };
        Some(Self {
            from: member(only(headers, FROM)?)?,
            to: member(only(headers, TO)?)?,
            caller: bounded(headers, CALLER)?,
            identity: bounded(headers, IDENTITY)?,
            key: bounded(headers, KEY)?,
            session,
            method: only(headers, METHOD)?.parse().ok()?,
            path: bounded(headers, TARGET)?,
            headers: Self::chosen(headers),
            body: Bytes::new(),
        })
    }
}

fn bounded(headers: &HeaderMap, name: &str) -> Option<String> {
    let text = only(headers, name)?;
    (1..=MAX_TEXT).contains(&text.len()).then(|| text.to_owned())
}

fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())?.to_str().ok()
}

fn written(member: Member) -> Option<HeaderValue> {
    HeaderValue::from_str(&name_of(member)).ok()
}

/// A member as handles and heads name it.
pub(crate) fn name_of(member: Member) -> String {
    format!("{}/{}", member.gateway, member.generation)
}

/// The member of a name.
pub(crate) fn member(text: &str) -> Option<Member> {
    let (gateway, generation) = text.split_once('/')?;
    let gateway = GatewayId(Uuid::from_str(gateway).ok()?);
    Some(Member { gateway, generation: MemberGeneration(generation.parse().ok()?) })
}
