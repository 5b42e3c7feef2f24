//! Signs in to a protected server and calls it, with a sealed vault that is shared with other processes.
//!
//! `signed-in-client <server> <folder> <step>...`, where each step is one of these. The result of a step is one line on
//! standard output; all log events, at every level, go to standard error.
//!
//! | step | action |
//! |---|---|
//! | `sign-in` | signs in, with a user who agrees to everything |
//! | `call:<tool>` | calls a tool, with that user |
//! | `calls:<number>` | prints `ready` and makes this many concurrent calls of `hello`, without a user |
//! | `host:<tool>` | calls a tool through a host, without a user, and prints its records and status |
//! | `sign-out` | deletes all credentials |
//! | `betray` | prints and logs the token, so that a test can verify that its scan finds it |

use std::{
    env,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use futures_util::future::join_all;
use serde_json::json;
use toolway_auth::{challenge::TokenChallenge, credential::Credential, settings::Settings, vault::Vault};
use toolway_config::{Config, document::Document};
use toolway_testkit::{
    authorization::{Caller, TestUser},
    test_host::{PATIENCE, TestHost},
    transcript::Transcript,
};
use toolway_vault::{SealedVault, SealedWith};

type Problem = Box<dyn std::error::Error>;

/// A caller with a browser, and one without, for the same principal.
struct Parties {
    attended: Caller,
    unattended: Caller,
}

/// Principal of both callers.
const PRINCIPAL: &str = "local";

#[tokio::main]
async fn main() -> Result<(), Problem> {
    let log = Transcript::new(|line| drop(writeln!(io::stderr().lock(), "{line}")));
    tracing::subscriber::set_global_default(log)?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [server, folder, steps @ ..] = &arguments[..] else {
        return Err("usage: signed-in-client <server> <folder> <step>...".into());
    };
    let parties = Parties::new(server, Path::new(folder))?;
    for step in steps {
        parties.take(step).await?;
    }
    parties.unattended.session.settle().await;
    Ok(())
}

impl Parties {
    fn new(server: &str, folder: &Path) -> Result<Self, Problem> {
        let listener = Arc::new(|notice: toolway_vault::Notice| tracing::warn!(?notice));
        let vault = SealedVault::new(folder.join("vault"), SealedWith::KeyFile, listener);
        let vault: Arc<dyn Vault> = Arc::new(vault);
        let caller = |user| Caller::new(server, PRINCIPAL, Settings::default(), Arc::clone(&vault), user);
        Ok(Self { attended: caller(Some(TestUser::named("ada")))?, unattended: caller(None)? })
    }

    async fn take(&self, step: &str) -> Result<(), Problem> {
        let (step, what) = step.split_once(':').unwrap_or((step, ""));
        tracing::trace!(step, what, session = ?self.attended.session, sign_in = ?self.attended.sign_in);
        match step {
            "sign-in" => {
                let signed_in = self.attended.session.sign_in(&TokenChallenge::default()).await;
                say(&format!("{signed_in:?} {:?} {:?}", self.attended, self.stored().await?))?;
            }
            "call" => say(&format!("{:?}", self.attended.call(what).await))?,
            "calls" => {
                say("ready")?;
                let called = join_all((0..what.parse()?).map(|_: usize| self.unattended.call("hello"))).await;
                called.iter().try_for_each(|called| say(&format!("{called:?}")))?;
            }
            "host" => say(&self.hosted(&format!("files__{what}")).await?)?,
            "sign-out" => say(&format!("forgot {}", self.attended.sign_in.forget().await?))?,
            "betray" => {
                let kept = self.stored().await?.and_then(|kept| kept.tokens).ok_or("no token is stored")?;
                tracing::trace!(token = kept.access.expose());
                say(kept.access.expose())?;
            }
            _ => return Err(format!("no step `{step}`").into()),
        }
        Ok(())
    }

    /// Calls a tool through a host; returns the debug output of its outcome, its record and the server status.
    async fn hosted(&self, tool: &str) -> Result<String, Problem> {
        let sign_in = &self.attended.sign_in;
        let text = json!({ "mcpServers": { "files": { "url": sign_in.server.as_str() } } }).to_string();
        let config = Config::of(&Document::of(Path::new("toolway.json"), &text)?, None)?;
        let mut builder = TestHost::new().config(config);
        builder.ports.vault = Arc::clone(&sign_in.vault);
        let host = builder.start().await;
        let missing = host.host.wait_until_listed(PATIENCE).await;
        let outcome = host.call(tool).await;
        let report = format!("{outcome:?} {:?} {:?} {missing:?}", host.records(), host.status("files"));
        host.host.shutdown().await;
        Ok(report)
    }

    async fn stored(&self) -> Result<Option<Credential>, Problem> {
        let sign_in = &self.attended.sign_in;
        let kept = Credential::find(&*sign_in.vault, PRINCIPAL, &sign_in.identity()).await?;
        Ok(kept.map(|(_, credential)| credential))
    }
}

/// Prints one line for the test.
fn say(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")?;
    output.flush()
}
