//! The composition root: configuration → host → surface.
//!
//! Every [`Host`] of the binary is built here, for commands, `serve` and `demo`, and so are the surfaces of `serve`.
//! `lifecycle` connects and disconnects the host of a command.

use std::{collections::BTreeMap, ffi::OsStr, sync::Arc, time::Duration};

use toolway_agent::ConversationModels;
use toolway_config::{
    Config, Environment, GatewayAccess, Secret, ServerName, Settings,
    limits::DEFAULT_MEMORY,
    server::{Need, Start},
};
use toolway_console::ConsoleRecords;
use toolway_gateway::{
    Gateway, GatewayOptions, SseTransport,
    access::{Access, OpenAccess},
    cluster::ClusterOptions,
    records::Records as GatewayRecords,
    sealing::{self, SealingKeyError},
    service::{HostService, Scope},
};
use toolway_host::{
    connection::{DiskEraMemory, Lists, TapFactory, WantedServer, Way, sign_in::Clients, tap::Tap},
    conversation::ConversationLog,
    host::{Host, HostOptions, SessionUsers},
    inbox::{Answerer, ElicitationModes, InboxAnswerer, NoAnswerer},
    policy::{CALLS_PER_CLIENT, CallLimits, Surface},
    ports::HostPorts,
    record::{AuditNote, Records, RecordsError, Requirement, kind},
    roots::ClientRootBound,
    sampling::{Presence, Sampler},
};
use toolway_sample::Sample;
use toolway_store::{Store, StoreRecorder, StoreRecords};
use toolway_wire::{
    budget::MemoryBudget,
    down::{DownstreamOptions, http::ServerTls},
    exchange::{ExchangeTimeouts, LogLevel},
    json::Raw,
    limit::Limits,
    message::ClientCapabilities,
    seal::Sealer,
    up::{EraChoice, EraMemory, Timeouts, client::HttpClient, connector::HttpOptions},
};

use crate::{
    app::App,
    args::EraArg,
    cluster::ClusterPlan,
    commands::clients,
    exit_code::ExitCode,
    listing_cache,
    message_export::MessageExport,
    report::Report,
    sampler::{AskedFrom, AskingServer},
    storage::{console_records, session_store, with_recorder},
    target::Target,
    verbose_call_log::VerboseCallLog,
    wire_tap::{ConnectionTap, WireTap},
};

/// Upper bound of the TCP and TLS connection setup.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The wire tap of each server.
pub(crate) type WireTaps = BTreeMap<ServerName, Arc<WireTap>>;

/// Builds the host of `demo`: its own servers, without configuration and state; and the records of its calls.
pub(crate) async fn demo_host(
    servers: Vec<WantedServer>,
    answerer: Arc<dyn Answerer>,
    environment: Environment,
) -> Result<(Host, Arc<dyn Records>), Report> {
    let store = Store::in_memory().map_err(RecordsError::from)?;
    let recorder = Arc::new(StoreRecorder::new(store.clone(), Requirement::Required, "terminal"));
    let tasks = Arc::clone(&recorder);
    let ports = HostPorts { answerer, recorder: Some(recorder), tasks, ..HostPorts::default() };
    let options = HostOptions { servers, environment, ..HostOptions::default() };
    let host = start(&Config::default(), ports, options).await?;
    Ok((host, Arc::new(StoreRecords::of(store))))
}

/// Whether a gateway without keys gets a temporary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstKey {
    /// It is made, and returned to be shown.
    Made,
    /// There is no place to show it: the first key is that of `toolway clients add`.
    Omitted,
}

/// The host of `serve`, and what its console shares with it.
pub(crate) struct GatewayHost {
    pub(crate) host: Host,
    /// Calls and conversations; `None` if nothing is recorded.
    pub(crate) records: Option<ConsoleRecords>,
    /// Models of the conversations of its console.
    pub(crate) models: ConversationModels,
    /// What makes it one of several gateways.
    pub(crate) cluster: Option<ClusterOptions>,
}

/// How clients reach a gateway.
#[derive(Debug, Default)]
pub(crate) struct Front {
    /// Accepted host names, in addition to those of this machine.
    pub(crate) hosts: Vec<String>,
    pub(crate) tls: Option<Arc<ServerTls>>,
    /// What makes it one of several gateways.
    pub(crate) cluster: Option<ClusterOptions>,
}

