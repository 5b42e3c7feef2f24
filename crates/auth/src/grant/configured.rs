//! Builds a grant from the configuration: texts become keys, URLs and dialers.

use std::{path::PathBuf, sync::Arc};

use toolway_config::{
    Secret,
    server::auth::{self as config, ClientProof},
};
use toolway_wire::up::connector::HttpOptions;
use url::Url;

use super::{
    Client, Enterprise, Google, Grant, GrantError, Workload,
    enterprise::Provider,
    google::{CredentialPaths, GoogleMetadataServer, METADATA_URL},
};
use crate::{address, dialer::GuardedDialer, fetch::Fetch};

/// Environment of a grant: neither configured by the operator nor named by the server.
#[derive(Clone, Debug, Default)]
pub struct GrantEnvironment {
    /// Options of the HTTP client.
    pub http: HttpOptions,
    /// Value of `GOOGLE_APPLICATION_CREDENTIALS`.
    pub google_variable: Option<PathBuf>,
    /// Configuration directory of the user, such as `~/.config`.
    pub configuration: Option<PathBuf>,
}

impl Grant {
    /// Builds the configured grant. Errors name the configuration key and are reported before any request is sent.
    pub fn configured(grant: &config::Grant<Secret>, environment: &GrantEnvironment) -> Result<Self, GrantError> {
        Ok(match grant {
            config::Grant::ClientCredentials { client, proof } => {
                Self::ClientCredentials(authenticated_client(client, proof)?)
            }
            config::Grant::Enterprise { provider, provider_client, id_token, client } => {
                let (provider, address) = resolve_provider(provider)?;
                Self::Enterprise(Box::new(Enterprise {
                    provider,
                    fetch: dialer(address, environment),
                    provider_client: plain_client(provider_client),
                    id_token: Arc::new(id_token.clone()),
                    client: plain_client(client),
                }))
            }
            config::Grant::Workload { assertion, client, audience } => {
                let text = |text: &Option<Secret>| text.as_ref().map(|text| text.expose().to_owned());
                Self::Workload(Workload::new(Arc::new(assertion.clone()), text(client), text(audience)))
            }
            config::Grant::Google { credentials, metadata_url } => {
                let file = credentials.as_ref().map(|file| PathBuf::from(file.expose()));
                Self::Google(google(file, metadata_url.as_ref(), environment)?)
            }
        })
    }
}

fn authenticated_client(client: &Secret, proof: &ClientProof<Secret>) -> Result<Client, GrantError> {
    let id = client.expose();
    match proof {
        ClientProof::Secret(secret) => Ok(Client::with_secret(id, secret.clone())),
        ClientProof::Key { key, algorithm } => {
            let algorithm = algorithm.map(str::parse).transpose();
            let algorithm =
                algorithm.map_err(|error| GrantError::Configuration(format!("`auth.algorithm`: {error}")))?;
            Client::with_key(id, key, algorithm)
        }
    }
}

fn plain_client(client: &config::Client<Secret>) -> Client {
    let id = client.id.expose();
    client.secret.clone().map_or_else(|| Client::public(id), |secret| Client::with_secret(id, secret))
}

/// The provider and its URL.
fn resolve_provider(provider: &config::Provider<Secret>) -> Result<(Provider, Url), GrantError> {
    match provider {
        config::Provider::Issuer(issuer) => {
            Ok((Provider::Issuer(issuer.expose().to_owned()), url("auth.idpIssuer", issuer)?))
        }
        config::Provider::TokenUrl(endpoint) => {
            let endpoint = url("auth.idpTokenUrl", endpoint)?;
            Ok((Provider::TokenUrl(endpoint.clone()), endpoint))
        }
    }
}

