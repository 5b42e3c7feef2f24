//! An odd server over lines: what it hears, what it says, and the loop between.
//!
//! Which oddities there are is in [`probing`] (the first words) and [`hostile`] (everything after them). It runs as
//! the program `odd-server`; what it heard is written to a file before it is acted on, so that a test that got an
//! answer finds in the file everything that came before.

mod hostile;
mod probing;

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufWriter, Stdout, Write},
    path::Path,
};

use serde_json::Value;

use super::polite::Speaks;

/// A message that came in.
#[derive(Debug)]
pub struct Heard {
    /// As it was read.
    pub message: Value,
    /// The method; for answers `result` or `error`.
    pub method: String,
    /// How often that came before.
    pub before: usize,
}

/// What an odd server says it with.
#[derive(Debug)]
pub struct Voice {
    /// What stands after the oddity's name.
    argument: String,
    out: BufWriter<Stdout>,
    record: Option<File>,
    /// Kept back to be said later.
    owed: Vec<Value>,
    heard: HashMap<String, usize>,
}

/// Whether to read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read the next message.
    GoOn,
    /// Exit.
    Leave,
}

/// One way to be odd: what is done with each message.
type Oddity = fn(&Heard, &mut Voice) -> io::Result<Next>;

/// Runs the server `what` names, as `oddity` or `oddity:argument`, until its input ends.
pub fn run(what: &str, record: Option<&Path>) -> io::Result<()> {
    let (name, argument) = what.split_once(':').unwrap_or((what, ""));
    let oddity = probing::find(name).or_else(|| hostile::find(name));
    let oddity = oddity.ok_or_else(|| io::Error::other(format!("no oddity is called `{name}`")))?;
    let record = record.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
    let mut voice = Voice {
        argument: argument.to_owned(),
        out: BufWriter::new(io::stdout()),
        record,
        owed: Vec::new(),
        heard: HashMap::new(),
    };
    voice.note("start")?;
    if name == "ends-at-once" {
        return Ok(());
    }
    for line in io::stdin().lock().lines() {
        let heard = voice.hear(&line?)?;
        if oddity(&heard, &mut voice)? == Next::Leave {
            break;
        }
    }
    Ok(())
}

// === impl Heard ===

impl Heard {
    /// The id; null where there is none.
    pub fn id(&self) -> &Value {
        &self.message["id"]
    }

    /// The tool that is called, if one is.
    pub fn tool(&self) -> &str {
        if self.method == "tools/call" { self.message["params"]["name"].as_str().unwrap_or_default() } else { "" }
    }
}

// === impl Voice ===

impl Voice {
    /// Says a message.
    fn say(&mut self, message: &Value) -> io::Result<()> {
        self.say_bytes(message.to_string().as_bytes())?;
        self.say_bytes(b"\n")?;
        self.out.flush()
    }

    /// Says something that need not be a message; nothing is flushed.
    fn say_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Answers as a server with manners would.
    fn answer(&mut self, speaks: Speaks, heard: &Heard) -> io::Result<Next> {
        if let Some(answer) = speaks.answer(&heard.message) {
            self.say(&answer)?;
        }
        Ok(Next::GoOn)
    }

    /// Keeps an answer back.
    fn owe(&mut self, message: Option<Value>) {
        self.owed.extend(message);
    }

    /// Says everything that was kept back.
    fn pay(&mut self) -> io::Result<()> {
        std::mem::take(&mut self.owed).iter().try_for_each(|message| self.say(message))
    }

    fn hear(&mut self, line: &str) -> io::Result<Heard> {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let kind = || if message.get("error").is_some() { "error" } else { "result" };
        let method = message.get("method").and_then(Value::as_str).unwrap_or_else(kind).to_owned();
        self.note(&method)?;
        let count = self.heard.entry(method.clone()).or_default();
        let before = *count;
        *count += 1;
        Ok(Heard { message, method, before })
    }

    fn note(&mut self, what: &str) -> io::Result<()> {
        match &mut self.record {
            Some(record) => writeln!(record, "{what}"),
            None => Ok(()),
        }
    }
}
