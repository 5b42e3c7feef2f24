//! A protected server, and processes that call it with one shared vault.

use std::{
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use tokio::task::spawn_blocking;
use toolway_auth::{challenge::TokenChallenge, credential::Credential, settings::Settings, vault::Vault};
use toolway_testkit::authorization::{AuthorizationServer, Caller, ProtectedServer, Quirk, TestUser};
use toolway_vault::{SealedVault, SealedWith};

/// Principal of all callers.
const PRINCIPAL: &str = "local";

/// Test setup of one test.
pub(crate) struct SharedHome {
    pub(crate) login: AuthorizationServer,
    pub(crate) server: ProtectedServer,
    folder: TempDir,
}

/// A process that makes calls; killed when it is dropped.
pub(crate) struct Calls(Child);

impl SharedHome {
    pub(crate) async fn new() -> Self {
        let login = AuthorizationServer::start().await.unwrap();
        let server = ProtectedServer::start(&login).await.unwrap();
        Self { login, server, folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Opens the vault of this home.
    pub(crate) fn vault(&self) -> Arc<dyn Vault> {
        Arc::new(SealedVault::new(self.path().join("vault"), SealedWith::KeyFile, Arc::new(|_| {})))
    }

    /// A caller in this process with the same vault.
    pub(crate) fn caller(&self, user: Option<TestUser>) -> Caller {
        Caller::new(&self.server.url(), PRINCIPAL, Settings::default(), self.vault(), user).unwrap()
    }

    /// Ada signs in, and her token expires at once.
    pub(crate) async fn sign_in_with_expired_token(&self) {
        self.login.set_quirks([Quirk::TokenLifetime(0), Quirk::IssuesClientSecrets]);
        self.caller(Some(TestUser::named("ada"))).session.sign_in(&TokenChallenge::default()).await.unwrap();
        self.login.set_quirks([]);
    }

    /// Stored credential of Ada.
    pub(crate) async fn stored(&self) -> Credential {
        let caller = self.caller(None);
        let kept = Credential::find(&*caller.sign_in.vault, PRINCIPAL, &caller.sign_in.identity()).await;
        kept.unwrap().unwrap().1
    }

    /// Starts a process with these steps; see `signed-in-client`.
    pub(crate) fn process(&self, steps: &[&str]) -> Calls {
        let mut command = Command::new(env!("CARGO_BIN_EXE_signed-in-client"));
        command.arg(self.server.url()).arg(self.folder.path()).args(steps);
        Calls(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }
}

impl Calls {
    /// Waits until it begins to call; later output is discarded.
    pub(crate) async fn ready(&mut self) {
        let (output, mut log) = (self.0.stdout.take().unwrap(), self.0.stderr.take().unwrap());
        drop(spawn_blocking(move || log.read_to_end(&mut Vec::new())));
        let (said, output) = spawn_blocking(move || {
            let (mut output, mut line) = (BufReader::new(output), String::new());
            output.read_line(&mut line).unwrap();
            (line, output)
        })
        .await
        .unwrap();
        assert_eq!(said, "ready\n");
        drop(spawn_blocking(move || output.into_inner().read_to_end(&mut Vec::new())));
    }

    /// Kills the process.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Output of the process after it has ended.
    pub(crate) async fn output(mut self) -> Output {
        let read = |mut source: Box<dyn Read + Send>| {
            spawn_blocking(move || {
                let mut bytes = Vec::new();
                source.read_to_end(&mut bytes).unwrap();
                bytes
            })
        };
        let said = read(Box::new(self.0.stdout.take().unwrap()));
        let logged = read(Box::new(self.0.stderr.take().unwrap()));
        let (stdout, stderr) = (said.await.unwrap(), logged.await.unwrap());
        Output { status: self.0.wait().unwrap(), stdout, stderr }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Longer than any step takes that does not wait for a lock.
pub(crate) const LONG: Duration = Duration::from_secs(20);
