//! `toolway serve`: serves all configured servers as one MCP server, over HTTP or stdio.

mod start;
mod unit;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use clap::ValueEnum;
#[cfg(unix)]
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_config::{Config, GatewaySettings};
use toolway_console::ConsoleTls;
#[cfg(unix)]
use toolway_gateway::control::Control;
use toolway_gateway::{
    Gateway,
    cluster::ClusterOptions,
    gateway::GatewayError,
    records::{LogFormat, Records},
};
use toolway_host::{host::Host, keeper::Descent, roots::ClientRootBound};
use toolway_wire::{
    down::{self, http::ServerTls},
    limit::Limits,
};

use start::{Announcement, ShownConsole};

use super::{clients, console};
use unit::Unit;

use crate::{
    app::App,
    compose::{FirstKey, Front, gateway_limits},
    console_backend::{BoundConsole, ConsoleChoice, IfTaken},
    exit_code::ExitCode,
    exposure,
    logging::AccessLogChoice,
    output::Output,
    report::Report,
    watched_config::WatchedConfig,
};

/// Serve all configured servers as one MCP server
///
/// Clients of any protocol revision reach servers of any revision: all servers at /mcp with public names, each server alone at
/// /servers/<name>/mcp with its own names. Without a configuration, serves the embedded sample server. Clients need a key
/// (`toolway clients add`); without any key, `serve` prints one for this run if its output is a terminal. With --stdio
/// (without a command), serves on standard input and output instead.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:7717]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Log each call and each refused request, without arguments and keys [default: as --log-format]
    #[arg(long, value_enum, value_name = "FORMAT")]
    log: Option<LogArg>,

    /// Address of the web console, or `off` [default: 127.0.0.1:7718]
    #[arg(long, value_name = "ADDRESS|off", value_parser = ConsoleArg::parse)]
    console: Option<ConsoleArg>,

    /// Print a systemd unit that runs this command as user `toolway`, and exit
    #[arg(long)]
    print_unit: bool,
}

/// Where the web console listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConsoleArg {
    Off,
    At(SocketAddr),
}

impl ConsoleArg {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            address => address
                .parse()
                .map(Self::At)
                .map_err(|_| "must be an address such as 127.0.0.1:7718, or `off`".to_owned()),
        }
    }
}

/// Whether a browser is opened at the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenConsole {
    /// The console is not what the command is about.
    NotWanted,
    /// Without it the command fails; the link is printed only.
    LinkOnly,
    /// Without it the command fails.
    InBrowser,
}

impl ServeArgs {
    /// The same options as words, for a unit.
    fn words(&self, config: Option<&Path>) -> Vec<String> {
        let config = config.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned()));
        let console = self.console.map(|console| match console {
            ConsoleArg::Off => "off".to_owned(),
            ConsoleArg::At(address) => address.to_string(),
        });
        let log = self.log.and_then(|log| Some(log.to_possible_value()?.get_name().to_owned()));
        let options = [
            ("--config", config.map(|file| file.display().to_string())),
            ("--listen", self.listen.map(|address| address.to_string())),
            ("--console", console),
            ("--log", log),
        ];
        let given = options.into_iter().filter_map(|(option, value)| Some([option.to_owned(), value?]));
        given.flatten().collect()
    }

    /// The chosen access log.
    pub(crate) fn access_log(&self) -> AccessLogChoice {
        match self.log {
            None => AccessLogChoice::Written(None),
            Some(LogArg::Text) => AccessLogChoice::Written(Some(LogFormat::Text)),
            Some(LogArg::Json) => AccessLogChoice::Written(Some(LogFormat::Json)),
            Some(LogArg::Off) => AccessLogChoice::Off,
        }
    }
}

/// Format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogArg {
    /// Readable text
    Text,
    /// One object per line
    Json,
    /// No log
    Off,
}

/// Wanted limit of open files.
#[cfg(unix)]
const OPEN_FILES: u64 = 65_536;
/// How long a listing that has begun may go on when the client of `serve --stdio` has left.
const LISTING_GRACE: Duration = Duration::from_secs(5);
/// Default listen address.
pub(crate) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7717);
/// Default address of the console.
const DEFAULT_CONSOLE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7718);

