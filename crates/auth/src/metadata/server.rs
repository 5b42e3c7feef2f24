//! How an authorization server signs people in, by its own word (RFC 8414, OpenID Connect Discovery).

use serde::Deserialize;
use url::Url;

use super::{MetadataError, any_document, at_origin, document, first, parsed, quoted, shown_all, unreadable};
use crate::{
    address::{self, shown},
    fetch::Fetch,
    scope::Scopes,
};

/// An authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerMetadata {
    /// Who it is; everything it gives is bound to this text, letter by letter.
    pub issuer: String,
    /// Where people sign in.
    pub authorization_endpoint: Option<Url>,
    /// Where tokens come from.
    pub token_endpoint: Url,
    /// Where clients register themselves.
    pub registration_endpoint: Option<Url>,
    /// All scopes it knows, where it says so.
    pub scopes: Option<Scopes>,
    /// How clients may say who they are, where it says so.
    pub auth_methods: Option<Vec<String>>,
    /// How their assertions may be signed, where it says so.
    pub auth_algorithms: Option<Vec<String>>,
    /// How proofs of possession may be signed; none where it takes none.
    pub proof_algorithms: Option<Vec<String>>,
    /// Profiles of grants it takes.
    pub grant_profiles: Vec<String>,
    /// Whether it says that it takes PKCE with S256.
    pub pkce: Pkce,
    /// Whether it names itself in every callback.
    pub names_itself: bool,
    /// Whether a client's id may be the address of a document about it.
    pub takes_documents: bool,
}

/// What is known about PKCE with S256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pkce {
    /// It says that it takes it.
    Supported,
    /// It does not say so.
    Unsaid,
    /// The operator named the endpoints or let the oldest servers in, and has judged this.
    Waived,
}

#[derive(Deserialize)]
struct Document {
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
    /// Finds the metadata of an issuer, in the specified places and order; its own name for itself has to be the same.
    pub async fn find(fetch: &dyn Fetch, issuer: &str) -> Result<Self, MetadataError> {
        let places = well_known(issuer)?;
        match first(fetch, &places).await? {
            Some((place, document)) => Self::checked(&place, &document, Some(issuer)),
            None => Err(MetadataError::NoServer { issuer: issuer.to_owned(), tried: shown_all(&places) }),
        }
    }

    /// Reads the document that the operator named; whoever it says it is, is the issuer, unless that was said too.
    pub async fn at(fetch: &dyn Fetch, place: &Url, issuer: Option<&str>) -> Result<Self, MetadataError> {
        match document(fetch, place).await? {
            Some(document) => Self::checked(place, &document, issuer),
            None => Err(unreadable(place, "has no metadata")),
        }
    }

    /// A server of 2025-03-26, which says nothing about who signs people in: it does so itself, at its own origin.
    ///
    /// Where it has no metadata either, its endpoints are where that revision has them. Nothing says that it takes
    /// PKCE, so the operator has to have agreed to this.
    pub async fn of_old(fetch: &dyn Fetch, server: &Url) -> Result<Self, MetadataError> {
        let origin = server.origin().ascii_serialization();
        let place = at_origin(server, OAUTH);
        let found = match any_document(fetch, &place).await? {
            Some(document) => Self::checked(&place, &document, Some(&origin))?,
            None => Self {
                authorization_endpoint: Some(at_origin(server, "/authorize")),
                registration_endpoint: Some(at_origin(server, "/register")),
                ..Self::bare(origin, at_origin(server, "/token"))
            },
        };
        Ok(Self { pkce: Pkce::Waived, ..found })
    }

    /// A server of which only this is known.
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
            names_itself: false,
            takes_documents: false,
        }
    }

    /// Where people sign in, if their code is safe on its way back.
    pub fn sign_in_page(&self) -> Result<&Url, MetadataError> {
        let issuer = || self.issuer.clone();
        if self.pkce == Pkce::Unsaid {
            return Err(MetadataError::NoPkce { issuer: issuer() });
        }
        let problem = || "has no authorization_endpoint, so nobody can sign in there".to_owned();
        let page = self.authorization_endpoint.as_ref();
        let page = page.ok_or_else(|| MetadataError::Unreadable { place: issuer(), problem: problem() })?;
        // Also where the operator named it: a person's browser is sent there.
        let checked = address::read("authorization_endpoint", page.as_str());
        checked.map(|_| page).map_err(|source| MetadataError::Address { place: issuer(), source })
    }

    /// Nothing of the document is looked at before it is known to be the issuer's.
    fn checked(place: &Url, document: &[u8], issuer: Option<&str>) -> Result<Self, MetadataError> {
        let document: Document = parsed(place, document)?;
        if let Some(issuer) = issuer.filter(|issuer| *issuer != document.issuer) {
            let (place, found, issuer) = (shown(place), quoted(&document.issuer), issuer.to_owned());
            return Err(MetadataError::WrongIssuer { place, found, issuer });
        }
        let bad = |source| MetadataError::Address { place: shown(place), source };
        let read = |what, text: &str| address::read(what, text).map_err(bad);
        let maybe = |what, text: Option<&str>| text.map(|text| read(what, text)).transpose();
        let pkce = document.code_challenge_methods_supported.unwrap_or_default();
        let scopes = document.scopes_supported.unwrap_or_default();
        read("issuer", &document.issuer)?;
        Ok(Self {
            authorization_endpoint: maybe("authorization_endpoint", document.authorization_endpoint.as_deref())?,
            token_endpoint: read("token_endpoint", &document.token_endpoint)?,
            registration_endpoint: maybe("registration_endpoint", document.registration_endpoint.as_deref())?,
            // Only looked at for a name; one that cannot be read is not that name.
            scopes: Scopes::from_names(scopes.iter().map(String::as_str)).ok().filter(|scopes| !scopes.is_empty()),
            auth_methods: document.token_endpoint_auth_methods_supported,
            auth_algorithms: document.token_endpoint_auth_signing_alg_values_supported,
            proof_algorithms: document.dpop_signing_alg_values_supported,
            grant_profiles: document.authorization_grant_profiles_supported.unwrap_or_default(),
            pkce: if pkce.iter().any(|method| method == "S256") { Pkce::Supported } else { Pkce::Unsaid },
            names_itself: document.authorization_response_iss_parameter_supported.unwrap_or_default(),
            takes_documents: document.client_id_metadata_document_supported.unwrap_or_default(),
            issuer: document.issuer,
        })
    }
}

/// Where the metadata of an issuer is, in this order. With a path, never at the bare root: that is another issuer's.
fn well_known(issuer: &str) -> Result<Vec<Url>, MetadataError> {
    let bad = |source| MetadataError::Address { place: quoted(issuer), source };
    let url = address::read("issuer", issuer).map_err(bad)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad(address::BadAddress { what: "issuer", problem: "has a query or a fragment" }));
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
