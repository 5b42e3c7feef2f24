//! What an authorization server says about itself, and how it registers clients.

use serde_json::{Value, json};

use super::{Shared, conduct::Quirk, ledger::Client, signed::unguessable};
use crate::odd::http::{Reply, Seen};

/// RFC 8414.
pub(super) fn metadata(shared: &Shared) -> Reply {
    let (issuer, conduct) = (shared.issuer(), shared.conduct());
    let own = |path: &str| format!("{issuer}{path}");
    let named = conduct.told(|quirk| if let Quirk::CallsItself(name) = quirk { Some(name.clone()) } else { None });
    let tokens = conduct.told(|quirk| if let Quirk::TokensAt(place) = quirk { Some(place.clone()) } else { None });
    let page = conduct.told(|quirk| if let Quirk::PageAt(place) = quirk { Some(place.clone()) } else { None });
    let mut document = json!({
        "issuer": named.unwrap_or_else(|| issuer.clone()),
        "authorization_endpoint": page.unwrap_or_else(|| own("/authorize")),
        "token_endpoint": tokens.unwrap_or_else(|| own("/token")),
        "jwks_uri": own("/keys"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
        "scopes_supported": ["read", "write", "offline_access"],
        "client_id_metadata_document_supported": conduct.has(&Quirk::TakesDocuments),
    });
    if !conduct.has(&Quirk::NoPkce) {
        document["code_challenge_methods_supported"] = json!(["S256"]);
    }
    if !conduct.has(&Quirk::NamesNobody) {
        document["authorization_response_iss_parameter_supported"] = json!(true);
    }
    if !conduct.has(&Quirk::NoRegistration) {
        document["registration_endpoint"] = own("/register").into();
    }
    Reply::json(200, &document)
}

/// RFC 7591.
pub(super) fn register(shared: &Shared, seen: &Seen) -> Reply {
    let (wish, conduct) = (seen.message(), shared.conduct());
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let redirects = texts(&wish["redirect_uris"]);
    if conduct.has(&Quirk::RefusesClients) {
        return refusal(400, "invalid_client_metadata", "nobody is registered here");
    }
    if redirects.is_empty() || wish["application_type"] != "native" {
        return refusal(400, "invalid_redirect_uri", "a native client with an address to be sent back to");
    }
    let (id, mut document) = (unguessable("client"), wish.clone());
    let secret = conduct.has(&Quirk::SecretClients).then(|| unguessable("secret"));
    document["client_id"] = id.clone().into();
    if let Some(secret) = &secret {
        document["client_secret"] = secret.clone().into();
        document["client_secret_expires_at"] = 0.into();
        document["token_endpoint_auth_method"] = "client_secret_basic".into();
    }
    shared.add_client(&id, Client { secret, redirects });
    Reply::json(201, &document)
}

/// A refusal as the specification writes it.
pub(super) fn refusal(status: u16, error: &str, description: &str) -> Reply {
    Reply::json(status, &json!({ "error": error, "error_description": description }))
}