impl App {
    /// Builds the host of a command for these servers, without connecting them.
    pub(crate) async fn command_host(
        &self,
        targets: &[Target],
        lists: Lists,
        answerer: Arc<dyn Answerer>,
    ) -> Result<(Host, WireTaps), Report> {
        // Commands that report on servers show more about each of them instead.
        let is_wire_shown = self.show.verbose && lists != Lists::Once;
        let tap = |target: &Target| {
            let tap = WireTap::new(is_wire_shown, target.secrets.clone());
            let tap = if targets.len() == 1 { tap } else { tap.labelled(target.server.name.as_str()) };
            (target.server.name.clone(), Arc::new(tap))
        };
        let taps: WireTaps = targets.iter().map(tap).collect();
        // A server given on the command line has no name to cache its listing under.
        let is_cached = targets.iter().any(|target| target.entry.is_some()) && lists != Lists::Ignored;
        let settings = targets.first().map(|target| target.settings.clone()).unwrap_or_default();
        let recorder = self.recorder(&settings, Requirement::BestEffort, "terminal")?;
        let options = HostOptions {
            sessions: session_store(recorder.as_deref()),
            servers: targets.iter().map(|target| self.server_options(&target.server, lists)).collect(),
            listing_cache: listing_cache::open(&self.paths).filter(|_| is_cached),
            roots: self.given_roots()?,
            tap: Some(tap_factory(taps.clone(), self.export.clone())),
            ..self.host_options(&settings, Clients::Ourselves)
        };
        let calls = Arc::new(VerboseCallLog { shown: self.show.verbose });
        let asking = targets.iter().map(|target| AskingServer {
            name: &target.server.name,
            sampling: target.entry.as_ref().map(|entry| &entry.sampling),
        });
        // The same as for forms, so that a list is the same with and without a terminal.
        let presence = match answerer.modes() {
            ElicitationModes::Nothing => Presence::Unattended,
            ElicitationModes::Forms | ElicitationModes::FormsAndUrls => Presence::Person,
        };
        let mode = settings.policy.mode.value;
        // No conversation makes calls here.
        let models = &ConversationModels::default();
        let sampler = self.sampler(&settings, asking, AskedFrom { conversation: None, models, presence, mode });
        let ports = HostPorts { calls, answerer, sampler, vault: self.vault(&settings), ..HostPorts::default() };
        let ports = with_recorder(ports, recorder, &settings);
        let host = start(&Config { settings, ..Config::default() }, ports, options).await?;
        Ok((host, taps))
    }

    /// Builds the host of `serve`: all configured servers, or the embedded sample server if there are none; its records for the
    /// console; and what makes it one of several gateways, once it is a member.
    pub(crate) async fn gateway_host(
        &self,
        config: &Config,
        limits: &Limits,
        log: Arc<GatewayRecords>,
        client_roots: ClientRootBound,
        plan: Option<&ClusterPlan>,
    ) -> Result<GatewayHost, Report> {
        let sample = || {
            let name: Option<ServerName> = "sample".parse().ok();
            name.map(|name| WantedServer::new(name, Way::InProcess(Arc::new(Sample::new()))))
        };
        // Over stdio the client is the user who started us.
        let clients = if self.reach.stdio.is_some() { Clients::Ourselves } else { Clients::Others };
        let per_client = config.settings.gateway.calls_per_client.value.map(|calls| calls as usize);
        // Over HTTP, approvals and forms wait in the inbox. Servers are told of no elicitation, so that clients without it
        // can use the shared connections; calls of the console declare it themselves.
        let (answerer, declared): (Arc<dyn Answerer>, _) = match clients {
            Clients::Ourselves => (Arc::new(NoAnswerer), None),
            Clients::Others => {
                let answerer = InboxAnswerer { modes: ElicitationModes::FormsAndUrls };
                (Arc::new(answerer), Some(ClientCapabilities(Raw::empty_object())))
            }
        };
        let recorder = match plan {
            Some(_) => Some(self.member_recorder(&config.settings)?),
            None => self.recorder(&config.settings, Requirement::Required, "gateway")?,
        };
        // Before anything is written, which a member does.
        let cluster = match (plan, recorder.as_deref()) {
            (Some(plan), Some(recorder)) => Some(plan.join(recorder.store()).await?),
            _ => None,
        };
        let options = HostOptions {
            sessions: session_store(recorder.as_deref()),
            shared_sessions: Surface::Gateway.shared_sessions(),
            session_users: if plan.is_some() { SessionUsers::Cluster } else { SessionUsers::OneProcess },
            declared,
            client_roots,
            calls: CallLimits { per_client: per_client.unwrap_or(CALLS_PER_CLIENT), ..CallLimits::default() },
            servers: if config.servers.is_empty() { sample().into_iter().collect() } else { Vec::new() },
            listing_cache: listing_cache::open(&self.paths),
            limits: limits.clone(),
            ..self.host_options(&config.settings, clients)
        };
        let models = ConversationModels::default();
        let sampler = self.gateway_sampler(&config.settings, &models);
        let vault = self.vault(&config.settings);
        let ports = HostPorts { calls: log, answerer, sampler, vault, ..HostPorts::default() };
        let records = recorder.as_deref().map(console_records);
        let ports = match recorder.as_deref() {
            Some(recorder) => HostPorts { client_roots: Arc::new(recorder.store().clone()), ..ports },
            None => ports,
        };
        let ports = with_recorder(ports, recorder, &config.settings);
        let host = start(config, ports, options).await?;
        host.adopt_tasks();
        Ok(GatewayHost { host, records, models, cluster })
    }

