//! Which client we are at an authorization server: one that the operator registered, one that a document describes, one
//! that registers itself, or nobody yet.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use toolway_config::Secret;
use url::Url;

use crate::{
    address,
    credential::{AuthMethod, Registration, RegistrationSource},
    fetch::{Fetch, FetchError},
    metadata::ServerMetadata,
    scope::Scopes,
    settings::Settings,
};

/// How we become a client, decided without asking anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// We are one already.
    Known(Registration),
    /// We register ourselves there.
    Register(Url),
}

/// Why we are no client there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The endpoint cannot be reached, or may not be.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// There is no way in without the operator.
    #[error("{issuer} takes only clients it knows; register one there and write its id into oauth.clientId")]
    Ask {
        /// The authorization server.
        issuer: String,
    },
    /// It said no.
    #[error("{endpoint} does not register us: {said}")]
    Refused {
        /// Who said it.
        endpoint: String,
        /// What it said, cut short.
        said: String,
    },
    /// It takes no way to say who we are that we know.
    #[error("{issuer} wants clients to authenticate with {}, which cannot be done here", methods.join(" or "))]
    NoMethod {
        /// The authorization server.
        issuer: String,
        /// What it takes.
        methods: Vec<String>,
    },
}

/// What people read when they are asked for their consent, unless the operator wrote something else.
pub const CLIENT_NAME: &str = "Toolway";
/// A longer reply is no registration.
const MAX_REPLY: usize = 256 * 1024;
/// What is said about a refusal is cut here.
const MAX_SAID: usize = 300;

/// Pre-registered, then a document, then registering, then asking the operator.
pub fn way(
    server: &ServerMetadata,
    settings: &Settings,
    kept: Option<&Registration>,
    now: u64,
) -> Result<Way, RegistrationError> {
    if let Some(id) = &settings.client_id {
        return Ok(Way::Known(configured(server, id, settings.client_secret.as_ref())?));
    }
    // An id of this kind is an https address with a path; another one is no client's.
    let usable = |document: &&Url| server.takes_documents && document.scheme() == "https" && document.path() != "/";
    if let Some(document) = settings.client_document.as_ref().filter(usable) {
        return Ok(Way::Known(documented(document)));
    }
    if let Some(kept) = kept.filter(|kept| kept.source == RegistrationSource::Dynamic && !kept.has_ended(now)) {
        return Ok(Way::Known(kept.clone()));
    }
    let ask = || RegistrationError::Ask { issuer: server.issuer.clone() };
    server.registration_endpoint.clone().map(Way::Register).ok_or_else(ask)
}

/// Registers us. Nothing of the reply is taken but the client it names.
pub async fn register(
    fetch: &dyn Fetch,
    endpoint: &Url,
    server: &ServerMetadata,
    wish: Wish<'_>,
) -> Result<Registration, RegistrationError> {
    let method = preferred(server, &[AuthMethod::None, AuthMethod::Basic, AuthMethod::Post])?;
    let refused = |said: String| RegistrationError::Refused { endpoint: address::shown(endpoint), said };
    let mut request = Request::new(Bytes::from(wish.document(method).to_string()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() =
        endpoint.as_str().parse().map_err(|_| refused("its address cannot be carried by HTTP".to_owned()))?;
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json.clone());
    request.headers_mut().insert(header::ACCEPT, json);
    let response = fetch.fetch(request).await?;
    let body = response.body();
    if MAX_REPLY < body.len() {
        return Err(refused(format!("it answers with more than {MAX_REPLY} bytes")));
    }
    if !matches!(response.status(), StatusCode::OK | StatusCode::CREATED) {
        return Err(refused(said(response.status(), body)));
    }
    let reply = serde_json::from_slice::<Reply>(body);
    let reply = reply.map_err(|_| refused("what it answers is not a registration".to_owned()))?;
    reply.registration(method, server, wish.redirect).map_err(refused)
}

/// What we say about ourselves.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// What people read.
    pub name: &'a str,
    /// Where browsers are sent back to.
    pub redirect: &'a Url,
    /// What will be asked for.
    pub scopes: &'a Scopes,
}

impl Wish<'_> {
    fn document(&self, method: AuthMethod) -> Value {
        let mut document = json!({
            "client_name": self.name,
            "redirect_uris": [self.redirect.as_str()],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            // Without it a loopback address is refused as a web client's.
            "application_type": "native",
        });
        if !self.scopes.is_empty() {
            document["scope"] = self.scopes.to_string().into();
        }
        document
    }
}

/// The document to publish at this address, so that authorization servers know this client by it.
pub fn client_document(address: &Url, name: &str, redirects: &[&str]) -> Value {
    json!({
        "client_id": address.as_str(),
        "client_name": name,
        "redirect_uris": redirects,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    })
}

