//! `--export`: the messages between this process and its servers as JSON lines in a file, with a summary by method at the end.
//!
//! The format is in docs/reference/export.md. Lines are written as messages pass, in the order of this process; the file has
//! no more than [`MAX_FILE`] bytes of them. What one connection waits for is in `connection`, counts are in `summary`.

mod connection;
mod summary;

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;
use toolway_config::ServerName;
use toolway_host::{record::redact::Redactor, time};

use self::summary::{Observation, Summary};
use crate::{report::Report, wire_tap::mask};

pub(crate) use connection::{Direction, ExportedConnection};

/// An open export. Cheap to share.
#[derive(Debug)]
pub(crate) struct MessageExport {
    path: PathBuf,
    /// Number of the next connection.
    connections: AtomicU64,
    // Nothing awaits under this lock.
    state: Mutex<ExportState>,
}

#[derive(Debug)]
struct ExportState {
    file: File,
    /// Bytes of lines so far.
    written: u64,
    /// Messages that are counted but have no line.
    omitted: u64,
    /// Why a line could not be written. Nothing is written after that.
    failure: Option<String>,
    summary: Summary,
}

/// What became of an export.
#[derive(Debug)]
pub(crate) struct ExportEnd {
    pub(crate) path: PathBuf,
    pub(crate) messages: u64,
    pub(crate) omitted: u64,
    pub(crate) failure: Option<String>,
}

/// Version of the format.
const VERSION: u32 = 1;
/// Bytes of the lines of messages; later messages are only counted.
const MAX_FILE: u64 = 256 * 1024 * 1024;
/// Bytes of one message that are written; the rest is cut.
const MAX_MESSAGE: usize = 256 * 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(rename = "type")]
    kind: &'static str,
    version: u32,
    toolway: &'static str,
    started_at: String,
}

/// The line of a message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    at: String,
    server: &'a str,
    connection: u64,
    #[serde(flatten)]
    observation: &'a Observation,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a RawValue>,
    /// A message that is no JSON after masking, or is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

// === impl MessageExport ===

impl MessageExport {
    /// Creates the file, readable by the user only.
    pub(crate) fn create(path: &Path) -> Result<Arc<Self>, Report> {
        let mut options = OpenOptions::new();
        // An existing file is never replaced, and a link never followed.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let failed = |error: &std::io::Error| {
            let shown = path.display();
            match error.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    Report::usage("usage", format!("cannot export to `{shown}`: the file exists"))
                        .hint("choose another name; --export does not replace files")
                }
                _ => Report::usage("usage", format!("cannot export to `{shown}`: {error}")),
            }
        };
        let mut file = options.open(path).map_err(|error| failed(&error))?;
        let head = Head {
            kind: "export",
            version: VERSION,
            toolway: env!("CARGO_PKG_VERSION"),
            started_at: time::rfc3339_now(),
        };
        file.write_all(&json_line(&head)).map_err(|error| failed(&error))?;
        let state = ExportState { file, written: 0, omitted: 0, failure: None, summary: Summary::default() };
        Ok(Arc::new(Self { path: path.to_owned(), connections: AtomicU64::new(1), state: Mutex::new(state) }))
    }

    /// A new connection to a server.
    pub(crate) fn connection(self: &Arc<Self>, server: &ServerName, redactor: &Redactor) -> ExportedConnection {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        ExportedConnection::new(Arc::clone(self), server.clone(), number, redactor.clone())
    }

    /// Writes a message that passes on a connection.
    fn record(&self, connection: &ExportedConnection, observation: &Observation, text: &[u8]) {
        let at = time::rfc3339_now();
        // Masked before it is cut, so that no part of a secret stays.
        let masked = masked(text, connection.redactor());
        let end = masked.floor_char_boundary(MAX_MESSAGE);
        let is_cut = end < masked.len();
        let message = if is_cut { None } else { serde_json::from_str::<&RawValue>(&masked).ok() };
        let line = json_line(&Line {
            kind: "message",
            at,
            server: connection.server().as_str(),
            connection: connection.number(),
            observation,
            bytes: text.len(),
            message,
            text: message.is_none().then(|| &masked[..end]),
            cut: is_cut,
        });
        self.state.lock().append(connection.server(), observation, text.len(), &line);
    }

    /// Writes the summary. Later messages are not written.
    pub(crate) fn end(&self) -> ExportEnd {
        let mut state = self.state.lock();
        let line = json_line(&state.summary.view(state.omitted));
        if state.failure.is_none() {
            state.failure =
                state.file.write_all(&line).and_then(|()| state.file.sync_all()).err().map(|it| it.to_string());
        }
        let end = ExportEnd {
            path: self.path.clone(),
            messages: state.summary.messages(),
            omitted: state.omitted,
            failure: state.failure.clone(),
        };
        state.failure.get_or_insert_with(|| "the export has ended".to_owned());
        end
    }
}

impl ExportState {
    fn append(&mut self, server: &ServerName, observation: &Observation, bytes: usize, line: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        self.summary.count(server, observation, bytes);
        let written = self.written.saturating_add(line.len() as u64);
        if MAX_FILE < written {
            self.omitted += 1;
            return;
        }
        self.written = written;
        if let Err(error) = self.file.write_all(line) {
            self.failure = Some(error.to_string());
        }
    }
}

/// A message without secrets.
fn masked(text: &[u8], redactor: &Redactor) -> String {
    mask(&redactor.plain(&String::from_utf8_lossy(text)), &[])
}

fn json_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests;
