//! `toolway serve`: one address, or one pair of pipes, for all servers.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use clap::ValueEnum;
use serde_json::json;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_config::{Config, GatewayAccess, Secret, ServerName};
#[cfg(unix)]
use toolway_gateway::control::Control;
use toolway_gateway::{
    Gateway, GatewayOptions, Oldest,
    access::Access,
    gateway::GatewayError,
    records::{AccessLog, LogForm, Records},
    sealing,
    service::{HostService, Scope},
};
use toolway_host::{
    connection::{WantedServer, Way, sign_in::Clients},
    host::{Host, HostOptions},
    policy::{CALLS_PER_CLIENT, CallLimits},
    ports::HostPorts,
};
use toolway_sample::Sample;
use toolway_wire::{
    down::{self, FaceOptions},
    exchange::LogLevel,
    json::Raw,
    limit::Limits,
    seal::Sealer,
    up::client::HttpClient,
};

use super::clients;
use crate::{
    app::App,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// Serve all configured servers as one
///
/// Clients of any revision reach servers of any revision: everything at /mcp under public names, each server alone at
/// /servers/<name>/mcp under its own. Without a configuration the embedded sample server is served. Whoever comes in
/// brings a key (`toolway clients add`); the first start prints one for this run.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Listen here [default: 127.0.0.1:7717]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Write a line of each call and each refused request to standard error, without arguments and keys
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogArg::Text)]
    log: LogArg,
}

/// In which form calls and refused requests are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogArg {
    /// For people
    Text,
    /// One object per line
    Json,
    /// Not at all
    Off,
}

/// When servers that are not there are named.
const MOMENT: Duration = Duration::from_secs(1);
/// Where it listens when nothing is said.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7717);

pub(crate) async fn run(args: &ServeArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    refuse_other_servers(app)?;
    let config = app.config(output)?;
    let records = records(args.log)?;
    let host = start(app, &config, Arc::clone(&records)).await?;
    let served = match &app.reach.stdio {
        Some(_) => over_pipes(app, &config, &host).await,
        None => over_http(args, app, &config, &host, records, output).await,
    };
    host.shutdown().await;
    served
}

/// What is served is what is configured.
fn refuse_other_servers(app: &App) -> Result<(), Report> {
    let reach = &app.reach;
    let program = reach.stdio.as_ref().is_some_and(|command| !command.expose().is_empty());
    if program || reach.url.is_some() || reach.by_name.is_some() {
        let hint = "Put it into toolway.json; `serve --stdio` without a command speaks to whoever started it.";
        return Err(Report::usage("usage", "What is served is what is configured.").hint(hint));
    }
    Ok(())
}

/// Figures, and lines on standard error where they are wanted.
fn records(log: LogArg) -> Result<Arc<Records>, Report> {
    let form = match log {
        LogArg::Off => return Ok(Arc::default()),
        LogArg::Text => LogForm::Text,
        LogArg::Json => LogForm::Json,
    };
    let failed = |error| Report::new(ExitCode::Internal, "internal", format!("The log cannot be written: {error}."));
    let log = AccessLog::to(Box::new(std::io::stderr()), form).map_err(failed)?;
    Ok(Arc::new(Records::logged(log)))
}

async fn start(app: &App, config: &Config, records: Arc<Records>) -> Result<Host, Report> {
    let sample = || {
        let name: Option<ServerName> = "sample".parse().ok();
        name.map(|name| WantedServer::new(name, Way::InProcess(Arc::new(Sample::new()))))
    };
    // Whoever started us and speaks to us is us.
    let clients = if app.reach.stdio.is_some() { Clients::Ourselves } else { Clients::Others };
    let per_client = config.settings.gateway.calls_per_client.value.map(|calls| calls as usize);
    let options = HostOptions {
        calls: CallLimits { per_client: per_client.unwrap_or(CALLS_PER_CLIENT), ..CallLimits::default() },
        servers: if config.servers.is_empty() { sample().into_iter().collect() } else { Vec::new() },
        environment: app.environment.clone(),
        keychain: app.keychain(),
        sign_in: app.sign_in_options(&config.settings, clients),
        http: HttpClient::new(app.http_options(), &Limits::default()),
        memory: app.era_memory(),
        copy: app.disk_copy(),
        ..HostOptions::default()
    };
    let ports = HostPorts { calls: records, vault: app.vault(&config.settings), ..HostPorts::default() };
    Host::start(config, ports, options).await.map_err(|error| Report::usage("config", format!("{error}.")))
}

