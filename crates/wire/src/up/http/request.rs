//! Sends one HTTP request: adds credentials, follows redirects, handles 401 and 403.

use std::{mem, sync::atomic::AtomicBool};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::{Endpoint, lane};
use crate::{
    error::WireError,
    exchange::WriteMark,
    header as mcp,
    revision::Revision,
    up::{
        client::{HttpRequest, HttpResponse, HttpTarget, write_field},
        credential::{Challenge, ChallengeAction, OutgoingRequest},
        redirect,
    },
};

/// Headers of one request, in order.
pub(super) type Headers = Vec<(HeaderName, HeaderValue)>;

/// Headers that mark a request as part of a session.
#[derive(Debug, Default)]
pub(super) struct SessionHeaders {
    /// Negotiated revision, if that revision has the version header.
    revision: Option<HeaderValue>,
    /// Session id.
    pub(super) session: Option<HeaderValue>,
}

/// An HTTP request to send.
pub(super) struct OutgoingHttp<'a> {
    method: Method,
    headers: &'a Headers,
    session_headers: &'a SessionHeaders,
    body: Bytes,
    /// Set when a connection starts to write it.
    taken: Option<&'a AtomicBool>,
    /// Set before its first byte is written.
    mark: Option<&'a WriteMark>,
}

/// Headers of every POST.
static POSTING: [(HeaderName, HeaderValue); 2] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    (header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
];
static REVISION: HeaderName = mcp::PROTOCOL_VERSION;
static SESSION: HeaderName = mcp::SESSION_ID;
/// Initial capacity for encoded headers, in bytes.
const FIELDS: usize = 512;

/// Kinds of challenges already handled for one request; each is handled once.
#[derive(Default)]
struct UsedChallenges {
    token: bool,
    scopes: bool,
    nonce: bool,
}

impl UsedChallenges {
    fn flag_for(&mut self, challenge: &Challenge) -> &mut bool {
        match challenge.status {
            _ if challenge.wants_nonce() => &mut self.nonce,
            StatusCode::FORBIDDEN => &mut self.scopes,
            _ => &mut self.token,
        }
    }
}

impl SessionHeaders {
    /// Headers of a session; `None` values during its handshake.
    pub(super) fn new(revision: Option<Revision>, session: Option<HeaderValue>) -> Self {
        let sent = revision.filter(|revision| revision.has_version_header());
        Self { revision: sent.map(|revision| HeaderValue::from_static(revision.as_str())), session }
    }

    fn fields(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> + Clone {
        let revision = self.revision.as_ref().map(|revision| (&REVISION, revision));
        revision.into_iter().chain(self.session.as_ref().map(|session| (&SESSION, session)))
    }
}

impl<'a> OutgoingHttp<'a> {
    pub(super) fn get(headers: &'a Headers, session_headers: &'a SessionHeaders) -> Self {
        Self { method: Method::GET, headers, session_headers, body: Bytes::new(), taken: None, mark: None }
    }

    pub(super) fn delete(headers: &'a Headers, session_headers: &'a SessionHeaders) -> Self {
        Self { method: Method::DELETE, headers, session_headers, body: Bytes::new(), taken: None, mark: None }
    }

    pub(super) fn post(headers: &'a Headers, session_headers: &'a SessionHeaders, body: Bytes) -> Self {
        Self { method: Method::POST, headers, session_headers, body, taken: None, mark: None }
    }

    /// Sets `mark` before its first byte is written.
    pub(super) fn with_mark(self, mark: Option<&'a WriteMark>) -> Self {
        Self { mark, ..self }
    }

    /// Sets `taken` when a connection starts to write the request in the polling task.
    pub(super) fn with_taken_flag(self, taken: &'a AtomicBool) -> Self {
        Self { taken: Some(taken), ..self }
    }
}

impl Endpoint {
    /// Sends a request to the server's URL.
    pub(super) fn send<'a>(
        &'a self,
        outgoing: OutgoingHttp<'a>,
    ) -> impl Future<Output = Result<HttpResponse, WireError>> + Send {
        self.send_to(&self.url, outgoing)
    }

