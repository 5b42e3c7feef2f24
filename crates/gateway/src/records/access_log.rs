//! One line of each call and of each request that was turned away: who, what, where, how it ended, how long it took
//! and how much it was. Never an argument, a result, a key, or what a server said about any of them.
//!
//! Lines are made and written by a thread of their own, a moment later and many at a time, so that no caller waits for
//! whoever reads them. Where nobody does, lines are lost and counted.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::{Condvar, Mutex};
use serde_json::json;
use toolway_host::{call::Caller, record::CallRecord};

/// In which form lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogForm {
    /// For people: `key=value`, what came from outside in quotes.
    Text,
    /// For programs: one object.
    Json,
}

/// A log that is being written. Dropped, it writes what is left.
pub struct AccessLog {
    shared: Arc<Shared>,
    writing: Option<JoinHandle<()>>,
}

struct Shared {
    form: LogForm,
    // Nothing awaits under these locks. The sink is locked before the queue.
    sink: Mutex<Box<dyn Write + Send>>,
    queue: Mutex<Queue>,
    woken: Condvar,
    lost: AtomicU64,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Line>,
    lost: u64,
    closed: bool,
}

enum Line {
    Call(Arc<CallRecord>),
    TurnedAway(Box<TurnedAway>),
    Server(Box<Turn>),
}

/// A server that has come to another state.
pub(crate) struct Turn {
    pub(crate) at: SystemTime,
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) because: Option<String>,
}

/// A request that was turned away.
pub(crate) struct TurnedAway {
    pub(crate) at: SystemTime,
    /// Nobody knows who a stranger is.
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) took: Duration,
}

/// Lines that wait to be written; more are lost.
const UNWRITTEN: usize = 8_192;
/// How long lines wait for others to be written with.
const TOGETHER: Duration = Duration::from_millis(20);
/// Letters of a name that came from outside.
const SHOWN: usize = 200;

// === impl AccessLog ===

impl AccessLog {
    /// Writes to `sink` in this form.
    pub fn to(sink: Box<dyn Write + Send>, form: LogForm) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            form,
            sink: Mutex::new(sink),
            queue: Mutex::default(),
            woken: Condvar::new(),
            lost: AtomicU64::new(0),
        });
        let writer = Arc::clone(&shared);
        let writing = std::thread::Builder::new().name("access-log".to_owned()).spawn(move || writer.run())?;
        Ok(Self { shared, writing: Some(writing) })
    }

    pub(crate) fn called(&self, record: Arc<CallRecord>) {
        self.shared.push(Line::Call(record));
    }

    pub(crate) fn turned_away(&self, turned_away: TurnedAway) {
        self.shared.push(Line::TurnedAway(Box::new(turned_away)));
    }

    pub(crate) fn turned(&self, turn: Turn) {
        self.shared.push(Line::Server(Box::new(turn)));
    }

    /// Lines that were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Writes what waits.
    pub(crate) fn write_out(&self) {
        self.shared.write_out();
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.woken.notify_one();
        if let Some(writing) = self.writing.take() {
            // It has told whoever looks that it panicked.
            drop(writing.join());
        }
    }
}

impl Shared {
    fn push(&self, line: Line) {
        let mut queue = self.queue.lock();
        if UNWRITTEN <= queue.lines.len() {
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
                self.woken.wait_for(&mut queue, TOGETHER);
            }
            let closed = queue.closed;
            drop(queue);
            self.write_out();
            if closed {
                return;
            }
        }
    }

    fn write_out(&self) {
        let mut sink = self.sink.lock();
        let mut queue = self.queue.lock();
        let (lines, lost) = (std::mem::take(&mut queue.lines), std::mem::take(&mut queue.lost));
        drop(queue);
        let mut text = String::with_capacity(lines.len() * 160);
        lines.iter().for_each(|line| self.form.write(line, &mut text));
        if 0 < lost {
            self.form.write_lost(lost, &mut text);
        }
        // Nobody may be reading any more.
        let _gone = sink.write_all(text.as_bytes()).and_then(|()| sink.flush());
    }
}

// === impl LogForm ===

