//! Metrics in the Prometheus text format, rendered on request.
//!
//! Label values are fixed strings or ids of configured servers, never text from a caller.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::StatusCode;
use parking_lot::RwLock;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallKind, VisibleServers},
    connection::{ConnectionCounts, Phase, ServerStatus, state::Counts},
    record::{CallRecord, CallState, RecorderUsage},
};
use toolway_wire::budget::Kept;

use toolway_host::validation::ValidationCounts;

use crate::{access::Client, route::Route, view};

/// Counters of calls and requests.
#[derive(Default)]
pub(crate) struct Metrics {
    // Nothing awaits under this lock; it is write-locked once per server.
    servers: RwLock<BTreeMap<ServerName, Arc<ServerMetrics>>>,
    /// Calls without a matching server, and calls beyond [`MAX_SERVERS`].
    unrouted: ServerMetrics,
    requests: [[AtomicU64; CLASSES]; ROUTES],
}

/// Counters of one server.
#[derive(Default)]
struct ServerMetrics {
    calls: [[AtomicU64; ENDED.len()]; KINDS.len()],
    server_requests: AtomicU64,
    /// Calls per histogram bucket; the last is unbounded.
    durations: [AtomicU64; BUCKETS.len() + 1],
    microseconds: AtomicU64,
    argument_bytes: AtomicU64,
    result_bytes: AtomicU64,
}

/// Current values of the gateway gauges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GatewayGauges {
    pub(crate) sessions: usize,
    pub(crate) parked: usize,
    pub(crate) tasks: usize,
    pub(crate) under_way: usize,
    pub(crate) lost_lines: u64,
    /// Bytes charged to the budget, by kind.
    pub(crate) memory: [usize; Kept::ALL.len()],
    /// Charges that did not fit.
    pub(crate) memory_refusals: u64,
    /// Calls without a complete durable record.
    pub(crate) unrecorded: u64,
    pub(crate) validation: ValidationCounts,
    /// How full the store is; `None` without one.
    pub(crate) store: Option<RecorderUsage>,
}

const KINDS: [CallKind; 4] = [CallKind::Tool, CallKind::Prompt, CallKind::Resource, CallKind::Method];
/// States in which calls of this process end.
const ENDED: [CallState; 6] = [
    CallState::Succeeded,
    CallState::ToolError,
    CallState::Refused,
    CallState::Failed,
    CallState::Cancelled,
    CallState::TimedOut,
];
/// Status classes `1xx` to `5xx`.
const CLASSES: usize = 5;
/// The known routes, and one for all other paths.
const ROUTES: usize = Route::PATHS.len() + 1;
/// Upper bounds of the histogram buckets, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0];
/// States of a server connection.
const STATES: [&str; 7] = ["connecting", "ready", "sign-in-required", "waiting", "failed", "disabled", "stopped"];
/// Name, help and value of a counter.
type ServerCounter = (&'static str, &'static str, fn(&ServerStatus) -> u64);
/// Counters of each server's connections.
const SERVER_COUNTERS: [ServerCounter; 4] = [
    ("toolway_server_losses_total", "Established connections to a server that were lost.", |of| of.losses.into()),
    ("toolway_connection_attempts_total", "Connection attempts, those for callers included.", |of| {
        of.connections.attempts
    }),
    ("toolway_connection_failures_total", "Connection attempts that failed.", |of| of.connections.failures),
    ("toolway_authorization_failures_total", "Requests that a server finally refused with 401 or 403.", |of| {
        of.connections.authorization_failures
    }),
];
/// Maximum number of servers with their own counters, over all reloads.
const MAX_SERVERS: usize = 4_096;

// === impl Metrics ===

impl Metrics {
    /// Counts a finished call.
    pub(crate) fn record_call(&self, record: &CallRecord) {
        match &record.server {
            Some(server) => self.of(server, |metrics| metrics.record_call(record)),
            None => self.unrouted.record_call(record),
        }
    }

