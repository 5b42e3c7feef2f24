//! A host with one server for the duration of one command: its catalog, calls to it, and their failures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use toolway_config::ServerName;
use toolway_host::{
    call::{CallError, CallEvent, CallOutcome, CallRequest, Caller, Target as CallTarget, Unsent},
    catalog::{Catalog, Freshness, ItemKind, Origin},
    connection::{Phase, ServerStatus, TransportKind, stderr_tail},
    host::Host,
    policy::{Attendance, Refusal},
    record::Delivery,
    validation::ValidationReport,
};
use toolway_wire::{
    exchange::{ExchangeTimeouts, LogLevel},
    json::Raw,
    message::splice,
};

use crate::{
    app::App,
    exclusion::Exclusion,
    exit_code::ExitCode,
    multi_server_host::UNLISTED,
    output::{self, Format, Output, clean, progress},
    report::Report,
    target::Target,
    terminal::given::CommandAnswerer,
    wire_tap::WireTap,
};

/// Host with exactly one server.
#[derive(Debug)]
pub(crate) struct SingleServerHost {
    pub(crate) host: Host,
    pub(crate) target: Target,
    pub(crate) tap: Arc<WireTap>,
    pub(crate) answerer: Arc<CommandAnswerer>,
    /// Whether a call was opened, which records it.
    pub(crate) is_opened: AtomicBool,
}

/// Request of ours in which a server that is not ready failed: the handshake or a list.
pub(crate) const LISTING: &str = "tools/list";
/// Characters of a notice about values that do not match a schema.
const MISMATCH: usize = 1_000;
/// Time to send a cancellation before the command exits.
const LAST_MESSAGE: Duration = Duration::from_millis(500);

impl SingleServerHost {
    /// Name of the server.
    pub(crate) fn name(&self) -> &ServerName {
        &self.target.server.name
    }

    /// Whether the server has issued a session.
    pub(crate) fn has_session(&self) -> bool {
        let status = self.host.status(self.name()).ok();
        status.and_then(|status| status.profile).is_some_and(|profile| profile.session.is_some())
    }

    /// Digest of the server's entry, by which saved approvals recognise it.
    pub(crate) fn entry_digest(&self, app: &App) -> String {
        self.target.server.entry_digest(&app.environment)
    }

    /// An item of this server, by the server's own name for it.
    pub(crate) fn origin(&self, raw_name: &str) -> Origin {
        self.target.origin(raw_name)
    }

    /// A request of the terminal user, with the `--timeout` of the command.
    pub(crate) fn request(&self, app: &App, target: CallTarget, arguments: Option<Raw>) -> CallRequest {
        let attendance = if output::is_interactive() { Attendance::Attended } else { Attendance::Unattended };
        CallRequest { arguments, terms: app.terms(), attendance, ..CallRequest::new(Caller::Terminal, target) }
    }

    /// Whether the listing comes from the server in this run, not from the cache.
    pub(crate) fn is_listed(&self) -> bool {
        self.host.catalog().freshness_of(self.name()) == Some(Freshness::Verified)
    }

    /// The catalog. Fails if the list of `kind` failed; prints a notice for each invalid item and if the entry excludes `kind`.
    pub(crate) fn catalog(&self, kind: ItemKind, output: &mut Output) -> Result<Arc<Catalog>, Report> {
        let catalog = self.host.catalog();
        let set_aside = catalog.listing_of(self.name()).map(|listing| listing.set_aside.as_slice()).unwrap_or_default();
        for item in set_aside.iter().filter(|item| item.kind == kind) {
            match item.failed {
                Some(code) => return Err(self.attribute(Report::from_code(code, &item.reason), LISTING)),
                None => output.notice(&format!("toolway: ignored: {}", item.reason)),
            }
        }
        if let Some(exclusion) = self.target.entry.as_ref().and_then(|entry| Exclusion::of_kind(entry, kind)) {
            output.notice(&format!("toolway: server `{}`: every {kind} is excluded by {exclusion}", self.name()));
        }
        Ok(catalog)
    }

