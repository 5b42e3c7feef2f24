//! Opens the store of a command: the configured file, or none with `--no-store`.

use std::{path::PathBuf, sync::Arc};

use toolway_config::{Settings, SyncMode};
use toolway_host::{ports::HostPorts, record::Requirement};
use toolway_store::{Reader, Store, StoreError, StoreOptions, StoreRecorder, Sync};

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
        let path = if self.reach.no_store { None } else { self.store_path(settings) };
        let sync = match settings.store.sync.value {
            SyncMode::Normal => Sync::Normal,
            SyncMode::Full => Sync::Full,
        };
        let (store, notice) = Store::open(&StoreOptions { path, sync }).map_err(|error| failed(&error))?;
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
