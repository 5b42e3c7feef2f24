//! Figures in the text form that Prometheus reads. Counting is an addition; the text is made when somebody asks for it.
//!
//! A label holds a word of ours or the id of a configured server, never anything a caller says.

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
    call::{CallKind, Visible},
    connection::{Phase, ServerStatus},
    record::{CallRecord, Ending},
};

use crate::{access::Client, route::Route};

/// What has been counted so far.
#[derive(Default)]
pub(crate) struct Figures {
    // Nothing awaits under this lock; it is taken for writing once per server.
    servers: RwLock<BTreeMap<ServerName, Arc<OfServer>>>,
    /// Calls that came to no server, because there is none for them.
    nowhere: OfServer,
    requests: [[AtomicU64; CLASSES]; ROUTES],
}

/// What has been counted of one server.
#[derive(Default)]
struct OfServer {
    calls: [[AtomicU64; ENDINGS.len()]; KINDS.len()],
    tool_errors: AtomicU64,
    asks: AtomicU64,
    /// Calls by the first bound they did not pass; the last has none.
    durations: [AtomicU64; BOUNDS.len() + 1],
    microseconds: AtomicU64,
    argument_bytes: AtomicU64,
    result_bytes: AtomicU64,
}

/// How the gateway stands at this moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    pub(crate) sessions: usize,
    pub(crate) parked: usize,
    pub(crate) tasks: usize,
    pub(crate) under_way: usize,
    pub(crate) lost_lines: u64,
}

const KINDS: [CallKind; 4] = [CallKind::Tool, CallKind::Prompt, CallKind::Resource, CallKind::Method];
const ENDINGS: [Ending; 6] =
    [Ending::Answered, Ending::HandedOff, Ending::Refused, Ending::Failed, Ending::Cancelled, Ending::TimedOut];
/// `1xx` to `5xx`.
const CLASSES: usize = 5;
/// The routes there are, and nowhere.
const ROUTES: usize = Route::WORDS.len() + 1;
/// Seconds: from what a call costs us to the longest that most people wait.
const BOUNDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0];
/// The states a connection can be in.
const STATES: [&str; 7] = ["connecting", "ready", "sign-in needed", "waiting", "failed", "disabled", "stopped"];
/// Servers that are counted apart, over all reloads.
const MOST_SERVERS: usize = 4_096;

// === impl Figures ===

