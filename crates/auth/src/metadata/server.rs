//! Authorization server metadata (RFC 8414, OpenID Connect Discovery).

use serde::Deserialize;
use url::Url;

use super::{MetadataError, any_document, at_origin, document, first, parsed, quoted, redacted_all, unreadable};
use crate::{
    address::{self, redacted},
    fetch::Fetch,
    scope::Scopes,
};

/// Metadata of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerMetadata {
    /// Issuer identifier; compared byte by byte.
    pub issuer: String,
    /// Authorization endpoint.
    pub authorization_endpoint: Option<Url>,
    /// Token endpoint.
    pub token_endpoint: Url,
    /// Client registration endpoint.
    pub registration_endpoint: Option<Url>,
    /// Supported scopes, if listed.
    pub scopes: Option<Scopes>,
    /// Supported client authentication methods, if listed.
    pub auth_methods: Option<Vec<String>>,
    /// Supported algorithms of client assertions, if listed.
    pub auth_algorithms: Option<Vec<String>>,
    /// Supported DPoP algorithms; `None` if DPoP is not supported.
    pub proof_algorithms: Option<Vec<String>>,
    /// Supported grant profiles.
    pub grant_profiles: Vec<String>,
    /// Whether PKCE with S256 is supported.
    pub pkce: Pkce,
    /// Whether every callback carries `iss`.
    pub sends_iss: bool,
    /// Whether a client id may be the URL of a client metadata document.
    pub supports_client_documents: bool,
}

/// What is known about PKCE with S256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pkce {
    /// The metadata lists it.
    Supported,
    /// The metadata does not list it.
    NotAdvertised,
    /// The operator configured the endpoints, or it is a 2025-03-26 server, whose revision requires PKCE without
    /// metadata.
    Waived,
}

#[derive(Deserialize)]
struct ServerDocument {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    scopes_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    dpop_signing_alg_values_supported: Option<Vec<String>>,
    authorization_grant_profiles_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
    client_id_metadata_document_supported: Option<bool>,
}

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

impl ServerMetadata {
    /// Finds the metadata of an issuer in the specified locations and order; the document must name the same issuer.
    pub async fn find(fetch: &dyn Fetch, issuer: &str) -> Result<Self, MetadataError> {
        let places = well_known(issuer)?;
        match first(fetch, &places).await? {
            Some((place, document)) => Self::checked(&place, &document, Some(issuer)),
            None => Err(MetadataError::NoServer { issuer: issuer.to_owned(), tried: redacted_all(&places) }),
        }
    }

    /// Reads the document that the operator configured. Without `issuer`, the document names the issuer.
    pub async fn at(fetch: &dyn Fetch, place: &Url, issuer: Option<&str>) -> Result<Self, MetadataError> {
        match document(fetch, place).await? {
            Some(document) => Self::checked(place, &document, issuer),
            None => Err(unreadable(place, "no metadata found")),
        }
    }

    /// Metadata of a 2025-03-26 server, which is its own authorization server at its origin; `None` without a document.
    ///
    /// It need not list PKCE, which that revision requires of every authorization server.
    pub async fn at_own_origin(fetch: &dyn Fetch, server: &Url) -> Result<Option<Self>, MetadataError> {
        let origin = server.origin().ascii_serialization();
        let place = at_origin(server, OAUTH);
        let Some(document) = any_document(fetch, &place).await? else { return Ok(None) };
        let found = Self::checked(&place, &document, None)?;
        // The SDKs write an issuer without a path with a slash or without one.
        if found.issuer.strip_suffix('/').unwrap_or(&found.issuer) != origin {
            let (place, found) = (redacted(&place), quoted(&found.issuer));
            return Err(MetadataError::WrongIssuer { place, found, issuer: origin });
        }
        Ok(Some(Self { pkce: Pkce::Waived, ..found }))
    }

    /// The default endpoints of 2025-03-26 at the origin of a server without any metadata.
    pub fn default_endpoints(server: &Url) -> Self {
        Self {
            authorization_endpoint: Some(at_origin(server, "/authorize")),
            registration_endpoint: Some(at_origin(server, "/register")),
            ..Self::bare(server.origin().ascii_serialization(), at_origin(server, "/token"))
        }
    }

