//! The console of `serve`: its listener, and what it needs of the configuration and the models.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{net::TcpListener, sync::Semaphore};
use toolway_agent::{ContextOptions, model::Model};
use toolway_config::{Config, ServerName};
use toolway_console::{
    Console, ConsoleOptions, ConsoleRecords, ConsoleTls,
    backend::{
        AddedServer, AgentSettings, ConsoleBackend, ConsoleSettings, ListedModel, ParsedServer, Problem, SignInPage,
        TestFailure, TestReport,
    },
};
use toolway_host::{
    connection::{Phase, ServerStatus},
    host::Host,
};
use toolway_wire::limit::Limits;

use crate::{
    app::App,
    commands::servers::change,
    exit_code::ExitCode,
    output::Output,
    pasted_server::PastedServer,
    report::{Note, Report},
    sign_in::page::PageSignIns,
    watched_config::WatchedConfig,
};

/// Servers that are tested at the same time.
const MAX_TESTS: usize = 4;
/// Time to connect and list a server that is tested; it may have to be installed first.
const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// A console with its listener.
pub(crate) struct BoundConsole {
    pub(crate) console: Arc<Console>,
    pub(crate) listener: TcpListener,
}

/// Where the console listens.
#[derive(Clone, Debug)]
pub(crate) struct ConsoleChoice {
    pub(crate) address: SocketAddr,
    pub(crate) if_taken: IfTaken,
    /// For an address that other machines can reach.
    pub(crate) tls: Option<ConsoleTls>,
}

/// What happens if the address of the console is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfTaken {
    /// The command fails.
    Fail,
    /// There is no console, with a warning.
    GoWithout,
    /// Another port is used.
    AnyPort,
}

/// The port of the console to this program.
struct Backend {
    app: Arc<App>,
    config: Arc<WatchedConfig>,
    host: Host,
    sign_ins: PageSignIns,
    tests: Semaphore,
}

impl BoundConsole {
    /// A link that signs one browser in.
    pub(crate) fn link(&self) -> Result<String, Report> {
        self.console.link().map_err(|error| Report::new(ExitCode::Internal, "internal", error.to_string()))
    }
}

impl App {
    /// Builds the console of a host and binds its listener; `None` if it is off or its default address is taken.
    pub(crate) async fn console(
        &self,
        choice: Option<ConsoleChoice>,
        host: &Host,
        config: &Arc<WatchedConfig>,
        records: Option<ConsoleRecords>,
        limits: &Limits,
        output: &mut Output,
    ) -> Result<Option<BoundConsole>, Report> {
        let Some(ConsoleChoice { address, if_taken, tls }) = choice else { return Ok(None) };
        let listener = match (TcpListener::bind(address).await, if_taken) {
            (Ok(listener), _) => listener,
            (Err(error), IfTaken::GoWithout) => {
                output.notice(&format!(
                    "toolway: warning: no console: cannot listen on `{address}`: {error}; choose another address with --console"
                ));
                return Ok(None);
            }
            (Err(_), IfTaken::AnyPort) => {
                TcpListener::bind(SocketAddr::new(address.ip(), 0)).await.map_err(|error| taken(address, &error))?
            }
            (Err(error), IfTaken::Fail) => return Err(taken(address, &error)),
        };
        let internal = |error: &dyn std::fmt::Display| Report::new(ExitCode::Internal, "internal", error.to_string());
        let address = listener.local_addr().map_err(|error| internal(&error))?;
        let options = ConsoleOptions { limits: limits.clone(), records, tls, ..ConsoleOptions::default() };
        let backend = Backend {
            app: Arc::new(self.detached()),
            config: Arc::clone(config),
            host: host.clone(),
            sign_ins: PageSignIns::default(),
            tests: Semaphore::new(MAX_TESTS),
        };
        let console = Console::new(host.clone(), Arc::new(backend), options, address);
        Ok(Some(BoundConsole { console: console.map_err(|error| internal(&error))?, listener }))
    }
}

fn taken(address: SocketAddr, error: &std::io::Error) -> Report {
    Report::new(ExitCode::Unreachable, "address", format!("cannot listen on `{address}`: {error}")).hint(
        "choose another address with --console, e.g. `--console 127.0.0.1:0` for any free port, or `--console off`",
    )
}

// === impl Backend ===

impl Backend {
    /// Applies the configuration file to the host.
    fn apply(&self) -> Result<(), Problem> {
        let config = self.config.reload().map_err(Problem::new)?;
        self.host.reload(&config).map(drop).map_err(|error| Problem::new(error.to_string()))
    }

