//! Metadata and client registration of the test authorization server.

use serde_json::{Value, json};

use super::{Shared, ledger::Client, quirks::Quirk, signed::unguessable};
use crate::odd::http::{RecordedRequest, Reply};

/// RFC 8414.
pub(super) fn metadata(shared: &Shared) -> Reply {
    let (issuer, quirks) = (shared.issuer(), shared.quirks());
    let own = |path: &str| format!("{issuer}{path}");
    let named = quirks.find_quirk(|quirk| if let Quirk::WrongIssuer(name) = quirk { Some(name.clone()) } else { None });
    let tokens =
        quirks.find_quirk(|quirk| if let Quirk::TokenEndpointAt(place) = quirk { Some(place.clone()) } else { None });
    let page = quirks
        .find_quirk(|quirk| if let Quirk::AuthorizationEndpointAt(place) = quirk { Some(place.clone()) } else { None });
    let mut document = json!({
        "issuer": named.unwrap_or_else(|| issuer.clone()),
        "authorization_endpoint": page.unwrap_or_else(|| own("/authorize")),
        "token_endpoint": tokens.unwrap_or_else(|| own("/token")),
        "jwks_uri": own("/keys"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "scopes_supported": ["read", "write", "offline_access"],
        "client_id_metadata_document_supported": quirks.has(&Quirk::SupportsClientDocuments),
    });
    if !quirks.has(&Quirk::NoPkce) {
        document["code_challenge_methods_supported"] = json!(["S256"]);
    }
    if !quirks.has(&Quirk::NoIss) {
        document["authorization_response_iss_parameter_supported"] = json!(true);
    }
    if !quirks.has(&Quirk::NoRegistration) {
        document["registration_endpoint"] = own("/register").into();
    }
    Reply::json(200, &document)
}

/// RFC 7591.
pub(super) fn register(shared: &Shared, seen: &RecordedRequest) -> Reply {
    let (wish, quirks) = (seen.message(), shared.quirks());
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let redirects = texts(&wish["redirect_uris"]);
    if quirks.has(&Quirk::RefusesRegistration) {
        return refusal(400, "invalid_client_metadata", "registration is disabled");
    }
    if redirects.is_empty() || wish["application_type"] != "native" {
        return refusal(400, "invalid_redirect_uri", "a native client with a redirect URI is required");
    }
    let (id, mut document) = (unguessable("client"), wish.clone());
    let secret = quirks.has(&Quirk::IssuesClientSecrets).then(|| unguessable("secret"));
    document["client_id"] = id.clone().into();
    if let Some(secret) = &secret {
        document["client_secret"] = secret.clone().into();
        document["client_secret_expires_at"] = 0.into();
        document["token_endpoint_auth_method"] = "client_secret_basic".into();
    }
    shared.add_client(&id, Client { secret, redirects });
    Reply::json(201, &document)
}

/// OAuth error response.
pub(super) fn refusal(status: u16, error: &str, description: &str) -> Reply {
    Reply::json(status, &json!({ "error": error, "error_description": description }))
}
