//! One server for the length of one command: what it lists, and the one way of a call to it.

use std::{sync::Arc, time::Duration};

use toolway_config::ServerName;
use toolway_host::{
    call::{CallError, CallHappening, CallOutcome, CallRequest, Caller, Target as CallTarget},
    catalog::{Catalog, Freshness, ItemKind, Origin},
    connection::{Phase, ServerStatus, TransportKind},
    host::Host,
    policy::Refusal,
};
use toolway_wire::{
    exchange::{Answer, LogLevel, Terms},
    json::Raw,
    message::splice,
};

use crate::{
    app::App,
    exclusion::Exclusion,
    exit_code::ExitCode,
    gathering::UNLISTED,
    output::{Format, Output, progress},
    report::{Report, sentence},
    target::Target,
    watch::Watch,
};

/// A host with one server.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) host: Host,
    pub(crate) target: Target,
    pub(crate) watch: Arc<Watch>,
}

/// How long a cancellation may take to be sent.
const LAST_MESSAGE: Duration = Duration::from_millis(500);
/// Lines of standard error that a hint quotes.
const QUOTED: usize = 5;

impl Session {
    /// The server's id.
    pub(crate) fn name(&self) -> &ServerName {
        &self.target.server.name
    }

    /// Something of this server, by the server's own name for it.
    pub(crate) fn origin(&self, raw_name: &str) -> Origin {
        self.target.origin(raw_name)
    }

    /// A request on behalf of whoever sits here, in the time they gave.
    pub(crate) fn request(&self, app: &App, target: CallTarget, arguments: Option<Raw>) -> CallRequest {
        CallRequest { arguments, terms: app.terms(), ..CallRequest::new(Caller::Terminal, target) }
    }

    /// Whether the server itself said what it has, and not only a copy.
    pub(crate) fn is_listed(&self) -> bool {
        self.host.catalog().freshness_of(self.name()) == Some(Freshness::Verified)
    }

    /// What is on offer. A list that cannot be had is a failure; single items that cannot be read are said.
    pub(crate) fn listed(&self, kind: ItemKind, output: &mut Output) -> Result<Arc<Catalog>, Report> {
        let catalog = self.host.catalog();
        let unlisted = catalog.listing_of(self.name()).map(|listing| listing.set_aside.as_slice()).unwrap_or_default();
        for item in unlisted.iter().filter(|item| item.kind == kind) {
            match item.failed {
                Some(code) => return Err(self.judged(Report::of_code(code, &item.reason))),
                None => output.say(&format!("toolway: left out: {}", item.reason)),
            }
        }
        if let Some(exclusion) = self.target.entry.as_ref().and_then(|entry| Exclusion::of_kind(entry, kind)) {
            output.say(&format!("toolway: no {kind} of `{}` is offered: {exclusion}", self.name()));
        }
        Ok(catalog)
    }

    /// Goes through to the result of a request: shows what happens on the way, answers nothing, and leaves the server
    /// with a word when the command has to end.
    pub(crate) async fn result(
        &self,
        app: &App,
        request: CallRequest,
        method: &str,
        output: &mut Output,
    ) -> Result<Raw, Report> {
        let mut relay = self.host.open(request);
        let outcome = loop {
            let happening = tokio::select! {
                happening = relay.next() => happening,
                report = app.stop.happens() => {
                    relay.cancel(report.code);
                    // The cancellation is in line; closing sends what is.
                    let _late = tokio::time::timeout(LAST_MESSAGE, self.host.shutdown()).await;
                    return Err(report);
                }
            };
            match happening {
                Some(CallHappening::Ended(outcome)) => break outcome,
                Some(CallHappening::Ask(ask)) => ask.answer(Answer::Nobody),
                Some(other) => show(&other, app, output),
                None => break CallOutcome::Cancelled,
            }
        };
        match outcome {
            CallOutcome::Answered(result) => Ok(result),
            other => Err(self.report(&other, method)),
        }
    }

    /// The request that would be sent, exactly; nothing is sent any more.
    pub(crate) async fn dry_run(&self, app: &App, request: CallRequest, method: &str) -> Result<Raw, Report> {
        let mut caught = self.watch.catch(method);
        let mut relay = self.host.open(CallRequest { terms: Some(Terms::unbounded()), ..request });
        let text = loop {
            tokio::select! {
                text = &mut caught => break text.map_err(|_| internal("The request was not made.".to_owned()))?,
                happening = relay.next() => match happening {
                    Some(CallHappening::Ended(outcome)) => return Err(self.report(&outcome, method)),
                    Some(_) => {}
                    None => return Err(internal("The request was not made.".to_owned())),
                },
                report = app.stop.happens() => return Err(report),
            }
        };
        Raw::parse(text).map_err(|error| internal(error.to_string()))
    }

