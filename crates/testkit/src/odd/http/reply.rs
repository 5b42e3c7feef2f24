//! What is sent back, byte by byte if need be.

use std::{fmt::Write, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::sync::{Notify, mpsc};

/// A reply: a status line, headers and a body, and whatever else is done to the connection.
#[derive(Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    before: Vec<Act>,
    acts: Vec<Act>,
    shape: Shape,
}

/// How the reply is put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// With its true length.
    Whole,
    /// Until the connection closes.
    Open,
    /// Only what the acts say.
    Bare,
}

/// One thing done to a connection.
#[derive(Debug)]
pub enum Act {
    /// Bytes are sent.
    Say(Vec<u8>),
    /// Bytes are sent again and again, until the other side leaves.
    SayForEver(Vec<u8>),
    /// Bytes are sent as they come, until no more can.
    Relay(mpsc::Receiver<Vec<u8>>),
    /// Nothing happens for a while.
    Wait(Duration),
    /// Nothing happens until something else does.
    Until(Arc<Notify>),
    /// Nothing happens ever again.
    Hang,
    /// No more is sent; the rest is read.
    HalfClose,
    /// The connection is closed.
    Close,
    /// The connection is torn down.
    Reset,
}

/// A message as a server-sent event.
pub fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

// === impl Reply ===

impl Reply {
    fn new(status: u16, body: Vec<u8>, shape: Shape) -> Self {
        Self { status, headers: Vec::new(), body, before: Vec::new(), acts: Vec::new(), shape }
    }

    /// A status and nothing more.
    pub fn empty(status: u16) -> Self {
        Self::new(status, Vec::new(), Shape::Whole)
    }

    /// A body of any type.
    pub fn body(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, body.into(), Shape::Whole).header("Content-Type", kind)
    }

    /// A JSON body.
    pub fn json(status: u16, message: &Value) -> Self {
        Self::body(status, "application/json", message.to_string())
    }

    /// A page for people.
    pub fn html(status: u16) -> Self {
        Self::body(status, "text/html; charset=utf-8", "<!doctype html><title>Oh</title><h1>Oh no</h1>")
    }

    /// A stream of events that begins with `text` and ends with the connection, after whatever comes then.
    pub fn events(text: impl Into<String>) -> Self {
        Self::new(200, text.into().into_bytes(), Shape::Open).header("Content-Type", "text/event-stream")
    }

    /// No HTTP but for what the acts say.
    pub fn bare() -> Self {
        Self::new(0, Vec::new(), Shape::Bare)
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The same, and then this.
    #[must_use]
    pub fn then(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }

    /// The same, and this before it.
    #[must_use]
    pub fn after(mut self, act: Act) -> Self {
        self.before.push(act);
        self
    }

    /// The same, and then these bytes.
    #[must_use]
    pub fn say(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.then(Act::Say(bytes.into()))
    }

    pub(super) fn into_acts(mut self) -> Vec<Act> {
        let mut acts = std::mem::take(&mut self.before);
        if self.shape != Shape::Bare {
            let head_and_body = self.head_and_body();
            acts.push(Act::Say(head_and_body));
        }
        acts.extend(self.acts);
        if self.shape == Shape::Open {
            acts.push(Act::Close);
        }
        acts
    }

    fn head_and_body(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Odd\r\n", self.status);
        for (name, value) in &self.headers {
            // Writing to a string cannot fail.
            let _written = write!(head, "{name}: {value}\r\n");
        }
        match self.shape {
            // These statuses have no body, and so no length.
            Shape::Whole if matches!(self.status, 204 | 304) => {}
            Shape::Whole => {
                let _written = write!(head, "Content-Length: {}\r\n", self.body.len());
            }
            Shape::Open | Shape::Bare => head.push_str("Connection: close\r\n"),
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
