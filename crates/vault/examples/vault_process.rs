//! A process that uses an encrypted vault, for the tests: `vault_process <role> <folder> <principal> [<number>]`.
//!
//! | role | what it does |
//! |---|---|
//! | `keep` | stores `number` credentials, each under its own key |
//! | `rewrite` | stores the credential of one key repeatedly and prints the number of each, until it is killed |
//! | `count` | takes the lock `number` times and increments the file `count` each time; fails if it was not exclusive |
//! | `hold` | takes the lock, prints `held`, and waits to be killed |

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

/// Prints a line that the test reads.
fn print_line(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")?;
    output.flush()
}

/// A credential whose completeness can be checked.
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
        print_line(&number.to_string())?;
    }
    Ok(())
}

async fn count(vault: &SealedVault, folder: &Path, principal: &str, number: usize) -> Result<(), Problem> {
    let (count, busy) = (folder.join("count"), folder.join("busy"));
    for _ in 0..number {
        let lock = vault.lock(&key(principal)).await?;
        fs::File::create_new(&busy)?;
        let before: usize = fs::read_to_string(&count)?.parse()?;
        tokio::task::yield_now().await;
        fs::write(&count, (before + 1).to_string())?;
        fs::remove_file(&busy)?;
        drop(lock);
    }
    Ok(())
}

async fn hold(vault: &SealedVault, principal: &str) -> Result<(), Problem> {
    let _lock = vault.lock(&key(principal)).await?;
    print_line("held")?;
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
