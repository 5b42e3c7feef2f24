//! Checks arguments before they are sent and results when they are there, against the schemas of the tool's definition.
//!
//! `check.rs` makes one check, within bounds that `cost.rs` sets; `schemas.rs` keeps compiled schemas by the digest of their
//! definition; `queue.rs` checks what is only reported, after the answer was given. The path of a call uses it in two
//! places: `call/pipeline.rs` before a request is sent, `call/relay.rs` when it has ended.

pub mod check;
mod cost;
mod fast_check;
mod flat_check;
mod queue;
mod schemas;

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde_json::json;
use toolway_config::{ArgumentValidation, ResultValidation, ServerName, ValidationModes};
use toolway_wire::json::Raw;

use self::{
    check::{CheckResult, Checked, Quoting},
    queue::Queue,
    schemas::Schemas,
};
use crate::{
    call::CallId,
    catalog::{Fingerprint, ToolEntry},
    host::Host,
    policy::Surface,
    record::{AuditNote, CallRecorder, kind, redact::Redactor},
};

/// Validation of one host.
pub(crate) struct Validation {
    modes: Mutex<ValidationModes>,
    schemas: Arc<Schemas>,
    counts: Counts,
    queue: Queue,
    /// Reports of calls that ended, until their surface asks for them; the oldest are forgotten.
    reports: Mutex<VecDeque<(CallId, ValidationReport)>>,
}

/// What does not match in a call that was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationReport {
    /// Problems of the arguments.
    pub arguments: Vec<String>,
    /// Problems of the result.
    pub result: Vec<String>,
}

/// The definition of a tool as far as it is checked, and what was sent to it.
#[derive(Clone, Debug)]
pub(crate) struct ToolCheck {
    pub(crate) server: ServerName,
    pub(crate) tool: String,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) input: Raw,
    pub(crate) output: Option<Raw>,
    /// Arguments that are checked after the call; `None` if they were checked before, or are not.
    pub(crate) arguments: Option<Raw>,
}

/// Counts since the start, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidationCounts {
    /// Calls that were refused because of their arguments.
    pub rejected: u64,
    /// Calls that were sent with arguments that do not match.
    pub invalid_arguments: u64,
    /// Results that do not match.
    pub invalid_results: u64,
    /// Values that were not checked because of their size, or because too many waited.
    pub skipped: u64,
}

#[derive(Debug, Default)]
struct Counts {
    rejected: AtomicU64,
    invalid_arguments: AtomicU64,
    invalid_results: AtomicU64,
    skipped: AtomicU64,
}

/// Reports that wait for their surface.
const REPORTS: usize = 256;

impl Validation {
    pub(crate) fn new(modes: ValidationModes) -> Self {
        Self {
            modes: Mutex::new(modes),
            schemas: Arc::default(),
            counts: Counts::default(),
            queue: Queue::default(),
            reports: Mutex::default(),
        }
    }

    /// Applies another configuration.
    pub(crate) fn set_modes(&self, modes: ValidationModes) {
        *self.modes.lock() = modes;
    }

    /// What happens to invalid arguments of a call from this surface.
    fn argument_mode(&self, surface: Surface) -> ArgumentValidation {
        let default = match surface {
            Surface::Call | Surface::Chat | Surface::Run | Surface::Console => ArgumentValidation::Reject,
            Surface::Gateway | Surface::Library => ArgumentValidation::Report,
        };
        self.modes.lock().arguments.unwrap_or(default)
    }

    /// Checks the arguments of a call if they may be rejected, and returns what is left to be checked when it has ended.
    /// The error has one message for each problem.
    pub(crate) async fn before(
        &self,
        entry: &ToolEntry,
        arguments: Option<&Raw>,
        surface: Surface,
    ) -> Result<Option<ToolCheck>, Vec<String>> {
        let (mode, results) = (self.argument_mode(surface), self.modes.lock().results);
        let output = entry.item.output_schema.clone().filter(|_| results == ResultValidation::Report);
        let mut check = ToolCheck {
            server: entry.origin.server.clone(),
            tool: entry.origin.raw_name.clone(),
            fingerprint: entry.fingerprint,
            input: entry.item.input_schema.clone(),
            output,
            arguments: None,
        };
        let given = arguments.cloned().unwrap_or_else(Raw::empty_object);
        match mode {
            ArgumentValidation::Off => {}
            ArgumentValidation::Report => check.arguments = Some(given),
            ArgumentValidation::Reject => {
                let checked = self.schemas.check(&check, Checked::Arguments, given, Quoting::Quoted).await;
                if let CheckResult::Invalid(problems) = checked {
                    self.counts.rejected.fetch_add(1, Ordering::Relaxed);
                    return Err(problems);
                }
            }
        }
        Ok((check.arguments.is_some() || check.output.is_some()).then_some(check))
    }

