//! A misbehaving stdio server: input, output, and the loop between them.
//!
//! The oddities are in [`probing`] (handshake) and [`hostile`] (afterwards). It runs as the program `odd-server`. It
//! logs each message to a file before it handles it, so that a test that got an answer finds all earlier messages in
//! the file.

mod hostile;
mod probing;

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufWriter, Stdout, Write},
    path::Path,
};

use serde_json::Value;

use super::compliant::SupportedEras;

/// A received message.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// Parsed message.
    pub message: Value,
    /// Method; `result` or `error` for answers.
    pub method: String,
    /// Number of earlier messages with the same method.
    pub before: usize,
}

/// Output and state of an odd server.
#[derive(Debug)]
pub struct Output {
    /// Argument after the name of the oddity.
    argument: String,
    out: BufWriter<Stdout>,
    record: Option<File>,
    /// Messages to be sent later.
    deferred: Vec<Value>,
    received: HashMap<String, usize>,
    /// Capabilities of the client, from `initialize`.
    declared: Value,
}

/// Whether to read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Read the next message.
    Continue,
    /// Exit the process.
    Exit,
}

/// An oddity: handles each message.
type Oddity = fn(&ReceivedMessage, &mut Output) -> io::Result<Flow>;

/// Runs the oddity `what`, written as `oddity` or `oddity:argument`, until its input ends.
pub fn run(what: &str, record: Option<&Path>) -> io::Result<()> {
    let (name, argument) = what.split_once(':').unwrap_or((what, ""));
    let oddity = probing::find(name).or_else(|| hostile::find(name));
    let oddity = oddity.ok_or_else(|| io::Error::other(format!("unknown oddity `{name}`")))?;
    let record = record.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
    let mut output = Output {
        argument: argument.to_owned(),
        out: BufWriter::new(io::stdout()),
        record,
        deferred: Vec::new(),
        received: HashMap::new(),
        declared: Value::Null,
    };
    output.log("start")?;
    if name == "ends-at-once" {
        return Ok(());
    }
    for line in io::stdin().lock().lines() {
        let received = output.receive(&line?)?;
        if oddity(&received, &mut output)? == Flow::Exit {
            break;
        }
    }
    Ok(())
}

// === impl Heard ===

impl ReceivedMessage {
    /// Id of the message; null if it has none.
    pub fn id(&self) -> &Value {
        &self.message["id"]
    }

    /// Name of the called tool; empty for other messages.
    pub fn tool(&self) -> &str {
        if self.method == "tools/call" { self.message["params"]["name"].as_str().unwrap_or_default() } else { "" }
    }
}

// === impl Voice ===

impl Output {
    /// Sends a message.
    fn send(&mut self, message: &Value) -> io::Result<()> {
        self.send_bytes(message.to_string().as_bytes())?;
        self.send_bytes(b"\n")?;
        self.out.flush()
    }

    /// Sends arbitrary bytes without flushing.
    fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Answers according to the specification.
    fn answer(&mut self, speaks: SupportedEras, received: &ReceivedMessage) -> io::Result<Flow> {
        if let Some(answer) = speaks.answer(&received.message) {
            self.send(&answer)?;
        }
        Ok(Flow::Continue)
    }

    /// Keeps an answer to be sent later.
    fn defer(&mut self, message: Option<Value>) {
        self.deferred.extend(message);
    }

    /// Sends all deferred messages.
    fn send_deferred(&mut self) -> io::Result<()> {
        std::mem::take(&mut self.deferred).iter().try_for_each(|message| self.send(message))
    }

    fn receive(&mut self, line: &str) -> io::Result<ReceivedMessage> {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let kind = || if message.get("error").is_some() { "error" } else { "result" };
        let method = message.get("method").and_then(Value::as_str).unwrap_or_else(kind).to_owned();
        self.log(&method)?;
        if method == "initialize" {
            self.declared = message["params"]["capabilities"].clone();
        }
        let count = self.received.entry(method.clone()).or_default();
        let before = *count;
        *count += 1;
        Ok(ReceivedMessage { message, method, before })
    }

    fn log(&mut self, what: &str) -> io::Result<()> {
        match &mut self.record {
            Some(record) => writeln!(record, "{what}"),
            None => Ok(()),
        }
    }
}