pub(crate) async fn run(args: &ServeArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    if args.print_unit {
        let program = std::env::current_exe().unwrap_or_else(|_| "toolway".into());
        let unit = Unit { program: &program, options: args.words(app.reach.config.as_deref()) };
        output.line(unit.to_string().trim_end());
        return Ok(ExitCode::Ok);
    }
    serve(args, OpenConsole::NotWanted, app, output).await
}

/// Serves with default options, and opens the console.
pub(crate) async fn run_console(open: OpenConsole, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    serve(&ServeArgs { listen: None, log: None, console: None, print_unit: false }, open, app, output).await
}

async fn serve(args: &ServeArgs, open: OpenConsole, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    refuse_other_servers(app)?;
    let watched = Arc::new(app.watched_config(output)?);
    let config = watched.current().config.clone();
    let cluster = match &app.reach.stdio {
        // The parent process is its only client.
        Some(_) => None,
        None => app.cluster_plan(&config)?,
    };
    let peers = match &cluster {
        Some(plan) => Some(plan.bind().await?),
        None => None,
    };
    let records = Arc::new(app.log.records());
    let limits = gateway_limits(&config.settings);
    let client_roots = args.client_roots(app, &config.settings.gateway);
    let mut built = app.gateway_host(&config, &limits, Arc::clone(&records), client_roots, cluster.as_ref()).await?;
    let host = built.host.clone();
    let cluster = built.cluster.take();
    let membership = cluster.as_ref().map(|cluster| cluster.membership.clone());
    let served = match &app.reach.stdio {
        Some(_) => serve_stdio(app, &config, &host).await,
        None => {
            let tls = exposure::tls(&config.settings.gateway)?;
            let choice = args.console_choice(open, &config.settings.gateway, tls.as_ref(), output)?;
            let console = app.console(choice, built, &watched, &limits, output).await;
            match console {
                Ok(console) => {
                    let surfaces = Surfaces { console, open, limits, records, tls, watched, cluster, peers };
                    serve_http(args, app, &config, &host, surfaces, output).await
                }
                Err(report) => Err(report),
            }
        }
    };
    host.shutdown().await;
    if let Some(membership) = membership {
        membership.leave().await;
    }
    served
}

/// Refuses options that select a server: `serve` always serves the configuration.
fn refuse_other_servers(app: &App) -> Result<(), Report> {
    let reach = &app.reach;
    let program = reach.stdio.as_ref().is_some_and(|command| !command.expose().is_empty());
    if program || reach.url.is_some() || reach.by_name.is_some() {
        let hint = "add the server with `toolway servers add`; `serve --stdio` takes no command";
        return Err(Report::usage("usage", "`serve` serves the configured servers and takes no server").hint(hint));
    }
    if !reach.root.is_empty() {
        let message = "`serve` takes no `--root`; configure `roots`, at the top, for a server or for a client";
        return Err(Report::usage("usage", message));
    }
    Ok(())
}

/// Serves on standard input and output. The parent process is the client and needs no key.
async fn serve_stdio(app: &App, config: &Config, host: &Host) -> Result<ExitCode, Report> {
    let mut shutdown = ShutdownSignal::register();
    let internal = |problem: &dyn std::fmt::Display| Report::new(ExitCode::Internal, "internal", problem.to_string());
    let (service, options) = app.stdio_service(config, host)?;
    let stop = CancellationToken::new();
    let serving = down::stdio::serve(tokio::io::stdin(), tokio::io::stdout(), Arc::new(service), options, stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => {
            // Else the listing of a slow server would never be stored by short sessions.
            tokio::select! {
                () = host.finish_first_listings(LISTING_GRACE) => {}
                () = shutdown.wait(app) => {}
            }
            return served.map(|()| ExitCode::Ok).map_err(|error| internal(&error));
        }
        () = shutdown.wait(app) => stop.cancel(),
    }
    serving.await.map(|()| ExitCode::Ok).map_err(|error| internal(&error))
}

