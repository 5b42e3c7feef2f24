//! A `tracing` subscriber that writes all events at every level as text, for tests of log content.

use std::{
    fmt::{self, Write},
    sync::atomic::{AtomicU64, Ordering},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Writes each span and each event with all fields.
pub struct Transcript<W> {
    write: W,
    spans: AtomicU64,
}

struct LogLine(String);

impl<W: Fn(&str) + Send + Sync + 'static> Transcript<W> {
    /// A transcript that passes each line to `write`.
    pub fn new(write: W) -> Self {
        Self { write, spans: AtomicU64::new(0) }
    }

    fn line(&self, metadata: &Metadata<'_>, fields: impl FnOnce(&mut LogLine)) {
        let mut line = LogLine(format!("{} {} {}", metadata.level(), metadata.target(), metadata.name()));
        fields(&mut line);
        (self.write)(&line.0);
    }
}

impl<W: Fn(&str) + Send + Sync + 'static> Subscriber for Transcript<W> {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        self.line(span.metadata(), |line| span.record(line));
        span::Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _span: &span::Id, values: &span::Record<'_>) {
        let mut line = LogLine("fields".to_owned());
        values.record(&mut line);
        (self.write)(&line.0);
    }

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.line(event.metadata(), |line| event.record(line));
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _written = write!(self.0, " {}={value:?}", field.name());
    }
}

impl<W> fmt::Debug for Transcript<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transcript")
    }
}
