//! From a configuration to a host, and from a host to a command: which servers are wanted and with what, how one of
//! them is visited, and how all are left in good order.
//!
//! Every command that speaks to a server goes this way. Only the servers that a command needs are connected.

use std::{collections::BTreeMap, ffi::OsStr, pin::pin, sync::Arc, time::Duration};

use toolway_config::{
    Config, Paths, ServerConfig, ServerName,
    server::{Need, Start},
};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, Target as CallTarget},
    catalog::{DiskCopy, ItemKind, Listing},
    connection::{
        DiskEraMemory, Lists, Phase, ServerStatus, TransportKind, WantedServer, dial::TapMaker, sign_in::Clients,
        tap::Tap,
    },
    host::{Host, HostOptions},
    keeper::Custody,
    ports::HostPorts,
};
use toolway_wire::{
    exchange::Terms,
    limit::Limits,
    up::{EraChoice, EraMemory, Timeouts, client::HttpClient, connector::HttpOptions},
};

use crate::{
    app::App,
    args::EraArg,
    call_notes::CallNotes,
    exclusion::Exclusion,
    output::{Output, spinner},
    report::Report,
    session::Session,
    sign_in,
    target::Target,
    watch::Watch,
};

/// Opening a connection to an address.
const CONNECT: Duration = Duration::from_secs(30);
/// How long sessions may take to be given back; the answer is there, and nobody wants to wait.
const FAREWELL: Duration = Duration::from_millis(250);
/// How much longer than `--timeout` a server has to say what it waits for.
const TO_HEAR_WHY: Duration = Duration::from_millis(100);
/// How long the copy of what was listed may hold up a command; it is begun long before.
const TO_BE_KEPT: Duration = Duration::from_millis(500);

/// A look at the wire of each server.
pub(crate) type Watches = BTreeMap<ServerName, Arc<Watch>>;

impl App {
    /// Goes to a server, works there, and leaves it in good order however the work ended.
    pub(crate) async fn visit<T>(
        &self,
        target: Target,
        lists: Lists,
        output: &mut Output,
        work: impl AsyncFnOnce(&Session, &mut Output) -> Result<T, Report>,
    ) -> Result<T, Report> {
        let session = self.open(target, lists).await?;
        let done = match self.arrive(&session, lists, output).await {
            Ok(()) => work(&session, output).await,
            Err(report) => Err(report),
        };
        leave(&session.host).await;
        done
    }

    /// Refuses what the operator left out, before anything is started. The refusal goes the way of a call, so that it
    /// is decided and recorded where every other call is.
    pub(crate) async fn refuse_left_out(
        &self,
        target: &Target,
        kind: ItemKind,
        thing: CallTarget,
    ) -> Result<(), Report> {
        let entry = target.entry.as_ref();
        if entry.and_then(|entry| Exclusion::of(entry, kind, thing.name())).is_none() {
            return Ok(());
        }
        let session = self.open(target.clone(), Lists::Ignored).await?;
        match session.host.call(CallRequest::new(Caller::Terminal, thing)).await {
            outcome @ CallOutcome::Refused(_) => Err(session.report(&outcome, "")),
            _ => Ok(()),
        }
    }

    /// A host for these servers; nothing is connected yet.
    pub(crate) async fn start_host(&self, targets: &[Target], lists: Lists) -> Result<(Host, Watches), Report> {
        let watch = |target: &Target| {
            let watch = Watch::new(self.show.verbose, target.secrets.clone());
            let watch = if targets.len() == 1 { watch } else { watch.of(target.server.name.as_str()) };
            (target.server.name.clone(), Arc::new(watch))
        };
        let watches: Watches = targets.iter().map(watch).collect();
        let servers = targets.iter().map(|target| self.wanted(&target.server, lists)).collect();
        // A server of the command line is nobody a copy is looked for under.
        let kept = targets.iter().any(|target| target.entry.is_some()) && lists != Lists::Ignored;
        let settings = targets.first().map(|target| target.settings.clone()).unwrap_or_default();
        let options = HostOptions {
            servers,
            keychain: self.keychain(),
            sign_in: self.sign_in_options(&settings, Clients::Ourselves),
            environment: self.environment.clone(),
            http: HttpClient::new(self.http_options(), &Limits::default()),
            memory: self.era_memory(),
            copy: self.disk_copy().filter(|_| kept),
            tap: Some(taps(watches.clone())),
            ..HostOptions::default()
        };
        let calls = Arc::new(CallNotes { shown: self.show.verbose });
        let ports = HostPorts { calls, vault: self.vault(&settings), ..HostPorts::default() };
        let host = Host::start(&Config { settings, ..Config::default() }, ports, options).await;
        let failed = |error: toolway_host::host::HostError| Report::usage("config", format!("{error}."));
        Ok((host.map_err(failed)?, watches))
    }

    /// Where what each server listed is kept.
    pub(crate) fn disk_copy(&self) -> Option<DiskCopy> {
        disk_copy(&self.paths)
    }

    /// The clocks of a call, where the command line has others than the server's entry.
    pub(crate) fn terms(&self) -> Option<Terms> {
        self.reach.timeout.map(|limit| Terms { idle: None, total: Some(limit) })
    }

    async fn open(&self, target: Target, lists: Lists) -> Result<Session, Report> {
        let (host, watches) = self.start_host(std::slice::from_ref(&target), lists).await?;
        let watch = watches.into_values().next().unwrap_or_default();
        Ok(Session { host, target, watch })
    }

