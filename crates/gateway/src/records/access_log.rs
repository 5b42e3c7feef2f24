//! The access log: one line for each call, each refused request and each server state change, with caller, target,
//! outcome, duration and sizes. Never arguments, results, keys or server messages about them. The lines of the operator
//! log go through the same queue.
//!
//! A thread formats and writes the lines in batches, so that a slow reader delays no caller. If the queue is full, lines
//! are dropped and counted.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    io::Write,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::{Condvar, Mutex};
use serde_json::json;
use toolway_host::{call::Caller, record::CallRecord};

use super::{refusal_rate::RefusalRate, timestamp::Timestamp};

/// Format of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value` pairs; values from clients and servers are quoted.
    Text,
    /// One JSON object per line.
    Json,
}

/// An open access log. Writes the queued lines on drop.
pub struct AccessLog {
    shared: Arc<Shared>,
    writing: Option<JoinHandle<()>>,
    // Nothing awaits under this lock.
    refusals: Mutex<RefusalRate>,
}

struct Shared {
    format: LogFormat,
    // Nothing awaits under these locks. The sink is locked before the queue.
    sink: Mutex<Box<dyn Write + Send>>,
    queue: Mutex<Queue>,
    woken: Condvar,
    lost: AtomicU64,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<LogEntry>,
    lost: u64,
    closed: bool,
}

enum LogEntry {
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
}

/// Maximum number of queued lines; more are dropped.
const MAX_QUEUED_LINES: usize = 8_192;
/// How long the writer waits to collect a batch.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// Maximum length of a name from a client or server, in characters.
const MAX_TEXT_CHARS: usize = 200;

// === impl AccessLog ===

impl AccessLog {
    /// Starts a log that writes to `sink`; fails if the writer thread cannot be started.
    pub fn to(sink: Box<dyn Write + Send>, format: LogFormat) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            format,
            sink: Mutex::new(sink),
            queue: Mutex::default(),
            woken: Condvar::new(),
            lost: AtomicU64::new(0),
        });
        let writer = Arc::clone(&shared);
        let writing = std::thread::Builder::new().name("access-log".to_owned()).spawn(move || writer.run())?;
        Ok(Self { shared, writing: Some(writing), refusals: Mutex::default() })
    }

    /// Writes a finished line of another log, in order with the lines of this one. `line` ends with a line break.
    pub fn write_line(&self, line: String) {
        self.shared.push(LogEntry::Line(line));
    }

    pub(crate) fn record_call(&self, record: Arc<CallRecord>) {
        self.shared.push(LogEntry::Call(record));
    }

    /// Records a refused request, unless its peer address has too many lines in this interval; then it is only counted.
    pub(crate) fn record_refused(&self, refused: RefusedRequest) {
        let (admitted, suppressed) = self.refusals.lock().admit(refused.peer, Instant::now());
        if 0 < suppressed {
            self.shared.push(LogEntry::Suppressed(Box::new((refused.at, suppressed))));
        }
        if !admitted {
            return;
        }
        self.shared.push(LogEntry::RefusedRequest(Box::new(refused)));
    }

    pub(crate) fn record_state(&self, change: ServerStateChange) {
        self.shared.push(LogEntry::Server(Box::new(change)));
    }

    /// Number of dropped lines.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Writes all queued lines.
    pub fn flush(&self) {
        self.shared.flush();
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.woken.notify_one();
        if let Some(writing) = self.writing.take() {
            // A panic of the thread was already reported by the panic hook.
            drop(writing.join());
        }
    }
}

impl Shared {
    fn push(&self, line: LogEntry) {
        let mut queue = self.queue.lock();
        if MAX_QUEUED_LINES <= queue.lines.len() {
            queue.lost += 1;
            drop(queue);
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.lines.push_back(line);
        let first = queue.lines.len() == 1;
        drop(queue);
        if first {
            self.woken.notify_one();
        }
    }

    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            while queue.lines.is_empty() && !queue.closed {
                self.woken.wait(&mut queue);
            }
            if !queue.closed {
                self.woken.wait_for(&mut queue, BATCH_DELAY);
            }
            let closed = queue.closed;
            drop(queue);
            self.flush();
            if closed {
                return;
            }
        }
    }

    fn flush(&self) {
        let mut sink = self.sink.lock();
        let mut queue = self.queue.lock();
        let (lines, lost) = (std::mem::take(&mut queue.lines), std::mem::take(&mut queue.lost));
        drop(queue);
        let mut text = String::with_capacity(lines.len() * 160);
        lines.iter().for_each(|line| self.format.write(line, &mut text));
        if 0 < lost {
            self.format.write_lost(lost, &mut text);
        }
        // The reader may be gone, or the disk full; there is no other place to say so.
        if sink.write_all(text.as_bytes()).and_then(|()| sink.flush()).is_err() {
            self.lost.fetch_add(lines.len() as u64, Ordering::Relaxed);
        }
    }
}