    /// Counts an answered request.
    pub(crate) fn record_request(&self, route: Option<&Route>, status: StatusCode) {
        let route = route.map_or(ROUTES - 1, Route::index);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES) - 1;
        if let Some(count) = self.requests.get(route).and_then(|classes| classes.get(class)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The metrics that this client may see: those of its visible servers, and gateway metrics if it sees all servers.
    pub(crate) fn text(&self, host: &Host, client: &Client, gauges: GatewayGauges) -> String {
        let mut text = String::with_capacity(8 * 1024);
        let catalog = host.catalog();
        let servers = host.servers().into_iter().filter(|status| client.sees(&status.server));
        let servers: Vec<_> = servers.map(|status| view::with_visible_counts(status, &catalog)).collect();
        self.write_calls(&mut text, client);
        write_servers(&mut text, &servers);
        if client.servers == VisibleServers::All {
            self.write_requests(&mut text);
            write_gauges(&mut text, gauges);
        }
        text
    }

    fn of(&self, server: &ServerName, count: impl FnOnce(&ServerMetrics)) {
        if let Some(metrics) = self.servers.read().get(server) {
            return count(metrics);
        }
        let mut servers = self.servers.write();
        if MAX_SERVERS <= servers.len() && !servers.contains_key(server) {
            return count(&self.unrouted);
        }
        count(servers.entry(server.clone()).or_default());
    }

    fn write_calls(&self, text: &mut String, client: &Client) {
        let servers: Vec<_> = self.servers.read().iter().map(|(name, of)| (name.clone(), Arc::clone(of))).collect();
        let seen = servers.iter().filter(|(name, _)| client.sees(name)).map(|(name, of)| (name.as_str(), &**of));
        let unrouted = (client.servers == VisibleServers::All).then_some(("", &self.unrouted));
        let all: Vec<(&str, &ServerMetrics)> = seen.chain(unrouted).collect();
        head(text, "toolway_calls_total", "counter", "Finished calls, by server, kind and state.");
        all.iter().for_each(|(server, of)| of.write_calls(text, server));
        head(text, "toolway_call_duration_seconds", "histogram", "Duration of calls since they were received.");
        all.iter().for_each(|(server, of)| of.write_durations(text, server));
        for (name, what, count) in [
            ("toolway_server_requests_total", "Server requests during calls.", ServerMetrics::server_requests as Count),
            ("toolway_call_argument_bytes_total", "Bytes of call arguments.", ServerMetrics::argument_bytes),
            ("toolway_call_result_bytes_total", "Bytes of call results.", ServerMetrics::result_bytes),
        ] {
            head(text, name, "counter", what);
            for (server, of) in all.iter().filter(|(_, of)| 0 < of.count()) {
                line(text, &format!("{name}{{server=\"{server}\"}}"), load(count(of)));
            }
        }
    }

    fn write_requests(&self, text: &mut String) {
        let name = "toolway_http_requests_total";
        head(text, name, "counter", "Answered HTTP requests, by route and status class.");
        for (route, classes) in Route::PATHS.iter().chain(&["other"]).zip(&self.requests) {
            for (class, count) in (1..).zip(classes).filter(|(_, count)| 0 < load(count)) {
                line(text, &format!("{name}{{route=\"{route}\",code=\"{class}xx\"}}"), load(count));
            }
        }
    }
}

/// Accessor of one counter of a server.
type Count = fn(&ServerMetrics) -> &AtomicU64;

// === impl ServerMetrics ===

impl ServerMetrics {
    fn record_call(&self, record: &CallRecord) {
        let kind = KINDS.iter().position(|kind| *kind == record.kind).unwrap_or_default();
        let state = ENDED.iter().position(|state| *state == record.state).unwrap_or_default();
        let seconds = record.duration().as_secs_f64();
        let bound = BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS.len());
        let add = |count: &AtomicU64, by: u64| count.fetch_add(by, Ordering::Relaxed);
        add(&self.calls[kind][state], 1);
        add(&self.durations[bound], 1);
        add(&self.microseconds, u64::try_from(record.duration().as_micros()).unwrap_or(u64::MAX));
        add(&self.argument_bytes, record.argument_bytes as u64);
        add(&self.result_bytes, record.result_bytes as u64);
        add(&self.server_requests, u64::from(record.server_requests));
    }

    fn server_requests(&self) -> &AtomicU64 {
        &self.server_requests
    }

    fn argument_bytes(&self) -> &AtomicU64 {
        &self.argument_bytes
    }

    fn result_bytes(&self) -> &AtomicU64 {
        &self.result_bytes
    }

    fn count(&self) -> u64 {
        self.durations.iter().map(load).sum()
    }

    fn write_calls(&self, text: &mut String, server: &str) {
        for (kind, states) in KINDS.iter().zip(&self.calls) {
            for (state, count) in ENDED.iter().zip(states).filter(|(_, count)| 0 < load(count)) {
                let labels = format!("server=\"{server}\",kind=\"{kind}\",state=\"{state}\"");
                line(text, &format!("toolway_calls_total{{{labels}}}"), load(count));
            }
        }
    }

    fn write_durations(&self, text: &mut String, server: &str) {
        if self.count() == 0 {
            return;
        }
        let name = "toolway_call_duration_seconds";
        let mut so_far = 0;
        let bounds = BUCKETS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&self.durations) {
            so_far += load(count);
            line(text, &format!("{name}_bucket{{server=\"{server}\",le=\"{bound}\"}}"), so_far);
        }
        let seconds = std::time::Duration::from_micros(load(&self.microseconds)).as_secs_f64();
        line(text, &format!("{name}_sum{{server=\"{server}\"}}"), seconds);
        line(text, &format!("{name}_count{{server=\"{server}\"}}"), so_far);
    }
}

