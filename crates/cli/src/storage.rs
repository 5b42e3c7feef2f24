//! Opens the store of a command: the configured file, or none with `--no-store`.

use std::{path::PathBuf, sync::Arc};

use toolway_config::{
    Secret, Settings, SyncMode,
    interpolate::{Lookup, Template},
    server::DefinedBy,
};
use toolway_console::ConsoleRecords;
use toolway_host::{
    call::Caller,
    connection::SessionStore,
    ports::HostPorts,
    record::{NoRecords, RecordChanges, Records, RecordsError, Requirement, StoreUsage},
    time,
};
pub(crate) use toolway_store::backup;
use toolway_store::{
    RegisteredBy, Store, StoreOptions, StoreRecorder, StoreRecords, Sync,
    audit::AuditEvent,
    retention::{AuditLimit, RetentionLimits},
};

use crate::{app::App, exit_code::ExitCode, report::Report};

/// File name of the database in the state directory.
const FILE: &str = "toolway.db";

/// Where a store is kept.
#[derive(Debug)]
pub(crate) enum StoreLocation {
    File(PathBuf),
    /// A Postgres database, by its URL.
    Database(Secret),
    /// Nowhere: it ends with this process.
    Memory,
}

impl App {
    /// The database file; `None` without a state directory.
    pub(crate) fn store_path(&self, settings: &Settings) -> Option<PathBuf> {
        let configured = settings.store.path.value.clone();
        configured.or_else(|| self.paths.state.as_ref().map(|folder| folder.join(FILE)))
    }

    /// Where the store is kept.
    pub(crate) fn store_location(&self, settings: &Settings) -> Result<StoreLocation, Report> {
        let Some(template) = &settings.store.url.value else {
            return Ok(self.store_path(settings).map_or(StoreLocation::Memory, StoreLocation::File));
        };
        Ok(StoreLocation::Database(self.expand_setting(template, "store.url", settings)?))
    }

    /// The value of a setting with references; `key` is its name in the configuration.
    pub(crate) fn expand_setting(&self, template: &Template, key: &str, settings: &Settings) -> Result<Secret, Report> {
        let keychain = self.keychain(settings);
        let home = self.paths.home.clone().unwrap_or_default();
        let lookup = Lookup {
            environment: &self.environment,
            keychain: &*keychain,
            folder: self.paths.home.as_deref(),
            base: &home,
            server: key.split('.').next().unwrap_or_default(),
            file: &home,
            defined_by: DefinedBy::User,
        };
        template.expand(&lookup).map_err(|problem| Report::usage("config", format!("`{key}` {problem}")))
    }

    /// Opens the store for writing.
    fn open_store(&self, settings: &Settings) -> Result<Store, Report> {
        self.open_store_with(settings, retention_limits(settings))
    }

    /// Opens the store for writing, with these limits.
    fn open_store_with(&self, settings: &Settings, limits: RetentionLimits) -> Result<Store, Report> {
        self.open_store_as(RegisteredBy::Store, settings, limits)
    }

    fn open_store_as(
        &self,
        registered_by: RegisteredBy,
        settings: &Settings,
        limits: RetentionLimits,
    ) -> Result<Store, Report> {
        let location = if self.reach.no_store { StoreLocation::Memory } else { self.store_location(settings)? };
        let (path, url) = match location {
            StoreLocation::File(path) => (Some(path), None),
            StoreLocation::Database(url) => (None, Some(url)),
            StoreLocation::Memory => (None, None),
        };
        let sync = match settings.store.sync.value {
            SyncMode::Normal => Sync::Normal,
            SyncMode::Full => Sync::Full,
        };
        let (store, notice) =
            Store::open(&StoreOptions { path, url, sync, limits, registered_by }).map_err(RecordsError::from)?;
        if let Some(notice) = notice {
            tracing::error!("{notice}");
        }
        Ok(store)
    }