    /// How a call ended, as a failure.
    pub(crate) fn report(&self, outcome: &CallOutcome, method: &str) -> Report {
        let report = match outcome {
            CallOutcome::Refused(refusal) => self.refused(refusal),
            CallOutcome::Failed(CallError::NotConnected { why, .. }) => match self.host.status(self.name()) {
                Ok(status) => self.unavailable(&status),
                Err(_) => Report::of_code("ended", &why.because),
            },
            other => self.hinted(Report::of_outcome(other, method)),
        };
        self.judged(report)
    }

    /// A failure after the server asked something is about that question: nobody answered it.
    pub(crate) fn judged(&self, report: Report) -> Report {
        match self.watch.asked() {
            Some(asked) if matches!(report.exit, ExitCode::Protocol | ExitCode::ToolError) => {
                let answered = report.message;
                Report { error: report.error, ..Report::input_required(&asked).hint(answered) }
            }
            _ => report,
        }
    }

    /// Why the server is not there.
    pub(crate) fn unavailable(&self, status: &ServerStatus) -> Report {
        let report = match (&status.last_error, &status.phase) {
            (Some(error), _) => {
                let refused = error.error.as_ref().map(|refused| refused.raw().clone());
                Report { error: refused, ..Report::of_code(error.code, &error.message) }
            }
            (None, Phase::Ready) => Report::of_code("timed_out", UNLISTED),
            (None, phase) => Report::of_code("ended", &phase.to_string()),
        };
        match report.exit {
            ExitCode::Unreachable if status.transport == TransportKind::Stdio => with_last_words(report, status),
            _ => self.hinted(report),
        }
    }

    /// A program that never answered may have said something else instead.
    pub(crate) fn with_stray_output(&self, report: Report) -> Report {
        let error = self.host.status(self.name()).ok().and_then(|status| status.last_error);
        let stray = error.map(|error| error.message).filter(|message| message.contains("its standard output"));
        match stray {
            Some(message) => report.hint(sentence(&message)),
            None => report,
        }
    }

    /// Whoever lacks a token is told where it goes.
    fn hinted(&self, report: Report) -> Report {
        match report.exit {
            ExitCode::Authorization if !self.target.is_signed_in_to() => report.hint(self.target.what_it_lacks()),
            _ => report,
        }
    }

    /// A refusal, with the place where somebody said so.
    fn refused(&self, refusal: &Refusal) -> Report {
        let report = Report::of_refusal(refusal);
        let (Refusal::FilteredOut { subject, .. }, Some(entry)) = (refusal, &self.target.entry) else { return report };
        let kind = match subject.kind {
            toolway_host::call::CallKind::Prompt => ItemKind::Prompt,
            toolway_host::call::CallKind::Resource => ItemKind::Resource,
            toolway_host::call::CallKind::Tool | toolway_host::call::CallKind::Method => ItemKind::Tool,
        };
        match Exclusion::of(entry, kind, &subject.raw_name) {
            Some(exclusion) => {
                let message =
                    format!("{kind} `{}` of `{}` is left out by {exclusion}", subject.raw_name, subject.server);
                Report { message: sentence(&message), ..report }
            }
            None => report,
        }
    }
}

/// A program that did not come up has often said why.
fn with_last_words(report: Report, status: &ServerStatus) -> Report {
    let spoken: Vec<&str> = status.stderr.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    let quoted = spoken[spoken.len().saturating_sub(QUOTED)..].join(" / ");
    if quoted.is_empty() || report.message.contains(&quoted) {
        report
    } else {
        report.hint(format!("It said: {quoted}"))
    }
}

fn internal(problem: String) -> Report {
    Report::new(ExitCode::Internal, "internal", problem)
}

fn show(happening: &CallHappening, app: &App, output: &mut Output) {
    let (method, params) = match happening {
        CallHappening::Progress(params) => ("notifications/progress", params),
        CallHappening::Log(params) => ("notifications/message", params),
        CallHappening::Ask(_) | CallHappening::Withdrawn(_) | CallHappening::Ended(_) => return,
    };
    if output.format == Format::Ndjson {
        output.json(&splice::object([("method", &Raw::of(method)), ("params", params)]));
        return;
    }
    match happening {
        CallHappening::Progress(params) => output.progress(&progress::line(params)),
        CallHappening::Log(params) if app.show.verbose || LogLevel::Warning <= LogLevel::of(params) => {
            let [logger, data] = params.fields(["logger", "data"]);
            let plain = |raw: Option<Raw>| match raw {
                Some(raw) => raw.as_str().map_or_else(|| raw.to_string(), std::borrow::Cow::into_owned),
                None => String::new(),
            };
            output.say(&format!("{} {} {}", LogLevel::of(params), plain(logger), plain(data)));
        }
        _ => {}
    }
}
