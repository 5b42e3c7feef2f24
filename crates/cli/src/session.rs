//! One server for the length of one command.

use std::time::Duration;

use toolway_host::{
    connection::ServerAddress,
    keeper::{Custodian, Custody},
};
use toolway_wire::{
    error::WireError,
    exchange::{Answer, Exchange, Happening, LogLevel, Outcome, Request},
    json::Raw,
    message::{
        item::{Item, Tool},
        splice,
    },
    up::{Listing, Peer},
};

use crate::{
    app::App,
    disk_copy,
    exit_code::ExitCode,
    output::{Format, Output, progress},
    report::Report,
    target::Target,
    watch::Watch,
};

/// A server that has shaken hands.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) peer: Peer,
    pub(crate) target: Target,
    pub(crate) watch: std::sync::Arc<Watch>,
}

/// How long a session may take to be given back; the answer is there, and nobody wants to wait.
const FAREWELL: Duration = Duration::from_millis(250);
/// How long a cancellation may take to be sent.
const LAST_MESSAGE: Duration = Duration::from_millis(500);

impl Session {
    /// All items of one kind; those that cannot be read are said.
    pub(crate) async fn list<T: Item>(&self, app: &App, output: &mut Output) -> Result<Listing<T>, Report> {
        self.listed(app, output, self.peer.list::<T>()).await
    }

    /// All tools; a copy is kept for completion.
    pub(crate) async fn tools(&self, app: &App, output: &mut Output) -> Result<Listing<Tool>, Report> {
        let listing = self.listed(app, output, self.peer.list_tools()).await?;
        if let (Some(cache), Some(server)) = (&app.paths.cache, &self.target.name) {
            disk_copy::keep(cache, server, &listing.items);
        }
        Ok(listing)
    }

    async fn listed<T>(
        &self,
        app: &App,
        output: &mut Output,
        listing: impl Future<Output = Result<Listing<T>, WireError>>,
    ) -> Result<Listing<T>, Report> {
        let listing = app.stop.or(listing).await?.map_err(|error| self.judged(Report::of_wire(&error)))?;
        for malformed in &listing.malformed {
            output.say(&format!("toolway: left out: {malformed}"));
        }
        Ok(listing)
    }

    /// Goes through to the result of a request: shows what happens on the way, answers nothing, and leaves the server
    /// with a word when the command has to end.
    pub(crate) async fn result(
        &self,
        app: &App,
        mut exchange: Exchange,
        method: &str,
        output: &mut Output,
    ) -> Result<Raw, Report> {
        let outcome = loop {
            let happening = tokio::select! {
                happening = exchange.next() => happening,
                report = app.stop.happens() => {
                    exchange.cancel(report.code);
                    // The cancellation is in line; closing sends what is.
                    let _late = tokio::time::timeout(LAST_MESSAGE, self.peer.close()).await;
                    return Err(report);
                }
            };
            match happening {
                Some(Happening::Ended(outcome)) => break outcome,
                Some(Happening::Ask(ask)) => ask.answer(Answer::nobody()),
                Some(other) => show(&other, app, output),
                None => break Outcome::Failed(WireError::Ended("the exchange was over".to_owned())),
            }
        };
        match outcome {
            Outcome::Answered(result) => Ok(result),
            other => Err(self.judged(Report::of_outcome(&other, method))),
        }
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

    /// The request that would be sent, exactly; nothing is sent any more.
    pub(crate) async fn dry_run(&self, app: &App, request: Request) -> Result<Raw, Report> {
        let caught = self.watch.catch(request.method());
        let exchange = self.peer.open(request, toolway_wire::exchange::Terms::unbounded());
        let caught = app.stop.or(caught).await?;
        drop(exchange);
        let internal = |problem: String| Report::new(ExitCode::Internal, "internal", problem);
        let text = caught.map_err(|_| internal("The request was not made.".to_owned()))?;
        Raw::parse(text).map_err(|error| internal(error.to_string()))
    }

    /// The answer is there. A session over HTTP is given back; a program is ended by its keeper, or, where there is
    /// none, by us: nobody else would give it the time to leave.
    pub(crate) async fn leave(self) {
        match (&self.target.address, self.custody()) {
            (ServerAddress::Http { .. }, _) => {
                let _late = tokio::time::timeout(FAREWELL, self.peer.close()).await;
            }
            (ServerAddress::Process(_), Some(Custody::Weaker { .. })) => self.peer.close().await,
            (ServerAddress::Process(_), _) => {}
        }
    }

    /// How well the server's program is kept; `None` where it is an address.
    pub(crate) fn custody(&self) -> Option<Custody> {
        let is_program = matches!(self.target.address, ServerAddress::Process(_));
        is_program.then(|| Custodian::default().custody())
    }
}

fn show(happening: &Happening, app: &App, output: &mut Output) {
    let (method, params) = match happening {
        Happening::Progress(params) => ("notifications/progress", params),
        Happening::Log(params) => ("notifications/message", params),
        Happening::Ask(_) | Happening::Withdrawn(_) | Happening::Ended(_) => return,
    };
    if output.format == Format::Ndjson {
        output.json(&splice::object([("method", &Raw::of(method)), ("params", params)]));
        return;
    }
    match happening {
        Happening::Progress(params) => output.progress(&progress::line(params)),
        Happening::Log(params) if app.show.verbose || LogLevel::Warning <= LogLevel::of(params) => {
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
