//! The console of `serve`: its listener, and what it needs of the configuration and the models.
//!
//! `console_backend/entries.rs` edits entries of servers, `assistants.rs` assistants, `difference.rs` shows what an edit writes.

mod assistants;
mod difference;
mod entries;

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tokio::{net::TcpListener, sync::Semaphore};
use toolway_agent::{
    ContextOptions,
    model::{Model, Usage},
};
use toolway_config::{AssistantConfig, Config, ServerName};
use toolway_console::{
    Console, ConsoleOptions, ConsoleTls,
    backend::{
        AgentSettings, ConsoleBackend, ConsoleSettings, EntryDraft, FoundKey, FoundServers, ImportedServer,
        ListedAssistant, ListedModel, ParsedServer, PlannedEdit, Problem, SavedServer, SignInPage, TestFailure,
        TestReport, WrittenEntry,
    },
};
use toolway_host::{
    connection::{Phase, ServerStatus},
    host::Host,
};
use toolway_wire::limit::Limits;
use url::Url;

use crate::{
    app::App,
    assistant,
    commands::{
        chat::resource_options,
        import,
        servers::{change, show},
    },
    compose::GatewayHost,
    cost::Cost,
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
    /// Address of the console, once it is known.
    url: OnceLock<String>,
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
        built: GatewayHost,
        config: &Arc<WatchedConfig>,
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
        let GatewayHost { host, records, models, .. } = built;
        let options = ConsoleOptions { limits: limits.clone(), records, models, tls, ..ConsoleOptions::default() };
        let backend = Arc::new(Backend {
            app: Arc::new(self.detached()),
            config: Arc::clone(config),
            host: host.clone(),
            sign_ins: PageSignIns::default(),
            tests: Semaphore::new(MAX_TESTS),
            url: OnceLock::new(),
        });
        let port: Arc<dyn ConsoleBackend> = Arc::<Backend>::clone(&backend);
        let console = Console::new(host, port, options, address).map_err(|error| internal(&error))?;
        backend.url.get_or_init(|| console.url());
        Ok(Some(BoundConsole { console, listener }))
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

    /// Refuses the name of a server that is part of the program: the file could not be applied.
    fn check_name(&self, draft: &EntryDraft) -> Result<(), Problem> {
        match ServerName::from_label(draft.name.trim()) {
            Ok(name) if self.host.embeds(&name) => Err(Problem::of_field(
                "name",
                format!("`{name}` is the server that comes with Toolway; choose another name"),
            )),
            _ => Ok(()),
        }
    }

    async fn test_server(&self, draft: &EntryDraft) -> Result<TestReport, Problem> {
        let busy = |_| Problem::new("other servers are being tested; try again when they are done");
        let _permit = self.tests.try_acquire().map_err(busy)?;
        let app = Arc::clone(&self.app);
        let draft = draft.clone();
        let pasted = tokio::task::spawn_blocking(move || entries::tested(&draft, &app)).await;
        let pasted = pasted.map_err(|error| Problem::new(error.to_string()))??;
        let settings = self.config.current().config.settings.clone();
        let config = Config { settings, ..pasted.config()? };
        let began = Instant::now();
        let host = self.app.test_host(&config).await.map_err(problem)?;
        let listed = tokio::time::timeout(TEST_TIMEOUT, host.list(&pasted.name)).await;
        let status = listed.ok().and_then(Result::ok).or_else(|| host.status(&pasted.name).ok());
        let report = match status {
            Some(status) => report(&host, &status, began.elapsed()),
            None => return Err(Problem::new("the server disappeared while it was tested")),
        };
        host.shutdown().await;
        Ok(report)
    }

    /// The page of a server in this console.
    fn page_of(&self, server: &ServerName) -> Option<Url> {
        let mut page = Url::parse(self.url.get()?).ok()?;
        page.set_fragment(Some(&format!("/servers/{server}")));
        Some(page)
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
        let current = self.config.current();
        let settings = &current.config.settings;
        ConsoleSettings {
            default_model: settings.default_model.value.clone(),
            mode: settings.policy.mode.value,
            agent: AgentSettings {
                system: String::new(),
                resources: settings.agent.expose_resources.value.unwrap_or(true),
                prompts: settings.agent.expose_prompts.value.unwrap_or(true),
                context: ContextOptions { compact_at: settings.agent.compaction_share() },
                reading: resource_options(&current.config),
            },
            problem: self.config.problem(),
        }
    }

    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, Problem> {
        self.app.model(name, &self.config.current().config.settings).map_err(problem)
    }

    fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        Cost::of(&self.config.current().config.settings, model, usage).map(Cost::amount)
    }

    fn assistants(&self) -> Vec<ListedAssistant> {
        let config = self.config.current();
        let configured = config.config.settings.assistants.value.iter();
        configured.map(|(name, config)| assistants::listed(name, config)).collect()
    }

    fn assistant(&self, name: &str) -> Result<AssistantConfig, Problem> {
        let config = self.config.current();
        assistant::find(&config.config.settings, name).cloned().map_err(problem)
    }

    fn assistant_entry(&self, name: &str) -> Result<WrittenEntry, Problem> {
        assistants::entry(name, &self.app)
    }

    fn plan_assistant(&self, draft: &EntryDraft) -> Result<PlannedEdit, Problem> {
        assistants::planned(draft, &self.app)
    }

    fn save_assistant(&self, draft: &EntryDraft) -> Result<String, Problem> {
        assistants::save(draft, &self.app)
    }

    fn plan_assistant_removal(&self, name: &str) -> Result<PlannedEdit, Problem> {
        assistants::planned_removal(name, &self.app)
    }

    fn remove_assistant(&self, name: &str, version: &str) -> Result<(), Problem> {
        assistants::remove(name, version, &self.app)
    }

    fn parse(&self, text: &str, name: Option<&str>) -> Result<ParsedServer, Problem> {
        let pasted = PastedServer::read(text, name)?;
        let gets = pasted.secrets_it_gets()?;
        let loaded = self.config.current();
        let (entry, secrets) = self.app.detach_entry(&pasted.name, &pasted.new_entry()?, &loaded).map_err(problem)?;
        let mut warnings = pasted.summary()?.warnings;
        warnings.extend(gets.into_iter().chain(secrets.preview()));
        Ok(ParsedServer { name: pasted.label, entry: entry.json(), warnings })
    }

    fn entry(&self, server: &ServerName) -> Result<WrittenEntry, Problem> {
        entries::entry(server, &self.app)
    }

    fn plan(&self, draft: &EntryDraft) -> Result<PlannedEdit, Problem> {
        self.check_name(draft)?;
        entries::planned(draft, &self.app)
    }

    fn test<'a>(&'a self, draft: &'a EntryDraft) -> BoxFuture<'a, Result<TestReport, Problem>> {
        Box::pin(async move { self.test_server(draft).await })
    }

    fn save(&self, draft: &EntryDraft) -> Result<SavedServer, Problem> {
        self.check_name(draft)?;
        let saved = entries::save(draft, &self.app)?;
        self.apply()?;
        Ok(saved)
    }

    fn plan_removal(&self, server: &ServerName) -> Result<PlannedEdit, Problem> {
        entries::planned_removal(server, &self.app)
    }

    fn remove(&self, server: &ServerName, version: &str) -> Result<(), Problem> {
        entries::remove(server, version, &self.app)?;
        self.apply()
    }

    fn importable(&self) -> Result<FoundServers, Problem> {
        import::console::found(&self.app).map_err(problem)
    }

    fn import(&self, chosen: &[FoundKey]) -> Result<Vec<ImportedServer>, Problem> {
        let imported = import::console::copy_chosen(chosen, &self.app).map_err(problem)?;
        self.apply()?;
        Ok(imported)
    }

    fn command(&self, server: &ServerName) -> Option<String> {
        let loaded = self.config.current();
        Some(show::command_of(loaded.config.servers.get(server)?, &loaded.config))
    }

    fn sign_in<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Result<SignInPage, Problem>> {
        let back = self.page_of(server);
        Box::pin(async move { self.sign_ins.begin(&self.app, &self.host, server, back).await.map_err(problem) })
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

fn report(host: &Host, status: &ServerStatus, took: Duration) -> TestReport {
    let report = TestReport::of(host, status, took);
    if report.ok {
        return report;
    }
    let message = status.last_error.as_ref().map(|error| error.message.as_str().to_owned());
    let hint = match &status.phase {
        Phase::SignInRequired { .. } => Some("save it, then authorize it on its page".to_owned()),
        _ => None,
    };
    let message = message.unwrap_or_else(|| status.phase.for_operator().into_string());
    let error = Some(TestFailure { message, hint, stderr: status.stderr.clone() });
    TestReport { error, ..report }
}

/// A report as the console shows it.
fn problem(report: Report) -> Problem {
    let hint = report.notes.iter().find_map(|note| match note {
        Note::Hint(hint) => Some(hint.clone()),
        Note::Detail(_) => None,
    });
    Problem { conflict: report.code == "exists", message: report.message, hint, field: None }
}
