//! Keys of `auth` and `oauth`, and their parser.

use super::{Auth, Binding, Client, ClientProof, Grant, OAuth, Provider, SignInSharing};
use crate::{
    address,
    error::ConfigError,
    header,
    interpolate::{Dialect, Template},
    server::PlainHttp,
    shape::{Field, Shape},
};

/// Signature algorithms of a private key.
pub(crate) const ALGORITHMS: &[&str] = &["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"];

/// Default header of an API key.
pub(crate) const KEY_HEADER: &str = "x-api-key";

/// Keys besides `kind`, by kind.
const KINDS: &[(&str, &[(&str, Shape)])] = &[
    ("none", &[]),
    ("bearer", &[("token", Shape::Text)]),
    ("apiKey", &[("key", Shape::Text), ("header", Shape::Text)]),
    ("basic", &[("username", Shape::Text), ("password", Shape::Text)]),
    ("oauth", &[("dpop", Shape::Flag), ("shared", Shape::Flag)]),
    (
        "clientCredentials",
        &[
            ("clientId", Shape::Text),
            ("clientSecret", Shape::Text),
            ("privateKey", Shape::Text),
            ("algorithm", Shape::OneOf(ALGORITHMS)),
            ("scopes", Shape::Texts),
            ("dpop", Shape::Flag),
        ],
    ),
    (
        "enterprise",
        &[
            ("idpIssuer", Shape::Text),
            ("idpTokenUrl", Shape::Text),
            ("idpClientId", Shape::Text),
            ("idpClientSecret", Shape::Text),
            ("idToken", Shape::Text),
            ("clientId", Shape::Text),
            ("clientSecret", Shape::Text),
            ("scopes", Shape::Texts),
            ("dpop", Shape::Flag),
        ],
    ),
    (
        "workload",
        &[
            ("assertion", Shape::Text),
            ("clientId", Shape::Text),
            ("audience", Shape::Text),
            ("scopes", Shape::Texts),
            ("dpop", Shape::Flag),
        ],
    ),
    ("google", &[("credentials", Shape::Text), ("metadataUrl", Shape::Text), ("scopes", Shape::Texts)]),
];

/// Type of `auth`.
pub(crate) const AUTH: Shape = Shape::OneOfOrKind(&["none", "oauth"], KINDS);

const OAUTH_KEYS: &[(&str, Shape)] = &[
    ("clientId", Shape::Text),
    ("clientSecret", Shape::Text),
    ("scopes", Shape::Texts),
    ("callbackPort", Shape::Port),
    ("redirectUri", Shape::Text),
    ("issuer", Shape::Text),
    ("metadataUrl", Shape::Text),
    ("authorizationUrl", Shape::Text),
    ("tokenUrl", Shape::Text),
    ("clientName", Shape::Text),
    ("oldServer", Shape::Flag),
];

/// Type of `oauth`.
pub(crate) const OAUTH: Shape = Shape::Members(OAUTH_KEYS);

/// Parses `auth`.
pub(crate) fn auth(field: &Field<'_>) -> Result<Auth<Template>, ConfigError> {
    if let Ok(name) = field.text() {
        return match name {
            "none" => Ok(Auth::None),
            "oauth" => Ok(Auth::default()),
            _ => Err(field.wrong(AUTH)),
        };
    }
    let members = field.members().map_err(|_| field.wrong(AUTH))?;
    let kinds: Vec<&'static str> = KINDS.iter().map(|(kind, _)| *kind).collect();
    let kind = members.iter().find(|(key, _)| *key == "kind").map(|(_, field)| field);
    let name = kind.and_then(|kind| kind.text().ok());
    let Some((kind, known)) = KINDS.iter().find(|(kind, _)| Some(*kind) == name) else {
        let place = kind.cloned().unwrap_or_else(|| field.below("kind"));
        return Err(place.expected(&Shape::one_of(&kinds)));
    };
    for (key, member) in members.iter().filter(|(key, _)| *key != "kind") {
        if !known.iter().any(|(name, _)| name == key) {
            return Err(member.unknown(known.iter().map(|(name, _)| *name)));
        }
    }
    let members = Members { whole: field, members };
    match *kind {
        "none" => Ok(Auth::None),
        "bearer" => Ok(Auth::Bearer { token: members.secret("token")? }),
        "apiKey" => Ok(Auth::ApiKey { key: members.secret("key")?, header: members.header()? }),
        "basic" => Ok(Auth::Basic { username: members.text("username")?, password: members.secret("password")? }),
        "oauth" => Ok(Auth::OAuth {
            binding: Binding::from_dpop(members.flag("dpop")?),
            sharing: if members.flag("shared")? { SignInSharing::Shared } else { SignInSharing::Private },
        }),
        _ => Ok(Auth::Grant {
            grant: members.grant(kind)?,
            scopes: members.texts("scopes")?.unwrap_or_default(),
            binding: Binding::from_dpop(members.flag("dpop")?),
        }),
    }
}