impl Figures {
    /// A call has ended.
    pub(crate) fn called(&self, record: &CallRecord) {
        match &record.server {
            Some(server) => self.of(server, |figures| figures.called(record)),
            None => self.nowhere.called(record),
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, route: Option<&Route>, status: StatusCode) {
        let route = route.map_or(ROUTES - 1, Route::number);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES) - 1;
        if let Some(count) = self.requests.get(route).and_then(|classes| classes.get(class)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All figures this client may see: those of its servers, and those of the whole where it sees the whole.
    pub(crate) fn text(&self, host: &Host, client: &Client, standing: Standing) -> String {
        let mut text = String::with_capacity(8 * 1024);
        let servers: Vec<_> = host.servers().into_iter().filter(|status| client.sees(&status.server)).collect();
        self.write_calls(&mut text, client);
        write_servers(&mut text, &servers);
        if client.servers == Visible::All {
            self.write_requests(&mut text);
            write_standing(&mut text, standing);
        }
        text
    }

    fn of(&self, server: &ServerName, count: impl FnOnce(&OfServer)) {
        if let Some(figures) = self.servers.read().get(server) {
            return count(figures);
        }
        let mut servers = self.servers.write();
        if MOST_SERVERS <= servers.len() && !servers.contains_key(server) {
            return count(&self.nowhere);
        }
        count(servers.entry(server.clone()).or_default());
    }

    fn write_calls(&self, text: &mut String, client: &Client) {
        let servers: Vec<_> = self.servers.read().iter().map(|(name, of)| (name.clone(), Arc::clone(of))).collect();
        let seen = servers.iter().filter(|(name, _)| client.sees(name)).map(|(name, of)| (name.as_str(), &**of));
        let nowhere = (client.servers == Visible::All).then_some(("", &self.nowhere));
        let all: Vec<(&str, &OfServer)> = seen.chain(nowhere).collect();
        head(text, "toolway_calls_total", "counter", "Calls that have ended, by server, kind and ending.");
        all.iter().for_each(|(server, of)| of.write_calls(text, server));
        head(text, "toolway_call_duration_seconds", "histogram", "How long calls took, from when they came in.");
        all.iter().for_each(|(server, of)| of.write_durations(text, server));
        for (name, what, count) in [
            (
                "toolway_tool_errors_total",
                "Results in which the tool says that it failed.",
                OfServer::tool_errors as Count,
            ),
            ("toolway_asks_total", "Questions that servers asked during calls.", OfServer::asks),
            ("toolway_call_argument_bytes_total", "Bytes of arguments.", OfServer::argument_bytes),
            ("toolway_call_result_bytes_total", "Bytes of results.", OfServer::result_bytes),
        ] {
            head(text, name, "counter", what);
            for (server, of) in all.iter().filter(|(_, of)| 0 < of.count()) {
                line(text, &format!("{name}{{server=\"{server}\"}}"), load(count(of)));
            }
        }
    }

    fn write_requests(&self, text: &mut String) {
        let name = "toolway_http_requests_total";
        head(text, name, "counter", "Requests that were answered, by route and class of status.");
        for (route, classes) in Route::WORDS.iter().chain(&["other"]).zip(&self.requests) {
            for (class, count) in (1..).zip(classes).filter(|(_, count)| 0 < load(count)) {
                line(text, &format!("{name}{{route=\"{route}\",code=\"{class}xx\"}}"), load(count));
            }
        }
    }
}

/// One counter of a server.
type Count = fn(&OfServer) -> &AtomicU64;

// === impl OfServer ===

impl OfServer {
    fn called(&self, record: &CallRecord) {
        let kind = KINDS.iter().position(|kind| *kind == record.kind).unwrap_or_default();
        let ending = ENDINGS.iter().position(|ending| *ending == record.ending).unwrap_or_default();
        let seconds = record.took.as_secs_f64();
        let bound = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        let add = |count: &AtomicU64, by: u64| count.fetch_add(by, Ordering::Relaxed);
        add(&self.calls[kind][ending], 1);
        add(&self.durations[bound], 1);
        add(&self.microseconds, u64::try_from(record.took.as_micros()).unwrap_or(u64::MAX));
        add(&self.argument_bytes, record.argument_bytes as u64);
        add(&self.result_bytes, record.result_bytes as u64);
        add(&self.tool_errors, u64::from(record.tool_error));
        add(&self.asks, u64::from(record.asks));
    }

    fn tool_errors(&self) -> &AtomicU64 {
        &self.tool_errors
    }

    fn asks(&self) -> &AtomicU64 {
        &self.asks
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
        for (kind, endings) in KINDS.iter().zip(&self.calls) {
            for (ending, count) in ENDINGS.iter().zip(endings).filter(|(_, count)| 0 < load(count)) {
                let labels = format!("server=\"{server}\",kind=\"{kind}\",ending=\"{ending}\"");
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
        let bounds = BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
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
    head(text, "toolway_servers", "gauge", "Servers, by the state of their connection.");
    for state in STATES {
        let count = servers.iter().filter(|status| status.phase.word() == state).count();
        line(text, &format!("toolway_servers{{state=\"{state}\"}}"), count);
    }
    head(text, "toolway_server_ready", "gauge", "Whether a server can be called.");
    for status in servers {
        let ready = u8::from(status.phase == Phase::Ready);
        line(text, &format!("toolway_server_ready{{server=\"{}\"}}", status.server), ready);
    }
    head(text, "toolway_server_losses_total", "counter", "Connections to a server that stood and were lost.");
    for status in servers {
        line(text, &format!("toolway_server_losses_total{{server=\"{}\"}}", status.server), status.losses);
    }
}

fn write_standing(text: &mut String, standing: Standing) {
    let gauges = [
        ("toolway_calls_under_way", "Calls under way at servers.", standing.under_way),
        ("toolway_sessions", "Sessions of callers.", standing.sessions),
        ("toolway_parked_calls", "Calls that wait for their caller to come back with answers.", standing.parked),
        ("toolway_hosted_tasks", "Tasks that are kept here for callers.", standing.tasks),
    ];
    for (name, what, value) in gauges {
        head(text, name, "gauge", what);
        line(text, name, value);
    }
    let name = "toolway_log_lines_lost_total";
    head(text, name, "counter", "Lines of the access log that were lost because nobody took them.");
    line(text, name, standing.lost_lines);
}

fn head(text: &mut String, name: &str, kind: &str, what: &str) {
    // Writing to a text cannot fail.
    let _written = write!(text, "# HELP {name} {what}\n# TYPE {name} {kind}\n");
}

fn line(text: &mut String, series: &str, value: impl std::fmt::Display) {
    let _written = writeln!(text, "{series} {value}");
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
