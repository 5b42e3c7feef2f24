//! What signing in is told with: a home with a server that wants to see a token, and whoever gives those.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use tokio::runtime::Runtime;
use toolway_testkit::authorization::{AuthorizationServer, ProtectedServer, visitor::visit};
use url::Url;

use crate::home::{Home, TOOLWAY};

/// A home with a server that wants to see a token, and whoever gives those.
pub(crate) struct World {
    pub(crate) home: Home,
    pub(crate) runtime: Runtime,
    pub(crate) login: AuthorizationServer,
    pub(crate) server: ProtectedServer,
}

impl World {
    pub(crate) fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let login = runtime.block_on(AuthorizationServer::start()).unwrap();
        let server = runtime.block_on(ProtectedServer::start(&login)).unwrap();
        let world = Self { home: Home::new(), runtime, login, server };
        world.configure("");
        world
    }

    pub(crate) fn configure(&self, said: &str) {
        self.home.configure(&format!(
            r#"{{ "signIn": {{ "vault": "file" }}, "mcpServers": {{
                "api": {{ "url": "{}"{said} }}, "files": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#,
            self.server.url()
        ));
    }

    /// Where the browser is sent back to when somebody has agreed.
    pub(crate) fn visit(&self, address: &str, who: &str) -> String {
        self.runtime.block_on(visit(address, who)).unwrap()
    }

    /// Begins a sign-in that nobody is there for, and finishes it.
    pub(crate) fn sign_in(&self, who: &str, options: &[&str]) {
        let words = [&["login", "api"], options].concat();
        let begun = self.home.run(&words);
        assert_eq!(begun.code, 3, "{begun:?}");
        let begun: serde_json::Value = serde_json::from_str(&begun.out).unwrap();
        let callback = self.visit(begun["address"].as_str().unwrap(), who);
        self.home.run(&[&words[..], &["--callback", &callback]].concat()).ok();
    }
}

/// Opens an address, as a browser does that is sent there.
pub(crate) fn open(address: &str) -> String {
    let url = Url::parse(address).unwrap();
    let mut stream = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).unwrap();
    let (path, host) = (&url[url::Position::BeforePath..], url.authority());
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}
