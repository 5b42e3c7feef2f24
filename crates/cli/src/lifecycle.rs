//! Connects the server of a command, runs the command with it, and shuts the host down. `compose` builds the host.

use std::{
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, Target as CallTarget},
    catalog::ItemKind,
    connection::{Lists, Phase, ServerStatus, TransportKind},
    host::Host,
    inbox::Answerer,
    keeper::CleanupGuarantee,
};
use toolway_wire::exchange::ExchangeTimeouts;

use crate::{
    app::App,
    exclusion::Exclusion,
    output::{Output, spinner},
    report::Report,
    sign_in,
    single_server_host::{LISTING, SingleServerHost},
    target::Target,
    terminal::given::{AnswerArgs, CommandAnswerer},
};

/// Time after which the user is told that a server may be installing.
pub(crate) const INSTALL_DELAY: Duration = Duration::from_secs(2);
/// Time to close HTTP sessions at the end of a command.
const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_millis(250);
/// Time after `--timeout` in which the server's own error is still collected.
const STATUS_GRACE: Duration = Duration::from_millis(100);
/// Time to finish writing the listing cache at the end of a command.
const CACHE_WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// What a command calls.
pub(crate) struct CalledItem {
    pub(crate) target: Target,
    pub(crate) item: CallTarget,
}

impl App {
    /// Connects to a server, runs `work` with it, and disconnects however `work` ends.
    pub(crate) async fn with_server<T>(
        &self,
        target: Target,
        lists: Lists,
        output: &mut Output,
        work: impl AsyncFnOnce(&SingleServerHost, &mut Output) -> Result<T, Report>,
    ) -> Result<T, Report> {
        let answerer = self.plain_answerer()?;
        self.with_answered_server(target, lists, answerer, output, work).await
    }

    /// Like [`Self::with_server`], with answers to requests of the server and to approval requests.
    pub(crate) async fn with_answered_server<T>(
        &self,
        target: Target,
        lists: Lists,
        answerer: Arc<CommandAnswerer>,
        output: &mut Output,
        work: impl AsyncFnOnce(&SingleServerHost, &mut Output) -> Result<T, Report>,
    ) -> Result<T, Report> {
        let single = self.single_server_host(target, lists, answerer).await?;
        let done = match self.connect(&single, lists, output).await {
            Ok(()) => work(&single, output).await,
            Err(report) => Err(report),
        };
        disconnect(&single.host).await;
        done
    }

    /// Like [`Self::with_answered_server`], for a command that makes one call: if it fails before that, the call is recorded
    /// as not sent.
    pub(crate) async fn with_called_server<T>(
        &self,
        called: CalledItem,
        lists: Lists,
        answerer: Arc<CommandAnswerer>,
        output: &mut Output,
        work: impl AsyncFnOnce(&SingleServerHost, &mut Output) -> Result<T, Report>,
    ) -> Result<T, Report> {
        let CalledItem { target, item } = called;
        let single = self.single_server_host(target, lists, answerer).await?;
        let done = match self.connect(&single, lists, output).await {
            Ok(()) => work(&single, output).await,
            Err(report) => Err(report),
        };
        let done = match done {
            Err(report) => Err(single.record_unsent(self, item, report).await),
            done => done,
        };
        disconnect(&single.host).await;
        done
    }

    /// An answerer of a command without options for answers.
    pub(crate) fn plain_answerer(&self) -> Result<Arc<CommandAnswerer>, Report> {
        Ok(Arc::new(CommandAnswerer::new(&AnswerArgs::default(), &self.environment)?))
    }

    /// Refuses an item that the server's entry excludes, before a server is started. The refusal is made by calling the
    /// host, so that it is decided and recorded like every other call.
    pub(crate) async fn refuse_excluded(
        &self,
        target: &Target,
        kind: ItemKind,
        thing: CallTarget,
    ) -> Result<(), Report> {
        let entry = target.entry.as_ref();
        if entry.and_then(|entry| Exclusion::of(entry, kind, thing.name())).is_none() {
            return Ok(());
        }
        let answerer = self.plain_answerer()?;
        let single = self.single_server_host(target.clone(), Lists::Ignored, answerer).await?;
        match single.host.call(CallRequest::new(Caller::Terminal, thing)).await {
            outcome @ CallOutcome::Refused(_) => Err(single.report(&outcome, "")),
            _ => Ok(()),
        }
    }

