//! A process that signs in to a protected server and calls it, with a sealed vault that other processes share.
//!
//! `signed-in-client <server> <folder> <step>...`, where each step is one of these; what comes of it is one line on
//! standard output, and everything that is logged, at every level, goes to standard error.
//!
//! | step | what it does |
//! |---|---|
//! | `sign-in` | signs in, with a person who agrees to everything |
//! | `call:<tool>` | calls a tool, with that person at hand |
//! | `calls:<number>` | says `ready` and calls `hello` so often at once, with nobody at hand |
//! | `host:<tool>` | has a host call a tool, with nobody at hand, and says everything that is known of it afterwards |
//! | `sign-out` | forgets everything |
//! | `betray` | says the token aloud and logs it, so that whoever listens for it can be shown to hear |

use std::{
    env,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use futures_util::future::join_all;
use serde_json::json;
use toolway_auth::{challenge::Demand, credential::Credential, settings::Settings, vault::Vault};
use toolway_config::{Config, document::Document};
use toolway_testkit::{
    authorization::{Caller, Person},
    test_host::{PATIENCE, TestHost},
    transcript::Transcript,
};
use toolway_vault::{SealedVault, SealedWith};

type Problem = Box<dyn std::error::Error>;

/// Ada with a browser, and a program on her behalf without one.
struct Parties {
    attended: Caller,
    unattended: Caller,
}

/// Whoever runs a host.
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
        let caller = |person| Caller::new(server, PRINCIPAL, Settings::default(), Arc::clone(&vault), person);
        Ok(Self { attended: caller(Some(Person::named("ada")))?, unattended: caller(None)? })
    }

    async fn take(&self, step: &str) -> Result<(), Problem> {
        let (step, what) = step.split_once(':').unwrap_or((step, ""));
        tracing::trace!(step, what, session = ?self.attended.session, sign_in = ?self.attended.sign_in);
        match step {
            "sign-in" => {
                let signed_in = self.attended.session.sign_in(&Demand::default()).await;
                say(&format!("{signed_in:?} {:?} {:?}", self.attended, self.kept().await?))?;
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
                let kept = self.kept().await?.and_then(|kept| kept.tokens).ok_or("there is no token")?;
                tracing::trace!(token = kept.access.expose());
                say(kept.access.expose())?;
            }
            _ => return Err(format!("no step `{step}`").into()),
        }
        Ok(())
    }

    /// A call by a host: its outcome, its record and the state of the server, with all that they print.
    async fn hosted(&self, tool: &str) -> Result<String, Problem> {
        let sign_in = &self.attended.sign_in;
        let text = json!({ "mcpServers": { "files": { "url": sign_in.server.as_str() } } }).to_string();
        let config = Config::of(&Document::of(Path::new("toolway.json"), &text)?, None)?;
        let mut builder = TestHost::new().config(config);
        builder.ports.vault = Arc::clone(&sign_in.vault);
        let host = builder.start().await;
        let missing = host.host.gather(PATIENCE).await;
        let outcome = host.call(tool).await;
        let said = format!("{outcome:?} {:?} {:?} {missing:?}", host.records(), host.status("files"));
        host.host.shutdown().await;
        Ok(said)
    }

    async fn kept(&self) -> Result<Option<Credential>, Problem> {
        let sign_in = &self.attended.sign_in;
        let kept = Credential::find(&*sign_in.vault, PRINCIPAL, &sign_in.identity()).await?;
        Ok(kept.map(|(_, credential)| credential))
    }
}

/// A line that the story reads.
fn say(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")?;
    output.flush()
}
