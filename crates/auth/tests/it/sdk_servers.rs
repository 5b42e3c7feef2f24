//! Sign-ins at the authorization servers of the official SDKs and of `fastmcp`; see `tests/interop/README.md`.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use toolway_auth::{
    credential::{AuthMethod, Credential, Tokens},
    discovery::FoundBy,
    settings::{OldServers, Settings},
    vault::MemoryVault,
};
use toolway_testkit::authorization::{Caller, TestUser};

/// A server in a process of its own. Dropping it ends the process.
struct SdkServer {
    process: Child,
    url: String,
    vault: Arc<MemoryVault>,
    ada: TestUser,
}

#[tokio::test]
async fn python_sdk_signs_in_and_refreshes() {
    let server = SdkServer::python("sdk");
    assert_eq!(server.sign_in_and_refresh().await, AuthMethod::Basic);
    assert_eq!(server.ada.prompts()[0].found_by, FoundBy::ResourceMetadata);
}

#[tokio::test]
async fn fastmcp_signs_in_and_refreshes() {
    assert_ne!(SdkServer::python("fastmcp").sign_in_and_refresh().await, AuthMethod::None);
}

#[tokio::test]
async fn typescript_sdk_signs_in_and_refreshes() {
    let program = root().join(".interop/node_modules/.bin/node");
    let server = SdkServer::start(&program, &["tests/interop/servers/protected_typescript.mjs"]);
    assert_eq!(server.sign_in_and_refresh().await, AuthMethod::None);
}

#[tokio::test]
async fn python_sdk_without_resource_metadata_is_its_own_authorization_server() {
    let server = SdkServer::python("sdk-2025");
    let refusing = Settings { old_servers: OldServers::Refuse, ..Settings::default() };
    let refused = server.caller(refusing, Some(server.ada.clone())).call("hello").await.unwrap_err();
    assert!(refused.contains("has no protected resource metadata"), "{refused}");
    assert!(server.ada.prompts().is_empty());
    server.sign_in_and_refresh().await;
    assert_eq!(server.ada.prompts()[0].found_by, FoundBy::OwnMetadata, "the user is told");
}

impl SdkServer {
    fn python(library: &str) -> Self {
        let program = root().join(".interop/venv/bin/python");
        Self::start(&program, &["tests/interop/servers/protected_python.py", library])
    }

    fn start(program: &Path, arguments: &[&str]) -> Self {
        assert!(program.exists(), "{} is missing: run ./test, which installs it", program.display());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = lines.find_map(|line| line.unwrap().strip_prefix("listening on ").map(str::to_owned));
        Self { process, url: url.unwrap(), vault: Arc::default(), ada: TestUser::named("ada") }
    }

    fn caller(&self, settings: Settings, user: Option<TestUser>) -> Caller {
        let vault = Arc::clone(&self.vault) as _;
        Caller::new(&self.url, "ada", settings, vault, user).unwrap().detecting_the_era()
    }

    /// Signs in, lets the token expire, and calls again without a user; returns how the client authenticates.
    async fn sign_in_and_refresh(&self) -> AuthMethod {
        let caller = self.caller(Settings::default(), Some(self.ada.clone()));
        assert_eq!(caller.call("hello").await.unwrap(), "hello");
        let (key, kept) = caller.sign_in.find().await.unwrap().unwrap();
        let first = kept.tokens.clone().unwrap();
        let expired = Tokens { expires_at: Some(1), obtained_at: 0, ..first.clone() };
        Credential { tokens: Some(expired), ..kept }.store(&*self.vault, &key).await.unwrap();
        let unattended = self.caller(Settings::default(), None);
        assert_eq!(unattended.call("hello").await.unwrap(), "hello");
        let (_, kept) = unattended.sign_in.find().await.unwrap().unwrap();
        assert_ne!(kept.tokens.unwrap().access, first.access, "refreshed");
        assert_eq!(self.ada.prompts().len(), 1, "one visit");
        kept.client.method
    }
}

impl Drop for SdkServer {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
