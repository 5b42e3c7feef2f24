//! A home with a server that runs jobs as tasks and writes the start and the end of each to its own file.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, Stdio},
};

use rusqlite::Connection;
use serde_json::{Value, json};
use toolway_testkit::effects::EffectsFile;

use crate::{
    home::{Home, Running},
    task_crashes::{HttpServer, free_port},
};

/// Way to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    /// It ends with the process that started it.
    Stdio,
    /// It lives on.
    Http,
}

/// The home and the file with the effects. The server is named `jobs`; each job has an argument `label`.
pub(crate) struct WitnessedJobs {
    pub(crate) home: Home,
    file: PathBuf,
    server: Option<HttpServer>,
}

impl WitnessedJobs {
    pub(crate) fn new(transport: Transport, era: &str) -> Self {
        let home = Home::new();
        let file = home.path("effects");
        let program = HttpServer::conformance_program();
        let server = match transport {
            Transport::Stdio => None,
            Transport::Http => {
                let port = free_port();
                let mut command = Command::new(&program);
                command.args(["--era", era, "--listen", &format!("127.0.0.1:{port}"), "--effects"]).arg(&file);
                Some(HttpServer::start(&mut command, port))
            }
        };
        let jobs = Self { home, file, server };
        jobs.home.configure(&json!({ "mcpServers": { "jobs": jobs.entry(era) } }).to_string());
        jobs
    }

    /// The entry of the server in the configuration.
    pub(crate) fn entry(&self, era: &str) -> Value {
        let program = HttpServer::conformance_program();
        let stdio = || json!({ "command": program, "args": ["--era", era, "--stdio", "--effects", self.file] });
        self.server.as_ref().map_or_else(stdio, HttpServer::entry)
    }

    /// How often each effect happened.
    fn effects(&self) -> BTreeMap<String, usize> {
        let mut effects = BTreeMap::new();
        for effect in EffectsFile::read(&self.file) {
            *effects.entry(effect).or_default() += 1;
        }
        effects
    }

    /// How often the job with this label was started.
    pub(crate) fn starts(&self, label: &str) -> usize {
        self.effects().get(&format!("start {label}")).copied().unwrap_or_default()
    }

    /// The job was started once and ended once.
    pub(crate) fn assert_done_once(&self, label: &str) {
        let effects = self.effects();
        for effect in [format!("start {label}"), format!("end {label}")] {
            assert_eq!(effects.get(&effect), Some(&1), "{effect}: {effects:?}");
        }
    }

    /// No job was started or ended twice, and none whose call is recorded as not sent was started. Its key is its label.
    pub(crate) fn assert_records_are_true(&self) {
        let effects = self.effects();
        assert!(effects.values().all(|count| *count == 1), "{effects:?}");
        for label in self.not_sent() {
            assert_eq!(self.starts(&label), 0, "{label} is recorded as not sent");
        }
        let calls = self.home.run(&["calls", "list", "--limit", "1000", "-o", "json"]).json();
        let sent = |call: &&Value| call["kind"] == json!("tool") && call["outcome"] != json!("not-sent");
        let sent = calls.as_array().unwrap().iter().filter(sent).count();
        assert!(effects.keys().filter(|effect| effect.starts_with("start ")).count() <= sent, "{effects:?} {calls}");
    }

    /// The keys of calls that were not sent.
    fn not_sent(&self) -> Vec<String> {
        let database = Connection::open(self.home.path(".local/state/toolway/toolway.db")).unwrap();
        // A command that was killed at once has made no tables.
        if !database.table_exists(None, "idempotency_keys").unwrap() {
            return Vec::new();
        }
        let sql = "SELECT key FROM idempotency_keys JOIN calls ON id = call WHERE outcome = 'not-sent'";
        let mut statement = database.prepare(sql).unwrap();
        let keys = statement.query_map([], |row| row.get(0)).unwrap();
        keys.map(Result::unwrap).collect()
    }
}

/// Starts a command without input and output.
pub(crate) fn quietly(command: &mut Command) -> Running {
    Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
}
