//! Opens the store of a command: the configured file, or none with `--no-store`.

use std::{path::PathBuf, sync::Arc};

use toolway_config::{Settings, SyncMode};
use toolway_host::{call::Caller, ports::HostPorts, record::Requirement};
use toolway_store::{
    Reader, Store, StoreError, StoreOptions, StoreRecorder, Sync,
    audit::AuditEvent,
    retention::{AuditLimit, RetentionLimits, StoreSize},
    time,
};

use crate::{app::App, exit_code::ExitCode, report::Report};

/// File name of the database in the state directory.
const FILE: &str = "toolway.db";

impl App {
    /// The database file; `None` without a state directory.
    pub(crate) fn store_path(&self, settings: &Settings) -> Option<PathBuf> {
        let configured = settings.store.path.value.clone();
        configured.or_else(|| self.paths.state.as_ref().map(|folder| folder.join(FILE)))
    }

    /// Opens the store for writing.
    pub(crate) fn open_store(&self, settings: &Settings) -> Result<Store, Report> {
        self.open_store_with(settings, retention_limits(settings))
    }

    /// Opens the store for writing, with these limits.
    pub(crate) fn open_store_with(&self, settings: &Settings, limits: RetentionLimits) -> Result<Store, Report> {
        let path = if self.reach.no_store { None } else { self.store_path(settings) };
        let sync = match settings.store.sync.value {
            SyncMode::Normal => Sync::Normal,
            SyncMode::Full => Sync::Full,
        };
        let (store, notice) = Store::open(&StoreOptions { path, sync, limits }).map_err(|error| failed(&error))?;
        if let Some(notice) = notice {
            tracing::error!("{notice}");
        }
        Ok(store)
    }

    /// Opens the store for queries; `None` if nothing was recorded yet.
    pub(crate) fn open_reader(&self) -> Result<Option<Reader>, Report> {
        let settings = self.load()?.config.settings;
        let Some(path) = self.store_path(&settings) else { return Ok(None) };
        Reader::open(&path).map_err(|error| failed(&error))
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
pub(crate) fn retention_limits(settings: &Settings) -> RetentionLimits {
    let store = &settings.store;
    let audit = store.audit_max_age.value.map_or(AuditLimit::Kept, AuditLimit::MaxAge);
    let (max_age, max_bytes) = (store.max_age(), store.max_bytes());
    RetentionLimits { max_age, max_bytes, conversations: store.conversations_max_age.value, audit }
}

/// How full a store is, for the user.
pub(crate) fn fullness(size: &StoreSize, limits: &RetentionLimits) -> String {
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / f64::from(1 << 20));
    let of = match limits.max_bytes {
        Some(most) => {
            let percent = size.total() as f64 * 100.0 / most as f64;
            format!("{} of {} ({percent:.0} %)", megabytes(size.total()), megabytes(most))
        }
        None => format!("{}, without a limit", megabytes(size.total())),
    };
    let set_aside = match size.set_aside {
        0 => String::new(),
        bytes => format!(", {} of it in corrupt files that were set aside", megabytes(bytes)),
    };
    format!("the store has {of}{set_aside}")
}

/// Adds a recorder to the ports of a host.
pub(crate) fn with_recorder(ports: HostPorts, recorder: Option<Arc<StoreRecorder>>, settings: &Settings) -> HostPorts {
    match recorder {
        Some(recorder) => {
            let bodies = settings.store.bodies.value;
            HostPorts { recorder: Some(Arc::clone(&recorder) as _), approvals: recorder, bodies, ..ports }
        }
        None => ports,
    }
}

/// The report of a store that cannot be used.
pub(crate) fn failed(error: &StoreError) -> Report {
    Report::new(ExitCode::Internal, "store", format!("the store cannot be used: {error}"))
        .hint("set `store.path` to another file, or use --no-store")
}
