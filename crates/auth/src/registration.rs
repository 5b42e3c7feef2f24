//! Client registration at an authorization server: configured by the operator, described by a metadata document, or
//! dynamic.

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

/// How to obtain a client registration, decided without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientChoice {
    /// A registration exists.
    Known(Registration),
    /// Register dynamically at this endpoint.
    Register(Url),
}

/// Why there is no client registration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The request failed or was refused.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The authorization server has no registration endpoint.
    #[error(
        "`{issuer}` does not support dynamic client registration; register a client there and set `oauth.clientId`"
    )]
    PreregistrationRequired {
        /// Issuer identifier.
        issuer: String,
    },
    /// The authorization server refused the registration.
    #[error("client registration at `{endpoint}` failed: {said}")]
    Refused {
        /// Registration endpoint.
        endpoint: String,
        /// Error of the authorization server, truncated.
        said: String,
    },
    /// None of the client authentication methods is supported.
    #[error("`{issuer}` requires client authentication with `{}`, which is not supported", methods.join("` or `"))]
    NoMethod {
        /// Issuer identifier.
        issuer: String,
        /// Methods that it accepts.
        methods: Vec<String>,
    },
}

/// Client name on consent pages, unless the operator configures another one.
pub const CLIENT_NAME: &str = "Toolway";
/// Maximum length of a registration response in bytes.
const MAX_REPLY: usize = 256 * 1024;
/// Remote error texts are truncated to this many characters.
const MAX_REMOTE_TEXT: usize = 300;

/// Chooses the configured client, then the metadata document, then the stored registration, then dynamic registration.
pub fn choose_client(
    server: &ServerMetadata,
    settings: &Settings,
    kept: Option<&Registration>,
    now: u64,
) -> Result<ClientChoice, RegistrationError> {
    if let Some(id) = &settings.client_id {
        return Ok(ClientChoice::Known(configured(server, id, settings.client_secret.as_ref())?));
    }
    // Such a client id must be an https URL with a path.
    let usable =
        |document: &&Url| server.supports_client_documents && document.scheme() == "https" && document.path() != "/";
    if let Some(document) = settings.client_document.as_ref().filter(usable) {
        return Ok(ClientChoice::Known(documented(document)));
    }
    if let Some(kept) = kept.filter(|kept| kept.source == RegistrationSource::Dynamic && !kept.is_expired(now)) {
        return Ok(ClientChoice::Known(kept.clone()));
    }
    let ask = || RegistrationError::PreregistrationRequired { issuer: server.issuer.clone() };
    server.registration_endpoint.clone().map(ClientChoice::Register).ok_or_else(ask)
}

/// Registers the client dynamically. Only the client in the response is used.
pub async fn register(
    fetch: &dyn Fetch,
    endpoint: &Url,
    server: &ServerMetadata,
    metadata: ClientMetadata<'_>,
) -> Result<Registration, RegistrationError> {
    let method = preferred(server, &[AuthMethod::None, AuthMethod::Basic, AuthMethod::Post])?;
    let refused = |said: String| RegistrationError::Refused { endpoint: address::redacted(endpoint), said };
    let mut request = Request::new(Bytes::from(metadata.document(method).to_string()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = endpoint.as_str().parse().map_err(|_| refused("the URL is invalid".to_owned()))?;
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json.clone());
    request.headers_mut().insert(header::ACCEPT, json);
    let response = fetch.fetch(request).await?;
    let body = response.body();
    if MAX_REPLY < body.len() {
        return Err(refused(format!("the response exceeds {MAX_REPLY} bytes")));
    }
    if !matches!(response.status(), StatusCode::OK | StatusCode::CREATED) {
        return Err(refused(refusal_text(response.status(), body)));
    }
    let reply = serde_json::from_slice::<RegistrationResponse>(body);
    let reply = reply.map_err(|_| refused("the response is not a client registration".to_owned()))?;
    reply.registration(method, server, metadata.redirect).map_err(refused)
}

/// Client metadata of a registration request.
#[derive(Clone, Copy, Debug)]
pub struct ClientMetadata<'a> {
    /// Client name.
    pub name: &'a str,
    /// Redirect URL.
    pub redirect: &'a Url,
    /// Scopes that will be requested.
    pub scopes: &'a Scopes,
}

impl ClientMetadata<'_> {
    fn document(&self, method: AuthMethod) -> Value {
        let mut document = json!({
            "client_name": self.name,
            "redirect_uris": [self.redirect.as_str()],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            // Without it, loopback redirect URLs are refused as those of a web client.
            "application_type": "native",
        });
        if !self.scopes.is_empty() {
            document["scope"] = self.scopes.to_string().into();
        }
        document
    }
}

