//! Settings for signing in to servers: where credentials are stored, and the client metadata URL.

use url::Url;

use crate::{
    error::ConfigError,
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
};

/// Where credentials are stored between runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VaultKind {
    /// The keychain if it is available, else an encrypted file.
    #[default]
    Auto,
    /// The keychain of the operating system only.
    Keychain,
    /// An encrypted file in the state directory.
    File,
    /// Memory only: credentials are lost when the program exits.
    Memory,
}

/// Settings for signing in to servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignInSettings {
    /// URL of the OAuth client ID metadata document of this installation.
    pub client_metadata_url: Setting<Option<String>>,
    /// Where credentials are stored.
    pub vault: Setting<VaultKind>,
}

const VAULTS: &[(&str, VaultKind)] = &[
    ("auto", VaultKind::Auto),
    ("keychain", VaultKind::Keychain),
    ("file", VaultKind::File),
    ("memory", VaultKind::Memory),
];
const VAULT_VALUES: &[&str] = &["auto", "keychain", "file", "memory"];

/// Keys of `signIn`.
const MEMBERS: &[(&str, Shape)] = &[("clientMetadataUrl", Shape::Text), ("vault", Shape::OneOf(VAULT_VALUES))];

/// The top-level key `signIn`.
pub(crate) const SIGN_IN: Key<Settings> = Key {
    name: "signIn",
    shape: Shape::Members(MEMBERS),
    doc: "Settings for signing in to servers. `vault`: where credentials are stored, `auto` (default: the keychain if \
          it is available, else an encrypted file), `keychain`, `file` or `memory`. `clientMetadataUrl`: https URL where \
          you host the output of `toolway auth client-metadata`, for authorization servers that support client ID \
          metadata documents.",
    example: r#"{"vault": "file"}"#,
    set: read,
};

fn read(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    let sign_in = &mut settings.sign_in;
    for (key, field) in field.members()? {
        match key {
            "clientMetadataUrl" => {
                let url = Some(field.text()?).filter(|url| is_document(url));
                let url =
                    url.ok_or_else(|| field.expected("an https URL with a path and without query or fragment"))?;
                put(&mut sign_in.client_metadata_url, field.setting(Some(url.to_owned())))?;
            }
            "vault" => {
                let vault = field.choice(VAULTS, Shape::OneOf(VAULT_VALUES))?;
                put(&mut sign_in.vault, field.setting(vault))?;
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(())
}

/// The URL is the client ID, so it must have a path and neither a query nor a fragment.
fn is_document(text: &str) -> bool {
    let with_path =
        |url: Url| url.scheme() == "https" && 1 < url.path().len() && url.query().is_none() && url.fragment().is_none();
    Url::parse(text).is_ok_and(with_path)
}

impl SignInSettings {
    /// These settings, overridden by those that the nearer layer sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            client_metadata_url: self.client_metadata_url.overridden_by(nearer.client_metadata_url),
            vault: self.vault.overridden_by(nearer.vault),
        }
    }
}

impl VaultKind {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Keychain => "keychain",
            Self::File => "file",
            Self::Memory => "memory",
        }
    }
}
