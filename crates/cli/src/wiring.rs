//! Builds the host of a command from its targets, connects one server for a command, and shuts the host down.
//!
//! Only the servers that a command needs are connected.

use std::{collections::BTreeMap, ffi::OsStr, pin::pin, sync::Arc, time::Duration};

use toolway_config::{
    Config, Paths, ServerConfig, ServerName,
    server::{Need, Start},
};
use toolway_host::{
    call::{CallOutcome, CallRequest, Caller, Target as CallTarget},
    catalog::{ItemKind, Listing, ListingCache},
    connection::{
        DiskEraMemory, Lists, Phase, ServerStatus, TapFactory, TransportKind, WantedServer, sign_in::Clients, tap::Tap,
    },
    host::{Host, HostOptions},
    keeper::CleanupGuarantee,
    ports::HostPorts,
};
use toolway_wire::{
    exchange::ExchangeTimeouts,
    limit::Limits,
    up::{EraChoice, EraMemory, Timeouts, client::HttpClient, connector::HttpOptions},
};

use crate::{
    app::App,
    args::EraArg,
    exclusion::Exclusion,
    output::{Output, spinner},
    report::Report,
    sign_in,
    single_server_host::SingleServerHost,
    target::Target,
    verbose_call_log::VerboseCallLog,
    wire_tap::WireTap,
};

/// Upper bound of the TCP and TLS connection setup.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time to close HTTP sessions at the end of a command.
const SESSION_CLOSE_TIMEOUT: Duration = Duration::from_millis(250);
/// Time after `--timeout` in which the server's own error is still collected.
const STATUS_GRACE: Duration = Duration::from_millis(100);
/// Time to finish writing the listing cache at the end of a command.
const CACHE_WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// The wire tap of each server.
pub(crate) type WireTaps = BTreeMap<ServerName, Arc<WireTap>>;

impl App {
    /// Connects to a server, runs `work` with it, and disconnects however `work` ends.
    pub(crate) async fn with_server<T>(
        &self,
        target: Target,
        lists: Lists,
        output: &mut Output,
        work: impl AsyncFnOnce(&SingleServerHost, &mut Output) -> Result<T, Report>,
    ) -> Result<T, Report> {
        let single = self.single_server_host(target, lists).await?;
        let done = match self.connect(&single, lists, output).await {
            Ok(()) => work(&single, output).await,
            Err(report) => Err(report),
        };
        disconnect(&single.host).await;
        done
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
        let single = self.single_server_host(target.clone(), Lists::Ignored).await?;
        match single.host.call(CallRequest::new(Caller::Terminal, thing)).await {
            outcome @ CallOutcome::Refused(_) => Err(single.report(&outcome, "")),
            _ => Ok(()),
        }
    }

    /// Starts a host for these servers without connecting them.
    pub(crate) async fn start_host(&self, targets: &[Target], lists: Lists) -> Result<(Host, WireTaps), Report> {
        let tap = |target: &Target| {
            let tap = WireTap::new(self.show.verbose, target.secrets.clone());
            let tap = if targets.len() == 1 { tap } else { tap.labelled(target.server.name.as_str()) };
            (target.server.name.clone(), Arc::new(tap))
        };
        let taps: WireTaps = targets.iter().map(tap).collect();
        let servers = targets.iter().map(|target| self.server_options(&target.server, lists)).collect();
        // A server given on the command line has no name to cache its listing under.
        let kept = targets.iter().any(|target| target.entry.is_some()) && lists != Lists::Ignored;
        let settings = targets.first().map(|target| target.settings.clone()).unwrap_or_default();
        let options = HostOptions {
            servers,
            keychain: self.keychain(),
            sign_in: self.sign_in_options(&settings, Clients::Ourselves),
            environment: self.environment.clone(),
            http: HttpClient::new(self.http_options(), &Limits::default()),
            memory: self.era_memory(),
            listing_cache: self.listing_cache().filter(|_| kept),
            tap: Some(tap_maker(taps.clone())),
            ..HostOptions::default()
        };
        let calls = Arc::new(VerboseCallLog { shown: self.show.verbose });
        let ports = HostPorts { calls, vault: self.vault(&settings), ..HostPorts::default() };
        let host = Host::start(&Config { settings, ..Config::default() }, ports, options).await;
        let failed = |error: toolway_host::host::HostError| Report::usage("config", error.to_string());
        Ok((host.map_err(failed)?, taps))
    }

    /// The cache of server listings; `None` without a state directory.
    pub(crate) fn listing_cache(&self) -> Option<ListingCache> {
        listing_cache(&self.paths)
    }

    /// The timeouts of a call if `--timeout` is given; they replace those of the server's entry.
    pub(crate) fn terms(&self) -> Option<ExchangeTimeouts> {
        self.reach.timeout.map(|limit| ExchangeTimeouts { idle: None, total: Some(limit) })
    }

    async fn single_server_host(&self, target: Target, lists: Lists) -> Result<SingleServerHost, Report> {
        let (host, taps) = self.start_host(std::slice::from_ref(&target), lists).await?;
        let tap = taps.into_values().next().unwrap_or_default();
        Ok(SingleServerHost { host, target, tap })
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
        let status = match self.stop.or(spinner::while_waiting(&line, &mut connecting, output)).await {
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
        if status.phase == Phase::Ready && listed { Ok(()) } else { Err(single.attribute(single.unavailable(&status))) }
    }

    /// A server with the options of the command: connected on demand, with the given era and timeout.
    fn server_options(&self, server: &WantedServer, lists: Lists) -> WantedServer {
        let era = match self.reach.era {
            EraArg::Auto => server.era,
            EraArg::Legacy => EraChoice::Legacy,
            EraArg::Modern => EraChoice::Modern,
        };
        let (connect, clocks) = match self.reach.timeout {
            None => (server.connect, server.clocks),
            // `--timeout` replaces every other limit, so that a long call may exceed the default one.
            Some(limit) => {
                let whole = ExchangeTimeouts { idle: None, total: Some(limit) };
                let probe = server.clocks.probe.min(limit);
                (limit, Timeouts { probe, handshake: limit, list: whole, call: whole })
            }
        };
        let (start, need, idle_stop) = (Start::WhenNeeded, Need::Optional, None);
        WantedServer { era, connect, clocks, start, need, idle_stop, lists, ..server.clone() }
    }

    /// The cache of detected eras; not used if `--era` forces one, which says nothing about the server.
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
            connect_timeout: Some(self.reach.timeout.unwrap_or(CONNECT_TIMEOUT).min(CONNECT_TIMEOUT)),
            ..HttpOptions::default()
        }
    }
}

/// The cache of server listings; `None` without a state directory.
pub(crate) fn listing_cache(paths: &Paths) -> Option<ListingCache> {
    paths.state.as_ref().map(|folder| ListingCache::in_folder(folder.join("catalog")))
}

/// The last listing of a server as it is defined now, from the cache. Does not connect to the server.
pub(crate) fn cached_listing(paths: &Paths, config: &Config, entry: &ServerConfig) -> Option<Listing> {
    let definition = WantedServer::configured(config, entry).definition()?;
    listing_cache(paths)?.load(&entry.name, &definition).ok()?
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

fn tap_maker(taps: WireTaps) -> TapFactory {
    Arc::new(move |server| {
        let tap = taps.get(server).map(Arc::clone).unwrap_or_default();
        tap as Arc<dyn Tap>
    })
}