fn google(
    file: Option<PathBuf>,
    metadata_url: Option<&Secret>,
    environment: &GrantEnvironment,
) -> Result<Google, GrantError> {
    let wrong = |_| GrantError::Configuration("`auth.metadataUrl` is not a valid URL".to_owned());
    let url = Url::parse(metadata_url.map_or(METADATA_URL, Secret::expose)).map_err(wrong)?;
    let to_machine = Arc::new(GuardedDialer::to_one_host(url.clone(), environment.http.clone()));
    let to_google = Url::parse(super::google::TOKEN_ENDPOINT).map_err(wrong)?;
    Ok(Google {
        places: CredentialPaths::new(file, environment.google_variable.clone(), environment.configuration.clone()),
        fetch: dialer(to_google, environment),
        machine: GoogleMetadataServer { url, fetch: to_machine },
    })
}

fn dialer(address: Url, environment: &GrantEnvironment) -> Arc<dyn Fetch> {
    Arc::new(GuardedDialer::new(address, environment.http.clone()))
}

fn url(what: &'static str, text: &Secret) -> Result<Url, GrantError> {
    address::parse(what, text.expose()).map_err(|bad| GrantError::Configuration(bad.to_string()))
}

#[cfg(test)]
mod tests {
    use toolway_config::{
        Secret,
        server::auth::{Client, ClientProof, Grant as Written, Provider},
    };

    use super::{Grant, GrantEnvironment};
    use crate::jwt::tests::P256;

    fn configured(written: &Written<Secret>) -> Result<Grant, String> {
        Grant::configured(written, &GrantEnvironment::default()).map_err(|error| error.to_string())
    }

    fn text(text: &str) -> Secret {
        Secret::new(text)
    }

    #[test]
    fn each_kind_is_built_as_configured() {
        let key = ClientProof::Key { key: text(P256), algorithm: Some("ES256") };
        let client = || Client { id: text("me"), secret: Some(text("s3cret")) };
        for (written, name) in [
            (Written::ClientCredentials { client: text("me"), proof: ClientProof::Secret(text("s3cret")) }, "me"),
            (Written::ClientCredentials { client: text("me"), proof: key }, "me"),
            (
                Written::Enterprise {
                    provider: Provider::Issuer(text("https://company.example")),
                    provider_client: Client { id: text("at-company"), secret: None },
                    id_token: text("s3cret"),
                    client: client(),
                },
                "me",
            ),
            (Written::Workload { assertion: text("s3cret"), client: None, audience: None }, "workload"),
            (Written::Google { credentials: None, metadata_url: Some(text("http://169.254.169.254")) }, "google"),
        ] {
            let grant = configured(&written).unwrap();
            assert_eq!(grant.client(), name);
            assert!(!format!("{grant:?}").contains("s3cret"), "{grant:?}");
        }
    }

    #[test]
    fn errors_name_the_key_without_the_value() {
        let client = |proof| Written::ClientCredentials { client: text("me"), proof };
        let enterprise = |provider| Written::Enterprise {
            provider,
            provider_client: Client { id: text("a"), secret: None },
            id_token: text("b"),
            client: Client { id: text("c"), secret: None },
        };
        for (written, said) in [
            (client(ClientProof::Key { key: text("s3cret"), algorithm: None }), "the private key is not in PEM format"),
            (
                client(ClientProof::Key { key: text(P256), algorithm: Some("RS256") }),
                "the private key signs with ES256, not with RS256",
            ),
            (
                client(ClientProof::Key { key: text(P256), algorithm: Some("HS256") }),
                "`auth.algorithm`: unknown algorithm",
            ),
            (enterprise(Provider::TokenUrl(text("http://s3cret.example/token"))), "`auth.idpTokenUrl` must use https"),
            (enterprise(Provider::Issuer(text("s3cret"))), "`auth.idpIssuer` is not a valid URL"),
            (
                Written::Google { credentials: None, metadata_url: Some(text("s3cret")) },
                "`auth.metadataUrl` is not a valid URL",
            ),
        ] {
            let wrong = configured(&written).unwrap_err();
            assert!(wrong.starts_with(said), "{wrong}");
            assert!(!wrong.contains("s3cret"), "{wrong}");
        }
    }
}
