//! Opens the store of a command: the configured file, or none with `--no-store`.

use std::{path::PathBuf, sync::Arc};

use tokio_util::task::AbortOnDropHandle;
use toolway_config::{Settings, SyncMode};
use toolway_host::{call::Caller, ports::HostPorts, record::Requirement};
use toolway_store::{
    Reader, Store, StoreError, StoreOptions, StoreRecorder, Sync, audit::AuditEvent, retention::RetentionLimits, time,
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

/// Applies the configured retention to the store of a recorder, now and every hour, until the handle is dropped.
pub(crate) fn keep_pruned(recorder: &StoreRecorder, settings: &Settings) -> AbortOnDropHandle<()> {
    let (store, limits) = (recorder.store().clone(), retention_limits(settings));
    let pruning = async move { store.keep_pruned(&limits).await };
    AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(pruning))
}

/// The configured limits.
pub(crate) fn retention_limits(settings: &Settings) -> RetentionLimits {
    RetentionLimits { max_age: settings.store.max_age.value, max_bytes: settings.store.max_bytes.value }
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

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use toolway_config::{Config, document::Document};
    use toolway_host::record::Requirement;
    use toolway_store::{
        Store, StoreRecorder, Uuid,
        calls::{CallBody, CallFilter, CallRow, CallState},
        time,
    };

    use super::keep_pruned;

    /// Records a call that ended two hours ago.
    async fn record_old_call(store: &Store) {
        const AGE: i64 = 2 * 60 * 60 * 1_000_000;
        let id = Uuid::from_u128(Uuid::now_v7().as_u128() - ((AGE as u128 / 1_000) << 80));
        let call = CallRow {
            id,
            started_at: time::now() - AGE,
            duration: Some(1),
            caller: "terminal".to_owned(),
            surface: "call".to_owned(),
            kind: "tool".to_owned(),
            name: "files__read".to_owned(),
            server: None,
            tool: None,
            state: CallState::Succeeded,
            rule: None,
            approved_by: None,
            error: None,
            conversation: None,
            argument_bytes: 0,
            result_bytes: 0,
            server_requests: 0,
        };
        store.end_call(call, CallBody::default()).await.unwrap();
    }

    fn calls(store: &Store) -> usize {
        store.reader().unwrap().calls(&CallFilter { limit: 10, ..CallFilter::default() }).unwrap().len()
    }

    /// The clock is paused: hours pass when nothing else is left to do.
    #[tokio::test(start_paused = true)]
    async fn retention_of_a_process_that_serves_runs_every_hour_until_it_ends() {
        let store = Store::in_memory().unwrap();
        let recorder = Arc::new(StoreRecorder::new(store.clone(), Requirement::Required, "gateway"));
        let document = Document::of("/toolway.json".as_ref(), r#"{"store": {"maxAge": "1h"}}"#).unwrap();
        let settings = Config::of(&document, None).unwrap().settings;
        let began = tokio::time::Instant::now();
        let retention = keep_pruned(&recorder, &settings);
        while began.elapsed() < Duration::from_secs(3 * 3_600) {
            record_old_call(&store).await;
            while 0 < calls(&store) {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
        }
        drop(retention);
        record_old_call(&store).await;
        tokio::time::sleep(Duration::from_secs(10 * 3_600)).await;
        assert_eq!(calls(&store), 1, "it has ended");
    }
}