    /// Connects the server of a session, and waits for its lists where they are wanted.
    async fn arrive(&self, session: &Session, lists: Lists, output: &mut Output) -> Result<(), Report> {
        let name = session.name();
        let connecting = async {
            match lists {
                Lists::Ignored => session.host.connect(name).await,
                Lists::Once | Lists::Only(_) | Lists::Followed => session.host.list(name).await,
            }
        };
        let line = format!("connecting to {}", session.target.server.label);
        let mut connecting = pin!(connecting);
        let status = match self.stop.or(spinner::while_waiting(&line, &mut connecting, output)).await {
            Ok(status) => status,
            Err(report) if report.code == "timed_out" => {
                // The server's own clock runs out in the same moment, and knows more.
                let _late = tokio::time::timeout(TO_HEAR_WHY, connecting).await;
                return Err(session.with_stray_output(report));
            }
            Err(report) => return Err(report),
        };
        let status = status.map_err(|error| Report::usage("unknown_server", format!("{error}.")))?;
        let listed = lists == Lists::Ignored || session.is_listed();
        if status.phase == Phase::Ready && listed { Ok(()) } else { Err(session.judged(session.unavailable(&status))) }
    }

    /// A server as a command wants it: connected when it is asked for, in the era and the time that were given.
    fn wanted(&self, server: &WantedServer, lists: Lists) -> WantedServer {
        let era = match self.reach.era {
            EraArg::Auto => server.era,
            EraArg::Legacy => EraChoice::Legacy,
            EraArg::Modern => EraChoice::Modern,
        };
        let (connect, clocks) = match self.reach.timeout {
            None => (server.connect, server.clocks),
            // Whoever gives a time means all of it: a long call then does not end at the usual limit.
            Some(limit) => {
                let whole = Terms { idle: None, total: Some(limit) };
                let probe = server.clocks.probe.min(limit);
                (limit, Timeouts { probe, handshake: limit, list: whole, call: whole })
            }
        };
        let (start, need, idle_stop) = (Start::WhenNeeded, Need::Optional, None);
        WantedServer { era, connect, clocks, start, need, idle_stop, lists, ..server.clone() }
    }

    /// Where eras are remembered; one that was chosen says nothing about the server.
    pub(crate) fn era_memory(&self) -> Option<Arc<dyn EraMemory>> {
        let folder = self.paths.state.as_ref().filter(|_| self.reach.era == EraArg::Auto)?;
        Some(Arc::new(DiskEraMemory::at(folder.join("eras.json"))))
    }

    pub(crate) fn http_options(&self) -> HttpOptions {
        let variable = |names: [&str; 2]| {
            let set = names.iter().find_map(|name| self.environment.get(OsStr::new(name)));
            set.and_then(|value| value.to_str()).filter(|value| !value.is_empty()).map(str::to_owned)
        };
        HttpOptions {
            https_proxy: variable(["HTTPS_PROXY", "https_proxy"]),
            no_proxy: variable(["NO_PROXY", "no_proxy"]),
            connect_timeout: Some(self.reach.timeout.unwrap_or(CONNECT).min(CONNECT)),
            ..HttpOptions::default()
        }
    }
}

/// Where what each server listed is kept.
pub(crate) fn disk_copy(paths: &Paths) -> Option<DiskCopy> {
    paths.state.as_ref().map(|folder| DiskCopy::in_folder(folder.join("catalog")))
}

/// What a server listed when it was last heard, in the way it is reached now. Nothing is started or dialled.
pub(crate) fn recalled(paths: &Paths, config: &Config, entry: &ServerConfig) -> Option<Listing> {
    let definition = WantedServer::configured(config, entry).definition()?;
    disk_copy(paths)?.recall(&entry.name, &definition).ok()?
}

/// The answer is there. Sessions over HTTP are given back; a program is ended by its keeper, or, where there is none,
/// by us: nobody else would give it the time to leave. A sign-in that is being renewed is waited for.
pub(crate) async fn leave(host: &Host) {
    let servers = host.servers();
    let is_ready = |status: &&ServerStatus| status.phase == Phase::Ready;
    let weaker = |status: &ServerStatus| matches!(status.custody, Some(Custody::Weaker { .. }));
    if servers.iter().filter(is_ready).any(weaker) {
        return host.shutdown().await;
    }
    // What is late is lost, and nobody depends on it.
    let _late = if servers.iter().filter(is_ready).any(|status| status.transport == TransportKind::Http) {
        tokio::time::timeout(FAREWELL, host.shutdown()).await
    } else {
        tokio::time::timeout(TO_BE_KEPT, host.kept()).await
    };
    renewed(host).await;
}

/// The refresh token that was sent may be worth nothing by now: whoever left without the new one would have to sign in
/// again.
async fn renewed(host: &Host) {
    if !host.is_renewing() {
        return;
    }
    sign_in::say(
        "toolway: a sign-in is being renewed, which is waited for, so that it is not lost; Ctrl-C gives it up.",
    );
    tokio::select! {
        () = host.renewed() => {}
        _interrupted = tokio::signal::ctrl_c() => {}
    }
}

fn taps(watches: Watches) -> TapMaker {
    Arc::new(move |server| {
        let watch = watches.get(server).map(Arc::clone).unwrap_or_default();
        watch as Arc<dyn Tap>
    })
}