    async fn test_server(&self, pasted: &PastedServer) -> Result<TestReport, Problem> {
        let busy = |_| Problem::new("other servers are being tested; try again when they are done");
        let _permit = self.tests.try_acquire().map_err(busy)?;
        let settings = self.config.current().config.settings.clone();
        let config = Config { settings, ..pasted.config()? };
        let host = self.app.test_host(&config).await.map_err(problem)?;
        let listed = tokio::time::timeout(TEST_TIMEOUT, host.list(&pasted.name)).await;
        let status = listed.ok().and_then(Result::ok).or_else(|| host.status(&pasted.name).ok());
        let report = match status {
            Some(status) => report(&host, &status),
            None => return Err(Problem::new("the server disappeared while it was tested")),
        };
        host.shutdown().await;
        Ok(report)
    }
}

impl ConsoleBackend for Backend {
    fn models(&self) -> Vec<ListedModel> {
        let models = self.app.listed_models(&self.config.current().config.settings);
        let listed = models.into_iter().map(|model| ListedModel {
            vendor: model.config.vendor.as_str().to_owned(),
            model: model.shown_model().to_owned(),
            name: model.name,
        });
        listed.collect()
    }

    fn settings(&self) -> ConsoleSettings {
        let settings = &self.config.current().config.settings;
        ConsoleSettings {
            default_model: settings.default_model.value.clone(),
            mode: settings.policy.mode.value,
            agent: AgentSettings {
                system: String::new(),
                resources: settings.agent.expose_resources.value.unwrap_or(true),
                prompts: settings.agent.expose_prompts.value.unwrap_or(true),
                context: ContextOptions { compact_at: settings.agent.compaction_share() },
            },
            problem: self.config.problem(),
        }
    }

    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, Problem> {
        self.app.model(name, &self.config.current().config.settings).map_err(problem)
    }

    fn parse(&self, text: &str, name: Option<&str>) -> Result<ParsedServer, Problem> {
        let pasted = PastedServer::read(text, name)?;
        let gets = pasted.secrets_it_gets()?;
        let loaded = self.config.current();
        let (entry, secrets) = self.app.detach_entry(&pasted.name, &pasted.new_entry()?, &loaded).map_err(problem)?;
        let mut view = PastedServer { entry: entry.json(), ..pasted }.view()?;
        view.warnings.extend(gets.into_iter().chain(secrets.preview()));
        Ok(view)
    }

    fn test<'a>(&'a self, text: &'a str, name: Option<&'a str>) -> BoxFuture<'a, Result<TestReport, Problem>> {
        Box::pin(async move { self.test_server(&PastedServer::read(text, name)?).await })
    }

    fn add(&self, text: &str, name: Option<&str>) -> Result<AddedServer, Problem> {
        let pasted = PastedServer::read(text, name)?;
        pasted.config()?;
        let (name, secrets) = change::add_entry(&pasted.label, pasted.new_entry()?, &self.app).map_err(problem)?;
        self.apply()?;
        Ok(AddedServer { name, notices: secrets.sentence().into_iter().collect() })
    }

    fn sign_in<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Result<SignInPage, Problem>> {
        Box::pin(async move { self.sign_ins.begin(&self.app, &self.host, server).await.map_err(problem) })
    }

    fn sign_in_failure(&self, server: &ServerName) -> Option<String> {
        self.sign_ins.failure(&self.host, server)
    }

    fn set_enabled(&self, server: &ServerName, enabled: bool) -> Result<bool, Problem> {
        let is_configured = change::set_enabled(server, enabled, &self.app).map_err(problem)?;
        if is_configured {
            self.apply()?;
        }
        Ok(is_configured)
    }
}

fn report(host: &Host, status: &ServerStatus) -> TestReport {
    let profile = status.profile.as_ref();
    let info = |key: &str| {
        profile.and_then(|profile| profile.info.get(key)).and_then(|text| Some(text.as_str()?.into_owned()))
    };
    let catalog = host.catalog();
    let ok = status.phase == Phase::Ready && status.counts.is_some();
    let error = (!ok).then(|| {
        let message = status.last_error.as_ref().map(|error| error.message.as_str().to_owned());
        let hint = match &status.phase {
            Phase::SignInRequired { .. } => Some("add it, then sign in".to_owned()),
            _ => None,
        };
        let message = message.unwrap_or_else(|| status.phase.for_operator().into_string());
        TestFailure { message, hint, stderr: status.stderr.clone() }
    });
    TestReport {
        ok,
        sign_in_required: matches!(status.phase, Phase::SignInRequired { .. }),
        title: info("title").or_else(|| info("name")),
        revision: profile.map(|profile| profile.revision.as_str().to_owned()),
        tools: catalog.tools_of(&status.server).iter().map(|tool| tool.origin.raw_name.clone()).collect(),
        error,
    }
}

/// A report as the console shows it.
fn problem(report: Report) -> Problem {
    let hint = report.notes.iter().find_map(|note| match note {
        Note::Hint(hint) => Some(hint.clone()),
        Note::Detail(_) => None,
    });
    Problem { conflict: report.code == "exists", message: report.message, hint }
}