    /// Metadata with only an issuer and a token endpoint.
    pub fn bare(issuer: String, token_endpoint: Url) -> Self {
        Self {
            issuer,
            authorization_endpoint: None,
            token_endpoint,
            registration_endpoint: None,
            scopes: None,
            auth_methods: None,
            auth_algorithms: None,
            proof_algorithms: None,
            grant_profiles: Vec::new(),
            pkce: Pkce::Waived,
            sends_iss: false,
            supports_client_documents: false,
        }
    }

    /// The authorization endpoint, if PKCE is supported.
    pub fn sign_in_page(&self) -> Result<&Url, MetadataError> {
        let issuer = || self.issuer.clone();
        if self.pkce == Pkce::NotAdvertised {
            return Err(MetadataError::NoPkce { issuer: issuer() });
        }
        let problem =
            || "the metadata has no `authorization_endpoint`, so that interactive sign-in is not possible".to_owned();
        let page = self.authorization_endpoint.as_ref();
        let page = page.ok_or_else(|| MetadataError::Unreadable { place: issuer(), problem: problem() })?;
        // This also holds for a configured URL, because a browser is sent there.
        let checked = address::parse("authorization_endpoint", page.as_str());
        checked.map(|_| page).map_err(|source| MetadataError::Address { place: issuer(), source })
    }

    /// Checks the issuer before anything else in the document is used.
    fn checked(place: &Url, document: &[u8], issuer: Option<&str>) -> Result<Self, MetadataError> {
        let document: ServerDocument = parsed(place, document)?;
        if let Some(issuer) = issuer.filter(|issuer| *issuer != document.issuer) {
            let (place, found, issuer) = (redacted(place), quoted(&document.issuer), issuer.to_owned());
            return Err(MetadataError::WrongIssuer { place, found, issuer });
        }
        let bad = |source| MetadataError::Address { place: redacted(place), source };
        let read = |what, text: &str| address::parse(what, text).map_err(bad);
        let maybe = |what, text: Option<&str>| text.map(|text| read(what, text)).transpose();
        let pkce = document.code_challenge_methods_supported.unwrap_or_default();
        let scopes = document.scopes_supported.unwrap_or_default();
        read("issuer", &document.issuer)?;
        Ok(Self {
            authorization_endpoint: maybe("authorization_endpoint", document.authorization_endpoint.as_deref())?,
            token_endpoint: read("token_endpoint", &document.token_endpoint)?,
            registration_endpoint: maybe("registration_endpoint", document.registration_endpoint.as_deref())?,
            // An invalid list is treated as empty: it is only searched for one name.
            scopes: Scopes::from_names(scopes.iter().map(String::as_str)).ok().filter(|scopes| !scopes.is_empty()),
            auth_methods: document.token_endpoint_auth_methods_supported,
            auth_algorithms: document.token_endpoint_auth_signing_alg_values_supported,
            proof_algorithms: document.dpop_signing_alg_values_supported,
            grant_profiles: document.authorization_grant_profiles_supported.unwrap_or_default(),
            pkce: if pkce.iter().any(|method| method == "S256") { Pkce::Supported } else { Pkce::NotAdvertised },
            sends_iss: document.authorization_response_iss_parameter_supported.unwrap_or_default(),
            supports_client_documents: document.client_id_metadata_document_supported.unwrap_or_default(),
            issuer: document.issuer,
        })
    }
}

/// Metadata locations of an issuer, in order. With a path, the root location is excluded, because it belongs to another
/// issuer.
fn well_known(issuer: &str) -> Result<Vec<Url>, MetadataError> {
    let bad = |source| MetadataError::Address { place: quoted(issuer), source };
    let url = address::parse("issuer", issuer).map_err(bad)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad(address::InvalidUrl { what: "issuer", problem: "must not have a query or a fragment" }));
    }
    let path = url.path().trim_end_matches('/');
    let mut paths = vec![format!("{OAUTH}{path}"), format!("{OPENID}{path}")];
    if !path.is_empty() {
        paths.push(format!("{path}{OPENID}"));
    }
    Ok(paths.iter().map(|path| at_origin(&url, path)).collect())
}

#[cfg(test)]
mod tests;
