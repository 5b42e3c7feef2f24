//! An authentication object with a `type`, as the formats without a fixed location write it.

use super::sign_in;
use crate::{
    error::ConfigError,
    header,
    interpolate::{Dialect, Template},
    server::{
        Draft,
        auth::{ALGORITHMS, Auth, Binding, ClientProof, Grant, KEY_HEADER},
    },
    shape::{Field, Shape},
};

/// Spellings of one member, without case, `_` and `-`.
type Spellings = &'static [&'static str];

const TOKEN: Spellings = &["token", "bearertoken", "accesstoken", "value"];
const KEY: Spellings = &["apikey", "key", "value", "token"];
const HEADER: Spellings = &["header", "headername"];
const USERNAME: Spellings = &["username", "user"];
const PASSWORD: Spellings = &["password"];
const CREDENTIALS: Spellings = &["credentials", "credentialsfile", "keyfile"];
const GRANT: Spellings = &["granttype"];
const PRIVATE_KEY: Spellings = &["privatekey"];
const ALGORITHM: Spellings = &["algorithm"];

/// Applies the object, or the name of the type alone; `types` are the types of this format.
pub(super) fn apply(
    draft: &mut Draft,
    field: &Field<'_>,
    dialect: Dialect,
    types: &'static [&'static str],
) -> Result<(), ConfigError> {
    let object = Object::of(field, dialect)?;
    match object.kind(types)? {
        "none" => draft.auth = Some(Auth::None),
        "bearer" => draft.auth = Some(Auth::Bearer { token: object.secret(TOKEN, "token")? }),
        "api-key" => {
            draft.auth = Some(Auth::ApiKey { key: object.secret(KEY, "key")?, header: object.header()? });
        }
        "basic" => {
            let (username, password) = (object.text(USERNAME, "username")?, object.secret(PASSWORD, "password")?);
            draft.auth = Some(Auth::Basic { username, password });
        }
        "google-credentials" => {
            object.settings(draft)?;
            let scopes = draft.oauth.scopes.take().unwrap_or_default();
            let grant = Grant::Google { credentials: object.get(CREDENTIALS, dialect)?, metadata_url: None };
            draft.auth = Some(Auth::Grant { grant, scopes, binding: Binding::default() });
        }
        _ => {
            object.settings(draft)?;
            draft.auth = Some(object.oauth(draft)?);
        }
    }
    Ok(())
}

/// The members that are ignored.
pub(super) fn ignored(field: &Field<'_>) -> Vec<(String, usize)> {
    let lists = [TOKEN, KEY, HEADER, USERNAME, PASSWORD, CREDENTIALS, GRANT, PRIVATE_KEY, ALGORITHM];
    let known: Vec<&str> = lists.concat();
    let is_known = |key: &str| key == "type" || known.contains(&plain(key).as_str()) || is_setting(key);
    let others = members(field).unwrap_or_default().into_iter().filter(|(key, _)| !is_known(key));
    others.map(|(_, field)| (field.name.clone(), field.node.line)).collect()
}

struct Object<'a> {
    whole: &'a Field<'a>,
    members: Vec<(&'a str, Field<'a>)>,
    dialect: Dialect,
}

impl<'a> Object<'a> {
    fn of(whole: &'a Field<'a>, dialect: Dialect) -> Result<Self, ConfigError> {
        let members = if whole.text().is_ok() { Vec::new() } else { members(whole)? };
        Ok(Self { whole, members, dialect })
    }

