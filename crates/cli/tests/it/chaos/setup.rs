//! A gateway with four servers, of both eras over stdio and HTTP, and with proxies that can cut connections.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    client::{Client, Era},
    faulty_proxy::FaultyProxy,
    process_list,
    rng::SeededRng,
};
use crate::{
    gateway::Serving,
    home::Home,
    interop_clients::{HttpServerProcess, built},
};

/// Gateway, servers and proxies of a test.
pub(super) struct ChaosSetup {
    pub(super) mark: String,
    pub(super) home: Home,
    serving: Option<Serving>,
    /// Proxy between clients and the gateway.
    pub(super) front: FaultyProxy,
    /// HTTP servers with the proxies in front of them.
    pub(super) back: [Port; 2],
    keys: Vec<(String, String)>,
}

/// An HTTP server and the proxy in front of it.
pub(super) struct Port {
    era: &'static str,
    server: HttpServerProcess,
    pub(super) way: FaultyProxy,
}

/// Two stdio servers and two HTTP servers.
pub(super) const SERVERS: [&str; 4] = ["old", "new", "old-on-a-port", "new-on-a-port"];
const ERAS: [&str; 2] = ["2025-11-25", "2026-07-28"];
const CALLERS: [&str; 4] = ["ada", "bob", "cleo", "dan"];
/// Longest wait for setup and cleanup.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

impl ChaosSetup {
    pub(super) async fn new(name: &str, seed: u64) -> Self {
        let mark = format!("{name}-{}-{seed}", std::process::id());
        let home = Home::new();
        let back =
            [Port::start(ERAS[0], SeededRng::of(seed, 1)).await, Port::start(ERAS[1], SeededRng::of(seed, 2)).await];
        let program = |era: &str| {
            let variables = json!({ process_list::VARIABLE: mark });
            json!({ "command": built("conformance-server"), "args": ["--era", era, "--stdio"], "env": variables })
        };
        let servers = json!({
            "old": program(ERAS[0]),
            "new": program(ERAS[1]),
            "old-on-a-port": { "url": back[0].url() },
            "new-on-a-port": { "url": back[1].url() },
        });
        home.configure(&json!({ "mcpServers": servers }).to_string());
        let keys = CALLERS.map(|caller| (caller.to_owned(), key(&home, caller))).into();
        let front = FaultyProxy::start(SeededRng::of(seed, 3)).await;
        let mut setup = Self { mark, home, serving: None, front, back, keys };
        setup.start();
        setup.settle().await;
        setup
    }

    /// Starts the gateway and directs the proxy to it.
    pub(super) fn start(&mut self) {
        let serving = Serving::start_with(&self.home, &["--log", "json"], &[(process_list::VARIABLE, &self.mark)]);
        process_list::register(serving.pid(), &self.mark);
        self.front.set_target(&serving.authority);
        self.serving = Some(serving);
    }

    /// Sends SIGKILL to the gateway.
    pub(super) fn kill(&mut self) {
        drop(self.serving.take());
    }

    /// Stops the gateway with SIGTERM; returns its standard error.
    pub(super) fn stop(&mut self) -> String {
        self.serving.take().unwrap().stop()
    }

    pub(super) fn pid(&self) -> u32 {
        self.serving.as_ref().unwrap().pid()
    }

    /// A stateful and a stateless client for each key.
    pub(super) fn clients(&self, seed: u64) -> Vec<Client> {
        let eras = [Era::Stateful, Era::Stateless];
        let pairs = self.keys.iter().flat_map(|(name, key)| eras.map(|era| (name, key, era)));
        let client = |(number, (name, key, era)): (usize, (&String, &String, Era))| {
            Client::new(era, name, key, self.front.address, SeededRng::of(seed, 100 + u64::try_from(number).unwrap()))
        };
        pairs.enumerate().map(client).collect()
    }

    /// Stops all faults and waits until every server is ready.
    pub(super) async fn settle(&self) {
        self.proxies().for_each(FaultyProxy::heal);
        let began = Instant::now();
        loop {
            let servers = self.get("/servers").json();
            let all = servers["servers"].as_array().unwrap();
            if all.iter().all(|server| server["state"] == "ready" && server["counts"].is_object()) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{servers:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// All proxies.
    pub(super) fn proxies(&self) -> impl Iterator<Item = &FaultyProxy> {
        self.back.iter().map(|port| &port.way).chain([&self.front])
    }

    /// PID of a random stdio server of the gateway.
    pub(super) fn program(&self, rng: &mut SeededRng) -> Option<i32> {
        let all: Vec<i32> = programs(&self.mark);
        (!all.is_empty()).then(|| *rng.one(&all))
    }

    /// The value of a metric, summed over its labels.
    pub(super) fn metric(&self, name: &str) -> u64 {
        let text = self.get("/metrics").body;
        let lines = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Restarts all servers, so that no connection of a caller is left.
    pub(super) async fn rest(&self) {
        self.proxies().for_each(FaultyProxy::heal);
        for server in SERVERS {
            self.home.run(&["servers", "restart", server]).json();
        }
        self.settle().await;
        self.proxies().for_each(FaultyProxy::heal);
    }

    fn get(&self, path: &str) -> crate::gateway::Answer {
        self.serving.as_ref().unwrap().get(path, &self.keys[0].1)
    }
}

impl Port {
    async fn start(era: &'static str, rng: SeededRng) -> Self {
        let port = Self { era, server: HttpServerProcess::start(era), way: FaultyProxy::start(rng).await };
        port.way.set_target(port.server.authority());
        port
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.way.address)
    }

    /// Kills the server, starts another one and directs the proxy to it.
    pub(super) fn kill(&mut self) {
        self.server = HttpServerProcess::start(self.era);
        self.way.set_target(self.server.authority());
    }
}

/// PIDs of the stdio servers.
pub(super) fn programs(mark: &str) -> Vec<i32> {
    let all = process_list::processes(mark);
    all.into_iter().filter(|(_, line)| line.contains("conformance-server")).map(|(pid, _)| pid).collect()
}

fn key(home: &Home, caller: &str) -> String {
    let said: Value = home.run(&["clients", "add", caller, "-o", "json"]).json();
    said["key"].as_str().unwrap().to_owned()
}