async fn serve_http(
    args: &ServeArgs,
    app: &App,
    config: &Config,
    host: &Host,
    surfaces: Surfaces,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let Surfaces { console, open, limits, records, tls, watched, cluster, peers } = surfaces;
    // Before anything is printed, because a reader of the output may stop us at once.
    let mut shutdown = ShutdownSignal::register();
    raise_open_files();
    let settings = &config.settings.gateway;
    // A key for this run only would be unknown to the other gateways.
    let is_shown = output.shows_results_at_terminal() && cluster.is_none();
    let first_key = if is_shown { FirstKey::Made } else { FirstKey::Omitted };
    let address = args.address(settings);
    let front = Front { hosts: exposure::hosts(settings, address), tls: tls.clone(), cluster };
    let (gateway, key) = app.gateway(config, host, limits, records, first_key, front)?;
    let internal = |problem: &dyn std::fmt::Display| Report::new(ExitCode::Internal, "internal", problem.to_string());
    let listener = gateway.bind(address).await.map_err(|error| bind_failure(&error))?;
    let address = listener.local_addr().map_err(|error| internal(&error))?;
    let stop = CancellationToken::new();
    let _control = serve_control(app, &gateway, watched, console.as_ref(), &stop, output);
    let shown = console.as_ref().map(|console| ShownConsole::of(console, output)).transpose()?;
    let stored_keys = clients::key_file(app).and_then(|file| Ok(file.list()?)).map_or(0, |keys| keys.len());
    Announcement { address, settings, key: key.as_ref(), stored_keys, console: shown }.print(output);
    for problem in exposure::problems(settings, address, tls.as_deref(), stored_keys) {
        output.notice(&format!("toolway: warning: {problem}"));
    }
    if let Some(console) = console.as_ref().filter(|_| open == OpenConsole::InBrowser) {
        console::open_browser(&console.link()?, app, output).await;
    }
    let serving_console = serve_console(console, stop.clone());
    let serving_peers = serve_peers(&gateway, peers, stop.clone());
    let serving = async {
        tokio::try_join!(gateway.serve(listener, stop.clone()), serving_console, serving_peers).map(|_done| ())
    };
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return served.map(|()| ExitCode::Ok).map_err(|error| internal(&error)),
        () = shutdown.wait(app) => stop.cancel(),
        never = start::report_servers(host, output) => match never {},
    }
    serving.await.map(|()| ExitCode::Ok).map_err(|error| internal(&error))
}

/// What `serve` serves besides the gateway, and how.
struct Surfaces {
    console: Option<BoundConsole>,
    open: OpenConsole,
    limits: Limits,
    records: Arc<Records>,
    tls: Option<Arc<ServerTls>>,
    watched: Arc<WatchedConfig>,
    cluster: Option<ClusterOptions>,
    /// Where other gateways connect.
    peers: Option<TcpListener>,
}

impl ServeArgs {
    /// The address to listen on.
    fn address(&self, settings: &GatewaySettings) -> SocketAddr {
        self.listen.or(settings.listen.value).unwrap_or(DEFAULT_LISTEN)
    }

    /// Which roots of clients are passed on if `gateway.rootsWithin` is not set. A client over stdio runs on this machine.
    fn client_roots(&self, app: &App, settings: &GatewaySettings) -> ClientRootBound {
        match app.reach.stdio.is_none() && exposure::is_exposed(settings, self.address(settings)) {
            true => ClientRootBound::NoFiles,
            false => ClientRootBound::Anywhere,
        }
    }

    /// The address of the console, and what happens if it is taken.
    fn console_choice(
        &self,
        open: OpenConsole,
        settings: &GatewaySettings,
        tls: Option<&Arc<ServerTls>>,
        output: &mut Output,
    ) -> Result<Option<ConsoleChoice>, Report> {
        // It could approve calls there in place of the user.
        if Descent::own().is_of_server() {
            output.notice("toolway: no console: this process was started by a server of Toolway");
            return Ok(None);
        }
        Ok(match (self.console, open) {
            (Some(ConsoleArg::Off), _) => None,
            (Some(ConsoleArg::At(address)), _) if !address.ip().is_loopback() => {
                let Some(tls) = tls else {
                    let message = format!(
                        "the console does not listen on `{address}`, which other machines can reach, without TLS"
                    );
                    return Err(Report::usage("console", message).hint(
                        "set `gateway.tls`, or use a loopback address and forward its port with `ssh -L 7718:127.0.0.1:7718`",
                    ));
                };
                let tls = ConsoleTls { tls: Arc::clone(tls), hosts: exposure::hosts(settings, address) };
                Some(ConsoleChoice { address, if_taken: IfTaken::Fail, tls: Some(tls) })
            }
            (Some(ConsoleArg::At(address)), _) => Some(ConsoleChoice { address, if_taken: IfTaken::Fail, tls: None }),
            (None, OpenConsole::NotWanted) => {
                Some(ConsoleChoice { address: DEFAULT_CONSOLE, if_taken: IfTaken::GoWithout, tls: None })
            }
            (None, _) => Some(ConsoleChoice { address: DEFAULT_CONSOLE, if_taken: IfTaken::AnyPort, tls: None }),
        })
    }
}

