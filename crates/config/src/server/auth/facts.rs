//! All strings and other values of `auth` and `oauth` with their keys, for resolving, showing, consent and copying.

use serde_json::{Value, json};

use super::{Auth, Binding, Client, ClientProof, Grant, OAuth, Provider, SignInSharing, TextKind};

/// Callback for each string: key, kind and value.
type Each<'a, 'b, T, U, E> = &'b mut dyn FnMut(&'static str, TextKind, &'a T) -> Result<U, E>;

impl<T> Auth<T> {
    /// Maps each string.
    pub(crate) fn map<'a, U, E>(&'a self, each: Each<'a, '_, T, U, E>) -> Result<Auth<U>, E> {
        Ok(match self {
            Self::None => Auth::None,
            Self::Bearer { token } => Auth::Bearer { token: each("auth.token", TextKind::Secret, token)? },
            Self::ApiKey { key, header } => {
                Auth::ApiKey { key: each("auth.key", TextKind::Secret, key)?, header: header.clone() }
            }
            Self::Basic { username, password } => Auth::Basic {
                username: each("auth.username", TextKind::Plain, username)?,
                password: each("auth.password", TextKind::Secret, password)?,
            },
            Self::OAuth { binding, sharing } => Auth::OAuth { binding: *binding, sharing: *sharing },
            Self::Grant { grant, scopes, binding } => {
                Auth::Grant { grant: grant.map(each)?, scopes: scopes.clone(), binding: *binding }
            }
        })
    }

    /// All strings with their keys.
    pub(crate) fn texts(&self) -> Vec<(&'static str, TextKind, &T)> {
        collect(|each| self.map(each).map(drop))
    }

    /// All other values with their keys.
    pub(crate) fn facts(&self) -> Vec<(&'static str, Value)> {
        let mut facts = vec![("auth.kind", json!(self.kind()))];
        match self {
            Self::ApiKey { header, .. } => facts.push(("auth.header", json!(header))),
            Self::OAuth { binding, sharing } => {
                facts.extend((*binding == Binding::Key).then_some(("auth.dpop", json!(true))));
                facts.extend((*sharing == SignInSharing::Shared).then_some(("auth.shared", json!(true))));
            }
            Self::Grant { grant, scopes, binding } => {
                if let Grant::ClientCredentials { proof: ClientProof::Key { algorithm: Some(name), .. }, .. } = grant {
                    facts.push(("auth.algorithm", json!(name)));
                }
                facts.extend((!scopes.is_empty()).then(|| ("auth.scopes", json!(scopes))));
                facts.extend((*binding == Binding::Key).then_some(("auth.dpop", json!(true))));
            }
            _ => {}
        }
        facts
    }
}

impl<T> Grant<T> {
    fn map<'a, U, E>(&'a self, each: Each<'a, '_, T, U, E>) -> Result<Grant<U>, E> {
        Ok(match self {
            Self::ClientCredentials { client, proof } => Grant::ClientCredentials {
                client: each("auth.clientId", TextKind::Plain, client)?,
                proof: proof.map(each)?,
            },
            Self::Enterprise { provider, provider_client, id_token, client } => Grant::Enterprise {
                provider: match provider {
                    Provider::Issuer(issuer) => Provider::Issuer(each("auth.idpIssuer", TextKind::Address, issuer)?),
                    Provider::TokenUrl(url) => Provider::TokenUrl(each("auth.idpTokenUrl", TextKind::Address, url)?),
                },
                provider_client: provider_client.map("auth.idpClientId", "auth.idpClientSecret", each)?,
                id_token: each("auth.idToken", TextKind::Secret, id_token)?,
                client: client.map("auth.clientId", "auth.clientSecret", each)?,
            },
            Self::Workload { assertion, client, audience } => Grant::Workload {
                assertion: each("auth.assertion", TextKind::Secret, assertion)?,
                client: optional(client, |text| each("auth.clientId", TextKind::Plain, text))?,
                audience: optional(audience, |text| each("auth.audience", TextKind::Plain, text))?,
            },
            Self::Google { credentials, metadata_url } => Grant::Google {
                credentials: optional(credentials, |text| each("auth.credentials", TextKind::File, text))?,
                metadata_url: optional(metadata_url, |text| each("auth.metadataUrl", TextKind::Address, text))?,
            },
        })
    }
}