    /// Sends a request and waits for its result. Prints progress and logs, answers server requests at the terminal or from
    /// the command line, and cancels the call at the server if the command is stopped.
    pub(crate) async fn call(
        &self,
        app: &App,
        request: CallRequest,
        method: &str,
        output: &mut Output,
    ) -> Result<Raw, Report> {
        self.is_opened.store(true, Ordering::Relaxed);
        let mut relay = self.host.open(request);
        let id = relay.id();
        // Nothing is written over a prompt.
        let see = |event: &CallEvent| {
            if !self.answerer.is_prompting() {
                show(event, app, output);
            }
        };
        let stopped = async {
            let report = app.stop.triggered().await;
            (report.code, report)
        };
        match relay.outcome_until(see, stopped).await {
            Ok(CallOutcome::Answered(result)) => {
                let report = self.host.take_validation_report(id);
                for line in report.iter().flat_map(ValidationReport::lines) {
                    output.notice(&format!("toolway: {}", clean::line(&line, MISMATCH)));
                }
                Ok(result)
            }
            Ok(other) => Err(self.report(&other, method).of_call(relay.delivery())),
            Err(report) => {
                // What was cancelled ends, and its record with it.
                let report = report.of_call(relay.delivery());
                // The cancellation is queued; shutdown flushes the queue.
                let _late = tokio::time::timeout(LAST_MESSAGE, self.host.shutdown()).await;
                Err(report)
            }
        }
    }

    /// Records the call of a command that failed before it was opened.
    pub(crate) async fn record_unsent(&self, app: &App, meant: CallTarget, report: Report) -> Report {
        if self.is_opened.load(Ordering::Relaxed) {
            return report;
        }
        let why = match report.exit {
            ExitCode::Usage => Unsent::Invalid(report.message.clone()),
            _ => Unsent::Unavailable(report.message.clone()),
        };
        self.host.record_unsent(&self.request(app, meant, None), why).await;
        report.of_call(Some(Delivery::NotSent))
    }

    /// The failure of a call that a server asked a user about, and no user was there; `None` if nothing was unanswered.
    pub(crate) fn unanswered(&self) -> Option<Report> {
        let unanswered = self.answerer.unanswered();
        let is_asked = self.tap.server_request().is_some_and(|method| method == "elicitation/create");
        let is_unanswered = !unanswered.is_empty() || (is_asked && !self.answerer.is_available());
        let report = Report::input_required("tools/call", "elicitation/create");
        is_unanswered.then(|| unanswered.into_iter().fold(report, Report::detail))
    }

    /// Returns the exact request instead of sending it. Nothing is sent to the server after that.
    pub(crate) async fn dry_run(&self, app: &App, request: CallRequest, method: &str) -> Result<Raw, Report> {
        self.is_opened.store(true, Ordering::Relaxed);
        let mut caught = self.tap.intercept(method);
        let mut relay = self.host.open(CallRequest { terms: Some(ExchangeTimeouts::unbounded()), ..request });
        let text = loop {
            tokio::select! {
                text = &mut caught => break text.map_err(|_| internal("internal error: the request was not built".to_owned()))?,
                event = relay.next() => match event {
                    Some(CallEvent::Ended(outcome)) => return Err(self.report(&outcome, method)),
                    Some(_) => {}
                    None => return Err(internal("internal error: the request was not built".to_owned())),
                },
                report = app.stop.triggered() => return Err(report),
            }
        };
        Raw::parse(text).map_err(|error| internal(error.to_string()))
    }

    /// The report of a call that did not succeed.
    pub(crate) fn report(&self, outcome: &CallOutcome, method: &str) -> Report {
        let report = match outcome {
            CallOutcome::Refused(refusal) => self.report_refusal(refusal),
            CallOutcome::Failed(CallError::NotConnected { why, .. }) => match self.host.status(self.name()) {
                Ok(status) => self.unavailable(&status),
                Err(_) => Report::from_code("ended", why.because.as_str()),
            },
            other => self.with_credential_hint(Report::from_outcome(other, method)),
        };
        self.attribute(report, method)
    }

