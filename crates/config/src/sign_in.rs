//! What the operator says about signing in to servers: where credentials are kept, and who we are to strangers.

use url::Url;

use crate::{
    error::ConfigError,
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
};

/// Where credentials are kept between runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VaultKind {
    /// In the keychain where it answers, else in a sealed file.
    #[default]
    Auto,
    /// In the operating system's keychain, and nowhere else.
    Keychain,
    /// In a sealed file of the state directory.
    File,
    /// Nowhere: they end with the program.
    Memory,
}

/// What holds for signing in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignInSettings {
    /// The https address at which a document describes us to authorization servers.
    pub client_metadata_url: Setting<Option<String>>,
    /// Where credentials are kept.
    pub vault: Setting<VaultKind>,
}

const VAULTS: &[(&str, VaultKind)] = &[
    ("auto", VaultKind::Auto),
    ("keychain", VaultKind::Keychain),
    ("file", VaultKind::File),
    ("memory", VaultKind::Memory),
];
const VAULT_WORDS: &[&str] = &["auto", "keychain", "file", "memory"];

/// What stands under `signIn`.
const MEMBERS: &[(&str, Shape)] = &[("clientMetadataUrl", Shape::Text), ("vault", Shape::Word(VAULT_WORDS))];

/// The key of the document.
pub(crate) const SIGN_IN: Key<Settings> = Key {
    name: "signIn",
    shape: Shape::Members(MEMBERS),
    doc: "For signing in to servers: `vault` is where credentials are kept, `auto` unless said (the `keychain` where it \
          answers, else a sealed `file`), or `memory`; `clientMetadataUrl` is the https address at which you host what \
          `toolway auth client-metadata` prints, for authorization servers that know clients by such a document.",
    example: r#"{"vault": "file"}"#,
    set: read,
};

fn read(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    let sign_in = &mut settings.sign_in;
    for (key, field) in field.members()? {
        match key {
            "clientMetadataUrl" => {
                let url = Some(field.text()?).filter(|url| is_document(url));
                let url = url.ok_or_else(|| field.expected("an https address with a path and nothing behind it"))?;
                put(&mut sign_in.client_metadata_url, field.setting(Some(url.to_owned())))?;
            }
            "vault" => {
                let vault = field.word(VAULTS, Shape::Word(VAULT_WORDS))?;
                put(&mut sign_in.vault, field.setting(vault))?;
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(())
}

/// Such an address is the client's id: it has a path, and neither a query nor a fragment.
fn is_document(text: &str) -> bool {
    let with_path =
        |url: Url| url.scheme() == "https" && 1 < url.path().len() && url.query().is_none() && url.fragment().is_none();
    Url::parse(text).is_ok_and(with_path)
}

impl SignInSettings {
    /// These, with what was said nearer put over them.
    #[must_use]
    pub(crate) fn under(self, nearer: Self) -> Self {
        Self {
            client_metadata_url: self.client_metadata_url.or_nearer(nearer.client_metadata_url),
            vault: self.vault.or_nearer(nearer.vault),
        }
    }
}

impl VaultKind {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Keychain => "keychain",
            Self::File => "file",
            Self::Memory => "memory",
        }
    }
}