/// Answers other gateways.
fn serve_peers(
    gateway: &Arc<Gateway>,
    peers: Option<TcpListener>,
    stop: CancellationToken,
) -> impl Future<Output = std::io::Result<()>> + use<> {
    let gateway = Arc::clone(gateway);
    async move {
        match peers {
            Some(listener) => gateway.serve_peers(listener, stop).await,
            None => Ok(()),
        }
    }
}

async fn serve_console(console: Option<BoundConsole>, stop: CancellationToken) -> std::io::Result<()> {
    match console {
        Some(BoundConsole { console, listener }) => console.serve(listener, stop).await,
        None => Ok(()),
    }
}

/// Raises the limit of open files towards the one that the system allows, because each client and server needs some.
#[cfg(unix)]
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    if limit.current.is_none_or(|current| wanted <= current) {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }) {
        tracing::warn!(%error, wanted, "cannot raise the limit of open files");
    }
}

#[cfg(not(unix))]
fn raise_open_files() {}

/// Serves the control socket for the user's commands. The gateway also works without it.
#[cfg(unix)]
fn serve_control(
    app: &App,
    gateway: &Arc<Gateway>,
    watched: Arc<WatchedConfig>,
    console: Option<&BoundConsole>,
    stop: &CancellationToken,
    output: &mut Output,
) -> Option<AbortOnDropHandle<()>> {
    let console = console.map(|bound| Arc::clone(&bound.console));
    let link = move || match &console {
        Some(console) => console.link().map_err(|error| error.to_string()),
        None => Err("the running gateway has no console".to_owned()),
    };
    let place = app.control_place()?;
    match Control::bind(&place) {
        Ok(control) => {
            let listening =
                control.serve(Arc::clone(gateway), Arc::new(move || watched.reload()), Arc::new(link), stop.clone());
            Some(AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(listening)))
        }
        Err(error) => {
            output.notice(&format!(
                "toolway: no control socket, so commands such as `toolway servers status` cannot reach this gateway: {error}"
            ));
            None
        }
    }
}

#[cfg(not(unix))]
fn serve_control(
    _app: &App,
    _gateway: &Arc<Gateway>,
    _watched: Arc<WatchedConfig>,
    _console: Option<&BoundConsole>,
    _stop: &CancellationToken,
    _output: &mut Output,
) -> Option<AbortOnDropHandle<()>> {
    None
}

fn bind_failure(error: &GatewayError) -> Report {
    match error {
        GatewayError::OpenToAll(_) => Report::usage("open_access", error.to_string()),
        GatewayError::Address { .. } => Report::new(ExitCode::Unreachable, "address", error.to_string())
            .hint("choose another address with --listen, e.g. `--listen 127.0.0.1:0` for any free port"),
        GatewayError::NoRandomness(_) => Report::new(ExitCode::Internal, "internal", error.to_string()),
    }
}

/// Waits for SIGTERM or Ctrl-C, from the moment it is created.
struct ShutdownSignal {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl ShutdownSignal {
    /// Registers the signal handler; if that fails, only Ctrl-C is handled.
    fn register() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok(),
        }
    }

    /// Resolves on SIGTERM or Ctrl-C.
    async fn wait(&mut self, app: &App) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal {
            tokio::select! {
                _signal = signal.recv() => {}
                _report = app.stop.triggered() => {}
            }
            return;
        }
        drop(app.stop.triggered().await);
    }
}