impl<T> ClientProof<T> {
    fn map<'a, U, E>(&'a self, each: Each<'a, '_, T, U, E>) -> Result<ClientProof<U>, E> {
        Ok(match self {
            Self::Secret(secret) => ClientProof::Secret(each("auth.clientSecret", TextKind::Secret, secret)?),
            Self::Key { key, algorithm } => {
                ClientProof::Key { key: each("auth.privateKey", TextKind::Secret, key)?, algorithm: *algorithm }
            }
        })
    }
}

impl<T> Client<T> {
    fn map<'a, U, E>(
        &'a self,
        id: &'static str,
        secret: &'static str,
        each: Each<'a, '_, T, U, E>,
    ) -> Result<Client<U>, E> {
        Ok(Client {
            id: each(id, TextKind::Plain, &self.id)?,
            secret: optional(&self.secret, |text| each(secret, TextKind::Secret, text))?,
        })
    }
}

impl<T> OAuth<T> {
    /// Maps each string.
    pub(crate) fn map<'a, U, E>(&'a self, each: Each<'a, '_, T, U, E>) -> Result<OAuth<U>, E> {
        Ok(OAuth {
            client_id: optional(&self.client_id, |text| each("oauth.clientId", TextKind::Plain, text))?,
            client_secret: optional(&self.client_secret, |text| each("oauth.clientSecret", TextKind::Secret, text))?,
            scopes: self.scopes.clone(),
            callback_port: self.callback_port,
            redirect_uri: optional(&self.redirect_uri, |text| each("oauth.redirectUri", TextKind::Address, text))?,
            issuer: optional(&self.issuer, |text| each("oauth.issuer", TextKind::Address, text))?,
            metadata_url: optional(&self.metadata_url, |text| each("oauth.metadataUrl", TextKind::Address, text))?,
            authorization_url: optional(&self.authorization_url, |text| {
                each("oauth.authorizationUrl", TextKind::Address, text)
            })?,
            token_url: optional(&self.token_url, |text| each("oauth.tokenUrl", TextKind::Address, text))?,
            client_name: self.client_name.clone(),
            old_server: self.old_server,
        })
    }

    /// All strings with their keys.
    pub(crate) fn texts(&self) -> Vec<(&'static str, TextKind, &T)> {
        collect(|each| self.map(each).map(drop))
    }

    /// All other values with their keys.
    pub(crate) fn facts(&self) -> Vec<(&'static str, Value)> {
        let mut facts = Vec::new();
        facts.extend(self.scopes.as_ref().map(|scopes| ("oauth.scopes", json!(scopes))));
        facts.extend(self.callback_port.map(|port| ("oauth.callbackPort", json!(port))));
        facts.extend(self.old_server.map(|allowed| ("oauth.oldServer", json!(allowed))));
        facts.extend(self.client_name.as_ref().map(|name| ("oauth.clientName", json!(name))));
        facts
    }

    /// These settings, overridden by those that the nearer entry sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            client_id: nearer.client_id.or(self.client_id),
            client_secret: nearer.client_secret.or(self.client_secret),
            scopes: nearer.scopes.or(self.scopes),
            callback_port: nearer.callback_port.or(self.callback_port),
            redirect_uri: nearer.redirect_uri.or(self.redirect_uri),
            issuer: nearer.issuer.or(self.issuer),
            metadata_url: nearer.metadata_url.or(self.metadata_url),
            authorization_url: nearer.authorization_url.or(self.authorization_url),
            token_url: nearer.token_url.or(self.token_url),
            client_name: nearer.client_name.or(self.client_name),
            old_server: nearer.old_server.or(self.old_server),
        }
    }
}

fn optional<'a, T, U, E>(text: &'a Option<T>, each: impl FnOnce(&'a T) -> Result<U, E>) -> Result<Option<U>, E> {
    text.as_ref().map(each).transpose()
}

/// Collects the strings that `walk` visits.
fn collect<'a, T: 'a>(
    walk: impl FnOnce(Each<'a, '_, T, (), std::convert::Infallible>) -> Result<(), std::convert::Infallible>,
) -> Vec<(&'static str, TextKind, &'a T)> {
    let mut texts = Vec::new();
    let Ok(()) = walk(&mut |key, text_kind, text| {
        texts.push((key, text_kind, text));
        Ok(())
    });
    texts
}
