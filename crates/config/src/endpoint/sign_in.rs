//! Authentication settings of a server, with references resolved.

use super::Resolver;
use crate::{
    address,
    error::ConfigError,
    header,
    interpolate::Template,
    secret::Secret,
    server::{
        Http, PlainHttp,
        auth::{Auth, OAuth, SignIn, TextKind},
    },
};

/// Environment variable with the path of Google's application default credentials.
pub const GOOGLE_FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

impl Resolver<'_> {
    /// A server with an `Authorization` header and without `auth` needs no sign-in.
    pub(super) fn sign_in(&self, http: &Http) -> Result<SignIn<Secret>, ConfigError> {
        let auth = match &http.auth {
            Some(auth) => auth.map(&mut |key, kind, text| self.of_sign_in(key, kind, text))?,
            None if http.has_authorization() => Auth::None,
            None => Auth::default(),
        };
        self.check_auth(&auth, http)?;
        let oauth: OAuth<Secret> = http.oauth.map(&mut |key, kind, text| self.of_sign_in(key, kind, text))?;
        Ok(SignIn { auth, oauth })
    }

    fn of_sign_in(&self, key: &'static str, kind: TextKind, text: &Template) -> Result<Secret, ConfigError> {
        let value = self.value(key, text)?;
        match kind {
            TextKind::File => {
                let file = self.lookup.path(value.expose());
                let file = file.map_err(|reason| self.unresolved(key, text.line(), reason))?;
                let path = file.to_str().ok_or_else(|| self.expected(key, text.line(), "a path in valid UTF-8"));
                path.map(Secret::new)
            }
            TextKind::Address => {
                // Google's metadata server is plain http on a link-local address.
                let plain = if key == "auth.metadataUrl" { PlainHttp::Anywhere } else { PlainHttp::Loopback };
                let checked = address::check(value.expose(), plain);
                checked.map(|()| value).map_err(|_| self.expected(key, text.line(), address::SIGN_IN_URL))
            }
            TextKind::Secret | TextKind::Plain if value.expose().trim().is_empty() => {
                Err(self.expected(key, text.line(), "a non-empty string"))
            }
            TextKind::Secret | TextKind::Plain => Ok(value),
        }
    }

    /// Checks the resolved values that are sent in a header.
    fn check_auth(&self, auth: &Auth<Secret>, http: &Http) -> Result<(), ConfigError> {
        let (key, problem) = match auth {
            Auth::Bearer { token } => ("auth.token", header::problem("authorization", token.expose())),
            Auth::ApiKey { key, header } => ("auth.key", header::problem(header, key.expose())),
            Auth::Basic { username, .. } => {
                ("auth.username", username.expose().contains(':').then_some("a user name without a colon"))
            }
            _ => return Ok(()),
        };
        let line = || http.sign_in_texts().find(|(name, ..)| *name == key).map(|(_, _, text)| text.line());
        problem.map_or(Ok(()), |problem| Err(self.expected(key, line().unwrap_or_default(), problem)))
    }
}
