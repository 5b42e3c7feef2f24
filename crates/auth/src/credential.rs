//! What is kept of a sign-in, and under which key: whose it is, from whom, for which client, for what.
//!
//! A credential holds the client's registration with its secret and, while the sign-in lasts, the tokens. It is kept as
//! one JSON text inside a [`Secret`], whole or not at all; [`form`] is that text.

pub(crate) mod form;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolway_config::Secret;
use url::Url;

use self::form::Form;
use crate::{
    address,
    scope::Scopes,
    token::{ClientAuth, TokenReply},
    vault::{Vault, VaultError},
};

/// Whose credential it is, from whom, for what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CredentialKey {
    /// On whose behalf; for people with several accounts at one server, with the profile.
    pub principal: String,
    /// Who issued it.
    pub issuer: String,
    /// The client it was issued to.
    pub client: String,
    /// The resource it is for.
    pub resource: String,
}

/// A client's registration and its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The address of the server it was got for; it is sent to no other.
    pub server: String,
    /// Where its tokens come from, and nowhere else.
    pub token_endpoint: Url,
    /// The client.
    pub client: Registration,
    /// The tokens; none after they were refused.
    pub tokens: Option<Tokens>,
    /// The key that the tokens are bound to, where they are.
    pub proof_key: Option<Secret>,
}

/// A client as its authorization server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its id.
    pub id: String,
    /// Its secret, where it has one.
    pub secret: Option<Secret>,
    /// How it says who it is.
    pub method: AuthMethod,
    /// Where it came from.
    pub source: RegistrationSource,
    /// Where browsers were to be sent back to when it was registered.
    pub redirect: Option<String>,
    /// When the secret ends, in seconds since 1970; never where nothing is said.
    pub secret_ends: Option<u64>,
}

/// How a client says who it is at a token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthMethod {
    /// By its id alone.
    #[serde(rename = "none")]
    None,
    /// With its secret in a header.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// With its secret in the body.
    #[serde(rename = "client_secret_post")]
    Post,
}

/// Where a client's registration came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegistrationSource {
    /// The operator wrote it down.
    Configured,
    /// Its id is the address of a document about it.
    Document,
    /// The authorization server made it for us.
    Dynamic,
    /// The operator wrote it down, and it asks for itself: no person's sign-in.
    Unattended,
}

/// Tokens, and what they are good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// What is presented to the server.
    pub access: Secret,
    /// How it is presented.
    pub kind: TokenKind,
    /// When it ends, in seconds since 1970, where said.
    pub ends: Option<u64>,
    /// What the next one is got with.
    pub refresh: Option<Secret>,
    /// What was asked for, in all rounds together.
    pub requested: Scopes,
    /// What was given, where that was said.
    pub granted: Option<Scopes>,
    /// When they were got, in seconds since 1970.
    pub since: u64,
}

/// How a token is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenKind {
    /// By itself.
    Bearer,
    /// With a proof that its key is ours.
    DPoP,
}

/// A token is renewed this long before it ends, so that it does not end on its way.
pub const SKEW: Duration = Duration::from_secs(30);

/// Something in the vault that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The vault cannot do it.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// What it holds is not a credential of ours.
    #[error("what is kept for {resource} cannot be read; sign in again")]
    Unreadable {
        /// The resource it is for.
        resource: String,
    },
    /// A renewal gave a token of another kind: bound to our key before, and not any more, or the reverse.
    #[error("the new token is of another kind than the one before")]
    OtherKind,
    /// Tokens of a kind that nobody here can present.
    #[error("the authorization server gives tokens of the kind `{0}`, which cannot be presented")]
    UnknownKind(String),
}

// === impl Credential ===

impl Credential {
    /// What the vault has under this key.
    pub async fn load(vault: &dyn Vault, key: &CredentialKey) -> Result<Option<Self>, CredentialError> {
        vault.load(key).await?.map(|kept| Self::open(&kept, key)).transpose()
    }

    /// Keeps it under this key.
    pub async fn store(&self, vault: &dyn Vault, key: &CredentialKey) -> Result<(), VaultError> {
        vault.store(key, self.sealed()).await
    }

    /// The credential with tokens that this principal last got for a server; without any, the newest registration.
    ///
    /// Only what was got for exactly this server counts: another one at the same origin may be somebody else's.
    pub async fn find(
        vault: &dyn Vault,
        principal: &str,
        server: &str,
    ) -> Result<Option<(CredentialKey, Self)>, CredentialError> {
        Ok(Self::all(vault, principal, server).await?.pop())
    }

