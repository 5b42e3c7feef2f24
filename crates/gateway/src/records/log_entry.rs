//! The entries of the access log, as text and as JSON. When they are written is in `access_log`.

use std::{
    fmt::{self, Write as _},
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::json;
use toolway_host::{call::Caller, record::CallRecord, time::rfc3339_of};

/// Format of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value` pairs; values from clients and servers are quoted.
    Text,
    /// One JSON object per line.
    Json,
}

/// What one line is about.
pub(super) enum LogEntry {
    Call(Arc<CallRecord>),
    RefusedRequest(Box<RefusedRequest>),
    /// Time, and number of refused requests without a line.
    Suppressed(Box<(SystemTime, u64)>),
    Server(Box<ServerStateChange>),
    Line(String),
}

/// A server whose state changed.
pub(crate) struct ServerStateChange {
    pub(crate) at: SystemTime,
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) because: Option<String>,
}

/// A request that was answered with a status of 400 or above.
pub(crate) struct RefusedRequest {
    pub(crate) at: SystemTime,
    /// `None` for an unauthenticated client.
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) took: Duration,
    pub(crate) peer: IpAddr,
    /// Why the gateway refused it, and what to set; `None` if a server or the protocol did.
    pub(crate) reason: Option<String>,
}

/// Maximum length of a name from a client or server, in characters.
const MAX_TEXT_CHARS: usize = 200;

// === impl LogFormat ===

impl LogFormat {
    pub(super) fn write(self, line: &LogEntry, text: &mut String) {
        let _written = match (self, line) {
            (Self::Text, LogEntry::Call(record)) => call_text(record, text),
            (Self::Text, LogEntry::RefusedRequest(change)) => refused_text(change, text),
            (Self::Text, LogEntry::Server(change)) => state_text(change, text),
            (Self::Json, LogEntry::Server(change)) => state_json(change, text),
            (Self::Json, LogEntry::Call(record)) => call_json(record, text),
            (Self::Json, LogEntry::RefusedRequest(change)) => refused_json(change, text),
            (Self::Text, LogEntry::Suppressed(it)) => {
                writeln!(text, "{} refused suppressed={}", rfc3339_of(it.0), it.1)
            }
            (Self::Json, LogEntry::Suppressed(it)) => {
                let time = rfc3339_of(it.0);
                writeln!(text, "{}", json!({ "time": time, "event": "refused", "suppressed": it.1 }))
            }
            (_, LogEntry::Line(line)) => text.write_str(line),
        };
    }

    pub(super) fn write_lost(self, lost: u64, text: &mut String) {
        let at = rfc3339_of(SystemTime::now());
        let _written = match self {
            Self::Text => writeln!(text, "{at} lost lines={lost}"),
            Self::Json => writeln!(text, "{}", json!({ "time": at, "event": "lost", "lines": lost })),
        };
    }
}

fn call_text(record: &CallRecord, text: &mut String) -> fmt::Result {
    // Assembled by hand, because every call is logged: this costs half as much as `write!`.
    text.push_str(&rfc3339_of(record.started_at));
    text.push_str(" call caller=");
    push_caller(&record.caller, text);
    push(text, " kind=", record.kind.as_str());
    text.push_str(" name=");
    push_quoted(&record.name, text)?;
    push(text, " server=", record.server.as_ref().map_or("-", |server| server.as_str()));
    push(text, " state=", record.state.as_str());
    push_number(text, " server_requests=", u64::from(record.server_requests));
    push_milliseconds(text, " sent_after_ms=", record.sent_after);
    push_milliseconds(text, " waited_ms=", record.waited);
    push_milliseconds(text, " took_ms=", record.took);
    push_number(text, " in=", record.argument_bytes as u64);
    push_number(text, " out=", record.result_bytes as u64);
    writeln!(text, " id={}", record.id)
}

fn push(text: &mut String, key: &str, value: &str) {
    text.push_str(key);
    text.push_str(value);
}

fn push_number(text: &mut String, key: &str, number: u64) {
    text.push_str(key);
    push_digits(text, number, 1);
}

