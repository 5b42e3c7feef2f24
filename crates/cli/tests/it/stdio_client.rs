//! A client of `toolway serve --stdio`: writes requests, reads responses, and can kill the process.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::home::Home;

/// A `toolway serve --stdio` process with a session; killed on drop.
pub(crate) struct StdioClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    last: u64,
}

impl StdioClient {
    /// Starts the gateway of a home; its log goes to a file of the home.
    pub(crate) fn start(home: &Home) -> Self {
        Self::of(home, home.command(&["serve", "--stdio"]), json!({}))
    }

    /// The same, with these client capabilities.
    pub(crate) fn with_capabilities(home: &Home, capabilities: Value) -> Self {
        Self::of(home, home.command(&["serve", "--stdio"]), capabilities)
    }

    /// The same with this command.
    pub(crate) fn of(home: &Home, mut command: Command, capabilities: Value) -> Self {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(home.path("serve.log")).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut client = Self { child, stdin, lines, last: 0 };
        let begin = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "story", "version": "1" } });
        let hello = client.request("initialize", begin);
        assert!(hello["result"].is_object(), "{hello} {}", std::fs::read_to_string(home.path("serve.log")).unwrap());
        client.notify("notifications/initialized");
        client
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request and returns its id. A process that was killed takes none.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let message = json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params });
        let _killed = writeln!(self.stdin.as_mut().unwrap(), "{message}");
        self.last
    }

    pub(crate) fn notify(&mut self, method: &str) {
        let message = json!({ "jsonrpc": "2.0", "method": method });
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next request of the gateway to its client.
    pub(crate) fn next_request(&mut self) -> Value {
        let messages = self.lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let is_request = |message: &Value| !message["id"].is_null() && !message["method"].is_null();
        messages.into_iter().find(is_request).expect("the process runs")
    }

    /// Waits for a notification of the gateway.
    pub(crate) fn until_notified(&mut self, method: &str) {
        let mut messages = self.lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        assert!(messages.any(|message| message["method"] == method), "the process runs");
    }

    /// Answers a request of the gateway.
    pub(crate) fn respond(&mut self, id: &Value, result: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next response; `None` when the process has ended.
    pub(crate) fn next_response(&mut self) -> Option<Value> {
        loop {
            // A killed process may leave half a line.
            let message: Value = serde_json::from_str(&self.lines.next()?.ok()?).ok()?;
            if message["id"].is_u64() && message["method"].is_null() {
                return Some(message);
            }
        }
    }

    /// Sends a request and waits for its response.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        loop {
            let response = self.next_response().expect("the process runs");
            if response["id"] == id {
                return response;
            }
        }
    }

    /// Calls a tool and waits for its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].clone()
    }

    /// Ends the process without warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the session and waits for the process.
    pub(crate) fn leave(mut self) {
        drop(self.stdin.take());
        let status = crate::home::wait(&mut self.child, std::time::Duration::from_secs(60));
        assert!(status.success(), "{status}");
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        // It may have ended already.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}
