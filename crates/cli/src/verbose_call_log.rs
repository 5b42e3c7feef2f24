//! Prints the record of each finished call with `-v`. Stores nothing.

use std::{io::Write, sync::Arc};

use toolway_host::record::{CallLog, CallRecord};

use crate::output::clean;

/// Call log of one command; prints records to standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VerboseCallLog {
    /// Whether `-v` is given.
    pub(crate) shown: bool,
}

/// Longest record in characters.
const SHOWN: usize = 500;

impl CallLog for VerboseCallLog {
    fn append(&self, record: Arc<CallRecord>) {
        if self.shown {
            let mut stderr = std::io::stderr();
            // Standard error may be closed.
            let _gone = writeln!(stderr, "= {}", clean::line(&note(&record), SHOWN));
        }
    }
}

fn note(record: &CallRecord) -> String {
    let CallRecord { kind, name, state, rule, argument_bytes, result_bytes, .. } = record;
    let of = record.server.as_ref().map(|server| format!(" of `{server}`")).unwrap_or_default();
    let by = rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
    let [sent, took] = [record.sent_after, record.took].map(|time| time.as_secs_f64() * 1_000.0);
    let why = record.message.as_ref().map(|message| format!("; {message}")).unwrap_or_default();
    format!(
        "{kind} `{name}`{of}: {state}{by}, sent after {sent:.1} ms, done after {took:.1} ms, \
        {argument_bytes} bytes sent, {result_bytes} bytes received{why}"
    )
}