fn write_servers(text: &mut String, servers: &[ServerStatus]) {
    head(text, "toolway_servers", "gauge", "Servers, by connection state.");
    for state in STATES {
        let count = servers.iter().filter(|status| status.phase.word() == state).count();
        line(text, &format!("toolway_servers{{state=\"{state}\"}}"), count);
    }
    head(text, "toolway_server_ready", "gauge", "Whether a server is ready (1) or not (0).");
    for status in servers {
        let ready = u8::from(status.phase == Phase::Ready);
        line(text, &format!("toolway_server_ready{{server=\"{}\"}}", status.server), ready);
    }
    for (name, what, count) in SERVER_COUNTERS {
        head(text, name, "counter", what);
        for status in servers {
            line(text, &format!("{name}{{server=\"{}\"}}", status.server), count(status));
        }
    }
    let name = "toolway_token_refreshes_total";
    head(text, name, "counter", "Token refreshes, by server and outcome.");
    for status in servers {
        let ConnectionCounts { refreshes, refresh_failures, .. } = status.connections;
        for (outcome, count) in [("succeeded", refreshes), ("failed", refresh_failures)] {
            let labels = format!("server=\"{}\",outcome=\"{outcome}\"", status.server);
            line(text, &format!("{name}{{{labels}}}"), count);
        }
    }
    let name = "toolway_catalog_items";
    head(text, name, "gauge", "Listed items, by server and kind.");
    for (status, counts) in servers.iter().filter_map(|status| Some((status, status.counts?))) {
        let Counts { tools, resources, templates, prompts, set_aside } = counts;
        for (kind, count) in [
            ("tool", tools),
            ("resource", resources),
            ("template", templates),
            ("prompt", prompts),
            ("ignored", set_aside),
        ] {
            line(text, &format!("{name}{{server=\"{}\",kind=\"{kind}\"}}", status.server), count);
        }
    }
}

fn write_gauges(text: &mut String, gauges: GatewayGauges) {
    let rows = [
        ("toolway_calls_under_way", "Calls in flight at servers.", gauges.under_way),
        ("toolway_sessions", "Open client sessions.", gauges.sessions),
        ("toolway_parked_calls", "Calls that wait for answers to server requests.", gauges.parked),
        ("toolway_hosted_tasks", "Tasks hosted by the gateway.", gauges.tasks),
    ];
    for (name, what, value) in rows {
        head(text, name, "gauge", what);
        line(text, name, value);
    }
    let name = "toolway_memory_bytes";
    head(text, name, "gauge", "Bytes charged to the memory budget, by what they are kept for.");
    for (kind, bytes) in Kept::ALL.iter().zip(gauges.memory) {
        line(text, &format!("{name}{{kind=\"{kind}\"}}"), bytes);
    }
    let name = "toolway_log_lines_lost_total";
    head(text, name, "counter", "Access log lines dropped because the queue was full.");
    line(text, name, gauges.lost_lines);
    let name = "toolway_memory_refusals_total";
    head(text, name, "counter", "Charges that did not fit into the memory budget.");
    line(text, name, gauges.memory_refusals);
    let name = "toolway_unrecorded_calls_total";
    head(text, name, "counter", "Calls without a complete record in the store.");
    line(text, name, gauges.unrecorded);
    let name = "toolway_validation_total";
    head(text, name, "counter", "Calls and results checked against the schemas of their tools, by what was found.");
    let ValidationCounts { rejected, invalid_arguments, invalid_results, skipped } = gauges.validation;
    for (found, count) in [
        ("rejected", rejected),
        ("invalid-arguments", invalid_arguments),
        ("invalid-results", invalid_results),
        ("skipped", skipped),
    ] {
        line(text, &format!("{name}{{found=\"{found}\"}}"), count);
    }
    if let Some(store) = gauges.store {
        write_store(text, store);
    }
}

fn write_store(text: &mut String, store: RecorderUsage) {
    let RecorderUsage { bytes, max_bytes, removed_bodies, removed_calls } = store;
    let rows = [
        ("toolway_store_bytes", "gauge", "Bytes of the store's files.", Some(bytes)),
        ("toolway_store_max_bytes", "gauge", "Limit of the store's files in bytes (`store.maxBytes`).", max_bytes),
        ("toolway_store_removed_bodies_total", "counter", "Bodies that retention removed.", Some(removed_bodies)),
        ("toolway_store_removed_calls_total", "counter", "Calls that retention removed.", Some(removed_calls)),
    ];
    for (name, kind, what, value) in rows {
        if let Some(value) = value {
            head(text, name, kind, what);
            line(text, name, value);
        }
    }
}

pub(super) fn head(text: &mut String, name: &str, kind: &str, what: &str) {
    // Writing to a `String` cannot fail.
    let _written = write!(text, "# HELP {name} {what}\n# TYPE {name} {kind}\n");
}

pub(super) fn line(text: &mut String, series: &str, value: impl std::fmt::Display) {
    let _written = writeln!(text, "{series} {value}");
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
