//! Every text and every other fact of `auth` and `oauth` under its key: to fill in, to show, to ask about, to copy.

use serde_json::{Value, json};

use super::{Auth, Binding, Client, ClientProof, Grant, Nature, OAuth, Provider, Whose};

/// What is done with each text.
type Each<'a, 'b, T, U, E> = &'b mut dyn FnMut(&'static str, Nature, &'a T) -> Result<U, E>;

impl<T> Auth<T> {
    /// The same with each text replaced.
    pub(crate) fn map<'a, U, E>(&'a self, each: Each<'a, '_, T, U, E>) -> Result<Auth<U>, E> {
        Ok(match self {
            Self::None => Auth::None,
            Self::Bearer { token } => Auth::Bearer { token: each("auth.token", Nature::Secret, token)? },
            Self::ApiKey { key, header } => {
                Auth::ApiKey { key: each("auth.key", Nature::Secret, key)?, header: header.clone() }
            }
            Self::Basic { username, password } => Auth::Basic {
                username: each("auth.username", Nature::Plain, username)?,
                password: each("auth.password", Nature::Secret, password)?,
            },
            Self::OAuth { binding, whose } => Auth::OAuth { binding: *binding, whose: *whose },
            Self::Grant { grant, scopes, binding } => {
                Auth::Grant { grant: grant.map(each)?, scopes: scopes.clone(), binding: *binding }
            }
        })
    }

    /// Each text with its key.
    pub(crate) fn texts(&self) -> Vec<(&'static str, Nature, &T)> {
        gathered(|each| self.map(each).map(drop))
    }

    /// What is said besides texts.
    pub(crate) fn facts(&self) -> Vec<(&'static str, Value)> {
        let mut facts = vec![("auth.kind", json!(self.kind()))];
        match self {
            Self::ApiKey { header, .. } => facts.push(("auth.header", json!(header))),
            Self::OAuth { binding, whose } => {
                facts.extend((*binding == Binding::Key).then_some(("auth.dpop", json!(true))));
                facts.extend((*whose == Whose::Everybody).then_some(("auth.shared", json!(true))));
            }
            Self::Grant { grant, scopes, binding } => {
                if let Grant::ClientCredentials { proof: ClientProof::Key { algorithm: Some(word), .. }, .. } = grant {
                    facts.push(("auth.algorithm", json!(word)));
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
                client: each("auth.clientId", Nature::Plain, client)?,
                proof: proof.map(each)?,
            },
            Self::Enterprise { provider, provider_client, id_token, client } => Grant::Enterprise {
                provider: match provider {
                    Provider::Issuer(issuer) => Provider::Issuer(each("auth.idpIssuer", Nature::Address, issuer)?),
                    Provider::TokenUrl(url) => Provider::TokenUrl(each("auth.idpTokenUrl", Nature::Address, url)?),
                },
                provider_client: provider_client.map("auth.idpClientId", "auth.idpClientSecret", each)?,
                id_token: each("auth.idToken", Nature::Secret, id_token)?,
                client: client.map("auth.clientId", "auth.clientSecret", each)?,
            },
            Self::Workload { assertion, client, audience } => Grant::Workload {
                assertion: each("auth.assertion", Nature::Secret, assertion)?,
                client: optional(client, |text| each("auth.clientId", Nature::Plain, text))?,
                audience: optional(audience, |text| each("auth.audience", Nature::Plain, text))?,
            },
            Self::Google { credentials, metadata_url } => Grant::Google {
                credentials: optional(credentials, |text| each("auth.credentials", Nature::File, text))?,
                metadata_url: optional(metadata_url, |text| each("auth.metadataUrl", Nature::Address, text))?,
            },
        })
    }
}

impl<T> ClientProof<T> {
    fn map<'a, U, E>(&'a self, each: Each<'a, '_, T, U, E>) -> Result<ClientProof<U>, E> {
        Ok(match self {
            Self::Secret(secret) => ClientProof::Secret(each("auth.clientSecret", Nature::Secret, secret)?),
            Self::Key { key, algorithm } => {
                ClientProof::Key { key: each("auth.privateKey", Nature::Secret, key)?, algorithm: *algorithm }
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
            id: each(id, Nature::Plain, &self.id)?,
            secret: optional(&self.secret, |text| each(secret, Nature::Secret, text))?,
        })
    }
}

impl<T> OAuth<T> {
    /// The same with each text replaced.
    pub(crate) fn map<'a, U, E>(&'a self, each: Each<'a, '_, T, U, E>) -> Result<OAuth<U>, E> {
        Ok(OAuth {
            client_id: optional(&self.client_id, |text| each("oauth.clientId", Nature::Plain, text))?,
            client_secret: optional(&self.client_secret, |text| each("oauth.clientSecret", Nature::Secret, text))?,
            scopes: self.scopes.clone(),
            callback_port: self.callback_port,
            issuer: optional(&self.issuer, |text| each("oauth.issuer", Nature::Address, text))?,
            metadata_url: optional(&self.metadata_url, |text| each("oauth.metadataUrl", Nature::Address, text))?,
            authorization_url: optional(&self.authorization_url, |text| {
                each("oauth.authorizationUrl", Nature::Address, text)
            })?,
            token_url: optional(&self.token_url, |text| each("oauth.tokenUrl", Nature::Address, text))?,
            client_name: self.client_name.clone(),
            old_server: self.old_server,
        })
    }

    /// Each text with its key.
    pub(crate) fn texts(&self) -> Vec<(&'static str, Nature, &T)> {
        gathered(|each| self.map(each).map(drop))
    }

    /// What is said besides texts.
    pub(crate) fn facts(&self) -> Vec<(&'static str, Value)> {
        let mut facts = Vec::new();
        facts.extend(self.scopes.as_ref().map(|scopes| ("oauth.scopes", json!(scopes))));
        facts.extend(self.callback_port.map(|port| ("oauth.callbackPort", json!(port))));
        facts.extend(self.old_server.map(|allowed| ("oauth.oldServer", json!(allowed))));
        facts.extend(self.client_name.as_ref().map(|name| ("oauth.clientName", json!(name))));
        facts
    }

    /// These, with what was said nearer put over them.
    #[must_use]
    pub(crate) fn under(self, nearer: Self) -> Self {
        Self {
            client_id: nearer.client_id.or(self.client_id),
            client_secret: nearer.client_secret.or(self.client_secret),
            scopes: nearer.scopes.or(self.scopes),
            callback_port: nearer.callback_port.or(self.callback_port),
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

/// Whatever a walk through the texts comes by.
fn gathered<'a, T: 'a>(
    walk: impl FnOnce(Each<'a, '_, T, (), std::convert::Infallible>) -> Result<(), std::convert::Infallible>,
) -> Vec<(&'static str, Nature, &'a T)> {
    let mut texts = Vec::new();
    let Ok(()) = walk(&mut |key, nature, text| {
        texts.push((key, nature, text));
        Ok(())
    });
    texts
}