    fn kind(&self, types: &'static [&'static str]) -> Result<&'static str, ConfigError> {
        let of_type = self.members.iter().find(|(key, _)| *key == "type").map(|(_, field)| field);
        let missing = self.whole.below("type");
        let field = of_type.unwrap_or(if self.whole.text().is_ok() { self.whole } else { &missing });
        let name = field.text().ok();
        let known = types.iter().find(|known| Some(**known) == name).copied();
        known.ok_or_else(|| field.expected(&Shape::one_of(types)))
    }

    fn find(&self, spellings: Spellings) -> Option<&Field<'a>> {
        self.members.iter().find(|(key, _)| spellings.contains(&plain(key).as_str())).map(|(_, field)| field)
    }

    fn get(&self, spellings: Spellings, dialect: Dialect) -> Result<Option<Template>, ConfigError> {
        self.find(spellings).map(|field| field.template(dialect)).transpose()
    }

    fn text(&self, spellings: Spellings, name: &str) -> Result<Template, ConfigError> {
        self.required(self.get(spellings, self.dialect)?, name)
    }

    /// A value that may also be a whole reference, such as `keychain:service/entry`.
    fn secret(&self, spellings: Spellings, name: &str) -> Result<Template, ConfigError> {
        self.required(self.get(spellings, Dialect::ToolwayValue)?, name)
    }

    fn required(&self, text: Option<Template>, name: &str) -> Result<Template, ConfigError> {
        let text = text.filter(|text| !text.written().expose().trim().is_empty());
        text.ok_or_else(|| self.whole.below(name).expected("a string; it is required for this `type`"))
    }

    fn header(&self) -> Result<String, ConfigError> {
        let Some(field) = self.find(HEADER) else { return Ok(KEY_HEADER.to_owned()) };
        let name = field.text()?;
        header::problem(name, "").map_or_else(|| Ok(name.to_owned()), |expected| Err(field.expected(expected)))
    }

    /// Applies the OAuth settings among the members.
    fn settings(&self, draft: &mut Draft) -> Result<(), ConfigError> {
        let mut settings = self.members.iter().filter(|(key, _)| is_setting(key));
        settings.try_for_each(|(key, field)| sign_in::member(draft, key, field, self.dialect))
    }

    /// Sign-in of a user, or client credentials if `grantType` says so or there is a private key.
    fn oauth(&self, draft: &mut Draft) -> Result<Auth<Template>, ConfigError> {
        let key = self.get(PRIVATE_KEY, Dialect::ToolwayValue)?;
        match (self.find(GRANT).map(Field::text).transpose()?, &key) {
            (None, None) | (Some("authorization_code"), _) => Ok(Auth::default()),
            (None | Some("client_credentials"), _) => {
                let client = self.required(draft.oauth.client_id.take(), "clientId")?;
                let secret = draft.oauth.client_secret.take();
                let proof = match key {
                    Some(key) => ClientProof::Key { key, algorithm: self.algorithm()? },
                    None => ClientProof::Secret(self.required(secret, "clientSecret")?),
                };
                let scopes = draft.oauth.scopes.take().unwrap_or_default();
                let grant = Grant::ClientCredentials { client, proof };
                Ok(Auth::Grant { grant, scopes, binding: Binding::default() })
            }
            (Some(_), _) => Err(self.whole.below("grantType").expected("`authorization_code` or `client_credentials`")),
        }
    }

    fn algorithm(&self) -> Result<Option<&'static str>, ConfigError> {
        let Some(field) = self.find(ALGORITHM) else { return Ok(None) };
        let choices: Vec<(&'static str, &'static str)> = ALGORITHMS.iter().map(|name| (*name, *name)).collect();
        field.choice(&choices, Shape::OneOf(ALGORITHMS)).map(Some)
    }
}

/// The members of the object; those of an object `config` in it count as its own.
fn members<'a>(whole: &Field<'a>) -> Result<Vec<(&'a str, Field<'a>)>, ConfigError> {
    let mut members = Vec::new();
    for (key, field) in whole.members()? {
        match (key, field.members()) {
            ("config", Ok(inner)) => members.extend(inner),
            _ => members.push((key, field)),
        }
    }
    Ok(members)
}

fn is_setting(key: &str) -> bool {
    key != "enabled" && sign_in::OAuthKey::of(key).is_some()
}

/// A key without case, `_` and `-`.
fn plain(key: &str) -> String {
    key.chars().filter(|letter| !matches!(letter, '_' | '-')).map(|letter| letter.to_ascii_lowercase()).collect()
}
