//! The private socket of a gateway that runs: the operator's own commands ask it how servers are, and tell it to
//! connect, disconnect, restart or ask one again, and to read the configuration again.
//!
//! It stands in a folder that only the user may enter; each side sees to it that the other is the same user. The gateway
//! speaks first and says its version; then each line is an [`Order`], and each line back what came of it.

#[cfg(unix)]
mod calling;
#[cfg(unix)]
mod listening;
mod view;

use std::{
    io,
    path::{Path, PathBuf},
};

use ring::digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(unix)]
pub use calling::Line;
#[cfg(unix)]
pub use listening::{Control, Reload};

/// Where the socket of a gateway is: one per configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
    name: String,
}

/// What a gateway says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// The version of the program.
    pub toolway: String,
    /// The version of what is spoken here.
    pub control: u32,
    /// Its process.
    pub process: u32,
}

/// What can be asked of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "lowercase", deny_unknown_fields)]
pub enum Order {
    /// How servers are; all where none is named.
    Status {
        /// Which.
        servers: Vec<String>,
    },
    /// Connect one.
    Connect {
        /// Which.
        server: String,
    },
    /// Disconnect one, until somebody connects it.
    Disconnect {
        /// Which.
        server: String,
    },
    /// End the connection of one and begin another.
    Restart {
        /// Which.
        server: String,
    },
    /// A client has signed in to one, or out of it.
    Signed {
        /// Which.
        server: String,
        /// Who.
        client: String,
        /// Whether it has a sign-in there now.
        signed_in: bool,
    },
    /// Ask one again for everything it lists.
    Refresh {
        /// Which.
        server: String,
    },
    /// What the program of one said last on standard error.
    Logs {
        /// Which.
        server: String,
        /// The last so many lines.
        lines: usize,
    },
    /// Read the configuration again.
    Reload {},
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// What was asked for.
    Done(Value),
    /// Nothing has changed.
    Failed(Failure),
}

/// Why nothing came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable word: `unknown_server`, `config`, `order`.
    pub code: String,
    /// A fragment for people.
    pub message: String,
}

/// What can be wrong with the socket.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody is there.
    #[error("no gateway runs")]
    NoGateway,
    /// There is one for this configuration already.
    #[error("another gateway runs with this configuration")]
    Taken,
    /// The folder is not the user's alone.
    #[error("{folder} {problem}")]
    Folder {
        /// Which.
        folder: PathBuf,
        /// As a lower-case fragment.
        problem: &'static str,
    },
    /// It is not the same user.
    #[error("the gateway at {0} belongs to another user")]
    Stranger(PathBuf),
    /// It speaks otherwise.
    #[error("the gateway that runs is version {0}, and speaks otherwise; start it anew")]
    Version(String),
    /// It broke off, or said too much.
    #[error("the gateway at {socket} does not answer: {problem}")]
    Broken {
        /// Where.
        socket: PathBuf,
        /// What the system says.
        problem: io::Error,
    },
    /// This system has none.
    #[error("a gateway cannot be spoken to on this system")]
    Elsewhere,
}

/// The version of what is spoken here.
pub const VERSION: u32 = 1;
/// Bytes of one order.
pub const ORDER_BYTES: usize = 64 * 1024;
/// Bytes of one reply: ten thousand servers, each with the end of its standard error.
pub const REPLY_BYTES: usize = 64 * 1024 * 1024;

// === impl Place ===

impl Place {
    /// The socket in this folder of the gateway that reads this file instead of the user's own, where there is one.
    pub fn new(folder: impl Into<PathBuf>, config: Option<&Path>) -> Self {
        let name = match config {
            None => "gateway".to_owned(),
            Some(file) => {
                let digest = digest::digest(&digest::SHA256, file.as_os_str().as_encoded_bytes());
                let word: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                format!("gateway-{word}")
            }
        };
        Self { folder: folder.into(), name }
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.sock", self.name))
    }

    /// Whoever holds this owns the socket.
    #[cfg(unix)]
    fn lock(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.name))
    }

    /// Refuses a folder that others can enter: whoever can make files there can stand in for the gateway.
    #[cfg(unix)]
    fn check(&self) -> Result<(), ControlError> {
        use std::os::unix::fs::MetadataExt;
        let wrong = |problem| ControlError::Folder { folder: self.folder.clone(), problem };
        let found = std::fs::symlink_metadata(&self.folder).map_err(|_| wrong("is not there"))?;
        if !found.is_dir() {
            return Err(wrong("is not a folder"));
        }
        if found.uid() != toolway_host::private_file::user() {
            return Err(wrong("belongs to another user"));
        }
        if found.mode() & 0o077 != 0 {
            return Err(wrong("can be entered by others; `chmod 700` it"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Order, Place};

    #[test]
    fn each_configuration_has_a_socket_of_its_own() {
        let socket = |config: Option<&str>| Place::new("/run", config.map(Path::new)).socket();
        assert_eq!(socket(None), Path::new("/run/gateway.sock"));
        assert_ne!(socket(Some("/a.json")), socket(Some("/b.json")));
        assert_eq!(socket(Some("/a.json")), socket(Some("/a.json")));
    }

    #[test]
    fn an_order_is_one_of_those_there_are() {
        let read = |text: &str| serde_json::from_str::<Order>(text);
        assert_eq!(read(r#"{"order":"reload"}"#).unwrap(), Order::Reload {});
        for wrong in
            [r#"{"order":"exec"}"#, r#"{"order":"connect"}"#, r#"{"order":"connect","server":"a","x":1}"#, "{}"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