// === impl LogFormat ===

impl LogFormat {
    fn write(self, line: &LogEntry, text: &mut String) {
        let _written = match (self, line) {
            (Self::Text, LogEntry::Call(record)) => call_text(record, text),
            (Self::Text, LogEntry::RefusedRequest(change)) => refused_text(change, text),
            (Self::Text, LogEntry::Server(change)) => state_text(change, text),
            (Self::Json, LogEntry::Server(change)) => state_json(change, text),
            (Self::Json, LogEntry::Call(record)) => call_json(record, text),
            (Self::Json, LogEntry::RefusedRequest(change)) => refused_json(change, text),
            (Self::Text, LogEntry::Suppressed(it)) => {
                writeln!(text, "{} refused suppressed={}", Timestamp(it.0), it.1)
            }
            (Self::Json, LogEntry::Suppressed(it)) => {
                let time = Timestamp(it.0).to_string();
                writeln!(text, "{}", json!({ "time": time, "event": "refused", "suppressed": it.1 }))
            }
            (_, LogEntry::Line(line)) => text.write_str(line),
        };
    }

    fn write_lost(self, lost: u64, text: &mut String) {
        let at = Timestamp(SystemTime::now());
        let _written = match self {
            Self::Text => writeln!(text, "{at} lost lines={lost}"),
            Self::Json => writeln!(text, "{}", json!({ "time": at.to_string(), "event": "lost", "lines": lost })),
        };
    }
}

fn call_text(record: &CallRecord, text: &mut String) -> fmt::Result {
    // Assembled by hand, because every call is logged: this costs half as much as `write!`.
    Timestamp(record.started_at).push_to(text);
    text.push_str(" call caller=");
    push_caller(&record.caller, text);
    push(text, " kind=", record.kind.as_str());
    text.push_str(" name=");
    push_quoted(&record.name, text)?;
    push(text, " server=", record.server.as_ref().map_or("-", |server| server.as_str()));
    push(text, " outcome=", record.ending.as_str());
    if record.tool_error {
        text.push_str(" tool_error=true");
    }
    push_number(text, " asks=", u64::from(record.asks));
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
        "time": Timestamp(record.started_at).to_string(),
        "event": "call",
        "id": record.id.to_string(),
        "caller": caller(&record.caller),
        "kind": record.kind.as_str(),
        "name": cut(&record.name),
        "server": record.server.as_ref().map(|server| server.as_str()),
        "outcome": record.ending.as_str(),
        "toolError": record.tool_error,
        "asks": record.asks,
        "waitedMilliseconds": milliseconds(record.waited),
        "tookMilliseconds": milliseconds(record.took),
        "argumentBytes": record.argument_bytes,
        "resultBytes": record.result_bytes,
    });
    writeln!(text, "{line}")
}

fn refused_text(change: &RefusedRequest, text: &mut String) -> fmt::Result {
    let (at, caller) = (Timestamp(change.at), change.caller.as_deref().unwrap_or("-"));
    let RefusedRequest { method, path, status, took, peer, .. } = change;
    let took = milliseconds(*took);
    writeln!(
        text,
        "{at} refused caller={caller} peer={peer} method={method:?} path={path:?} status={status} took_ms={took}"
    )
}

fn refused_json(change: &RefusedRequest, text: &mut String) -> fmt::Result {
    let line = json!({
        "time": Timestamp(change.at).to_string(),
        "event": "refused",
        "caller": change.caller.as_deref(),
        "peer": change.peer.to_string(),
        "method": change.method,
        "path": change.path,
        "status": change.status,
        "tookMilliseconds": milliseconds(change.took),
    });
    writeln!(text, "{line}")
}

