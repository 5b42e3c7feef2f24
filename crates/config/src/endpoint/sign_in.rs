//! What a server's sign-in needs, references put in and files read.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use super::Resolving;
use crate::{
    address,
    error::ConfigError,
    header,
    interpolate::{Template, Unresolved, read_bounded},
    secret::Secret,
    server::{
        Http, PlainHttp,
        auth::{Auth, Grant, Nature, OAuth, SignIn},
    },
};

/// Names the file of Google's application default credentials.
pub(crate) const GOOGLE_FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
/// Where Google's own programs keep theirs.
const GOOGLE_FOLDER: &str = "CLOUDSDK_CONFIG";
const GOOGLE_NAME: &str = "application_default_credentials.json";

/// A key with its description is short; more than this is the wrong file.
const MAX_FILE: u64 = 64 * 1024;

impl Resolving<'_> {
    /// Whoever says it in a header is not asked to sign in.
    pub(super) fn sign_in(&self, http: &Http) -> Result<SignIn<Secret>, ConfigError> {
        let mut auth = match &http.auth {
            Some(auth) => auth.map(&mut |key, nature, text| self.of_sign_in(key, nature, text))?,
            None if http.has_authorization() => Auth::None,
            None => Auth::default(),
        };
        self.check_auth(&auth, http)?;
        if let Auth::Grant { grant: Grant::Google { credentials: credentials @ None, .. }, .. } = &mut auth {
            *credentials = self.of_google()?;
        }
        let oauth: OAuth<Secret> = http.oauth.map(&mut |key, nature, text| self.of_sign_in(key, nature, text))?;
        Ok(SignIn { auth, oauth })
    }

    fn of_sign_in(&self, key: &'static str, nature: Nature, text: &Template) -> Result<Secret, ConfigError> {
        let value = self.value(key, text)?;
        match nature {
            Nature::File => {
                let file = self.lookup.path(value.expose());
                let file = file.map_err(|reason| self.unresolved(key, text.line(), reason))?;
                self.held_by(key, text.line(), &file)
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

    /// The credentials that Google's own programs would use; none where only the machine can be asked.
    fn of_google(&self) -> Result<Option<Secret>, ConfigError> {
        let named = self.lookup.environment.get(OsStr::new(GOOGLE_FILE)).filter(|file| !file.is_empty());
        match named {
            Some(file) => self.held_by("auth.credentials", 0, Path::new(file)).map(Some),
            None => match self.google_folder().map(|folder| folder.join(GOOGLE_NAME)).filter(|file| file.is_file()) {
                Some(file) => self.held_by("auth.credentials", 0, &file).map(Some),
                None => Ok(None),
            },
        }
    }

    fn google_folder(&self) -> Option<PathBuf> {
        let said = self.lookup.environment.get(OsStr::new(GOOGLE_FOLDER)).filter(|folder| !folder.is_empty());
        said.map(PathBuf::from).or_else(|| self.lookup.path("~/.config/gcloud").ok())
    }

    fn held_by(&self, key: &str, line: usize, file: &Path) -> Result<Secret, ConfigError> {
        let failed = |problem: String| self.unresolved(key, line, Unresolved::File { file: file.to_owned(), problem });
        let bytes = read_bounded(file, MAX_FILE).map_err(|error| failed(error.to_string()))?;
        String::from_utf8(bytes).map(Secret::new).map_err(|_| failed("it is not UTF-8".to_owned()))
    }
}