    /// Sends a request to a URL of the same origin.
    pub(super) async fn send_to(&self, url: &Url, outgoing: OutgoingHttp<'_>) -> Result<HttpResponse, WireError> {
        let other;
        let target = match &self.target {
            Some(target) if *url == self.url => target,
            _ => {
                other = Box::new(self.client.target(url)?);
                &*other
            }
        };
        let mut presented = None;
        let first = self.send_once(target, url, &outgoing, &mut presented).await?;
        match first.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {}
            status if status.is_redirection() && status != StatusCode::NOT_MODIFIED => {}
            _ => return Ok(first),
        }
        // Rare, and boxed to keep the common future small.
        Box::pin(self.follow(first, presented, url.clone(), outgoing)).await
    }

    /// Follows redirects and obtains new credentials, within their limits.
    async fn follow(
        &self,
        mut response: HttpResponse,
        mut presented: Option<HeaderValue>,
        mut url: Url,
        outgoing: OutgoingHttp<'_>,
    ) -> Result<HttpResponse, WireError> {
        let (mut redirects, mut used) = (0, UsedChallenges::default());
        loop {
            match response.status() {
                status if status.is_redirection() && status != StatusCode::NOT_MODIFIED => {
                    url = self.redirect_target(&url, &response, redirects)?;
                    redirects += 1;
                }
                status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    let presented = presented.take();
                    let challenge =
                        Challenge { presented, ..challenge(status, &outgoing.method, &url, response.headers()) };
                    let challenges = challenge.challenges.clone();
                    if mem::replace(used.flag_for(&challenge), true)
                        || self.credentials.handle_challenge(challenge).await == ChallengeAction::GiveUp
                    {
                        let body = lane::start_of_body(&mut response).await;
                        let refused = WireError::Unauthorized { status, challenges, body };
                        return Err(self.credentials.replacement_error().unwrap_or(refused));
                    }
                }
                _ => return Ok(response),
            }
            response = self.send_once(&self.client.target(&url)?, &url, &outgoing, &mut presented).await?;
        }
    }

    /// Sends the request once; `presented` receives its `Authorization` header.
    async fn send_once(
        &self,
        target: &HttpTarget,
        url: &Url,
        outgoing: &OutgoingHttp<'_>,
        presented: &mut Option<HeaderValue>,
    ) -> Result<HttpResponse, WireError> {
        let OutgoingHttp { method, body, taken, mark, .. } = outgoing;
        let credentials = self.credentials.headers(OutgoingRequest { method, url, body }).await?;
        let fields = self.fields(outgoing, &credentials);
        *presented = self.authorization(&credentials);
        let message = HttpRequest { method, fields: &fields, body, mark: *mark };
        let reply = self.client.send(target, message, *taken).await?;
        self.credentials.observe_response(url, reply.headers());
        Ok(reply)
    }

    /// Encodes all headers of a request. Credentials replace configured headers; neither can override protocol headers.
    fn fields(&self, outgoing: &OutgoingHttp<'_>, credentials: &Headers) -> Vec<u8> {
        let posting = if outgoing.method == Method::POST { &POSTING[..] } else { &[] };
        let own = outgoing.headers.iter().map(|(name, value)| (name, value));
        let needed =
            posting.iter().map(|(name, value)| (name, value)).chain(outgoing.session_headers.fields()).chain(own);
        let mut fields = Vec::with_capacity(FIELDS);
        needed.clone().for_each(|(name, value)| write_field(&mut fields, name, value));
        let is_needed = |name: &HeaderName| needed.clone().any(|(needed, _)| needed == name);
        for (at, (name, value)) in credentials.iter().enumerate() {
            if !is_needed(name) && !credentials[at + 1..].iter().any(|(later, _)| later == name) {
                write_field(&mut fields, name, value);
            }
        }
        for (name, value) in &self.headers {
            if !is_needed(name) && !credentials.iter().any(|(replaced, _)| replaced == name) {
                write_field(&mut fields, name, value);
            }
        }
        fields
    }

    /// The `Authorization` header of a request.
    fn authorization(&self, credentials: &Headers) -> Option<HeaderValue> {
        let named = credentials.iter().rev().find(|(name, _)| *name == header::AUTHORIZATION);
        named.map(|(_, value)| value).or_else(|| self.headers.get(header::AUTHORIZATION)).cloned()
    }

    /// Returns the target of a redirect if it may be followed: same origin, within the limit, with method and body kept.
    fn redirect_target(&self, url: &Url, response: &HttpResponse, redirects: usize) -> Result<Url, WireError> {
        let target = redirect::target(url, response)?;
        if response.status() == StatusCode::SEE_OTHER {
            return Err(redirect::refused(&target, "a 303 redirect would drop the request body"));
        }
        if self.limits.redirects <= redirects {
            return Err(redirect::refused(&target, "too many redirects"));
        }
        Ok(target)
    }
}

