//! What is written down of calls and of requests that were turned away: figures for machines, lines for people.
//!
//! Both are fed where a call ends ([`CallLog`]) and where a request is answered; neither sees an argument, a result or
//! a key, and neither makes a caller wait.

pub mod access_log;
pub(crate) mod figures;

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

pub use access_log::{AccessLog, LogForm};

use self::{
    access_log::{Turn, TurnedAway},
    figures::Figures,
};
use crate::{route::Route, view};

/// Takes what happened. It is a host's call log and a gateway's memory of requests.
#[derive(Default)]
pub struct Records {
    pub(crate) figures: Figures,
    log: Option<AccessLog>,
}

/// One answered request.
pub(crate) struct Answered<'a> {
    pub(crate) caller: Option<Arc<str>>,
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) route: Option<&'a Route>,
    pub(crate) status: StatusCode,
    pub(crate) took: Duration,
}

/// How often the states of servers are looked at for the log.
const LOOK_AT_SERVERS: Duration = Duration::from_secs(1);

// === impl Records ===

impl Records {
    /// Figures, and a line of each call and each refused request in this log.
    pub fn logged(log: AccessLog) -> Self {
        Self { figures: Figures::default(), log: Some(log) }
    }

    /// Lines of the log that were lost because nobody took them.
    pub(crate) fn lost_lines(&self) -> u64 {
        self.log.as_ref().map_or(0, AccessLog::lost)
    }

    /// Writes a line of each server that comes to another state; the first look at one that is connecting says nothing.
    /// States are looked at rather than heard of: to hear of them is to hear of every call.
    pub(crate) async fn watch_servers(&self, host: &Host) {
        let Some(log) = &self.log else { return };
        let mut known: BTreeMap<ServerName, &'static str> = BTreeMap::new();
        loop {
            tokio::time::sleep(LOOK_AT_SERVERS).await;
            let servers = host.servers();
            known.retain(|name, _| servers.iter().any(|status| status.server == *name));
            for status in servers {
                let state = status.phase.word();
                let before = known.insert(status.server.clone(), state);
                if before == Some(state) || (before.is_none() && state == "connecting") {
                    continue;
                }
                let (name, because) = (status.server.to_string(), view::because(&status));
                log.turned(Turn { at: SystemTime::now(), name, state, because });
            }
        }
    }

    /// A request was answered. A line is written of it where it was turned away: what became of the others is written
    /// where their calls end.
    pub(crate) fn answered(&self, answered: Answered<'_>) {
        self.figures.answered(answered.route, answered.status);
        let Some(log) = self.log.as_ref().filter(|_| 400 <= answered.status.as_u16()) else { return };
        log.turned_away(TurnedAway {
            at: SystemTime::now(),
            caller: answered.caller,
            method: access_log::cut(answered.method.as_str()),
            // Only the path: people put keys into queries.
            path: access_log::cut(answered.uri.path()),
            status: answered.status.as_u16(),
            took: answered.took,
        });
    }
}

impl CallLog for Records {
    fn append(&self, record: Arc<CallRecord>) {
        self.figures.called(&record);
        if let Some(log) = &self.log {
            log.called(record);
        }
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(log) = &self.log {
                log.write_out();
            }
        })
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Records")
    }
}