    /// Checks what was left, now. The caller waits for it, so that its surface can show the report.
    pub(crate) async fn after(&self, check: ToolCheck, structured: Option<Raw>, noted: Noted) {
        let mut report = ValidationReport::default();
        if let Some(arguments) = check.arguments.clone() {
            report.arguments =
                problems(self.schemas.check(&check, Checked::Arguments, arguments, Quoting::Masked).await);
        }
        if let Some(structured) = structured.filter(|_| check.output.is_some()) {
            report.result = problems(self.schemas.check(&check, Checked::Result, structured, Quoting::Masked).await);
        }
        self.keep(&check, report, noted);
    }

    /// Checks what was left later, off the runtime. A value that is too large, or for which there is no room, is skipped
    /// and counted.
    /// Small values are looked at in place first, which costs less than to hand them over.
    pub(crate) fn later(self: &Arc<Self>, mut check: ToolCheck, structured: Option<Raw>, noted: Noted) {
        let is_open = |what: Checked, value: &Raw| !self.schemas.is_certainly_valid(&check, what, value);
        let arguments = check.arguments.clone().filter(|arguments| is_open(Checked::Arguments, arguments));
        let structured = structured.filter(|value| check.output.is_some() && is_open(Checked::Result, value));
        check.arguments = arguments;
        if check.arguments.is_none() && structured.is_none() {
            return;
        }
        if !Queue::push(self, queue::Job { check, structured, noted }) {
            self.counts.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts, notes and keeps a report, if there is anything to report.
    fn keep(&self, check: &ToolCheck, report: ValidationReport, noted: Noted) {
        let redacted = |problems: Vec<String>| problems.iter().map(|problem| noted.redactor.text(problem)).collect();
        let report = ValidationReport { arguments: redacted(report.arguments), result: redacted(report.result) };
        let ValidationReport { arguments, result } = &report;
        if arguments.is_empty() && result.is_empty() {
            return;
        }
        self.counts.invalid_arguments.fetch_add(u64::from(!arguments.is_empty()), Ordering::Relaxed);
        self.counts.invalid_results.fetch_add(u64::from(!result.is_empty()), Ordering::Relaxed);
        let (server, tool) = (&check.server, &check.tool);
        tracing::info!(%server, tool, call_id = %noted.call, ?arguments, ?result, "a call does not match the schemas of its tool");
        if let Some(recorder) = &noted.recorder {
            recorder.note(AuditNote {
                kind: kind::VALIDATION,
                caller: Some(noted.caller),
                server: Some(server.clone()),
                subject: Some(tool.clone()),
                call: Some(noted.call),
                details: json!({ "arguments": arguments, "result": result }),
            });
        }
        let mut reports = self.reports.lock();
        if REPORTS <= reports.len() {
            reports.pop_front();
        }
        reports.push_back((noted.call, report));
    }
}

/// The call that a report is about, and where it is noted.
#[derive(Clone)]
pub(crate) struct Noted {
    pub(crate) call: CallId,
    pub(crate) caller: String,
    pub(crate) recorder: Option<Arc<dyn CallRecorder>>,
    pub(crate) redactor: Redactor,
}

fn problems(checked: CheckResult) -> Vec<String> {
    match checked {
        CheckResult::Invalid(problems) => problems,
        CheckResult::Valid | CheckResult::Unchecked(_) => Vec::new(),
    }
}

impl Host {
    /// What did not match the schemas in a call that has ended; `None` if everything did. Given once.
    pub fn take_validation_report(&self, call: CallId) -> Option<ValidationReport> {
        let mut reports = self.inner().validation.reports.lock();
        let at = reports.iter().position(|(id, _)| *id == call)?;
        reports.remove(at).map(|(_, report)| report)
    }

    /// Counts of validation since the start.
    pub fn validation_counts(&self) -> ValidationCounts {
        let counts = &self.inner().validation.counts;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ValidationCounts {
            rejected: load(&counts.rejected),
            invalid_arguments: load(&counts.invalid_arguments),
            invalid_results: load(&counts.invalid_results),
            skipped: load(&counts.skipped),
        }
    }
}

impl ValidationReport {
    /// One line for each part that does not match.
    pub fn lines(&self) -> Vec<String> {
        let part = |what: &str, problems: &[String]| {
            (!problems.is_empty()).then(|| format!("{what} the schema of the tool: {}", problems.join("; ")))
        };
        let arguments = part("the arguments do not match", &self.arguments);
        arguments.into_iter().chain(part("the result does not match", &self.result)).collect()
    }
}

impl fmt::Debug for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noted").field("call", &self.call).field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl fmt::Debug for Validation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validation").field("counts", &self.counts).finish_non_exhaustive()
    }
}
