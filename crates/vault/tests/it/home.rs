//! What the stories tell with: a home of their own, keys, notices that were heard, other processes.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
};

use toolway_auth::credential::CredentialKey;
use toolway_config::Secret;
use toolway_vault::{Listener, Notice, SealedVault, SealedWith};

/// A folder that is gone with the story, and what was said to the person in it.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    heard: Arc<Mutex<Vec<Notice>>>,
}

/// Another process with a vault; killed when it is dropped.
pub(crate) struct Other {
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
        Self { folder: tempfile::tempdir().unwrap(), heard: Arc::default() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn listener(&self) -> Listener {
        let heard = Arc::clone(&self.heard);
        Arc::new(move |notice| heard.lock().unwrap().push(notice))
    }

    /// What was said since this was asked last.
    pub(crate) fn heard(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    /// The vault of this home, opened anew.
    pub(crate) fn vault(&self) -> SealedVault {
        SealedVault::new(self.path("vault"), SealedWith::KeyFile, self.listener())
    }

    pub(crate) fn vault_with(&self, passphrase: &str) -> SealedVault {
        SealedVault::new(self.path("vault"), SealedWith::Passphrase(Secret::new(passphrase)), self.listener())
    }

    /// Another process in this home; see `examples/vault_process.rs` for the roles.
    pub(crate) fn other(&self, role: &str, principal: &str, number: usize) -> Other {
        let story = std::env::current_exe().unwrap();
        let program = story.ancestors().nth(2).unwrap().join("examples/vault_process");
        let mut command = Command::new(program);
        command.args([role, self.folder.path().to_str().unwrap(), principal, &number.to_string()]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Other { child, output }
    }
}

// === impl Other ===

impl Other {
    /// The next line it says; `None` when it has ended.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// Ends it in the middle of whatever it does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn succeed(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
