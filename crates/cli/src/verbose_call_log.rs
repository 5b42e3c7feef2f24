//! The record of each call, as `-v` shows it after its end. Nothing is kept: a command has one call, and is over.

use std::{io::Write, sync::Arc};

use toolway_host::record::{CallLog, CallRecord};

use crate::output::clean;

/// Takes the records of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallNotes {
    pub(crate) shown: bool,
}

/// Letters of a note.
const SHOWN: usize = 500;

impl CallLog for CallNotes {
    fn append(&self, record: Arc<CallRecord>) {
        if self.shown {
            let mut talk = std::io::stderr();
            // Nobody may be reading any more.
            let _gone = writeln!(talk, "= {}", clean::line(&note(&record), SHOWN));
        }
    }
}

fn note(record: &CallRecord) -> String {
    let CallRecord { kind, name, ending, rule, argument_bytes, result_bytes, .. } = record;
    let of = record.server.as_ref().map(|server| format!(" of `{server}`")).unwrap_or_default();
    let by = rule.map(|rule| format!(" by the rule `{rule}`")).unwrap_or_default();
    let [waited, took] = [record.waited, record.took].map(|time| time.as_secs_f64() * 1_000.0);
    let why = record.message.as_ref().map(|message| format!("; {message}")).unwrap_or_default();
    format!(
        "{kind} `{name}`{of}: {ending}{by}, sent after {waited:.1} ms, over after {took:.1} ms, \
         {argument_bytes} bytes out, {result_bytes} in{why}"
    )
}
