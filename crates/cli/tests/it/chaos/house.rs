//! A gateway with four servers behind it, of either era as a program and on a port, and ways to them that can be cut.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    calling::{Client, Era},
    census,
    cutting::Cutter,
    dice::Dice,
};
use crate::{
    gateway::Serving,
    home::Home,
    interop_clients::{OnPort, built},
};

/// Everything a story has.
pub(super) struct House {
    pub(super) mark: String,
    pub(super) home: Home,
    serving: Option<Serving>,
    /// Between clients and the gateway.
    pub(super) front: Cutter,
    /// Between the gateway and the servers on ports.
    pub(super) back: [Port; 2],
    keys: Vec<(String, String)>,
}

/// A server on a port, and the way to it.
pub(super) struct Port {
    era: &'static str,
    server: OnPort,
    pub(super) way: Cutter,
}

/// Two programs and two ports.
pub(super) const SERVERS: [&str; 4] = ["old", "new", "old-on-a-port", "new-on-a-port"];
const ERAS: [&str; 2] = ["2025-11-25", "2026-07-28"];
const CALLERS: [&str; 4] = ["ada", "bob", "cleo", "dan"];
/// For what is no part of the story.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

impl House {
    pub(super) async fn new(name: &str, seed: u64) -> Self {
        let mark = format!("{name}-{}-{seed}", std::process::id());
        let home = Home::new();
        let back = [Port::start(ERAS[0], Dice::of(seed, 1)).await, Port::start(ERAS[1], Dice::of(seed, 2)).await];
        let program = |era: &str| {
            let variables = json!({ census::VARIABLE: mark });
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
        let front = Cutter::start(Dice::of(seed, 3)).await;
        let mut house = Self { mark, home, serving: None, front, back, keys };
        house.start();
        house.settle().await;
        house
    }

    /// Starts the gateway; clients are led there.
    pub(super) fn start(&mut self) {
        let serving = Serving::start_with(&self.home, &["--log", "json"], &[(census::VARIABLE, &self.mark)]);
        self.front.lead_to(&serving.authority);
        self.serving = Some(serving);
    }

    /// Ends the gateway as nobody can refuse.
    pub(super) fn kill(&mut self) {
        drop(self.serving.take());
    }

    /// Ends the gateway in good order; what it wrote.
    pub(super) fn stop(&mut self) -> String {
        self.serving.take().unwrap().stop()
    }

    pub(super) fn pid(&self) -> u32 {
        self.serving.as_ref().unwrap().pid()
    }

    /// A stateful and a stateless client of each caller.
    pub(super) fn clients(&self, seed: u64) -> Vec<Client> {
        let eras = [Era::Stateful, Era::Stateless];
        let pairs = self.keys.iter().flat_map(|(name, key)| eras.map(|era| (name, key, era)));
        let client = |(number, (name, key, era)): (usize, (&String, &String, Era))| {
            Client::new(era, name, key, self.front.address, Dice::of(seed, 100 + u64::try_from(number).unwrap()))
        };
        pairs.enumerate().map(client).collect()
    }

    /// Nothing is cut any more, and every server is there.
    pub(super) async fn settle(&self) {
        self.ways().for_each(Cutter::heal);
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

    /// Every way there is.
    pub(super) fn ways(&self) -> impl Iterator<Item = &Cutter> {
        self.back.iter().map(|port| &port.way).chain([&self.front])
    }

    /// A program that the gateway started, by chance.
    pub(super) fn program(&self, dice: &mut Dice) -> Option<i32> {
        let all: Vec<i32> = programs(&self.mark);
        (!all.is_empty()).then(|| *dice.one(&all))
    }

    /// The value of a figure, over all its labels.
    pub(super) fn figure(&self, name: &str) -> u64 {
        let text = self.get("/metrics").body;
        let lines = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Everything that was kept for callers at servers ends: each is started anew by command, and nothing waits at a port.
    pub(super) async fn rest(&self) {
        self.ways().for_each(Cutter::heal);
        for server in SERVERS {
            self.home.run(&["servers", "restart", server]).json();
        }
        self.settle().await;
        self.ways().for_each(Cutter::heal);
    }

    fn get(&self, path: &str) -> crate::gateway::Answer {
        self.serving.as_ref().unwrap().get(path, &self.keys[0].1)
    }
}

impl Port {
    async fn start(era: &'static str, dice: Dice) -> Self {
        let port = Self { era, server: OnPort::start(era), way: Cutter::start(dice).await };
        port.way.lead_to(port.server.authority());
        port
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.way.address)
    }

    /// Kills the server; another one of its kind is started and led to.
    pub(super) fn kill(&mut self) {
        self.server = OnPort::start(self.era);
        self.way.lead_to(self.server.authority());
    }
}

/// The programs that were started for servers.
pub(super) fn programs(mark: &str) -> Vec<i32> {
    let all = census::processes(mark);
    all.into_iter().filter(|(_, line)| line.contains("conformance-server")).map(|(pid, _)| pid).collect()
}

fn key(home: &Home, caller: &str) -> String {
    let said: Value = home.run(&["clients", "add", caller, "-o", "json"]).json();
    said["key"].as_str().unwrap().to_owned()
}