    /// What was recorded; nothing if there is no store yet.
    pub(crate) fn records(&self) -> Result<Arc<dyn Records>, Report> {
        Ok(self.stored_records()?.unwrap_or_else(|| Arc::new(NoRecords)))
    }

    /// What was recorded, after what processes left that have ended was completed; nothing if there is no store yet.
    pub(crate) fn settled_records(&self) -> Result<Arc<dyn Records>, Report> {
        let settings = self.load()?.config.settings;
        if self.stored_records()?.is_none() {
            return Ok(Arc::new(NoRecords));
        }
        Ok(Arc::new(StoreRecords::of(self.open_store(&settings)?)))
    }

    /// What was recorded; `None` if there is no store yet.
    pub(crate) fn stored_records(&self) -> Result<Option<Arc<dyn Records>>, Report> {
        let settings = self.load()?.config.settings;
        let limits = retention_limits(&settings);
        let records = match self.store_location(&settings)? {
            StoreLocation::File(path) => StoreRecords::open(&path, limits).map_err(RecordsError::from)?,
            StoreLocation::Database(url) => Some(StoreRecords::connect(&url, limits).map_err(RecordsError::from)?),
            StoreLocation::Memory => None,
        };
        Ok(records.map(|records| Arc::new(records) as _))
    }

    /// The store for changes that the user asks for. Only `prune` applies limits.
    pub(crate) fn record_changes(&self) -> Result<Arc<dyn RecordChanges>, Report> {
        let settings = self.load()?.config.settings;
        let store = self.open_store_with(&settings, RetentionLimits::default())?;
        Ok(Arc::new(StoreRecords::of(store).with_limits(retention_limits(&settings))))
    }

    /// Appends a change that a command made to the audit log. A store that cannot be written is reported: the change is
    /// made already.
    pub(crate) fn audit(
        &self,
        kind: &'static str,
        server: Option<&str>,
        subject: Option<&str>,
        details: &serde_json::Value,
    ) {
        if self.reach.no_store {
            return;
        }
        let appended = self.load().and_then(|loaded| self.open_store(&loaded.config.settings)).map(|store| {
            let event = AuditEvent {
                at: time::now(),
                kind,
                caller: Some(Caller::Terminal.label()),
                server: server.map(str::to_owned),
                subject: subject.map(str::to_owned),
                call: None,
                details: details.to_string(),
            };
            // Committed when the store is dropped; the writer logs what it cannot write.
            drop(store.append_audit(event));
        });
        if let Err(report) = appended {
            tracing::error!(kind, "the change is not in the audit log: {}", report.message);
        }
    }

    /// Removes the stored sessions and roots of a client, which a later one of the same name must not get. A store that cannot
    /// be written is reported.
    pub(crate) fn forget_client(&self, client: &str) {
        if self.reach.no_store {
            return;
        }
        let opened = self.load().and_then(|loaded| self.open_store(&loaded.config.settings));
        match opened {
            // Committed when the store is dropped; the writer logs what it cannot write.
            Ok(store) => {
                drop(store.remove_sessions_of(Caller::Client(client.into()).label()));
                drop(store.remove_roots_of(client.to_owned()));
            }
            Err(report) => tracing::error!(client, "stored sessions and roots are not removed: {}", report.message),
        }
    }

    /// The recorder of a member of a cluster, which writes once it is registered.
    pub(crate) fn member_recorder(&self, settings: &Settings) -> Result<Arc<StoreRecorder>, Report> {
        let store = self.open_store_as(RegisteredBy::Cluster, settings, retention_limits(settings))?;
        Ok(Arc::new(StoreRecorder::new(store, Requirement::Required, "gateway")))
    }