/// Appends a number with at least `least` digits.
fn push_digits(text: &mut String, mut number: u64, least: usize) {
    let (mut digits, mut count) = ([b'0'; 20], 0);
    while 0 < number || count < least {
        count += 1;
        digits[20 - count] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    text.push_str(std::str::from_utf8(&digits[20 - count..]).unwrap_or_default());
}

/// Appends milliseconds with microsecond precision, without trailing zeros.
fn push_milliseconds(text: &mut String, key: &str, time: Duration) {
    let microseconds = u64::try_from((time.as_nanos() + 500) / 1_000).unwrap_or(u64::MAX);
    push_number(text, key, microseconds / 1_000);
    let mut rest = microseconds % 1_000;
    if rest == 0 {
        return;
    }
    let mut least = 3;
    while rest.is_multiple_of(10) {
        (rest, least) = (rest / 10, least - 1);
    }
    text.push('.');
    push_digits(text, rest, least);
}

/// Appends an untrusted text in quotes, escaped and cut if necessary.
fn push_quoted(value: &str, text: &mut String) -> fmt::Result {
    let plain = |byte: u8| (0x20..0x7f).contains(&byte) && !matches!(byte, b'"' | b'\\');
    if MAX_TEXT_CHARS < value.len() || !value.bytes().all(plain) {
        return write!(text, "{:?}", cut(value));
    }
    text.push('"');
    push(text, value, "\"");
    Ok(())
}

fn push_caller(caller: &Caller, text: &mut String) {
    match caller {
        Caller::Client(name) => text.push_str(name),
        other => text.push_str(&other.to_string()),
    }
}

fn call_json(record: &CallRecord, text: &mut String) -> fmt::Result {
    let line = json!({
        "time": rfc3339_of(record.started_at),
        "event": "call",
        "id": record.id.to_string(),
        "caller": caller(&record.caller),
        "kind": record.kind.as_str(),
        "name": cut(&record.name),
        "server": record.server.as_ref().map(|server| server.as_str()),
        "state": record.state.as_str(),
        "serverRequests": record.server_requests,
        "sentAfterMilliseconds": milliseconds(record.sent_after),
        "waitedMilliseconds": milliseconds(record.waited),
        "tookMilliseconds": milliseconds(record.took),
        "argumentBytes": record.argument_bytes,
        "resultBytes": record.result_bytes,
    });
    writeln!(text, "{line}")
}

fn refused_text(change: &RefusedRequest, text: &mut String) -> fmt::Result {
    let (at, caller) = (rfc3339_of(change.at), change.caller.as_deref().unwrap_or("-"));
    let RefusedRequest { method, path, status, took, peer, .. } = change;
    let took = milliseconds(*took);
    write!(
        text,
        "{at} refused caller={caller} peer={peer} method={method:?} path={path:?} status={status} took_ms={took}"
    )?;
    match &change.reason {
        Some(reason) => writeln!(text, " reason={reason:?}"),
        None => writeln!(text),
    }
}

fn refused_json(change: &RefusedRequest, text: &mut String) -> fmt::Result {
    let line = json!({
        "time": rfc3339_of(change.at),
        "event": "refused",
        "caller": change.caller.as_deref(),
        "peer": change.peer.to_string(),
        "method": change.method,
        "path": change.path,
        "status": change.status,
        "tookMilliseconds": milliseconds(change.took),
        "reason": change.reason,
    });
    writeln!(text, "{line}")
}

fn state_text(change: &ServerStateChange, text: &mut String) -> fmt::Result {
    write!(text, "{} server name={} state={:?}", rfc3339_of(change.at), change.name, change.state)?;
    match &change.because {
        Some(because) => writeln!(text, " because={because:?}"),
        None => writeln!(text),
    }
}

fn state_json(change: &ServerStateChange, text: &mut String) -> fmt::Result {
    let (time, because) = (rfc3339_of(change.at), change.because.as_deref());
    let line =
        json!({ "time": time, "event": "server", "name": change.name, "state": change.state, "because": because });
    writeln!(text, "{line}")
}

/// Caller name; needs no quotes, because names are restricted to letters, digits and a few marks.
fn caller(caller: &Caller) -> String {
    match caller {
        Caller::Client(name) => name.to_string(),
        other => other.to_string(),
    }
}

/// At most [`MAX_TEXT_CHARS`] characters of an untrusted text.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(MAX_TEXT_CHARS).collect()
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}