/// The client metadata document to publish at this URL.
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
    Ok(Registration {
        id,
        secret,
        method,
        source: RegistrationSource::Configured,
        redirect: None,
        secret_expires_at: None,
    })
}

fn documented(document: &Url) -> Registration {
    Registration {
        id: document.to_string(),
        secret: None,
        method: AuthMethod::None,
        source: RegistrationSource::Document,
        redirect: None,
        secret_expires_at: None,
    }
}

/// The first of our methods that the server supports; the first one if it lists none.
fn preferred(server: &ServerMetadata, ours: &[AuthMethod]) -> Result<AuthMethod, RegistrationError> {
    let taken = |method: &&AuthMethod| {
        server.auth_methods.as_ref().is_none_or(|methods| methods.iter().any(|known| known == method.name()))
    };
    let no_method = || RegistrationError::NoMethod {
        issuer: server.issuer.clone(),
        methods: server.auth_methods.iter().flatten().take(8).map(|method| one_line(method)).collect(),
    };
    ours.iter().find(taken).copied().ok_or_else(no_method)
}

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

impl RegistrationResponse {
    /// The method in the response overrides the requested one. If the server lists no methods, an unrequested secret is
    /// sent with the default method of RFC 7591.
    fn registration(self, asked: AuthMethod, server: &ServerMetadata, redirect: &Url) -> Result<Registration, String> {
        let method = match self.token_endpoint_auth_method.as_deref() {
            None if server.auth_methods.is_none() && self.client_secret.is_some() => AuthMethod::Basic,
            None => asked,
            Some(word) => AuthMethod::from_name(word)
                .ok_or_else(|| format!("unsupported client authentication method `{}`", one_line(word)))?,
        };
        let secret = self.client_secret.filter(|secret| !secret.is_empty()).map(Secret::new);
        if self.client_id.is_empty() || (method != AuthMethod::None && secret.is_none()) {
            return Err("the response has no client id or no client secret".to_owned());
        }
        Ok(Registration {
            id: self.client_id,
            secret,
            method,
            source: RegistrationSource::Dynamic,
            redirect: Some(redirect.to_string()),
            secret_expires_at: self.client_secret_expires_at.filter(|ends| *ends != 0),
        })
    }
}

#[derive(Deserialize)]
struct RegistrationRefusal {
    error: String,
    error_description: Option<String>,
}

fn refusal_text(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<RegistrationRefusal>(body) {
        Ok(RegistrationRefusal { error, error_description: Some(text) }) => one_line(&format!("{error} ({text})")),
        Ok(RegistrationRefusal { error, error_description: None }) => one_line(&error),
        Err(_) => format!("HTTP {}", status.as_u16()),
    }
}

