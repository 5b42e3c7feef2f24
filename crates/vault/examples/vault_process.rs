//! A process that uses a sealed vault, for the stories: `vault_process <role> <folder> <principal> [<number>]`.
//!
//! | role | what it does |
//! |---|---|
//! | `keep` | keeps so many credentials, each under a key of its own |
//! | `rewrite` | keeps the credential of one key again and again, and says the number of each; until it is killed |
//! | `count` | takes the turn so often, and adds one to the file `count` in each; fails when it was not alone |
//! | `hold` | takes the turn, says so, and waits to be killed |

use std::{
    fs, future,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use toolway_auth::{credential::CredentialKey, vault::Vault};
use toolway_config::Secret;
use toolway_vault::{SealedVault, SealedWith};

type Problem = Box<dyn std::error::Error>;

fn key(principal: &str) -> CredentialKey {
    CredentialKey {
        principal: principal.to_owned(),
        issuer: "https://login.example".to_owned(),
        client: "toolway".to_owned(),
        resource: "https://example.org/mcp".to_owned(),
    }
}

/// A line that the story reads.
fn say(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")?;
    output.flush()
}

/// A credential that shows whether it is whole.
fn numbered(number: usize) -> Secret {
    Secret::new(format!("{number}:{}", number.to_string().repeat(100 + number % 7000)))
}

async fn keep(vault: &SealedVault, principal: &str, number: usize) -> Result<(), Problem> {
    for index in 0..number {
        vault.store(&key(&format!("{principal} {index}")), numbered(index)).await?;
    }
    Ok(())
}

async fn rewrite(vault: &SealedVault, principal: &str) -> Result<(), Problem> {
    for number in 1.. {
        vault.store(&key(principal), numbered(number)).await?;
        say(&number.to_string())?;
    }
    Ok(())
}

async fn count(vault: &SealedVault, folder: &Path, principal: &str, number: usize) -> Result<(), Problem> {
    let (count, busy) = (folder.join("count"), folder.join("busy"));
    for _ in 0..number {
        let turn = vault.turn(&key(principal)).await?;
        fs::File::create_new(&busy)?;
        let before: usize = fs::read_to_string(&count)?.parse()?;
        tokio::task::yield_now().await;
        fs::write(&count, (before + 1).to_string())?;
        fs::remove_file(&busy)?;
        drop(turn);
    }
    Ok(())
}

async fn hold(vault: &SealedVault, principal: &str) -> Result<(), Problem> {
    let _turn = vault.turn(&key(principal)).await?;
    say("held")?;
    future::pending().await
}

#[tokio::main]
async fn main() -> Result<(), Problem> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, folder, principal, rest @ ..] = &arguments[..] else {
        return Err("usage: vault_process <role> <folder> <principal> [<number>]".into());
    };
    let number: usize = rest.first().map_or(Ok(1), |number| number.parse())?;
    let folder = Path::new(folder);
    let vault = SealedVault::new(folder.join("vault"), SealedWith::KeyFile, Arc::new(|_| {}));
    match role.as_str() {
        "keep" => keep(&vault, principal, number).await,
        "rewrite" => rewrite(&vault, principal).await,
        "count" => count(&vault, folder, principal, number).await,
        "hold" => hold(&vault, principal).await,
        _ => Err(format!("no role `{role}`").into()),
    }
}