    /// Builds a host with the servers of a configuration that is not in effect, to test them. Nothing is recorded.
    pub(crate) async fn test_host(&self, config: &Config) -> Result<Host, Report> {
        let options = self.host_options(&config.settings, Clients::Ourselves);
        let ports = HostPorts { vault: self.vault(&config.settings), ..HostPorts::default() };
        start(config, ports, options).await
    }

    /// Builds the host of an agent: the configured servers and `others`, and where its conversations are stored.
    pub(crate) async fn agent_host(
        &self,
        config: &Config,
        others: Vec<WantedServer>,
        answerer: Arc<dyn Answerer>,
        sampler: Arc<dyn Sampler>,
        surface: &'static str,
    ) -> Result<(Host, Option<Arc<dyn ConversationLog>>), Report> {
        let recorder = self.recorder(&config.settings, Requirement::BestEffort, surface)?;
        let options = HostOptions {
            sessions: session_store(recorder.as_deref()),
            servers: others,
            listing_cache: listing_cache::open(&self.paths),
            roots: self.given_roots()?,
            ..self.host_options(&config.settings, Clients::Ourselves)
        };
        let calls = Arc::new(VerboseCallLog { shown: self.show.verbose });
        let ports = HostPorts { calls, answerer, sampler, vault: self.vault(&config.settings), ..HostPorts::default() };
        let log = recorder.clone().map(|recorder| recorder as Arc<dyn ConversationLog>);
        let ports = with_recorder(ports, recorder, &config.settings);
        let host = start(config, ports, options).await?;
        host.adopt_tasks();
        host.follow_roots(self.changed_config()?);
        Ok((host, log))
    }

    /// Builds the HTTP surface of a host. The key is new and valid for this run; `None` if there are stored keys or access
    /// is open.
    pub(crate) fn gateway(
        &self,
        config: &Config,
        host: &Host,
        limits: Limits,
        records: Arc<GatewayRecords>,
        first_key: FirstKey,
        front: Front,
    ) -> Result<(Arc<Gateway>, Option<Secret>), Report> {
        let settings = &config.settings.gateway;
        let (access, key) = match (settings.access.value, first_key) {
            (GatewayAccess::Open, _) => (Access::OpenWithin(OpenAccess::default()), None),
            (GatewayAccess::Keys, FirstKey::Made) => Access::with_keys(clients::key_file(self).ok())?,
            (GatewayAccess::Keys, FirstKey::Omitted) => (Access::with_key_file(clients::key_file(self).ok())?, None),
        };
        if key.is_some() {
            let details = serde_json::json!({ "change": "created", "validFor": "this run" });
            host.note(AuditNote { kind: kind::KEY, caller: None, server: None, subject: None, call: None, details });
        }
        let defaults = GatewayOptions::of(access);
        let sealer = match &front.cluster {
            Some(cluster) => Some(Arc::new(cluster.keys.sealer().map_err(|error| internal(&error))?)),
            None => self.sealer()?,
        };
        let options = GatewayOptions {
            hosts: front.hosts,
            tls: front.tls,
            cluster: front.cluster,
            sealer,
            limits,
            records,
            sse: if settings.sse.value { SseTransport::Enabled } else { SseTransport::Disabled },
            answer_within: settings.answer_within.value.unwrap_or(defaults.answer_within),
            default_log_level: default_log_level(config),
            page_size: settings.page_size.value.map_or(defaults.page_size, |items| items as usize),
            ..defaults
        };
        Ok((Gateway::new(host.clone(), options).map_err(|error| internal(&error))?, key))
    }

