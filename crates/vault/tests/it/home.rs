//! Test helpers: a temporary home directory, keys, recorded notices, other processes.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
};

use toolway_auth::credential::CredentialKey;
use toolway_config::Secret;
use toolway_vault::{Notice, NoticeHandler, SealedVault, SealedWith};

/// A temporary folder, and the notices that were sent.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    notices: Arc<Mutex<Vec<Notice>>>,
}

/// Another process with a vault; killed when dropped.
pub(crate) struct VaultProcess {
    pub(crate) child: Child,
    output: BufReader<ChildStdout>,
}

pub(crate) fn key(principal: &str) -> CredentialKey {
    CredentialKey {
        principal: principal.to_owned(),
        issuer: "https://login.example".to_owned(),
        client: "toolway".to_owned(),
        resource: "https://example.org/mcp".to_owned(),
    }
}

// === impl Home ===

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), notices: Arc::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn on_notice(&self) -> NoticeHandler {
        let notices = Arc::clone(&self.notices);
        Arc::new(move |notice| notices.lock().unwrap().push(notice))
    }

    /// Notices since the last call.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.notices.lock().unwrap())
    }

    /// A new instance of the vault in this folder.
    pub(crate) fn vault(&self) -> SealedVault {
        SealedVault::new(self.path("vault"), SealedWith::KeyFile, self.on_notice())
    }

    pub(crate) fn vault_with(&self, passphrase: &str) -> SealedVault {
        SealedVault::new(self.path("vault"), SealedWith::Passphrase(Secret::new(passphrase)), self.on_notice())
    }

    /// Starts another process with this folder; see `examples/vault_process.rs` for the roles.
    pub(crate) fn start_process(&self, role: &str, principal: &str, number: usize) -> VaultProcess {
        let test = std::env::current_exe().unwrap();
        let program = test.ancestors().nth(2).unwrap().join("examples/vault_process");
        let mut command = Command::new(program);
        command.args([role, self.folder.path().to_str().unwrap(), principal, &number.to_string()]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        VaultProcess { child, output }
    }
}

// === impl VaultProcess ===

impl VaultProcess {
    /// Next line of its output; `None` at the end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn succeed(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for VaultProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