fn state_text(change: &ServerStateChange, text: &mut String) -> fmt::Result {
    write!(text, "{} server name={} state={:?}", Timestamp(change.at), change.name, change.state)?;
    match &change.because {
        Some(because) => writeln!(text, " because={because:?}"),
        None => writeln!(text),
    }
}

fn state_json(change: &ServerStateChange, text: &mut String) -> fmt::Result {
    let (time, because) = (Timestamp(change.at).to_string(), change.because.as_deref());
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

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("format", &self.shared.format).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        net::Ipv4Addr,
        sync::Arc,
        time::{Duration, SystemTime, UNIX_EPOCH},
    };

    use parking_lot::Mutex;

    use super::{AccessLog, LogFormat, MAX_QUEUED_LINES, RefusedRequest, Timestamp};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn refused(path: &str) -> RefusedRequest {
        RefusedRequest {
            at: UNIX_EPOCH,
            caller: None,
            method: "GET".to_owned(),
            path: path.to_owned(),
            status: 401,
            took: Duration::from_micros(1_500),
            peer: Ipv4Addr::LOCALHOST.into(),
        }
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _text: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_as_lost() {
        let log = AccessLog::to(Box::new(Broken), LogFormat::Text).unwrap();
        log.record_refused(refused("/x"));
        log.write_line("warn\n".to_owned());
        log.flush();
        assert_eq!(log.lost(), 2);
    }

    #[test]
    fn lines_of_another_log_are_written_in_order() {
        let buffer = Buffer::default();
        let log = AccessLog::to(Box::new(buffer.clone()), LogFormat::Text).unwrap();
        log.write_line("first\n".to_owned());
        log.record_refused(refused("/second"));
        log.write_line("third\n".to_owned());
        log.flush();
        let written = String::from_utf8(buffer.0.lock().clone()).unwrap();
        let lines: Vec<&str> = written.lines().collect();
        assert!(matches!(lines[..], ["first", second, "third"] if second.contains("/second")), "{written}");
    }

    #[test]
    fn path_with_control_characters_cannot_forge_a_line() {
        let buffer = Buffer::default();
        let log = AccessLog::to(Box::new(buffer.clone()), LogFormat::Text).unwrap();
        log.record_refused(refused("/x\n1970 call caller=root \u{1b}[2J"));
        drop(log);
        let written = String::from_utf8(buffer.0.lock().clone()).unwrap();
        let expected = "1970-01-01T00:00:00.000Z refused caller=- peer=127.0.0.1 method=\"GET\" \
                        path=\"/x\\n1970 call caller=root \\u{1b}[2J\" status=401 took_ms=1.5\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn lines_beyond_the_queue_limit_are_dropped_and_counted() {
        let buffer = Buffer::default();
        let log = AccessLog::to(Box::new(buffer.clone()), LogFormat::Json).unwrap();
        let stuck = log.shared.sink.lock();
        (0..MAX_QUEUED_LINES + 3).for_each(|_| log.write_line("line\n".to_owned()));
        assert_eq!(log.lost(), 3);
        drop(stuck);
        log.flush();
        let written = String::from_utf8(buffer.0.lock().clone()).unwrap();
        assert_eq!(written.lines().count(), MAX_QUEUED_LINES + 1);
        assert!(written.lines().last().unwrap().contains(r#""lines":3"#));
    }

    #[test]
    fn flood_of_refused_requests_is_cut_short() {
        let buffer = Buffer::default();
        let log = AccessLog::to(Box::new(buffer.clone()), LogFormat::Json).unwrap();
        (0..1_000).for_each(|_| log.record_refused(refused("/")));
        log.flush();
        let lines = String::from_utf8(buffer.0.lock().clone()).unwrap().lines().count();
        assert!((1..100).contains(&lines), "{lines}");
    }

    #[test]
    fn timestamps_are_rfc_3339() {
        let at = |seconds: u64| Timestamp(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_785_240_000), "2026-07-28T12:00:00.000Z");
        assert_eq!(at(1_798_761_599), "2026-12-31T23:59:59.000Z");
        assert_eq!(at(1_798_761_600), "2027-01-01T00:00:00.000Z");
        assert_eq!(at(1_772_323_199), "2026-02-28T23:59:59.000Z");
        assert_eq!(at(1_772_323_200), "2026-03-01T00:00:00.000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59.000Z");
        assert_eq!(Timestamp(SystemTime::UNIX_EPOCH).to_string(), "1970-01-01T00:00:00.000Z");
    }
}
