//! Deviations of an authorization server from the specification.

use std::time::Duration;

/// Endpoint of an authorization server, by the kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Metadata document.
    Metadata,
    /// Public keys.
    Keys,
    /// Client registration.
    Registration,
    /// Authorization endpoint.
    Page,
    /// Exchange of a code.
    Code,
    /// Refresh of a token.
    Refresh,
    /// Grant without a user.
    Grant,
    /// Unknown path.
    Elsewhere,
}

/// One deviation from the specification or from the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// The metadata names another issuer.
    WrongIssuer(String),
    /// The metadata names this authorization endpoint.
    AuthorizationEndpointAt(String),
    /// The metadata names this token endpoint.
    TokenEndpointAt(String),
    /// The metadata does not mention PKCE.
    NoPkce,
    /// The metadata does not announce `iss`, and callbacks do not have it.
    NoIss,
    /// Callbacks have no `iss`, although the metadata announces it.
    OmitsIss,
    /// Callbacks have another `iss`.
    WrongIss(String),
    /// The browser is redirected to another authorization server, which sends the callback (mix-up attack).
    RedirectsTo(String),
    /// The user must click a button first.
    ConsentPage,
    /// Dynamic registration is not supported.
    NoRegistration,
    /// Every registration is refused.
    RefusesRegistration,
    /// Dynamically registered clients get a secret.
    IssuesClientSecrets,
    /// A client id may be the URL of a metadata document. The document is not fetched.
    SupportsClientDocuments,
    /// Codes have expired when they arrive.
    ExpiredCodes,
    /// Lifetime of access tokens in seconds.
    TokenLifetime(u64),
    /// Token responses have no `expires_in`.
    NoExpiresIn,
    /// No refresh token is issued.
    NoRefresh,
    /// Refresh tokens are not rotated.
    NoRotation,
    /// Refresh tokens are refused.
    RefusesRefresh,
    /// A refresh is executed, and the connection is closed without a response.
    DropsRefreshResponse,
    /// Error responses repeat everything that was sent.
    EchoesRequest,
    /// This endpoint redirects, keeping method and body.
    Redirects(Endpoint, String),
    /// This endpoint responds with this status and an empty body.
    RespondsWith(Endpoint, u16),
    /// Responses of this endpoint never end.
    Endless(Endpoint),
    /// This endpoint never responds.
    Silent(Endpoint),
    /// This endpoint responds after a delay.
    Late(Endpoint, Duration),
}

/// Active quirks; the first of a kind counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Quirks(pub(super) Vec<Quirk>);

// === impl Conduct ===

impl Quirks {
    pub(super) fn has(&self, quirk: &Quirk) -> bool {
        self.0.contains(quirk)
    }

    /// First result of `fitting` for an active quirk.
    pub(super) fn find_quirk<T>(&self, fitting: impl FnMut(&Quirk) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(fitting)
    }

    /// Lifetime of access tokens in seconds.
    pub(super) fn lasts(&self) -> u64 {
        self.find_quirk(|quirk| if let Quirk::TokenLifetime(seconds) = quirk { Some(*seconds) } else { None })
            .unwrap_or(3600)
    }
}