    /// Everything that this principal has for a server, from any issuer, the newest tokens last.
    pub async fn all(
        vault: &dyn Vault,
        principal: &str,
        server: &str,
    ) -> Result<Vec<(CredentialKey, Self)>, CredentialError> {
        let theirs = vault.all().await?.into_iter().filter(|(key, _)| key.principal == principal);
        let mut found = Self::of_server(theirs, server);
        found.sort_by_key(|(_, credential)| credential.tokens.as_ref().map(|tokens| tokens.since));
        Ok(found)
    }

    /// Everybody who has tokens for a server, by principal.
    pub async fn holders(vault: &dyn Vault, server: &Url) -> Result<Vec<String>, CredentialError> {
        let kept = Self::of_server(vault.all().await?.into_iter(), &address::identity(server));
        let with_tokens = kept.into_iter().filter(|(_, credential)| credential.tokens.is_some());
        Ok(with_tokens.map(|(key, _)| key.principal).collect())
    }

    /// One that cannot be read, or is something else, is not this server's.
    fn of_server(kept: impl Iterator<Item = (CredentialKey, Secret)>, server: &str) -> Vec<(CredentialKey, Self)> {
        let opened = kept.filter_map(|(key, kept)| Self::open(&kept, &key).ok().map(|credential| (key, credential)));
        opened.filter(|(_, credential)| credential.server == server).collect()
    }

    /// Whether somebody signed in for it.
    pub fn is_of_a_person(&self) -> bool {
        self.client.source != RegistrationSource::Unattended
    }

    /// As the vault keeps it.
    pub fn sealed(&self) -> Secret {
        // A form of texts and numbers always has a JSON text.
        Secret::new(serde_json::to_string(&Form::of(self)).unwrap_or_default())
    }

    /// Reads what the vault kept.
    pub fn open(kept: &Secret, key: &CredentialKey) -> Result<Self, CredentialError> {
        let form = serde_json::from_str::<Form>(kept.expose()).ok();
        form.and_then(Form::credential).ok_or_else(|| CredentialError::Unreadable { resource: key.resource.clone() })
    }
}

// === impl Registration ===

impl Registration {
    /// How it authenticates.
    pub fn auth(&self) -> ClientAuth {
        let id = self.id.clone();
        match (self.method, &self.secret) {
            (AuthMethod::Basic, Some(secret)) => ClientAuth::Basic { id, secret: secret.clone() },
            (AuthMethod::Post, Some(secret)) => ClientAuth::Post { id, secret: secret.clone() },
            (AuthMethod::None, _) | (_, None) => ClientAuth::Public { id },
        }
    }

    /// Whether its secret has ended.
    pub fn has_ended(&self, now: u64) -> bool {
        self.secret_ends.is_some_and(|ends| ends <= now)
    }
}

// === impl AuthMethod ===

impl AuthMethod {
    /// The word of the specification.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    /// The method of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|method| method.word() == word)
    }
}

// === impl Tokens ===

impl Tokens {
    /// What a reply gave, to a request for these scopes.
    pub fn from_reply(reply: TokenReply, requested: Scopes, now: u64) -> Result<Self, CredentialError> {
        let kind = match reply.kind.to_ascii_lowercase().as_str() {
            "bearer" => TokenKind::Bearer,
            "dpop" => TokenKind::DPoP,
            _ => return Err(CredentialError::UnknownKind(reply.kind.chars().take(40).collect())),
        };
        Ok(Self {
            access: reply.token,
            kind,
            ends: reply.lasts.map(|lasts| now.saturating_add(lasts.as_secs())),
            refresh: reply.refresh,
            requested,
            granted: reply.scopes,
            since: now,
        })
    }

    /// What a renewal gave; what it does not say again stays as it was.
    pub fn renewed(&self, reply: TokenReply, now: u64) -> Result<Self, CredentialError> {
        let next = Self::from_reply(reply, self.requested.clone(), now)?;
        if next.kind != self.kind {
            return Err(CredentialError::OtherKind);
        }
        let refresh = next.refresh.or_else(|| self.refresh.clone());
        let granted = next.granted.or_else(|| self.granted.clone());
        Ok(Self { refresh, granted, ..next })
    }

    /// Whether it ends within [`SKEW`], or, if it does not last long, within half of its life.
    pub fn is_ending(&self, now: u64) -> bool {
        let early = |ends: u64| SKEW.as_secs().min(ends.saturating_sub(self.since).div_ceil(2));
        self.ends.is_some_and(|ends| ends <= now.saturating_add(early(ends)))
    }

    /// Whether it has ended.
    pub fn has_ended(&self, now: u64) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolway_config::Secret;

    use super::{AuthMethod, Credential, CredentialKey, Registration, RegistrationSource, TokenKind, Tokens};
    use crate::{
        scope::Scopes,
        token::{ClientAuth, TokenReply},
        vault::{MemoryVault, Vault as _},
    };