    /// The recorder of a host. A store that cannot be opened ends the command if records are required, else it is
    /// reported.
    pub(crate) fn recorder(
        &self,
        settings: &Settings,
        by_default: Requirement,
        surface: &'static str,
    ) -> Result<Option<Arc<StoreRecorder>>, Report> {
        let requirement = match settings.store.required.value {
            Some(true) => Requirement::Required,
            Some(false) => Requirement::BestEffort,
            None => by_default,
        };
        match (self.open_store(settings), requirement) {
            (Ok(store), _) => Ok(Some(Arc::new(StoreRecorder::new(store, requirement, surface)))),
            (Err(report), Requirement::Required) => Err(report),
            (Err(report), Requirement::BestEffort) => {
                tracing::error!("calls are not recorded: {}", report.message);
                Ok(None)
            }
        }
    }
}

/// The configured limits.
fn retention_limits(settings: &Settings) -> RetentionLimits {
    let store = &settings.store;
    let audit = store.audit_max_age.value.map_or(AuditLimit::Kept, AuditLimit::MaxAge);
    // The server of a database frees no space by itself, so its size is not limited.
    let max_bytes = store.max_bytes().filter(|_| store.url.value.is_none());
    let max_age = store.max_age();
    RetentionLimits { max_age, max_bytes, conversations: store.conversations_max_age.value, audit }
}

/// How full a store is, for the user.
pub(crate) fn fullness(usage: &StoreUsage) -> String {
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / f64::from(1 << 20));
    let of = match usage.max_bytes {
        Some(most) => {
            let percent = usage.bytes as f64 * 100.0 / most as f64;
            format!("{} of {} ({percent:.0} %)", megabytes(usage.bytes), megabytes(most))
        }
        None => format!("{}, without a limit", megabytes(usage.bytes)),
    };
    let corrupt = match usage.corrupt_bytes {
        0 => String::new(),
        bytes => format!(", {} of it in corrupt files that were set aside", megabytes(bytes)),
    };
    format!("the store has {of}{corrupt}")
}

/// What the console reads and writes in the store of a recorder.
pub(crate) fn console_records(recorder: &StoreRecorder) -> ConsoleRecords {
    let store = recorder.store().clone();
    let conversations = StoreRecorder::new(store.clone(), Requirement::BestEffort, "console");
    let records = Arc::new(StoreRecords::of(store));
    let changes = Arc::<StoreRecords>::clone(&records);
    ConsoleRecords { records, changes, conversations: Arc::new(conversations) }
}

/// Where the sessions of servers are stored; `None` in memory: they would end with this process.
pub(crate) fn session_store(recorder: Option<&StoreRecorder>) -> Option<Arc<dyn SessionStore>> {
    let store = recorder?.store();
    store.is_durable().then(|| Arc::new(store.clone()) as _)
}

/// Adds a recorder to the ports of a host.
pub(crate) fn with_recorder(ports: HostPorts, recorder: Option<Arc<StoreRecorder>>, settings: &Settings) -> HostPorts {
    match recorder {
        Some(recorder) => {
            let bodies = settings.store.bodies.value;
            let approvals = Arc::clone(&recorder) as _;
            let baselines = Arc::clone(&recorder) as _;
            let sampling = Arc::clone(&recorder) as _;
            let tasks = Arc::clone(&recorder) as _;
            let call_days = Arc::clone(&recorder) as _;
            let recorder = Some(recorder as _);
            HostPorts { recorder, tasks, approvals, baselines, sampling, call_days, bodies, ..ports }
        }
        None => ports,
    }
}

impl From<RecordsError> for Report {
    fn from(error: RecordsError) -> Self {
        let hint = match error {
            RecordsError::Newer(_) => {
                "use a newer toolway, set `store.path` or `store.url` to another store, or use --no-store"
            }
            RecordsError::Full(_) => {
                "free some space, set `store.path` or `store.url` to another store, or use --no-store"
            }
            RecordsError::Busy(_) => "try again; another process holds the store",
            RecordsError::Continued => "read the conversation again, and send the message anew",
            RecordsError::Invalid(_)
            | RecordsError::NotOwned(_)
            | RecordsError::Closed
            | RecordsError::Unavailable(_) => "check `store.path` or `store.url`, or use --no-store",
        };
        Self::new(ExitCode::Internal, "store", format!("the store cannot be used: {error}")).hint(hint)
    }
}