    /// Attributes a failure of `request` to the unanswered server request that preceded it, if there was one.
    pub(crate) fn attribute(&self, report: Report, request: &str) -> Report {
        match self.tap.server_request() {
            // A user who has answered, or declined, is no cause.
            Some(method) if method == "elicitation/create" && self.answerer.is_available() => report,
            Some(method) if matches!(report.exit, ExitCode::Protocol | ExitCode::ToolError) => {
                let cause = report.message;
                Report { error: report.error, ..Report::input_required(request, &method).detail(cause) }
            }
            _ => report,
        }
    }

    /// The report of a server that is not available.
    pub(crate) fn unavailable(&self, status: &ServerStatus) -> Report {
        let report = match (&status.last_error, &status.phase) {
            (Some(error), _) => {
                let refused = error.error.as_ref().map(|refused| refused.raw().clone());
                Report { error: refused, ..Report::from_code(error.code, error.message.as_str()) }
            }
            (None, Phase::Ready) => Report::from_code("timed_out", UNLISTED),
            (None, phase) => Report::from_code("ended", phase.for_operator().as_str()),
        };
        match report.exit {
            ExitCode::Unreachable if status.transport == TransportKind::Stdio => with_stderr_tail(report, status),
            _ => self.with_credential_hint(report),
        }
    }

    /// Adds what the server printed to standard output instead of protocol messages, if it did.
    pub(crate) fn with_stray_output(&self, report: Report) -> Report {
        let error = self.host.status(self.name()).ok().and_then(|status| status.last_error);
        let stray =
            error.map(|error| error.message.into_string()).filter(|message| message.contains("non-MCP text on stdout"));
        match stray {
            Some(message) => report.detail(message),
            None => report,
        }
    }

    /// Adds a hint on where to put the credential, if authorization failed.
    fn with_credential_hint(&self, report: Report) -> Report {
        match report.exit {
            ExitCode::Authorization if !self.target.uses_sign_in() => report.hint(self.target.credential_hint()),
            _ => report,
        }
    }

    /// A refusal, with the configuration key and file that cause it.
    fn report_refusal(&self, refusal: &Refusal) -> Report {
        let report = Report::from_refusal(refusal);
        let (Refusal::FilteredOut { subject, .. }, Some(entry)) = (refusal, &self.target.entry) else { return report };
        let kind = match subject.kind {
            toolway_host::call::CallKind::Prompt => ItemKind::Prompt,
            toolway_host::call::CallKind::Resource => ItemKind::Resource,
            toolway_host::call::CallKind::Tool | toolway_host::call::CallKind::Method => ItemKind::Tool,
        };
        match Exclusion::of(entry, kind, &subject.raw_name) {
            Some(exclusion) => {
                let message =
                    format!("{kind} `{}` of server `{}` is excluded by {exclusion}", subject.raw_name, subject.server);
                Report { message, ..report }
            }
            None => report,
        }
    }
}

/// Adds the cause and the last lines from the server's standard error.
fn with_stderr_tail(report: Report, status: &ServerStatus) -> Report {
    match stderr_tail::quote(&status.stderr) {
        Some(quoted) if !report.message.contains(&quoted) => report.detail(format!("last stderr output: {quoted}")),
        _ => report,
    }
}

fn internal(problem: String) -> Report {
    Report::new(ExitCode::Internal, "internal", problem)
}

fn show(event: &CallEvent, app: &App, output: &mut Output) {
    let (method, params) = match event {
        CallEvent::Progress(params) => ("notifications/progress", params),
        CallEvent::Log(params) => ("notifications/message", params),
        CallEvent::ServerRequest(_) | CallEvent::Withdrawn(_) | CallEvent::Ended(_) => return,
    };
    if output.format == Format::Ndjson {
        output.json(&splice::object([("method", &Raw::of(method)), ("params", params)]));
        return;
    }
    match event {
        CallEvent::Progress(params) => output.progress(&progress::line(params)),
        CallEvent::Log(params) if app.show.verbose || LogLevel::Warning <= LogLevel::of(params) => {
            let [logger, data] = params.fields(["logger", "data"]);
            let plain = |raw: Option<Raw>| match raw {
                Some(raw) => raw.as_str().map_or_else(|| raw.to_string(), std::borrow::Cow::into_owned),
                None => String::new(),
            };
            output.notice(&format!("{} {} {}", LogLevel::of(params), plain(logger), plain(data)));
        }
        _ => {}
    }
}