fn configured(server: &ServerMetadata, id: &str, secret: Option<&Secret>) -> Result<Registration, RegistrationError> {
    let method = match secret {
        Some(_) => preferred(server, &[AuthMethod::Basic, AuthMethod::Post])?,
        None => AuthMethod::None,
    };
    let (id, secret) = (id.to_owned(), secret.cloned());
    Ok(Registration { id, secret, method, source: RegistrationSource::Configured, redirect: None, secret_ends: None })
}

fn documented(document: &Url) -> Registration {
    Registration {
        id: document.to_string(),
        secret: None,
        method: AuthMethod::None,
        source: RegistrationSource::Document,
        redirect: None,
        secret_ends: None,
    }
}

/// The first of ours that the server takes; where it does not say, the first of ours.
fn preferred(server: &ServerMetadata, ours: &[AuthMethod]) -> Result<AuthMethod, RegistrationError> {
    let taken = |method: &&AuthMethod| {
        server.auth_methods.as_ref().is_none_or(|methods| methods.iter().any(|known| known == method.word()))
    };
    let no_method = || RegistrationError::NoMethod {
        issuer: server.issuer.clone(),
        methods: server.auth_methods.iter().flatten().take(8).map(|method| one_line(method)).collect(),
    };
    ours.iter().find(taken).copied().ok_or_else(no_method)
}

