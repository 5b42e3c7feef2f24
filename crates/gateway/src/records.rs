//! Records of calls and refused requests: metrics, and the access log.
//!
//! Both are updated when a call ends ([`CallLog`]) and when a request is answered. Neither contains an argument, a result
//! or a key, and neither delays a caller.

pub mod access_log;
mod durations;
mod log_entry;
mod logged_errors;
pub(crate) mod metrics;
mod refusal_rate;
mod scrape;
mod tool_metrics;

use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use http::{Method, StatusCode, Uri};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::VisibleServers,
    connection::{Phase, ServerStatus},
    record::{CallLog, CallRecord},
};

pub use access_log::AccessLog;
pub use log_entry::LogFormat;
pub use logged_errors::LoggedErrors;

use self::{
    log_entry::{RefusedRequest, ServerStateChange},
    metrics::{GatewayGauges, Metrics},
    scrape::Scrape,
};
use crate::{access::Client, route::Route, view};

/// Metrics and access log: the call log of a host and the request log of a gateway.
#[derive(Default)]
pub struct Records {
    pub(crate) metrics: Metrics,
    log: Option<Arc<AccessLog>>,
    errors: Arc<LoggedErrors>,
}

/// The last state of each server, and since when.
#[derive(Debug, Default)]
pub(crate) struct KnownStates(BTreeMap<ServerName, (&'static str, SystemTime)>);

/// An HTTP request that was answered.
pub(crate) struct CompletedRequest<'a> {
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) route: Option<&'a Route>,
    pub(crate) status: StatusCode,
    pub(crate) took: Duration,
    pub(crate) peer: IpAddr,
    /// Why the gateway itself refused it, for the operator.
    pub(crate) refusal: Option<String>,
}

// === impl Records ===

impl Records {
    /// Metrics, and an access log with a line for each call, refused request and server state change.
    pub fn with_log(log: Arc<AccessLog>) -> Self {
        Self { log: Some(log), ..Self::default() }
    }

    /// Includes the errors that the program logs in the metrics.
    pub fn with_errors(self, errors: Arc<LoggedErrors>) -> Self {
        Self { errors, ..self }
    }

    /// Metrics for a client.
    pub(crate) fn metrics_text(&self, host: &Host, client: &Client, gauges: &GatewayGauges) -> String {
        let mut scrape = Scrape::default();
        self.metrics.add_to(&mut scrape, host, client, gauges);
        if client.servers == VisibleServers::All {
            self.errors.add_to(&mut scrape);
        }
        scrape.text()
    }

    /// Number of log lines dropped because the queue was full.
    pub(crate) fn lost_lines(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.lost())
    }

    /// Logs each change of a server state in `servers`; the initial `connecting` is not logged.
    pub(crate) fn record_states<'a>(
        &self,
        known: &mut KnownStates,
        servers: impl IntoIterator<Item = &'a ServerStatus>,
    ) {
        let Some(log) = &self.log else { return };
        for status in servers {
            let state = status.phase.word();
            let before = known.0.get(&status.server).copied();
            // An event may be older than the snapshot that was read first. A retry is no change: the operator log has
            // each failed attempt.
            let is_retry = state == "connecting" && before.is_some_and(|(before, _)| before == "waiting");
            if is_retry || before.is_some_and(|(_, since)| status.since < since) {
                continue;
            }
            known.0.insert(status.server.clone(), (state, status.since));
            let before = before.map(|(state, _)| state);
            if before == Some(state) || (before.is_none() && state == "connecting") {
                continue;
            }
            // A server is ready before it has listed its tools.
            let because = view::because(status).filter(|_| status.phase != Phase::Ready);
            let name = status.server.to_string();
            log.record_state(ServerStateChange { at: SystemTime::now(), name, state, because });
        }
    }

    /// Counts an answered request, and logs it if the status is 400 or above.
    pub(crate) fn record_request(&self, request: CompletedRequest<'_>) {
        self.metrics.record_request(request.route, request.status);
        let Some(log) = self.log.as_ref().filter(|_| 400 <= request.status.as_u16()) else { return };
        log.record_refused(RefusedRequest {
            at: SystemTime::now(),
            caller: request.caller,
            method: log_entry::cut(request.method.as_str()),
            // Only the path: queries may contain keys.
            path: log_entry::cut(request.uri.path()),
            status: request.status.as_u16(),
            took: request.took,
            peer: request.peer,
            reason: request.refusal,
        });
    }
}

impl KnownStates {
    /// Forgets a removed server.
    pub(crate) fn remove(&mut self, server: &ServerName) {
        self.0.remove(server);
    }

    /// Forgets all servers for which `has` is false.
    pub(crate) fn retain(&mut self, has: impl Fn(&ServerName) -> bool) {
        self.0.retain(|server, _| has(server));
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