fn one_line(text: &str) -> String {
    address::sanitize(text, MAX_REMOTE_TEXT)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use toolway_config::Secret;
    use url::Url;

    use super::{ClientChoice, ClientMetadata, RegistrationError, choose_client, client_document, register};
    use crate::{
        credential::{AuthMethod, Registration, RegistrationSource},
        metadata::ServerMetadata,
        scope::Scopes,
        scripted::ScriptedFetch,
        settings::Settings,
    };

    const ENDPOINT: &str = "https://login.example/register";

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn server(methods: Option<&[&str]>) -> ServerMetadata {
        ServerMetadata {
            registration_endpoint: Some(url(ENDPOINT)),
            supports_client_documents: true,
            auth_methods: methods.map(|methods| methods.iter().map(ToString::to_string).collect()),
            ..ServerMetadata::bare("https://login.example".to_owned(), url("https://login.example/token"))
        }
    }

    async fn register_with(server: &ServerMetadata, reply: &Value) -> (Value, Result<Registration, RegistrationError>) {
        let remote = Arc::<ScriptedFetch>::default().answer(ENDPOINT, 201, reply.to_string());
        let (redirect, scopes) = (url("http://127.0.0.1:7/callback"), Scopes::parse("a b").unwrap());
        let metadata = ClientMetadata { name: "Toolway", redirect: &redirect, scopes: &scopes };
        let done = register(&*remote, &url(ENDPOINT), server, metadata).await;
        let said = remote.requests.lock().first().map(|heard| serde_json::from_slice(heard.body()).unwrap());
        (said.unwrap_or_default(), done)
    }

    fn known_client(choice: ClientChoice) -> Registration {
        match choice {
            ClientChoice::Known(registration) => registration,
            ClientChoice::Register(endpoint) => panic!("registers at {endpoint}"),
        }
    }

    #[test]
    fn configured_client_precedes_document_and_document_precedes_registration() {
        let mut settings =
            Settings { client_document: Some(url("https://toolway.example/client.json")), ..Settings::default() };
        let documented = known_client(choose_client(&server(None), &settings, None, 0).unwrap());
        assert_eq!(
            (documented.id.as_str(), documented.method),
            ("https://toolway.example/client.json", AuthMethod::None)
        );
        let no_documents = ServerMetadata { supports_client_documents: false, ..server(None) };
        assert_eq!(choose_client(&no_documents, &settings, None, 0).unwrap(), ClientChoice::Register(url(ENDPOINT)));
        let bare = Settings { client_document: Some(url("https://toolway.example/")), ..Settings::default() };
        assert_eq!(choose_client(&server(None), &bare, None, 0).unwrap(), ClientChoice::Register(url(ENDPOINT)));
        settings.client_id = Some("mine".to_owned());
        assert_eq!(
            known_client(choose_client(&server(None), &settings, None, 0).unwrap()).source,
            RegistrationSource::Configured
        );
        let closed = ServerMetadata { registration_endpoint: None, supports_client_documents: false, ..server(None) };
        let asks = choose_client(&closed, &Settings::default(), None, 0).unwrap_err();
        assert!(asks.to_string().contains("oauth.clientId"), "{asks}");
    }

    #[tokio::test]
    async fn registration_is_reused_until_its_secret_expires() {
        let reply = json!({ "client_id": "c", "client_secret": "s", "client_secret_expires_at": 50 });
        let kept = register_with(&server(Some(&["client_secret_basic"])), &reply).await.1.unwrap();
        let again = choose_client(&server(None), &Settings::default(), Some(&kept), 49).unwrap();
        assert_eq!(known_client(again), kept);
        let ended = choose_client(&server(None), &Settings::default(), Some(&kept), 50).unwrap();
        assert_eq!(ended, ClientChoice::Register(url(ENDPOINT)));
    }

    #[test]
    fn configured_secret_is_sent_with_a_supported_method() {
        let settings = Settings {
            client_id: Some("mine".to_owned()),
            client_secret: Some(Secret::new("s")),
            ..Settings::default()
        };
        let method = |methods| choose_client(&server(methods), &settings, None, 0).map(|way| known_client(way).method);
        assert_eq!(method(None), Ok(AuthMethod::Basic));
        assert_eq!(method(Some(&["client_secret_post", "client_secret_basic"])), Ok(AuthMethod::Basic));
        assert_eq!(method(Some(&["client_secret_post"])), Ok(AuthMethod::Post));
        assert!(matches!(method(Some(&["tls_client_auth"])), Err(RegistrationError::NoMethod { .. })));
    }

    #[tokio::test]
    async fn client_metadata_is_sent_and_the_response_selects_the_method() {
        let (said, done) =
            register_with(&server(Some(&["none"])), &json!({ "client_id": "c", "client_secret": "s" })).await;
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
        assert_eq!(done.unwrap().method, AuthMethod::None, "as requested");
        let unasked = register_with(&server(None), &json!({ "client_id": "c", "client_secret": "s" })).await.1;
        assert_eq!(unasked.unwrap().method, AuthMethod::Basic);
        let public = register_with(&server(None), &json!({ "client_id": "c" })).await.1;
        assert_eq!(public.unwrap().method, AuthMethod::None);
        let post =
            json!({ "client_id": "c", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post" });
        assert_eq!(register_with(&server(None), &post).await.1.unwrap().method, AuthMethod::Post);
    }

    #[tokio::test]
    async fn invalid_registration_response_is_refused() {
        for reply in [
            json!({}),
            json!({ "client_id": "" }),
            json!({ "client_id": "c", "token_endpoint_auth_method": "client_secret_basic" }),
            json!({ "client_id": "c", "token_endpoint_auth_method": "private_key_jwt" }),
        ] {
            let refused = register_with(&server(None), &reply).await.1.unwrap_err();
            assert!(matches!(refused, RegistrationError::Refused { .. }), "{reply}");
        }
        let remote = Arc::<ScriptedFetch>::default().answer(
            ENDPOINT,
            400,
            r#"{"error":"invalid_redirect_uri","error_description":"no\nloopback"}"#,
        );
        let (redirect, scopes) = (url("http://127.0.0.1:7/callback"), Scopes::default());
        let metadata = ClientMetadata { name: "Toolway", redirect: &redirect, scopes: &scopes };
        let refused = register(&*remote, &url(ENDPOINT), &server(None), metadata).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "client registration at `https://login.example/register` failed: invalid_redirect_uri (noloopback)"
        );
    }

    #[test]
    fn client_document_names_its_own_url() {
        let document =
            client_document(&url("https://toolway.example/client.json"), "Toolway", &["http://127.0.0.1/callback"]);
        assert_eq!(document["client_id"], "https://toolway.example/client.json");
        assert_eq!(document["redirect_uris"], json!(["http://127.0.0.1/callback"]));
    }
}
