//! Fixture for sign-in tests: a home with a protected server and its authorization server.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use tokio::runtime::Runtime;
use toolway_testkit::authorization::{AuthorizationServer, ProtectedServer, test_browser::visit};
use url::Url;

use crate::home::{Home, TOOLWAY};

/// A home with a protected server and its authorization server.
pub(crate) struct SignInFixture {
    pub(crate) home: Home,
    pub(crate) runtime: Runtime,
    pub(crate) login: AuthorizationServer,
    pub(crate) server: ProtectedServer,
}

impl SignInFixture {
    pub(crate) fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let login = runtime.block_on(AuthorizationServer::start()).unwrap();
        let server = runtime.block_on(ProtectedServer::start(&login)).unwrap();
        let fixture = Self { home: Home::new(), runtime, login, server };
        fixture.configure("");
        fixture
    }

    pub(crate) fn configure(&self, said: &str) {
        self.home.configure(&format!(
            r#"{{ "signIn": {{ "vault": "file" }}, "mcpServers": {{
                "api": {{ "url": "{}"{said} }}, "files": {{ "command": "{TOOLWAY}", "args": ["sample"] }} }} }}"#,
            self.server.url()
        ));
    }

    /// The callback URL after the user has agreed.
    pub(crate) fn visit(&self, address: &str, who: &str) -> String {
        self.runtime.block_on(visit(address, who)).unwrap()
    }

    /// Starts and finishes a sign-in without a terminal.
    pub(crate) fn sign_in(&self, who: &str, options: &[&str]) {
        let words = [&["login", "api"], options].concat();
        let begun = self.home.run(&words);
        assert_eq!(begun.code, 3, "{begun:?}");
        let begun: serde_json::Value = serde_json::from_str(&begun.out).unwrap();
        let callback = self.visit(begun["address"].as_str().unwrap(), who);
        self.home.run(&[&words[..], &["--callback", &callback]].concat()).ok();
    }
}

/// Requests a URL like a redirected browser; returns the response.
pub(crate) fn open(address: &str) -> String {
    let url = Url::parse(address).unwrap();
    let mut stream = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).unwrap();
    let (path, host) = (&url[url::Position::BeforePath..], url.authority());
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}
