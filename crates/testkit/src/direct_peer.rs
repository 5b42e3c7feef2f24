//! Connects to a server without a host: no policy, no limits, no record. For tests of transports and of the protocol.

use std::{fmt, sync::Arc};

use toolway_host::{
    connection::{ServerAddress, StderrTail, environment::Environment, stdio::Launcher},
    keeper::{KeeperHandle, ShutdownTimeouts},
};
use toolway_wire::{
    error::WireError,
    limit::Limits,
    up::{
        ConnectOptions, EraMemory, Peer, client::HttpClient, connector::HttpOptions, credential::NoCredentials,
        http::HttpTransport, stdio::StdioTransport, transport::Transport,
    },
};

/// Options of [`connect`].
#[derive(Default)]
pub struct DirectOptions {
    /// Handshake options; `memory` is set from the field below and the address.
    pub connect: ConnectOptions,
    /// Environment from which programs receive the allowed variables.
    pub environment: Environment,
    /// Receives the stderr output of a program; keep a clone to read it.
    pub stderr_tail: StderrTail,
    /// The keeper that starts programs; by default that of this process.
    pub keeper: KeeperHandle,
    /// Cache of the era of each server.
    pub memory: Option<Arc<dyn EraMemory>>,
}

/// Connects to a server and performs the handshake.
pub async fn connect(address: &ServerAddress, options: DirectOptions) -> Result<Peer, WireError> {
    let DirectOptions { mut connect, environment, stderr_tail, keeper, memory } = options;
    connect.memory = memory.map(|memory| (memory, address.era_key()));
    let limits = connect.limits.clone();
    let transport: Arc<dyn Transport> = match address {
        ServerAddress::Process(program) => {
            let launcher = Launcher::new(program.clone(), &environment, stderr_tail);
            let launcher = launcher.with_keeper(keeper, ShutdownTimeouts::default());
            Arc::new(StdioTransport::new(Arc::new(launcher), limits))
        }
        ServerAddress::Http { url, headers } => {
            let http = HttpClient::new(HttpOptions::default(), &Limits::default());
            Arc::new(HttpTransport::new(http, url.clone(), headers.clone(), Arc::new(NoCredentials), limits))
        }
    };
    Peer::connect(transport, connect).await
}

impl fmt::Debug for DirectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectOptions").field("connect", &self.connect).finish_non_exhaustive()
    }
}