/// Speaks to whoever started us; they are whoever they are.
async fn over_pipes(app: &App, config: &Config, host: &Host) -> Result<ExitCode, Report> {
    let mut ending = Ending::watch();
    let internal = |problem: &dyn std::fmt::Display| Report::new(ExitCode::Internal, "internal", format!("{problem}."));
    let sealer = match sealer(app)? {
        Some(kept) => kept,
        None => Arc::new(Sealer::generated().map_err(|error| internal(&error))?),
    };
    let service = HostService::new(host.clone(), Arc::new(Access::Open), Scope::All, Arc::clone(&sealer));
    let (settings, usual) = (&config.settings.gateway, FaceOptions::default());
    let park = settings.answer_within.value.unwrap_or(usual.park);
    let options = FaceOptions { sealer: Some(sealer), park, usual_log_level: usual_logs(config), ..usual };
    let stop = CancellationToken::new();
    let serving = down::stdio::serve(tokio::io::stdin(), tokio::io::stdout(), Arc::new(service), options, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return served.map(|()| ExitCode::Ok).map_err(|error| internal(&error)),
        () = ending.told(app) => stop.cancel(),
    }
    serving.await.map(|()| ExitCode::Ok).map_err(|error| internal(&error))
}

/// Which logs a client hears that never said; none where they are off.
fn usual_logs(config: &Config) -> Option<LogLevel> {
    config.settings.gateway.log_level.value.word().parse().ok()
}

async fn over_http(
    args: &ServeArgs,
    app: &App,
    config: &Config,
    host: &Host,
    records: Arc<Records>,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    // Before anything is printed: whoever reads it may want us to end at once.
    let mut ending = Ending::watch();
    let settings = &config.settings.gateway;
    let (access, key) = match settings.access.value {
        GatewayAccess::Open => (Access::Open, None),
        GatewayAccess::Keys => Access::of_keys(clients::file(app).ok())?,
    };
    let hosts = settings.hosts.value.clone();
    let oldest = if settings.sse.value { Oldest::LetIn } else { Oldest::TurnedAway };
    let usual = GatewayOptions::of(access);
    let answer_within = settings.answer_within.value.unwrap_or(usual.answer_within);
    let usual_log_level = usual_logs(config);
    let options =
        GatewayOptions { hosts, sealer: sealer(app)?, records, oldest, answer_within, usual_log_level, ..usual };
    let internal = |problem: &dyn std::fmt::Display| Report::new(ExitCode::Internal, "internal", format!("{problem}."));
    let gateway = Gateway::new(host.clone(), options).map_err(|error| internal(&error))?;
    let address = args.listen.or(settings.listen.value).unwrap_or(LISTEN);
    let listener = gateway.bind(address).await.map_err(|error| unbound(&error))?;
    let address = listener.local_addr().map_err(|error| internal(&error))?;
    let stop = CancellationToken::new();
    let _heard = heard(app, host, &stop, output);
    announce(address, key.as_ref(), settings.access.value, output);
    let serving = gateway.serve(listener, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return served.map(|()| ExitCode::Ok).map_err(|error| internal(&error)),
        () = ending.told(app) => stop.cancel(),
        never = name_missing(host, output) => match never {},
    }
    serving.await.map(|()| ExitCode::Ok).map_err(|error| internal(&error))
}

