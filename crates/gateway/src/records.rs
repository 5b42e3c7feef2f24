//! Records of calls and refused requests: metrics, and the access log.
//!
//! Both are updated when a call ends ([`CallLog`]) and when a request is answered. Neither contains an argument, a result
//! or a key, and neither delays a caller.

pub mod access_log;
pub(crate) mod metrics;

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use http::{Method, StatusCode, Uri};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    record::{CallLog, CallRecord},
};

pub use access_log::{AccessLog, LogFormat};

use self::{
    access_log::{RefusedRequest, ServerStateChange},
    metrics::Metrics,
};
use crate::{route::Route, view};

/// Metrics and access log: the call log of a host and the request log of a gateway.
#[derive(Default)]
pub struct Records {
    pub(crate) metrics: Metrics,
    log: Option<AccessLog>,
}

/// An HTTP request that was answered.
pub(crate) struct CompletedRequest<'a> {
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) route: Option<&'a Route>,
    pub(crate) status: StatusCode,
    pub(crate) took: Duration,
}

/// How often the states of servers are polled for the access log.
const SERVER_CHECK_INTERVAL: Duration = Duration::from_secs(1);

// === impl Records ===

impl Records {
    /// Metrics, and an access log with a line for each call, refused request and server state change.
    pub fn with_log(log: AccessLog) -> Self {
        Self { metrics: Metrics::default(), log: Some(log) }
    }

    /// Number of log lines dropped because the queue was full.
    pub(crate) fn lost_lines(&self) -> u64 {
        self.log.as_ref().map_or(0, AccessLog::lost)
    }

    /// Logs each change of a server state; the initial `connecting` is not logged. Polls, because subscribing to host
    /// events would deliver every call as well.
    pub(crate) async fn watch_servers(&self, host: &Host) {
        let Some(log) = &self.log else { return };
        let mut known: BTreeMap<ServerName, &'static str> = BTreeMap::new();
        loop {
            tokio::time::sleep(SERVER_CHECK_INTERVAL).await;
            let servers = host.servers();
            known.retain(|name, _| servers.iter().any(|status| status.server == *name));
            for status in servers {
                let state = status.phase.word();
                let before = known.insert(status.server.clone(), state);
                if before == Some(state) || (before.is_none() && state == "connecting") {
                    continue;
                }
                let (name, because) = (status.server.to_string(), view::because(&status));
                log.record_state(ServerStateChange { at: SystemTime::now(), name, state, because });
            }
        }
    }

    /// Counts an answered request, and logs it if the status is 400 or above.
    pub(crate) fn record_request(&self, request: CompletedRequest<'_>) {
        self.metrics.record_request(request.route, request.status);
        let Some(log) = self.log.as_ref().filter(|_| 400 <= request.status.as_u16()) else { return };
        log.record_refused(RefusedRequest {
            at: SystemTime::now(),
            caller: request.caller,
            method: access_log::cut(request.method.as_str()),
            // Only the path: queries may contain keys.
            path: access_log::cut(request.uri.path()),
            status: request.status.as_u16(),
            took: request.took,
        });
    }
}

impl CallLog for Records {
    fn append(&self, record: Arc<CallRecord>) {
        self.metrics.record_call(&record);
        if let Some(log) = &self.log {
            log.record_call(record);
        }
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(log) = &self.log {
                log.flush();
            }
        })
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Records")
    }
}
