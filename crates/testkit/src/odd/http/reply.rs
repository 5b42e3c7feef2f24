//! Replies, down to single bytes.

use std::{fmt::Write, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::sync::{Notify, mpsc};

/// A reply: status line, headers, body and further actions on the connection.
#[derive(Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    before: Vec<Act>,
    acts: Vec<Act>,
    shape: Shape,
}

/// Framing of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// With `Content-Length`.
    Whole,
    /// Until the connection closes.
    Open,
    /// Only the actions.
    Bare,
}

/// One action on a connection.
#[derive(Debug)]
pub enum Act {
    /// Sends bytes.
    Say(Vec<u8>),
    /// Sends bytes repeatedly until the client disconnects.
    SayForEver(Vec<u8>),
    /// Sends bytes from a channel until it is closed.
    Relay(mpsc::Receiver<Vec<u8>>),
    /// Waits for a duration.
    Wait(Duration),
    /// Waits for a notification.
    Until(Arc<Notify>),
    /// Waits forever.
    Hang,
    /// Closes the sending direction; the rest is read.
    HalfClose,
    /// Closes the connection.
    Close,
    /// Resets the connection.
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

    /// A status without a body.
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

    /// An HTML page.
    pub fn html(status: u16) -> Self {
        Self::body(status, "text/html; charset=utf-8", "<!doctype html><title>Oh</title><h1>Oh no</h1>")
    }

    /// An event stream that starts with `text` and ends with the connection, after the actions.
    pub fn events(text: impl Into<String>) -> Self {
        Self::new(200, text.into().into_bytes(), Shape::Open).header("Content-Type", "text/event-stream")
    }

    /// No HTTP reply, only the actions.
    pub fn bare() -> Self {
        Self::new(0, Vec::new(), Shape::Bare)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Adds an action after the reply.
    #[must_use]
    pub fn then(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }

    /// Adds an action before the reply.
    #[must_use]
    pub fn after(mut self, act: Act) -> Self {
        self.before.push(act);
        self
    }

    /// Sends bytes after the reply.
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
            // These statuses have no body and no length.
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