/// Parses `oauth`.
pub(crate) fn oauth(field: &Field<'_>) -> Result<OAuth<Template>, ConfigError> {
    let members = field.members()?;
    if let Some((_, member)) = members.iter().find(|(key, _)| !OAUTH_KEYS.iter().any(|(name, _)| name == key)) {
        return Err(member.unknown(OAUTH_KEYS.iter().map(|(name, _)| *name)));
    }
    let members = Members { whole: field, members };
    Ok(OAuth {
        client_id: members.get("clientId", Dialect::Toolway)?,
        client_secret: members.get("clientSecret", Dialect::ToolwayValue)?,
        scopes: members.texts("scopes")?,
        callback_port: members.find("callbackPort").map(Field::port).transpose()?,
        redirect_uri: members.url("redirectUri")?,
        issuer: members.url("issuer")?,
        metadata_url: members.url("metadataUrl")?,
        authorization_url: members.url("authorizationUrl")?,
        token_url: members.url("tokenUrl")?,
        client_name: members.find("clientName").map(|field| field.text().map(str::to_owned)).transpose()?,
        old_server: members.find("oldServer").map(Field::flag).transpose()?,
    })
}

/// The members of an object whose keys have been checked.
struct Members<'a> {
    whole: &'a Field<'a>,
    members: Vec<(&'a str, Field<'a>)>,
}

impl<'a> Members<'a> {
    fn find(&self, key: &str) -> Option<&Field<'a>> {
        self.members.iter().find(|(name, _)| *name == key).map(|(_, field)| field)
    }

    fn get(&self, key: &str, dialect: Dialect) -> Result<Option<Template>, ConfigError> {
        let Some(field) = self.find(key) else { return Ok(None) };
        let template = field.template(dialect)?;
        if template.written().expose().trim().is_empty() {
            return Err(field.expected("a non-empty string"));
        }
        Ok(Some(template))
    }

    fn required(&self, key: &str, dialect: Dialect) -> Result<Template, ConfigError> {
        self.get(key, dialect)?
            .ok_or_else(|| self.whole.below(key).expected("a string; it is required for this `kind`"))
    }

    fn secret(&self, key: &str) -> Result<Template, ConfigError> {
        self.required(key, Dialect::ToolwayValue)
    }

    fn text(&self, key: &str) -> Result<Template, ConfigError> {
        self.required(key, Dialect::Toolway)
    }

    /// A URL. It is checked now if it has no references, else when they are resolved.
    fn url(&self, key: &str) -> Result<Option<Template>, ConfigError> {
        let Some(url) = self.get(key, Dialect::Toolway)? else { return Ok(None) };
        let is_fine = !url.is_literal() || address::check(url.written().expose(), PlainHttp::Loopback).is_ok();
        if is_fine { Ok(Some(url)) } else { Err(self.whole.below(key).expected(address::SIGN_IN_URL)) }
    }

    fn flag(&self, key: &str) -> Result<bool, ConfigError> {
        self.find(key).map_or(Ok(false), Field::flag)
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<String>>, ConfigError> {
        self.find(key).map(Field::texts).transpose()
    }

    fn header(&self) -> Result<String, ConfigError> {
        let Some(field) = self.find("header") else { return Ok(KEY_HEADER.to_owned()) };
        let name = field.text()?;
        header::problem(name, "").map_or_else(|| Ok(name.to_owned()), |expected| Err(field.expected(expected)))
    }

    fn grant(&self, kind: &str) -> Result<Grant<Template>, ConfigError> {
        Ok(match kind {
            "clientCredentials" => Grant::ClientCredentials { client: self.text("clientId")?, proof: self.proof()? },
            "enterprise" => Grant::Enterprise {
                provider: self.provider()?,
                provider_client: Client {
                    id: self.text("idpClientId")?,
                    secret: self.get("idpClientSecret", Dialect::ToolwayValue)?,
                },
                id_token: self.secret("idToken")?,
                client: Client { id: self.text("clientId")?, secret: self.get("clientSecret", Dialect::ToolwayValue)? },
            },
            "workload" => Grant::Workload {
                assertion: self.secret("assertion")?,
                client: self.get("clientId", Dialect::Toolway)?,
                audience: self.get("audience", Dialect::Toolway)?,
            },
            _ => Grant::Google {
                credentials: self.get("credentials", Dialect::Toolway)?,
                metadata_url: self.get("metadataUrl", Dialect::Toolway)?,
            },
        })
    }

    fn proof(&self) -> Result<ClientProof<Template>, ConfigError> {
        let secret = self.get("clientSecret", Dialect::ToolwayValue)?;
        let key = self.get("privateKey", Dialect::ToolwayValue)?;
        match (secret, key) {
            (Some(secret), None) => Ok(ClientProof::Secret(secret)),
            (None, Some(key)) => Ok(ClientProof::Key { key, algorithm: self.algorithm()? }),
            _ => Err(self.whole.below("clientSecret").expected("set, or `privateKey` instead, but not both")),
        }
    }

    fn algorithm(&self) -> Result<Option<&'static str>, ConfigError> {
        let Some(field) = self.find("algorithm") else { return Ok(None) };
        let choices: Vec<(&'static str, &'static str)> = ALGORITHMS.iter().map(|name| (*name, *name)).collect();
        field.choice(&choices, Shape::OneOf(ALGORITHMS)).map(Some)
    }

    fn provider(&self) -> Result<Provider<Template>, ConfigError> {
        match (self.url("idpIssuer")?, self.url("idpTokenUrl")?) {
            (Some(issuer), None) => Ok(Provider::Issuer(issuer)),
            (None, Some(url)) => Ok(Provider::TokenUrl(url)),
            _ => Err(self.whole.below("idpIssuer").expected("set, or `idpTokenUrl` instead, but not both")),
        }
    }
}
