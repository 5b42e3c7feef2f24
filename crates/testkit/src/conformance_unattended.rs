//! How the client of the official suite signs in where no person does: the suite says what a scenario's grant is made of,
//! and it is put together as if it had been configured.

use std::{error::Error, sync::Arc};

use serde_json::Value;
use toolway_auth::{
    challenge::Demand,
    dialer::GuardedDialer,
    discovery::Discovery,
    grant::{Grant, configured::Surroundings},
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

/// The credentials of a scenario that needs no person; none for others.
pub async fn unattended(server: &Url, scenario: &str, context: &Value) -> Result<Option<Unattended>, Box<dyn Error>> {
    let Some(written) = written(scenario, &Said(context))? else { return Ok(None) };
    let fetch = Arc::new(GuardedDialer::new(server.clone(), HttpOptions::default()));
    // The suite does not say who gives the tokens; an operator would look it up once, and write it down.
    let found = Discovery::of(&*fetch, server, &Settings::default(), &Demand::default(), None).await?;
    Ok(Some(Unattended::new(UnattendedOptions {
        name: scenario.to_owned(),
        remedy: "the suite says what it is made of".to_owned(),
        principal: "suite".to_owned(),
        server: server.clone(),
        grant: Grant::configured(&written, &Surroundings::default())?,
        settings: Settings { issuer: Some(found.server.issuer), ..Settings::default() },
        fetch,
        vault: Arc::new(MemoryVault::default()),
        proofs: None,
    })))
}

/// What the suite says about a scenario.
struct Said<'a>(&'a Value);

impl Said<'_> {
    fn text(&self, name: &str) -> Result<Secret, String> {
        self.0[name].as_str().map(Secret::new).ok_or_else(|| format!("the suite does not say `{name}`"))
    }
}

fn written(scenario: &str, said: &Said<'_>) -> Result<Option<Written<Secret>>, Box<dyn Error>> {
    Ok(Some(match scenario {
        "auth/client-credentials-basic" => Written::ClientCredentials {
            client: said.text("client_id")?,
            proof: ClientProof::Secret(said.text("client_secret")?),
        },
        "auth/client-credentials-jwt" => {
            let algorithm: Algorithm = said.text("signing_algorithm")?.expose().parse()?;
            let (key, algorithm) = (said.text("private_key_pem")?, Some(algorithm.name()));
            Written::ClientCredentials { client: said.text("client_id")?, proof: ClientProof::Key { key, algorithm } }
        }
        "auth/enterprise-managed-authorization" => Written::Enterprise {
            provider: Provider::Issuer(said.text("idp_issuer")?),
            provider_client: Client { id: said.text("idp_client_id")?, secret: None },
            id_token: said.text("idp_id_token")?,
            client: Client { id: said.text("client_id")?, secret: Some(said.text("client_secret")?) },
        },
        "auth/wif-jwt-bearer" => Written::Workload {
            assertion: said.text("valid_jwt")?,
            client: Some(said.text("client_id")?),
            audience: None,
        },
        _ => return Ok(None),
    }))
}
