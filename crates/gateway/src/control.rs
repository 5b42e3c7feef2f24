//! The control socket of a running gateway. The operator's commands use it to read the status of servers, to connect,
//! disconnect, restart or refresh one, to reload the configuration, and to answer inbox items.
//!
//! The socket is in a directory that only the user may enter, and each side checks that its peer is the same user and no
//! process of a server. The gateway sends a [`Greeting`] first; then each line from the client is a [`ControlRequest`], and each line back a
//! [`ControlResponse`].

#[cfg(unix)]
mod client;
mod inbox;
#[cfg(unix)]
mod peer;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod tasks;
mod view;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolway_host::inbox::ParkedRequest;

#[cfg(unix)]
pub use client::ControlConnection;
pub use inbox::{ControlAnswer, Cover};
#[cfg(unix)]
pub use server::{ConsoleLink, Control, Reload};

/// Location of the control socket: one per configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSocket {
    folder: PathBuf,
    name: String,
}

/// First message of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Version of the program.
    pub toolway: String,
    /// Version of the control protocol.
    pub control: u32,
    /// Process id of the gateway.
    pub process: u32,
}

/// A request to a running gateway. Processes of servers get [`ControlRequest::Status`] only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "lowercase", deny_unknown_fields)]
pub enum ControlRequest {
    /// Status of the named servers; of all if none is named.
    Status {
        /// Names or labels of servers.
        servers: Vec<String>,
    },
    /// Connect a server.
    Connect {
        /// Name or label of the server.
        server: String,
    },
    /// Disconnect a server until it is connected again by request.
    Disconnect {
        /// Name or label of the server.
        server: String,
    },
    /// Close the connection of a server and open a new one.
    Restart {
        /// Name or label of the server.
        server: String,
    },
    /// A client has signed in to a server, or out of it.
    Signed {
        /// Name or label of the server.
        server: String,
        /// Name of the client.
        client: String,
        /// Whether the client is signed in now.
        signed_in: bool,
    },
    /// List the tools, prompts and resources of a server again.
    Refresh {
        /// Name or label of the server.
        server: String,
    },
    /// Last lines that the process of a server wrote to stderr.
    Logs {
        /// Name or label of the server.
        server: String,
        /// Maximum number of lines.
        lines: usize,
    },
    /// Read the client keys again, and report the key file (`null` if access is open) and whether a client is accepted
    /// now.
    Keys {
        /// Name of the client.
        client: String,
    },
    /// What is used of the limits of servers and clients.
    Limits {},
    /// Reload the configuration.
    Reload {},
    /// Items that wait for a user, and a number that changes with them.
    Inbox {
        /// Wait until the number differs from this one, at most [`INBOX_WAIT`].
        after: Option<u64>,
    },
    /// One inbox item with everything that is shown of it.
    InboxItem {
        /// Id of the item.
        id: String,
    },
    /// Answer an inbox item.
    Answer {
        /// Id of the item.
        id: String,
        /// The answer.
        answer: ControlAnswer,
        /// Whether a call may be approved that contains hidden characters.
        #[serde(default)]
        allow_hidden: bool,
    },
    /// Let a form or URL of a command wait in the inbox. The response is its answer; closing the connection withdraws it.
    Park {
        /// The form or URL.
        request: ParkedRequest,
    },
    /// A new link that signs one browser in to the console.
    Console {},
    /// Call a tool for the user at the terminal, and answer as soon as its server continues it as a task.
    Detach {
        /// Name or label of the server.
        server: String,
        /// Name of the tool at the server.
        tool: String,
        /// Arguments as JSON.
        arguments: String,
        /// Milliseconds for which the server is asked to keep the task.
        ttl: Option<u64>,
    },
    /// Cancel a task that the gateway follows, or the call that waits for it.
    #[serde(rename = "canceltask")]
    CancelTask {
        /// Id of the task.
        id: String,
    },
}

/// Response to a [`ControlRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlResponse {
    /// The request succeeded.
    Done(Value),
    /// The request failed and changed nothing.
    Failed(Failure),
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable code: `unknown_server`, `config`, `keys`, `order`, `not_waiting`, `invalid_answer`, `hidden_characters`,
    /// `console`, `call`, `park` or `own_server`.
    pub code: String,
    /// Message for the user, lower-case, without a full stop.
    pub message: String,
}