    /// The timeouts of a call if `--timeout` is given; they replace those of the server's entry.
    pub(crate) fn terms(&self) -> Option<ExchangeTimeouts> {
        self.reach.timeout.map(|limit| ExchangeTimeouts { idle: None, total: Some(limit) })
    }

    async fn single_server_host(
        &self,
        target: Target,
        lists: Lists,
        answerer: Arc<CommandAnswerer>,
    ) -> Result<SingleServerHost, Report> {
        let port = Arc::clone(&answerer) as Arc<dyn Answerer>;
        let (host, taps) = self.command_host(std::slice::from_ref(&target), lists, port).await?;
        let tap = taps.into_values().next().unwrap_or_default();
        Ok(SingleServerHost { host, target, tap, answerer, is_opened: AtomicBool::new(false) })
    }

    /// Connects the server and waits for the requested lists.
    async fn connect(&self, single: &SingleServerHost, lists: Lists, output: &mut Output) -> Result<(), Report> {
        let name = single.name();
        let connecting = async {
            match lists {
                Lists::Ignored => single.host.connect(name).await,
                Lists::Once | Lists::Only(_) | Lists::Followed => single.host.list(name).await,
            }
        };
        let line = format!("connecting to {}", single.target.server.label);
        let mut connecting = pin!(connecting);
        let waiting = async {
            if let Some(note) = single.target.install_note(&single.host, &self.environment) {
                let early = spinner::while_waiting(&line, &mut connecting, output);
                if let Ok(status) = tokio::time::timeout(INSTALL_DELAY, early).await {
                    return status;
                }
                output.notice(&note);
            }
            spinner::while_waiting(&line, &mut connecting, output).await
        };
        let status = match self.stop.or(waiting).await {
            Ok(status) => status,
            Err(report) if report.code == "timed_out" => {
                // The connection's own timeout expires at the same time and has the more precise error.
                let _late = tokio::time::timeout(STATUS_GRACE, connecting).await;
                return Err(single.with_stray_output(report));
            }
            Err(report) => return Err(report),
        };
        let status = status.map_err(|error| Report::usage("unknown_server", error.to_string()))?;
        let listed = lists == Lists::Ignored || single.is_listed();
        if status.phase == Phase::Ready && listed {
            Ok(())
        } else {
            Err(single.attribute(single.unavailable(&status), LISTING))
        }
    }
}

/// Shuts the host down at the end of a command: closes HTTP sessions, leaves processes to the keeper (or ends them where
/// there is no keeper), and waits for a token refresh in progress.
pub(crate) async fn disconnect(host: &Host) {
    let servers = host.servers();
    let is_ready = |status: &&ServerStatus| status.phase == Phase::Ready;
    let weaker = |status: &ServerStatus| matches!(status.cleanup, Some(CleanupGuarantee::BestEffort { .. }));
    if servers.iter().filter(is_ready).any(weaker) {
        return host.shutdown().await;
    }
    // What exceeds the timeout is dropped; nothing depends on it.
    let _late = if servers.iter().filter(is_ready).any(|status| status.transport == TransportKind::Http) {
        tokio::time::timeout(SESSION_CLOSE_TIMEOUT, host.shutdown()).await
    } else {
        tokio::time::timeout(CACHE_WRITE_TIMEOUT, host.wait_for_listing_cache()).await
    };
    await_token_refresh(host).await;
}

/// Waits for a token refresh in progress. The old refresh token may already be invalid, so exiting without the new one
/// would require a new sign-in.
async fn await_token_refresh(host: &Host) {
    if !host.is_refreshing() {
        return;
    }
    sign_in::print_notice(
        "toolway: waiting for a token refresh to complete; Ctrl-C skips it and may require a new sign-in",
    );
    tokio::select! {
        () = host.wait_for_renewals() => {}
        _interrupted = tokio::signal::ctrl_c() => {}
    }
}
