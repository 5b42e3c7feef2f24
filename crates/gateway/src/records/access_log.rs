//! The access log: one line for each call, each refused request and each server state change, with caller, target,
//! outcome, duration and sizes. Never arguments, results, keys or server messages about them. The lines of the operator
//! log go through the same queue.
//!
//! The lines themselves are in `log_entry`. A thread formats and writes the lines in batches, so that a slow reader delays no caller. If the queue is full, lines
//! are dropped and counted.

use std::{
    collections::VecDeque,
    fmt,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use toolway_host::record::CallRecord;

use super::{
    log_entry::{LogEntry, LogFormat, RefusedRequest, ServerStateChange},
    refusal_rate::RefusalRate,
};

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

/// Maximum number of queued lines; more are dropped.
const MAX_QUEUED_LINES: usize = 8_192;
/// How long the writer waits to collect a batch.
const BATCH_DELAY: Duration = Duration::from_millis(20);

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
        time::{Duration, UNIX_EPOCH},
    };

    use parking_lot::Mutex;

    use super::{AccessLog, LogFormat, MAX_QUEUED_LINES, RefusedRequest};

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
            reason: Some("host not allowed: `x\n`".to_owned()),
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
                        path=\"/x\\n1970 call caller=root \\u{1b}[2J\" status=401 took_ms=1.5 \
                        reason=\"host not allowed: `x\\n`\"\n";
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
}
