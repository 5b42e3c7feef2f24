//! What a server's sign-in needs, references put in.

use super::Resolving;
use crate::{
    address,
    error::ConfigError,
    header,
    interpolate::Template,
    secret::Secret,
    server::{
        Http, PlainHttp,
        auth::{Auth, Nature, OAuth, SignIn},
    },
};

/// Names the file of Google's application default credentials.
pub const GOOGLE_FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

impl Resolving<'_> {
    /// Whoever says it in a header is not asked to sign in.
    pub(super) fn sign_in(&self, http: &Http) -> Result<SignIn<Secret>, ConfigError> {
        let auth = match &http.auth {
            Some(auth) => auth.map(&mut |key, nature, text| self.of_sign_in(key, nature, text))?,
            None if http.has_authorization() => Auth::None,
            None => Auth::default(),
        };
        self.check_auth(&auth, http)?;
        let oauth: OAuth<Secret> = http.oauth.map(&mut |key, nature, text| self.of_sign_in(key, nature, text))?;
        Ok(SignIn { auth, oauth })
    }

    fn of_sign_in(&self, key: &'static str, nature: Nature, text: &Template) -> Result<Secret, ConfigError> {
        let value = self.value(key, text)?;
        match nature {
            Nature::File => {
                let file = self.lookup.path(value.expose());
                let file = file.map_err(|reason| self.unresolved(key, text.line(), reason))?;
                let path = file.to_str().ok_or_else(|| self.expected(key, text.line(), "a path in plain letters"));
                path.map(Secret::new)
            }
            Nature::Address => {
                // Google's machines are asked about themselves over plain http, on a wire that ends in the machine.
                let plain = if key == "auth.metadataUrl" { PlainHttp::Anywhere } else { PlainHttp::Loopback };
                let checked = address::check(value.expose(), plain);
                checked.map(|()| value).map_err(|_| self.expected(key, text.line(), address::TO_SIGN_IN))
            }
            Nature::Secret | Nature::Plain if value.expose().trim().is_empty() => {
                Err(self.expected(key, text.line(), "a text that is not empty"))
            }
            Nature::Secret | Nature::Plain => Ok(value),
        }
    }

    /// A value may only be known now to be one that no header carries.
    fn check_auth(&self, auth: &Auth<Secret>, http: &Http) -> Result<(), ConfigError> {
        let (key, problem) = match auth {
            Auth::Bearer { token } => ("auth.token", header::problem("authorization", token.expose())),
            Auth::ApiKey { key, header } => ("auth.key", header::problem(header, key.expose())),
            Auth::Basic { username, .. } => {
                ("auth.username", username.expose().contains(':').then_some("a name without a colon"))
            }
            _ => return Ok(()),
        };
        let line = || http.sign_in_texts().find(|(name, ..)| *name == key).map(|(_, _, text)| text.line());
        problem.map_or(Ok(()), |problem| Err(self.expected(key, line().unwrap_or_default(), problem)))
    }
}
