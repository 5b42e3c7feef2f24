//! Authentication settings of other hosts that have the same meaning here.

use crate::{
    document::Value,
    error::ConfigError,
    interpolate::{Dialect, Template},
    server::{
        Draft,
        auth::{Auth, Binding, Grant},
    },
    shape::Field,
};

/// Key of an `oauth` object; the hosts differ only in case and underscores.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OAuthKey {
    Enabled,
    ClientId,
    ClientSecret,
    Scopes,
    CallbackPort,
    RedirectUri,
    MetadataUrl,
    AuthorizationUrl,
    TokenUrl,
    ClientName,
}

impl OAuthKey {
    pub(super) fn of(key: &str) -> Option<Self> {
        let letters = key.chars().filter(|letter| *letter != '_').map(|letter| letter.to_ascii_lowercase());
        Some(match letters.collect::<String>().as_str() {
            "enabled" => Self::Enabled,
            "clientid" => Self::ClientId,
            "clientsecret" => Self::ClientSecret,
            "scope" | "scopes" => Self::Scopes,
            "callbackport" | "redirectport" => Self::CallbackPort,
            "redirecturi" => Self::RedirectUri,
            "metadataurl" | "authservermetadataurl" => Self::MetadataUrl,
            "authorizationurl" => Self::AuthorizationUrl,
            "tokenurl" => Self::TokenUrl,
            "clientname" => Self::ClientName,
            _ => return None,
        })
    }
}

/// An object of OAuth settings; `false` disables signing in.
pub(super) fn oauth(draft: &mut Draft, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
    if let Value::Flag(on) = field.node.value {
        draft.auth = if on { draft.auth.take() } else { Some(Auth::None) };
        return Ok(());
    }
    field.members()?.iter().try_for_each(|(key, field)| member(draft, key, field, dialect))
}

/// One OAuth setting; unknown ones are skipped.
pub(super) fn member(draft: &mut Draft, key: &str, field: &Field<'_>, dialect: Dialect) -> Result<(), ConfigError> {
    let text = |field: &Field<'_>| -> Result<Option<Template>, ConfigError> {
        field.template(dialect).map(|text| Some(text).filter(|text| !text.written().expose().is_empty()))
    };
    match OAuthKey::of(key) {
        Some(OAuthKey::Enabled) if !field.flag()? => draft.auth = Some(Auth::None),
        Some(OAuthKey::ClientId) => draft.oauth.client_id = text(field)?,
        Some(OAuthKey::ClientSecret) => draft.oauth.client_secret = text(field)?,
        Some(OAuthKey::Scopes) => scopes(draft, field)?,
        Some(OAuthKey::CallbackPort) => draft.oauth.callback_port = Some(field.port()?),
        Some(OAuthKey::RedirectUri) => draft.oauth.redirect_uri = text(field)?,
        Some(OAuthKey::MetadataUrl) => draft.oauth.metadata_url = text(field)?,
        Some(OAuthKey::AuthorizationUrl) => draft.oauth.authorization_url = text(field)?,
        Some(OAuthKey::TokenUrl) => draft.oauth.token_url = text(field)?,
        Some(OAuthKey::ClientName) => draft.oauth.client_name = Some(field.text()?.to_owned()),
        Some(OAuthKey::Enabled) | None => {}
    }
    Ok(())
}

/// A list, or one string separated by spaces.
pub(super) fn scopes(draft: &mut Draft, field: &Field<'_>) -> Result<(), ConfigError> {
    let scopes = match field.text() {
        Ok(text) => text.split_whitespace().map(str::to_owned).collect(),
        Err(_) => field.texts()?,
    };
    draft.oauth.scopes = Some(scopes);
    Ok(())
}

/// Applies an authentication provider.
pub(super) fn provider(draft: &mut Draft, field: &Field<'_>) -> Result<(), ConfigError> {
    if field.text()? == "google_credentials" {
        let scopes = draft.oauth.scopes.clone().unwrap_or_default();
        let grant = Grant::Google { credentials: None, metadata_url: None };
        draft.auth = Some(Auth::Grant { grant, scopes, binding: Binding::default() });
    }
    Ok(())
}

/// The keys of an `oauth` object that are ignored.
pub(super) fn ignored(field: &Field<'_>) -> Vec<(String, usize)> {
    let members = field.members().unwrap_or_default();
    let others = members.into_iter().filter(|(key, _)| OAuthKey::of(key).is_none());
    others.map(|(_, field)| (field.name.clone(), field.node.line)).collect()
}