#[derive(Deserialize)]
struct Reply {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

impl Reply {
    /// The method that the reply names wins over the one we asked for. A secret that nobody asked for, from a server
    /// that says nothing about methods, is shown in the way that holds where nothing is said (RFC 7591).
    fn registration(self, asked: AuthMethod, server: &ServerMetadata, redirect: &Url) -> Result<Registration, String> {
        let method = match self.token_endpoint_auth_method.as_deref() {
            None if server.auth_methods.is_none() && self.client_secret.is_some() => AuthMethod::Basic,
            None => asked,
            Some(word) => AuthMethod::from_word(word)
                .ok_or_else(|| format!("it wants us to authenticate with `{}`", one_line(word)))?,
        };
        let secret = self.client_secret.filter(|secret| !secret.is_empty()).map(Secret::new);
        if self.client_id.is_empty() || (method != AuthMethod::None && secret.is_none()) {
            return Err("its answer lacks the client's id or secret".to_owned());
        }
        Ok(Registration {
            id: self.client_id,
            secret,
            method,
            source: RegistrationSource::Dynamic,
            redirect: Some(redirect.to_string()),
            secret_ends: self.client_secret_expires_at.filter(|ends| *ends != 0),
        })
    }
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
    error_description: Option<String>,
}

fn said(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<Refusal>(body) {
        Ok(Refusal { error, error_description: Some(text) }) => one_line(&format!("{error} ({text})")),
        Ok(Refusal { error, error_description: None }) => one_line(&error),
        Err(_) => format!("HTTP {}", status.as_u16()),
    }
}

fn one_line(text: &str) -> String {
    address::told(text, MAX_SAID)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use toolway_config::Secret;
    use url::Url;

    use super::{RegistrationError, Way, Wish, client_document, register, way};
    use crate::{
        credential::{AuthMethod, Registration, RegistrationSource},
        metadata::ServerMetadata,
        scope::Scopes,
        scripted::Scripted,
        settings::Settings,
    };

    const ENDPOINT: &str = "https://login.example/register";

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn server(methods: Option<&[&str]>) -> ServerMetadata {
        ServerMetadata {
            registration_endpoint: Some(url(ENDPOINT)),
            takes_documents: true,
            auth_methods: methods.map(|methods| methods.iter().map(ToString::to_string).collect()),
            ..ServerMetadata::bare("https://login.example".to_owned(), url("https://login.example/token"))
        }
    }

    async fn registered(server: &ServerMetadata, reply: &Value) -> (Value, Result<Registration, RegistrationError>) {
        let stranger = Arc::<Scripted>::default().answer(ENDPOINT, 201, reply.to_string());
        let (redirect, scopes) = (url("http://127.0.0.1:7/callback"), Scopes::parse("a b").unwrap());
        let wish = Wish { name: "Toolway", redirect: &redirect, scopes: &scopes };
        let done = register(&*stranger, &url(ENDPOINT), server, wish).await;
        let said = stranger.heard.lock().first().map(|heard| serde_json::from_slice(heard.body()).unwrap());
        (said.unwrap_or_default(), done)
    }

    fn known(way: Way) -> Registration {
        match way {
            Way::Known(registration) => registration,
            Way::Register(endpoint) => panic!("registers at {endpoint}"),
        }
    }

    #[test]
    fn the_operators_client_comes_before_a_document_and_that_before_registering() {
        let mut settings =
            Settings { client_document: Some(url("https://toolway.example/client.json")), ..Settings::default() };
        let documented = known(way(&server(None), &settings, None, 0).unwrap());
        assert_eq!(
            (documented.id.as_str(), documented.method),
            ("https://toolway.example/client.json", AuthMethod::None)
        );
        let no_documents = ServerMetadata { takes_documents: false, ..server(None) };
        assert_eq!(way(&no_documents, &settings, None, 0).unwrap(), Way::Register(url(ENDPOINT)));
        let bare = Settings { client_document: Some(url("https://toolway.example/")), ..Settings::default() };
        assert_eq!(way(&server(None), &bare, None, 0).unwrap(), Way::Register(url(ENDPOINT)));
        settings.client_id = Some("mine".to_owned());
        assert_eq!(known(way(&server(None), &settings, None, 0).unwrap()).source, RegistrationSource::Configured);
        let closed = ServerMetadata { registration_endpoint: None, takes_documents: false, ..server(None) };
        let asks = way(&closed, &Settings::default(), None, 0).unwrap_err();
        assert!(asks.to_string().contains("oauth.clientId"), "{asks}");
    }

    #[tokio::test]
    async fn a_registration_is_used_again_until_its_secret_ends() {
        let reply = json!({ "client_id": "c", "client_secret": "s", "client_secret_expires_at": 50 });
        let kept = registered(&server(Some(&["client_secret_basic"])), &reply).await.1.unwrap();
        let again = way(&server(None), &Settings::default(), Some(&kept), 49).unwrap();
        assert_eq!(known(again), kept);
        let ended = way(&server(None), &Settings::default(), Some(&kept), 50).unwrap();
        assert_eq!(ended, Way::Register(url(ENDPOINT)));
    }

    #[test]
    fn a_configured_secret_is_shown_in_a_way_the_server_takes() {
        let settings = Settings {
            client_id: Some("mine".to_owned()),
            client_secret: Some(Secret::new("s")),
            ..Settings::default()
        };
        let method = |methods| way(&server(methods), &settings, None, 0).map(|way| known(way).method);
        assert_eq!(method(None), Ok(AuthMethod::Basic));
        assert_eq!(method(Some(&["client_secret_post", "client_secret_basic"])), Ok(AuthMethod::Basic));
        assert_eq!(method(Some(&["client_secret_post"])), Ok(AuthMethod::Post));
        assert!(matches!(method(Some(&["tls_client_auth"])), Err(RegistrationError::NoMethod { .. })));
    }

    #[tokio::test]
    async fn we_say_what_we_are_and_the_reply_names_the_method() {
        let (said, done) =
            registered(&server(Some(&["none"])), &json!({ "client_id": "c", "client_secret": "s" })).await;
        assert_eq!(
            said,
            json!({
                "client_name": "Toolway",
                "redirect_uris": ["http://127.0.0.1:7/callback"],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "native",
                "scope": "a b",
            })
        );
        assert_eq!(done.unwrap().method, AuthMethod::None, "as asked");
        let unasked = registered(&server(None), &json!({ "client_id": "c", "client_secret": "s" })).await.1;
        assert_eq!(unasked.unwrap().method, AuthMethod::Basic);
        let public = registered(&server(None), &json!({ "client_id": "c" })).await.1;
        assert_eq!(public.unwrap().method, AuthMethod::None);
        let post =
            json!({ "client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post" });
        assert_eq!(registered(&server(None), &post).await.1.unwrap().method, AuthMethod::Post);
    }

    #[tokio::test]
    async fn a_reply_that_is_no_registration_is_refused() {
        for reply in [
            json!({}),
            json!({ "client_id": "" }),
            json!({ "client_id": "c", "token_endpoint_auth_method": "client_secret_basic" }),
            json!({ "client_id": "c", "token_endpoint_auth_method": "private_key_jwt" }),
        ] {
            let refused = registered(&server(None), &reply).await.1.unwrap_err();
            assert!(matches!(refused, RegistrationError::Refused { .. }), "{reply}");
        }
        let stranger = Arc::<Scripted>::default().answer(
            ENDPOINT,
            400,
            r#"{"error":"invalid_redirect_uri","error_description":"no\nloopback"}"#,
        );
        let (redirect, scopes) = (url("http://127.0.0.1:7/callback"), Scopes::default());
        let wish = Wish { name: "Toolway", redirect: &redirect, scopes: &scopes };
        let refused = register(&*stranger, &url(ENDPOINT), &server(None), wish).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "https://login.example/register does not register us: invalid_redirect_uri (noloopback)"
        );
    }

    #[test]
    fn the_document_to_publish_names_its_own_address() {
        let document =
            client_document(&url("https://toolway.example/client.json"), "Toolway", &["http://127.0.0.1/callback"]);
        assert_eq!(document["client_id"], "https://toolway.example/client.json");
        assert_eq!(document["redirect_uris"], json!(["http://127.0.0.1/callback"]));
    }
}