/// Why the control socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No gateway listens on the socket.
    #[error("no gateway is running")]
    NoGateway,
    /// A gateway with this configuration is running.
    #[error("another gateway is running with this configuration; stop it first")]
    AlreadyRunning,
    /// The directory is missing or not private.
    #[error("control socket directory `{folder}` {problem}")]
    Folder {
        /// Directory of the socket.
        folder: PathBuf,
        /// Lower-case fragment that follows the path.
        problem: &'static str,
    },
    /// The gateway runs as another user.
    #[error("the gateway at `{0}` belongs to another user")]
    OtherUser(PathBuf),
    /// The gateway was started by a server, which could answer in its place.
    #[error("the gateway at `{0}` was started by a server of Toolway, and is not used")]
    OfServer(PathBuf),
    /// The gateway uses another version of the control protocol.
    #[error("the running gateway is version {0} and uses another control protocol; restart it")]
    Version(String),
    /// The connection failed, or a message was invalid or too long.
    #[error("cannot communicate with the gateway at `{socket}`: {problem}")]
    Broken {
        /// Path of the socket.
        socket: PathBuf,
        /// Error of the connection.
        problem: io::Error,
    },
    /// The platform has no control socket.
    #[error("control of a running gateway is not supported on this platform")]
    Unsupported,
}

/// Version of the control protocol.
pub const VERSION: u32 = 1;
/// Longest wait for a change of the inbox.
pub const INBOX_WAIT: Duration = Duration::from_secs(20);
/// Maximum size of a request.
pub const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Maximum size of a response: enough for 10,000 servers, each with its last stderr output.
pub const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

fn failure(code: &str, message: &str) -> Failure {
    Failure { code: code.to_owned(), message: message.to_owned() }
}

// === impl ControlSocket ===

impl ControlSocket {
    /// The socket in `folder` of the gateway that uses `config`; `None`: the user's own configuration.
    pub fn new(folder: impl Into<PathBuf>, config: Option<&Path>) -> Self {
        let name = match config {
            None => "gateway".to_owned(),
            Some(file) => {
                let digest = digest::digest(&digest::SHA256, file.as_os_str().as_encoded_bytes());
                let hash: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                format!("gateway-{hash}")
            }
        };
        Self { folder: folder.into(), name }
    }

    /// Sockets of all configurations in the same directory, whether or not a gateway listens on them.
    pub fn of_all_configurations(&self) -> Vec<Self> {
        let names = std::fs::read_dir(&self.folder).into_iter().flatten().filter_map(|entry| entry.ok());
        let name = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".sock").map(str::to_owned);
        let mut names: Vec<String> = names.filter_map(name).filter(|name| name.starts_with("gateway")).collect();
        names.sort();
        names.into_iter().map(|name| Self { folder: self.folder.clone(), name }).collect()
    }

    /// Path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", self.name))
    }

    /// Path of the lock file. The process that holds its lock owns the socket.
    #[cfg(unix)]
    fn lock(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.name))
    }

    /// Refuses a directory that other users can enter: a user who can create files there could impersonate the gateway.
    #[cfg(unix)]
    fn check(&self) -> Result<(), ControlError> {
        use std::os::unix::fs::MetadataExt;
        let wrong = |problem| ControlError::Folder { folder: self.folder.clone(), problem };
        let found = std::fs::symlink_metadata(&self.folder).map_err(|_| wrong("does not exist"))?;
        if !found.is_dir() {
            return Err(wrong("is not a directory"));
        }
        if found.uid() != toolway_host::private_file::user() {
            return Err(wrong("belongs to another user"));
        }
        if found.mode() & 0o077 != 0 {
            return Err(wrong("is accessible to other users; run `chmod 700` on it"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ControlRequest, ControlSocket};

    #[test]
    fn each_configuration_has_its_own_socket() {
        let socket = |config: Option<&str>| ControlSocket::new("/run", config.map(Path::new)).socket();
        assert_eq!(socket(None), Path::new("/run/gateway.sock"));
        assert_ne!(socket(Some("/a.json")), socket(Some("/b.json")));
        assert_eq!(socket(Some("/a.json")), socket(Some("/a.json")));
    }

    #[test]
    fn unknown_or_invalid_requests_are_refused() {
        let read = |text: &str| serde_json::from_str::<ControlRequest>(text);
        assert_eq!(read(r#"{"order":"reload"}"#).unwrap(), ControlRequest::Reload {});
        for wrong in
            [r#"{"order":"exec"}"#, r#"{"order":"connect"}"#, r#"{"order":"connect","server":"a","x":1}"#, "{}"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