fn challenge(status: StatusCode, method: &Method, url: &Url, headers: &HeaderMap) -> Challenge {
    let challenges = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let challenges = challenges.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    let nonce = headers.get("dpop-nonce").cloned();
    Challenge { status, method: method.clone(), url: url.clone(), challenges, presented: None, nonce }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http::{HeaderMap, HeaderName, HeaderValue, header};

    use super::{Headers, OutgoingHttp, SessionHeaders};
    use crate::{
        limit::Limits,
        revision::Revision,
        up::{client::HttpClient, connector::HttpOptions, credential::NoCredentials, http::HttpTransport},
    };

    fn pairs(pairs: &[(&'static str, &'static str)]) -> Headers {
        let made = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(made).collect()
    }

    #[tokio::test]
    async fn credentials_replace_configured_headers_but_not_protocol_headers() {
        let mut configured = HeaderMap::new();
        for (name, value) in pairs(&[
            ("x-team", "a"),
            ("x-team", "b"),
            ("authorization", "Bearer configured"),
            ("accept", "text/html"),
            ("mcp-session-id", "forged"),
            ("host", "elsewhere"),
            ("transfer-encoding", "chunked"),
        ]) {
            configured.append(name, value);
        }
        let limits = Limits::default();
        let client = HttpClient::new(HttpOptions::default(), &limits);
        let url = "http://localhost/mcp".parse().unwrap();
        let endpoint = HttpTransport::new(client, url, configured, Arc::new(NoCredentials), limits).endpoint;
        let credentials = pairs(&[
            ("authorization", "Bearer old"),
            ("content-length", "5"),
            ("content-type", "text/plain"),
            ("authorization", "DPoP new"),
        ]);
        let own = pairs(&[("mcp-method", "tools/call")]);
        let session_headers = SessionHeaders::new(Some(Revision::V2025_11_25), Some(HeaderValue::from_static("ours")));
        let fields = endpoint.fields(&OutgoingHttp::post(&own, &session_headers, Bytes::new()), &credentials);
        let expected = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
            mcp-protocol-version: 2025-11-25\r\nmcp-session-id: ours\r\nmcp-method: tools/call\r\n\
            authorization: DPoP new\r\nx-team: a\r\nx-team: b\r\n";
        assert_eq!(String::from_utf8(fields).unwrap(), expected);
        assert_eq!(endpoint.authorization(&credentials).unwrap(), "DPoP new");
        assert_eq!(endpoint.authorization(&Headers::new()).unwrap(), "Bearer configured");
        let bare = endpoint.fields(&OutgoingHttp::get(&own, &SessionHeaders::default()), &Headers::new());
        let bare = String::from_utf8(bare).unwrap();
        assert!(bare.contains("accept: text/html\r\n") && !bare.contains("content-type"), "{bare}");
        assert!(!bare.contains(header::HOST.as_str()) && !bare.contains("transfer"), "{bare}");
    }
}