    /// Builds the stdio surface of a host.
    pub(crate) fn stdio_service(
        &self,
        config: &Config,
        host: &Host,
    ) -> Result<(HostService, DownstreamOptions), Report> {
        let sealer = match self.sealer()? {
            Some(stored) => stored,
            None => Arc::new(Sealer::with_random_key().map_err(|error| internal(&error))?),
        };
        let access = Access::OpenWithin(OpenAccess::default());
        access.set_bounds(&host.client_bounds());
        let service = HostService::new(host.clone(), Arc::new(access), Scope::All, Arc::clone(&sealer));
        let mut service = service.starting_with_its_client();
        if let Some(items) = config.settings.gateway.page_size.value {
            service = service.with_page_size(items as usize);
        }
        let defaults = DownstreamOptions::default();
        let options = DownstreamOptions {
            sealer: Some(sealer),
            answer_timeout: config.settings.gateway.answer_within.value.unwrap_or(defaults.answer_timeout),
            default_log_level: default_log_level(config),
            ..defaults
        };
        Ok((service, options))
    }

    /// The HTTP options of the environment and the command line.
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

    /// The options that the hosts of commands and of `serve` share.
    fn host_options(&self, settings: &Settings, clients: Clients) -> HostOptions {
        HostOptions {
            keychain: self.keychain(settings),
            sign_in: self.sign_in_options(settings, clients),
            environment: self.environment.clone(),
            http: HttpClient::new(self.http_options(), &Limits::default()),
            memory: self.era_memory(),
            // Without an export, messages of a gateway or an agent are not observed.
            tap: self.export.clone().map(|export| tap_factory(WireTaps::new(), Some(export))),
            shared_sessions: Surface::Call.shared_sessions(),
            ..HostOptions::default()
        }
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
    fn era_memory(&self) -> Option<Arc<dyn EraMemory>> {
        let folder = self.paths.state.as_ref().filter(|_| self.reach.era == EraArg::Auto)?;
        Some(Arc::new(DiskEraMemory::at(folder.join("eras.json"))))
    }

    /// The stored sealing key, so that sealed handles survive a restart; `None` without a state directory.
    fn sealer(&self) -> Result<Option<Arc<Sealer>>, Report> {
        let Some(folder) = &self.paths.state else { return Ok(None) };
        let sealer = sealing::load_or_create(&folder.join("gateway.key"));
        let failed = |error: SealingKeyError| Report::new(ExitCode::Internal, "sealing_key", error.to_string());
        sealer.map(|sealer| Some(Arc::new(sealer))).map_err(failed)
    }
}

/// Limits of `serve`, with one byte budget for its clients and servers.
pub(crate) fn gateway_limits(settings: &Settings) -> Limits {
    let settings = &settings.limits;
    let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    let defaults = Limits::default();
    Limits {
        memory: MemoryBudget::new(bytes(settings.memory.value.unwrap_or(DEFAULT_MEMORY))),
        listing_bytes: settings.listing.value.map_or(defaults.listing_bytes, bytes),
        request_body_bytes: settings.request_body.value.map_or(defaults.request_body_bytes, bytes),
        connections: settings.connections.value.map_or(defaults.connections, |count| count as usize),
        ..defaults
    }
}

/// Starts a host; the only call of [`Host::start`] in the binary.
async fn start(config: &Config, ports: HostPorts, options: HostOptions) -> Result<Host, Report> {
    Host::start(config, ports, options).await.map_err(|error| Report::usage("config", error.to_string()))
}

/// Log level for clients that did not set one; `None` if logs are off.
fn default_log_level(config: &Config) -> Option<LogLevel> {
    config.settings.gateway.log_level.value.as_str().parse().ok()
}

fn tap_factory(taps: WireTaps, export: Option<Arc<MessageExport>>) -> TapFactory {
    Arc::new(move |server, redactor| {
        let export = export.as_ref().map(|export| export.connection(server, redactor));
        let server = taps.get(server).map(Arc::clone).unwrap_or_default();
        Arc::new(ConnectionTap { server, export }) as Arc<dyn Tap>
    })
}

fn internal(problem: &dyn std::fmt::Display) -> Report {
    Report::new(ExitCode::Internal, "internal", problem.to_string())
}