impl LogForm {
    fn write(self, line: &Line, text: &mut String) {
        let _written = match (self, line) {
            (Self::Text, Line::Call(record)) => call_text(record, text),
            (Self::Text, Line::TurnedAway(turned)) => turned_away_text(turned, text),
            (Self::Text, Line::Server(turn)) => turn_text(turn, text),
            (Self::Json, Line::Server(turn)) => turn_json(turn, text),
            (Self::Json, Line::Call(record)) => call_json(record, text),
            (Self::Json, Line::TurnedAway(turned)) => turned_away_json(turned, text),
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
    // Every call is written down: put together by hand, a line costs half of what a format does.
    Timestamp(record.started_at).push_to(text);
    text.push_str(" call caller=");
    push_caller(&record.caller, text);
    push(text, " kind=", record.kind.word());
    text.push_str(" name=");
    push_quoted(&record.name, text)?;
    push(text, " server=", record.server.as_ref().map_or("-", |server| server.as_str()));
    push(text, " outcome=", record.ending.word());
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

/// A number in at least so many digits.
fn push_digits(text: &mut String, mut number: u64, least: usize) {
    let (mut digits, mut count) = ([b'0'; 20], 0);
    while 0 < number || count < least {
        count += 1;
        digits[20 - count] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    text.push_str(std::str::from_utf8(&digits[20 - count..]).unwrap_or_default());
}

/// To the microsecond, without noughts at the end.
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

/// A stranger's word between quotes. Most need nothing but those.
fn push_quoted(word: &str, text: &mut String) -> fmt::Result {
    let plain = |byte: u8| (0x20..0x7f).contains(&byte) && !matches!(byte, b'"' | b'\\');
    if SHOWN < word.len() || !word.bytes().all(plain) {
        return write!(text, "{:?}", cut(word));
    }
    text.push('"');
    push(text, word, "\"");
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
        "kind": record.kind.word(),
        "name": cut(&record.name),
        "server": record.server.as_ref().map(|server| server.as_str()),
        "outcome": record.ending.word(),
        "toolError": record.tool_error,
        "asks": record.asks,
        "waitedMilliseconds": milliseconds(record.waited),
        "tookMilliseconds": milliseconds(record.took),
        "argumentBytes": record.argument_bytes,
        "resultBytes": record.result_bytes,
    });
    writeln!(text, "{line}")
}

fn turned_away_text(turned: &TurnedAway, text: &mut String) -> fmt::Result {
    let (at, caller) = (Timestamp(turned.at), turned.caller.as_deref().unwrap_or("-"));
    let TurnedAway { method, path, status, took, .. } = turned;
    let took = milliseconds(*took);
    writeln!(text, "{at} refused caller={caller} method={method:?} path={path:?} status={status} took_ms={took}")
}

fn turned_away_json(turned: &TurnedAway, text: &mut String) -> fmt::Result {
    let line = json!({
        "time": Timestamp(turned.at).to_string(),
        "event": "refused",
        "caller": turned.caller.as_deref(),
        "method": turned.method,
        "path": turned.path,
        "status": turned.status,
        "tookMilliseconds": milliseconds(turned.took),
    });
    writeln!(text, "{line}")
}

fn turn_text(turn: &Turn, text: &mut String) -> fmt::Result {
    write!(text, "{} server name={} state={:?}", Timestamp(turn.at), turn.name, turn.state)?;
    match &turn.because {
        Some(because) => writeln!(text, " because={because:?}"),
        None => writeln!(text),
    }
}

fn turn_json(turn: &Turn, text: &mut String) -> fmt::Result {
    let (time, because) = (Timestamp(turn.at).to_string(), turn.because.as_deref());
    let line = json!({ "time": time, "event": "server", "name": turn.name, "state": turn.state, "because": because });
    writeln!(text, "{line}")
}

/// A name of ours; it has letters and a few marks in it.
fn caller(caller: &Caller) -> String {
    match caller {
        Caller::Client(name) => name.to_string(),
        other => other.to_string(),
    }
}

/// As much of a stranger's word as anybody needs.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

/// A time as `2026-07-28T12:00:00.000Z`.
struct Timestamp(SystemTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(24);
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

impl Timestamp {
    fn push_to(&self, text: &mut String) {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (year, month, day) = date(since.as_secs() / 86_400);
        let second = since.as_secs() % 86_400;
        // Filled in from the right, digit by digit: every line begins with this.
        let mut written = *b"0000-00-00T00:00:00.000Z";
        for (end, mut number) in [
            (4, year),
            (7, month),
            (10, day),
            (13, second / 3_600),
            (16, second / 60 % 60),
            (19, second % 60),
            (23, u64::from(since.subsec_millis())),
        ] {
            let mut at = end;
            while 0 < number {
                at -= 1;
                written[at] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
        text.push_str(std::str::from_utf8(&written).unwrap_or_default());
    }
}

/// Year, month and day of the so many-th day since 1970, in years that begin in March: then the leap day is the last.
fn date(day: u64) -> (u64, u64, u64) {
    const FOUR_CENTURIES: u64 = 146_097;
    // Counted from March of the year 0.
    let day = day + 719_468;
    let (era, day) = (day / FOUR_CENTURIES, day % FOUR_CENTURIES);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next, month, day)
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("form", &self.shared.form).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::Arc,
        time::{Duration, SystemTime, UNIX_EPOCH},
    };

    use parking_lot::Mutex;

    use super::{AccessLog, LogForm, Timestamp, TurnedAway, UNWRITTEN};

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn turned_away(path: &str) -> TurnedAway {
        TurnedAway {
            at: UNIX_EPOCH,
            caller: None,
            method: "GET".to_owned(),
            path: path.to_owned(),
            status: 401,
            took: Duration::from_micros(1_500),
        }
    }

    #[test]
    fn a_line_cannot_be_forged_with_a_name() {
        let paper = Paper::default();
        let log = AccessLog::to(Box::new(paper.clone()), LogForm::Text).unwrap();
        log.turned_away(turned_away("/x\n1970 call caller=root \u{1b}[2J"));
        drop(log);
        let written = String::from_utf8(paper.0.lock().clone()).unwrap();
        let expected = "1970-01-01T00:00:00.000Z refused caller=- method=\"GET\" \
                        path=\"/x\\n1970 call caller=root \\u{1b}[2J\" status=401 took_ms=1.5\n";
        assert_eq!(written, expected);
    }

    #[test]
    fn what_nobody_takes_is_lost_and_counted() {
        let paper = Paper::default();
        let log = AccessLog::to(Box::new(paper.clone()), LogForm::Json).unwrap();
        let stuck = log.shared.sink.lock();
        (0..UNWRITTEN + 3).for_each(|_| log.turned_away(turned_away("/")));
        assert_eq!(log.lost(), 3);
        drop(stuck);
        log.write_out();
        let written = String::from_utf8(paper.0.lock().clone()).unwrap();
        assert_eq!(written.lines().count(), UNWRITTEN + 1);
        assert!(written.lines().last().unwrap().contains(r#""lines":3"#));
    }

    #[test]
    fn a_time_is_written_as_the_world_writes_it() {
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
