//! Benchmarks of the gateway: the same load through it and through the raw relay, in one run.
//!
//! `cargo run --release -p toolway-bench -- gateway` builds the program and prints the table with its budgets. Load,
//! gateway, relay, nginx and servers are separate processes on one machine. Rounds are short and alternate; each gives a
//! ratio, and the median with its quartiles is printed. A relay cannot translate: if client and server use different eras,
//! the baseline is the relay to a server of the era of the client.

use std::{io, process::ExitCode};

use crate::{
    keep_awake,
    load::Load,
    measure::{Size, Table, TableRow, quartiles, timed},
    memory,
    nginx::Nginx,
    peer::{BIG, Era, PeerProcess, TOOLS, Way},
    processes::{self, GatewayProcess, Relay},
};

pub(crate) mod hoard;
pub(crate) mod instructions;
pub(crate) mod path;
mod resources;

/// Numbers of parallel connections.
const WIDTHS: [usize; 3] = [1, 16, 64];
/// Minimum fraction of the throughput of the relay.
const RATIO: f64 = 0.8;
/// Minimum fraction of the throughput of nginx, for the relay.
const NGINX_RATIO: f64 = 0.6;
/// Number of tools of a server that is called.
const FEW_TOOLS: usize = 2;

pub(crate) fn run(size: Size) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measuring = runtime.spawn(async move {
        let program = processes::program().await?;
        let _awake = keep_awake::start()?;
        let mut table = Table::default();
        let bench = Bench::start(&program).await?;
        bench.compare_with_nginx(size, &mut table).await?;
        for way in Way::ALL {
            for client in [Era::Legacy, Era::Modern] {
                bench.calls(way, client, size, &mut table).await?;
            }
        }
        bench.log(&program, size, &mut table).await?;
        drop(bench);
        for way in [Way::HttpModern, Way::StdioModern] {
            Bench::start(&program).await?.peak(way, &mut table).await?;
        }
        resources::list(&program, &mut table).await?;
        resources::whole_lists(&program, &mut table).await?;
        resources::memory(&program, &mut table).await?;
        resources::startup(&program, &mut table).await?;
        io::Result::Ok(table.verdict())
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}

/// Measures only lists.
pub(crate) fn run_lists() -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measuring = runtime.spawn(async move {
        let program = processes::program().await?;
        let _awake = keep_awake::start()?;
        let mut table = Table::default();
        resources::list(&program, &mut table).await?;
        resources::whole_lists(&program, &mut table).await?;
        io::Result::Ok(table.verdict())
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}

/// The process under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadTarget {
    Gateway,
    Relay,
}

/// Runs one load for `seconds`, for a profiler; prints the process id.
pub(crate) fn alone(
    target: LoadTarget,
    (way, client): (Way, Era),
    what: &'static str,
    width: usize,
    seconds: usize,
) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let loading = runtime.spawn(async move {
        let bench = Bench::start(&processes::program().await?).await?;
        let (mut own, process) = match target {
            LoadTarget::Gateway => (bench.gateway.load(client, id(way)).await?, Some(bench.gateway.process())),
            LoadTarget::Relay => (bench.relay(way)?.load(client).await?, bench.relay(way)?.process()),
        };
        println!("process {}", process.unwrap_or_default());
        let (begun, mut calls) = (std::time::Instant::now(), 0);
        while begun.elapsed().as_secs() < seconds as u64 {
            own.round_trips(what, 20, width).await?;
            calls += 20 * width;
        }
        println!("{calls} calls, {:.1} µs each", begun.elapsed().as_secs_f64() * 1e6 / calls as f64);
        io::Result::Ok(ExitCode::SUCCESS)
    });
    runtime.block_on(loading).map_err(io::Error::other)?
}

/// The gateway with one server of each kind, and a relay to each kind.
struct Bench {
    gateway: GatewayProcess,
    relays: Vec<(Way, Relay)>,
    servers: Vec<PeerProcess>,
}

