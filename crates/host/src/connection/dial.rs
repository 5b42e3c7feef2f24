//! From where a server is to a peer that has shaken hands: the one way every surface takes.

use std::{fmt, sync::Arc};

use http::HeaderMap;
use toolway_wire::{
    error::WireError,
    limit::Limits,
    up::{
        ConnectOptions, EraMemory, Peer,
        client::HttpClient,
        connector::HttpOptions,
        credential::{Credentials, NoCredentials},
        http::HttpTransport,
        stdio::StdioTransport,
        transport::Transport,
    },
};
use url::Url;

use super::{
    environment::Environment,
    era_memory,
    last_words::LastWords,
    stdio::{Launcher, Program},
    tap::{Tap, Tapped},
};
use crate::keeper::{Custodian, Patience};

/// Where a server is.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerAddress {
    /// A program, spoken to over its standard input and output.
    Process(Program),
    /// An address; which kind of HTTP is spoken there is found out.
    Http {
        /// The address.
        url: Url,
        /// Sent with every request, as configured.
        headers: HeaderMap,
    },
}

/// How to dial.
pub struct DialOptions {
    /// How to shake hands. Where the era is kept follows from `memory` and the address.
    pub connect: ConnectOptions,
    /// The environment that programs are given a part of.
    pub environment: Environment,
    /// Where a program's standard error goes; keep a clone to look at it.
    pub last_words: LastWords,
    /// Who starts programs; the keeper of this process where nothing is said.
    pub custodian: Custodian,
    /// How long a program is given to leave when the connection is closed.
    pub patience: Patience,
    /// What reaches addresses; one for all of them.
    pub http: HttpClient,
    /// What addresses want to see.
    pub credentials: Arc<dyn Credentials>,
    /// Where the era of each server is kept, if anywhere.
    pub memory: Option<Arc<dyn EraMemory>>,
    /// Who looks at the wire, if anyone.
    pub tap: Option<Arc<dyn Tap>>,
}

/// Opens the way to a server and shakes hands with it.
pub async fn dial(address: &ServerAddress, options: DialOptions) -> Result<Peer, WireError> {
    let DialOptions { mut connect, environment, last_words, custodian, patience, http, credentials, memory, tap } =
        options;
    connect.memory = memory.map(|memory| (memory, address.key()));
    let limits = connect.limits.clone();
    let transport: Arc<dyn Transport> = match address {
        ServerAddress::Process(program) => {
            let launcher = Launcher::new(program.clone(), &environment, last_words).kept_by(custodian, patience);
            Arc::new(StdioTransport::new(Arc::new(launcher), limits))
        }
        ServerAddress::Http { url, headers } => {
            Arc::new(HttpTransport::new(http, url.clone(), headers.clone(), credentials, limits))
        }
    };
    let transport = match tap {
        Some(tap) => Arc::new(Tapped { inner: transport, tap }),
        None => transport,
    };
    Peer::connect(transport, connect).await
}

// === impl ServerAddress ===

impl ServerAddress {
    /// An address without headers of its own.
    pub fn http(url: Url) -> Self {
        Self::Http { url, headers: HeaderMap::new() }
    }

    /// What its era is kept under.
    fn key(&self) -> String {
        match self {
            Self::Process(program) => era_memory::process_key(program),
            Self::Http { url, .. } => era_memory::address_key(url),
        }
    }
}

/// People put tokens into headers, into the query and before the host.
impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(program) => program.fmt(f),
            Self::Http { url, headers } => {
                let place = format!("{}{}", url.origin().ascii_serialization(), url.path());
                let names: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
                f.debug_struct("Http").field("url", &place).field("headers", &names).finish()
            }
        }
    }
}

// === impl DialOptions ===

impl Default for DialOptions {
    fn default() -> Self {
        Self {
            connect: ConnectOptions::default(),
            environment: Environment::new(),
            last_words: LastWords::default(),
            custodian: Custodian::default(),
            patience: Patience::default(),
            http: HttpClient::new(HttpOptions::default(), &Limits::default()),
            credentials: Arc::new(NoCredentials),
            memory: None,
            tap: None,
        }
    }
}

impl fmt::Debug for DialOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialOptions").field("connect", &self.connect).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

    use super::{Program, ServerAddress};

    #[test]
    fn an_address_does_not_print_its_secrets() {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer s3cret"))]);
        let url = "https://ada:s3cret@example.org:8443/mcp?key=s3cret".parse().unwrap();
        let address = ServerAddress::Http { url, headers };
        assert_eq!(
            format!("{address:?}"),
            r#"Http { url: "https://example.org:8443/mcp", headers: ["authorization"] }"#
        );

        let program = Program {
            arguments: vec!["--key".into(), "s3cret".into()],
            variables: [("KEY".into(), "s3cret".into())].into(),
            ..Program::new("npx")
        };
        assert_eq!(
            format!("{:?}", ServerAddress::Process(program)),
            r#"Program { command: "npx", arguments: 2, directory: None, variables: ["KEY"] }"#
        );
    }
}
