//! Credentials of the conformance client for scenarios without a user, built from the context of the suite as if it
//! were configured.

use std::{error::Error, sync::Arc};

use serde_json::Value;
use toolway_auth::{
    challenge::TokenChallenge,
    dialer::GuardedDialer,
    discovery::Discovery,
    grant::{Grant, configured::GrantEnvironment},
    jwt::Algorithm,
    settings::Settings,
    unattended::{Unattended, UnattendedOptions},
    vault::MemoryVault,
};
use toolway_config::{
    Secret,
    server::auth::{Client, ClientProof, Grant as Written, Provider},
};
use toolway_wire::up::connector::HttpOptions;
use url::Url;

/// Credentials of a scenario without a user; `None` for other scenarios.
pub async fn unattended(server: &Url, scenario: &str, context: &Value) -> Result<Option<Unattended>, Box<dyn Error>> {
    let Some(written) = written(scenario, &Context(context))? else { return Ok(None) };
    let fetch = Arc::new(GuardedDialer::new(server.clone(), HttpOptions::default()));
    // The suite does not name the issuer; an operator would look it up once and configure it.
    let found = Discovery::find(&*fetch, server, &Settings::default(), &TokenChallenge::default(), None).await?;
    Ok(Some(Unattended::new(UnattendedOptions {
        name: scenario.to_owned(),
        remedy: "see the context of the suite".to_owned(),
        principal: "suite".to_owned(),
        server: server.clone(),
        grant: Grant::configured(&written, &GrantEnvironment::default())?,
        settings: Settings { issuer: Some(found.server.issuer), ..Settings::default() },
        fetch,
        vault: Arc::new(MemoryVault::default()),
        proofs: None,
    })))
}

/// Context that the suite passes to a scenario.
struct Context<'a>(&'a Value);

impl Context<'_> {
    fn text(&self, name: &str) -> Result<Secret, String> {
        self.0[name].as_str().map(Secret::new).ok_or_else(|| format!("the suite does not set `{name}`"))
    }
}

fn written(scenario: &str, context: &Context<'_>) -> Result<Option<Written<Secret>>, Box<dyn Error>> {
    Ok(Some(match scenario {
        "auth/client-credentials-basic" => Written::ClientCredentials {
            client: context.text("client_id")?,
            proof: ClientProof::Secret(context.text("client_secret")?),
        },
        "auth/client-credentials-jwt" => {
            let algorithm: Algorithm = context.text("signing_algorithm")?.expose().parse()?;
            let (key, algorithm) = (context.text("private_key_pem")?, Some(algorithm.name()));
            Written::ClientCredentials {
                client: context.text("client_id")?,
                proof: ClientProof::Key { key, algorithm },
            }
        }
        "auth/enterprise-managed-authorization" => Written::Enterprise {
            provider: Provider::Issuer(context.text("idp_issuer")?),
            provider_client: Client { id: context.text("idp_client_id")?, secret: None },
            id_token: context.text("idp_id_token")?,
            client: Client { id: context.text("client_id")?, secret: Some(context.text("client_secret")?) },
        },
        "auth/wif-jwt-bearer" => Written::Workload {
            assertion: context.text("valid_jwt")?,
            client: Some(context.text("client_id")?),
            audience: None,
        },
        _ => return Ok(None),
    }))
}