impl Bench {
    async fn start(program: &std::path::Path) -> io::Result<Self> {
        let (mut entries, mut relays, mut servers) = (serde_json::Map::new(), Vec::new(), Vec::new());
        for way in Way::ALL {
            let server = if way.is_http() { Some(PeerProcess::with_tools(way, FEW_TOOLS).await?) } else { None };
            entries.insert(id(way).to_owned(), processes::entry(way, server.as_ref(), FEW_TOOLS)?);
            relays.push((
                way,
                match &server {
                    Some(server) => Relay::over_http(server).await?,
                    None => Relay::over_pipes(way.era()).await?,
                },
            ));
            servers.extend(server);
        }
        let gateway = GatewayProcess::start(program, entries.into()).await?;
        gateway.wait_for_tools(&Way::ALL.map(|way| format!("{}__small", id(way)))).await?;
        Ok(Self { gateway, relays, servers })
    }

    /// The relay to a server of this kind.
    fn relay(&self, way: Way) -> io::Result<&Relay> {
        let found = self.relays.iter().find(|(known, _)| *known == way);
        found.map(|(_, relay)| relay).ok_or_else(|| io::Error::other("no such relay"))
    }

    /// Compares the relay with nginx.
    async fn compare_with_nginx(&self, size: Size, table: &mut Table) -> io::Result<()> {
        let Some(server) = self.servers.iter().find(|server| server.way == Way::HttpModern) else { return Ok(()) };
        let Some(nginx) = Nginx::start(&server.address).await? else {
            println!("     nginx is not installed: the relay was not compared with it");
            return Ok(());
        };
        let nginx_target =
            crate::load::Target { address: nginx.address.clone(), era: Era::Modern, prefix: String::new(), key: None };
        let (mut limit, mut own) =
            (Load::new(nginx_target).await?, self.relay(Way::HttpModern)?.load(Era::Modern).await?);
        for width in WIDTHS {
            let pair = Pair::measure(&mut limit, &mut own, "small", width, size).await?;
            let name = format!("relay, http behind, {width} connections");
            table.add(pair.row(&name, "nginx", "relay", NGINX_RATIO));
        }
        Ok(())
    }

    /// Measures calls of a client of this era to a server of this kind.
    async fn calls(&self, way: Way, client: Era, size: Size, table: &mut Table) -> io::Result<()> {
        let alike = Way::ALL.into_iter().find(|other| other.is_http() == way.is_http() && other.era() == client);
        let mut limit = self.relay(alike.unwrap_or(way))?.load(client).await?;
        let mut own = self.gateway.load(client, id(way)).await?;
        let story = format!("{} client, {}", client.word(), id(way));
        for width in WIDTHS {
            let pair = Pair::measure(&mut limit, &mut own, "small", width, size).await?;
            table.add(pair.row(&format!("call, {story}, {width} connections"), "relay", "gateway", RATIO));
            if width == 1 {
                table.add(pair.added(&format!("added to one call, {story}"), way.is_http()));
            }
        }
        let pair = Pair::measure(&mut limit, &mut own, "big", 1, size).await?;
        table.add(pair.row(&format!("1 MB result, {story}"), "relay", "gateway", RATIO));
        Ok(())
    }

    /// Measures the cost of the access log: a gateway with the log against one without.
    async fn log(&self, program: &std::path::Path, size: Size, table: &mut Table) -> io::Result<()> {
        const WIDTH: usize = 16;
        let Some(server) = self.servers.iter().find(|server| server.way == Way::HttpModern) else { return Ok(()) };
        let entries = serde_json::json!({ id(server.way): processes::entry(server.way, Some(server), FEW_TOOLS)? });
        let silent = GatewayProcess::start_with_log(program, entries, "off").await?;
        silent.wait_for_tools(&[format!("{}__small", id(server.way))]).await?;
        let mut limit = silent.load(Era::Modern, id(server.way)).await?;
        let mut own = self.gateway.load(Era::Modern, id(server.way)).await?;
        let pair = Pair::measure(&mut limit, &mut own, "small", WIDTH, size).await?;
        let name = format!("what the log adds to a call, {WIDTH} connections");
        table.add(TableRow::without_budget(&name, pair.own - pair.limit, "µs"));
        Ok(())
    }