/// Names the servers that are not there a moment after the start. Nobody waited for them.
async fn name_missing(host: &Host, output: &mut Output) -> std::convert::Infallible {
    for status in host.gather(MOMENT).await {
        output.say(&format!("toolway: `{}` is not there yet: {}", status.server, status.phase));
    }
    std::future::pending().await
}

/// Listens to the user's own commands; without that the gateway works all the same.
#[cfg(unix)]
fn heard(app: &App, host: &Host, stop: &CancellationToken, output: &mut Output) -> Option<AbortOnDropHandle<()>> {
    let place = app.control_place()?;
    match Control::bind(&place) {
        Ok(control) => {
            let listening = control.serve(host.clone(), Arc::new(app.reload()), stop.clone());
            Some(AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(listening)))
        }
        Err(error) => {
            output.say(&format!(
                "toolway: commands such as `toolway servers status` cannot speak to this gateway: {error}"
            ));
            None
        }
    }
}

#[cfg(not(unix))]
fn heard(_app: &App, _host: &Host, _stop: &CancellationToken, _output: &mut Output) -> Option<AbortOnDropHandle<()>> {
    None
}

fn unbound(error: &GatewayError) -> Report {
    match error {
        GatewayError::OpenToAll(_) => Report::usage("open_access", format!("{error}.")),
        GatewayError::Address { .. } => Report::new(ExitCode::Unreachable, "address", format!("{error}."))
            .hint("Another one is chosen with --listen, e.g. --listen 127.0.0.1:0 for any free port."),
        GatewayError::NoRandomness(_) => Report::new(ExitCode::Internal, "internal", format!("{error}.")),
    }
}

/// Handles outlive a restart where there is somewhere to keep the key.
fn sealer(app: &App) -> Result<Option<Arc<Sealer>>, Report> {
    let Some(folder) = &app.paths.state else { return Ok(None) };
    let kept = sealing::kept_at(&folder.join("gateway.key"));
    let failed = |error| Report::new(ExitCode::Internal, "sealing_key", format!("{error}."));
    kept.map(|sealer| Some(Arc::new(sealer))).map_err(failed)
}

/// What to paste into a client.
fn announce(address: SocketAddr, key: Option<&Secret>, access: GatewayAccess, output: &mut Output) {
    let url = format!("http://{address}/mcp");
    if output.format != Format::Human {
        output.json(&Raw::of(&json!({ "listening": url, "access": access.word(), "key": key.map(Secret::expose) })));
        return;
    }
    let mut entry = json!({ "type": "http", "url": url });
    match (key, access) {
        (Some(key), _) => entry["headers"] = json!({ "Authorization": format!("Bearer {}", key.expose()) }),
        (None, GatewayAccess::Keys) => entry["headers"] = json!({ "Authorization": "Bearer <key>" }),
        (None, GatewayAccess::Open) => {}
    }
    let snippet = json!({ "mcpServers": { "toolway": entry } });
    output.line(&format!("listening on {url}\n"));
    output.line("Put this into a client's configuration:\n");
    output.line(&serde_json::to_string_pretty(&snippet).unwrap_or_default());
    output.line(match (key, access) {
        (Some(_), _) => "\nThe key is good for this run; `toolway clients add <name>` makes one that stays.",
        (None, GatewayAccess::Keys) => "\nA key is made with `toolway clients add <name>`.",
        (None, GatewayAccess::Open) => "\nAccess is open: everybody on this machine can come in.",
    });
}

/// Whoever keeps us tells us to end by a signal; it is heard from the moment this is made.
struct Ending {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Ending {
    /// Begins to listen; where that cannot be done, only the keyboard is heard.
    fn watch() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok(),
        }
    }

    /// Resolves when somebody wants us to end: the keyboard, or whoever keeps us.
    async fn told(&mut self, app: &App) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal {
            tokio::select! {
                _told = signal.recv() => {}
                _report = app.stop.happens() => {}
            }
            return;
        }
        drop(app.stop.happens().await);
    }
}