    fn reply(token: &str) -> TokenReply {
        TokenReply {
            token: Secret::new(token),
            kind: "bearer".to_owned(),
            lasts: Some(Duration::from_secs(60)),
            refresh: Some(Secret::new("r3fresh")),
            scopes: None,
            issued_kind: None,
            id_token: None,
        }
    }

    fn registration() -> Registration {
        Registration {
            id: "client-1".to_owned(),
            secret: Some(Secret::new("s3cret")),
            method: AuthMethod::Post,
            source: RegistrationSource::Dynamic,
            redirect: Some("http://127.0.0.1:1/callback".to_owned()),
            secret_ends: None,
        }
    }

    fn credential(server: &str, now: u64) -> Credential {
        let tokens = Tokens::from_reply(reply("t0ken"), Scopes::parse("a b").unwrap(), now).unwrap();
        Credential {
            server: server.to_owned(),
            token_endpoint: "https://login.example/token".parse().unwrap(),
            client: registration(),
            tokens: Some(tokens),
            proof_key: Some(Secret::new("k3y")),
        }
    }

    fn key(principal: &str, issuer: &str) -> CredentialKey {
        CredentialKey {
            principal: principal.to_owned(),
            issuer: issuer.to_owned(),
            client: "client-1".to_owned(),
            resource: "https://example.org".to_owned(),
        }
    }

    #[test]
    fn what_is_kept_is_read_as_it_was_and_never_prints_itself() {
        let (kept, key) = (credential("https://example.org/mcp", 5), key("ada", "https://login.example"));
        assert_eq!(Credential::open(&kept.sealed(), &key).unwrap(), kept);
        let printed = format!("{kept:?} {:?}", kept.sealed());
        for secret in ["t0ken", "r3fresh", "s3cret", "k3y"] {
            assert!(!printed.contains(secret), "{secret}");
            assert!(kept.sealed().expose().contains(secret), "{secret}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_without_the_text() {
        let later =
            credential("https://example.org/mcp", 5).sealed().expose().replace("\"version\":1", "\"version\":2");
        for text in ["", "{}", "t0ken", &later] {
            let failed = Credential::open(&Secret::new(text), &key("ada", "https://login.example")).unwrap_err();
            assert_eq!(failed.to_string(), "what is kept for https://example.org cannot be read; sign in again");
        }
    }

    #[tokio::test]
    async fn the_newest_sign_in_of_the_same_person_at_the_same_server_is_found() {
        let (vault, server) = (MemoryVault::default(), "https://example.org/mcp");
        let find = async |who| Credential::find(&vault, who, server).await.unwrap().map(|(key, _)| key.issuer);
        credential(server, 1).store(&vault, &key("ada", "https://old.example")).await.unwrap();
        credential(server, 2).store(&vault, &key("ada", "https://new.example")).await.unwrap();
        credential("https://example.org/other", 3).store(&vault, &key("ada", "https://else.example")).await.unwrap();
        vault.store(&key("ada", "https://broken.example"), Secret::new("x")).await.unwrap();
        assert_eq!(find("ada").await.as_deref(), Some("https://new.example"));
        assert_eq!(find("eve").await, None);
    }

    #[test]
    fn a_token_is_renewed_before_it_ends_and_keeps_what_is_not_said_again() {
        let tokens = credential("https://example.org/mcp", 1000).tokens.unwrap();
        assert!(!tokens.is_ending(1029) && tokens.is_ending(1030) && !tokens.has_ended(1059) && tokens.has_ended(1060));
        let short = TokenReply { lasts: Some(Duration::from_secs(10)), ..reply("t1") };
        let short = Tokens::from_reply(short, Scopes::default(), 1000).unwrap();
        assert!(!short.is_ending(1004) && short.is_ending(1005), "not renewed for each request");
        let next = tokens.renewed(TokenReply { refresh: None, lasts: None, ..reply("t2") }, 1030).unwrap();
        assert_eq!((next.access.expose(), next.refresh.as_ref().unwrap().expose()), ("t2", "r3fresh"));
        assert_eq!((next.requested.to_string(), next.kind), ("a b".to_owned(), TokenKind::Bearer));
        assert!(!next.has_ended(u64::MAX), "no end was said");
        let strange = TokenReply { kind: "mac".to_owned(), ..reply("t3") };
        assert!(tokens.renewed(strange, 1030).is_err());
    }

    #[test]
    fn a_client_says_who_it_is_as_it_was_registered() {
        let post = registration();
        assert_eq!(post.auth(), ClientAuth::Post { id: post.id.clone(), secret: Secret::new("s3cret") });
        let public = Registration { secret: None, ..post.clone() };
        assert_eq!(public.auth(), ClientAuth::Public { id: "client-1".to_owned() });
        assert!(Registration { secret_ends: Some(9), ..post.clone() }.has_ended(9));
        assert!(!post.has_ended(u64::MAX));
    }
}