    /// Measures memory during the first 16 parallel large results; memory that the gateway used before would hide it.
    async fn peak(&self, way: Way, table: &mut Table) -> io::Result<()> {
        const AT_ONCE: usize = 16;
        let mut load = self.gateway.load(Era::Modern, id(way)).await?;
        load.round_trips("small", 2, AT_ONCE).await?;
        memory::reset_peak(self.gateway.process())?;
        let before = memory::peak(self.gateway.process())?;
        load.round_trips("big", 1, AT_ONCE).await?;
        let grown = memory::peak(self.gateway.process())?.saturating_sub(before);
        let bodies = grown as f64 / (AT_ONCE * BIG) as f64;
        let name = format!("memory for each of {AT_ONCE} results of 1 MB at once, {}", id(way));
        table.add(TableRow::at_most(&name, bodies, 2.0, "bodies"));
        Ok(())
    }
}

/// The id of a server of this kind.
fn id(way: Way) -> &'static str {
    match way {
        Way::StdioLegacy => "stdio-legacy",
        Way::StdioModern => "stdio-modern",
        Way::HttpLegacy => "http-legacy",
        Way::HttpModern => "http-modern",
    }
}

/// Two loads, measured alternately.
struct Pair {
    /// Quartiles of the ratio of the throughputs, own to limit.
    ratio: [f64; 3],
    /// Microseconds for each call.
    limit: f64,
    own: f64,
}

impl Pair {
    async fn measure(
        limit: &mut Load,
        own: &mut Load,
        what: &'static str,
        width: usize,
        size: Size,
    ) -> io::Result<Self> {
        let count = trips(limit, what, width).await?;
        own.round_trips(what, count, width).await?;
        let (mut limits, mut owns) = (Vec::new(), Vec::new());
        for round in 0..size.rounds() / 2 {
            // The second load finds warmer cores, so the order alternates.
            if round % 2 == 1 {
                owns.push(timed(own.round_trips(what, count, width)).await?);
                limits.push(timed(limit.round_trips(what, count, width)).await?);
            } else {
                limits.push(timed(limit.round_trips(what, count, width)).await?);
                owns.push(timed(own.round_trips(what, count, width)).await?);
            }
        }
        let ratio = quartiles(limits.iter().zip(&owns).map(|(limit, own)| limit / own).collect());
        let each = |times| quartiles(times)[1] * 1e6 / (count * width) as f64;
        Ok(Self { ratio, limit: each(limits), own: each(owns) })
    }

    fn row(&self, name: &str, limit: &str, own: &str, budget: f64) -> TableRow {
        let [low, ratio, high] = self.ratio;
        let text = format!(
            "{name:<62} {limit:<5} {:>8.1} µs   {own:<7} {:>8.1} µs   ratio {ratio:.2} [{low:.2} {high:.2}] (at least {budget})",
            self.limit, self.own
        );
        TableRow::new(text, budget <= ratio)
    }

    /// Time that the gateway adds to a single call.
    fn added(&self, name: &str, http: bool) -> TableRow {
        TableRow::at_most(name, self.own - self.limit, if http { 20.0 } else { 12.0 }, "µs more than the relay")
    }
}

/// Number of round trips that take about one round.
async fn trips(load: &mut Load, what: &'static str, width: usize) -> io::Result<usize> {
    const LOOK: usize = 5;
    load.round_trips(what, LOOK, width).await?;
    let each = timed(load.round_trips(what, LOOK, width)).await? / LOOK as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    Ok(((crate::measure::ROUND / each) as usize).clamp(2, 10_000))
}
