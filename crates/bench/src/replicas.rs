//! What a call costs with records in a file, and in Postgres with one and with two gateways, in one run.
//!
//! Gateways, load, server and database share the machine, so two gateways are no faster here than one unless cores are left
//! over; what counts is the processor time of a call, and what the database adds to it. Rounds alternate between the setups, and
//! the medians of the rounds count. The database writes its log to the disk at each commit, as it does by default.

use std::{
    fs, io,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolway_testkit::postgres::{Durability, TestDatabase};

use crate::{
    gateway::path::processor_time,
    keep_awake,
    load::Load,
    measure::{Size, Table, TableRow, quartiles},
    peer::{Era, PeerProcess, Way},
    processes::{self, GatewayProcess},
};

/// Parallel connections.
const WIDTHS: [usize; 3] = [1, 16, 64];
/// Throughput of Postgres at least, as a fraction of that of the file, at the most connections.
const SHARE: f64 = 0.5;
/// Milliseconds that Postgres may add to the median of a call at one connection.
const ADDED: f64 = 3.0;
/// Duration of a round of one setup.
const ROUND: Duration = Duration::from_millis(700);
/// Id of the server.
const SERVER: &str = "bench";

/// Gateways over one store, with a load on each.
struct Setup {
    name: &'static str,
    gateways: Vec<GatewayProcess>,
    loads: Vec<Load>,
    database: Option<TestDatabase>,
    /// Without its connections a setup costs nothing while others are measured.
    _server: PeerProcess,
}

/// What the rounds of one setup with one number of connections gave.
#[derive(Debug, Default)]
struct Rounds {
    per_second: Vec<f64>,
    /// Microseconds of processor time for each call.
    gateway: Vec<f64>,
    database: Vec<f64>,
    /// Milliseconds of each call.
    latencies: Vec<f64>,
}

pub(crate) fn run(size: Size) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measuring = runtime.spawn(async move {
        let program = processes::program().await?;
        let _awake = keep_awake::start()?;
        let mut setups = [
            Setup::start("file", &program, 1, None).await?,
            Setup::start("Postgres", &program, 1, Some(TestDatabase::with(Durability::Synced))).await?,
            Setup::start("Postgres, two", &program, 2, Some(TestDatabase::with(Durability::Synced))).await?,
        ];
        let mut table = Table::default();
        for width in WIDTHS {
            compare(&mut setups, width, size, &mut table).await?;
        }
        io::Result::Ok(table.verdict())
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}

async fn compare(setups: &mut [Setup], width: usize, size: Size, table: &mut Table) -> io::Result<()> {
    let mut measured: Vec<Rounds> = setups.iter().map(|_| Rounds::default()).collect();
    for round in 0..=size.rounds() / 8 {
        for (setup, rounds) in setups.iter_mut().zip(&mut measured) {
            setup.round(width, rounds).await?;
            if round == 0 {
                // Connections and caches are warm from here on.
                *rounds = Rounds::default();
            }
        }
    }
    let [file, rest @ ..] = measured.as_slice() else { return Ok(()) };
    table.add(file.row(setups[0].name, width, String::new(), true));
    for (setup, rounds) in setups[1..].iter().zip(rest) {
        let share = quartiles(rounds.per_second.clone())[1] / quartiles(file.per_second.clone())[1];
        let added = percentile(&rounds.latencies, 50) - percentile(&file.latencies, 50);
        let (budget, is_kept) = match width {
            1 => (format!("   {added:+.2} ms at p50 (at most {ADDED})"), added <= ADDED),
            64 => (format!("   {share:.2} of the file (at least {SHARE})"), SHARE <= share),
            _ => (format!("   {share:.2} of the file"), true),
        };
        table.add(rounds.row(setup.name, width, budget, is_kept));
    }
    Ok(())
}

impl Setup {
    async fn start(
        name: &'static str,
        program: &Path,
        gateways: usize,
        database: Option<TestDatabase>,
    ) -> io::Result<Self> {
        let way = Way::HttpModern;
        let server = PeerProcess::with_tools(way, 2).await?;
        let mut config = json!({ "mcpServers": { SERVER: processes::entry(way, Some(&server), 2)? } });
        if let Some(database) = &database {
            config["store"] = json!({ "url": database.url().expose() });
        }
        let mut setup = Self { name, gateways: Vec::new(), loads: Vec::new(), database, _server: server };
        for _ in 0..gateways {
            setup.add(program, config.clone()).await?;
        }
        Ok(setup)
    }

    async fn add(&mut self, program: &Path, config: Value) -> io::Result<()> {
        let gateway = GatewayProcess::start_configured(program, config, &["--log", "off", "--console", "off"]).await?;
        gateway.wait_for_tools(&[format!("{SERVER}__small")]).await?;
        self.loads.push(gateway.load(Era::Modern, SERVER).await?);
        self.gateways.push(gateway);
        Ok(())
    }

    /// Calls over `width` connections, shared among the gateways, for the time of a round.
    async fn round(&mut self, width: usize, rounds: &mut Rounds) -> io::Result<()> {
        let before = self.processor_time()?;
        let begun = Instant::now();
        let count = self.loads.len();
        let running = self.loads.iter_mut().enumerate().map(|(number, load)| {
            let own = (width + count - 1 - number) / count;
            load.latencies("small", ROUND, own)
        });
        let latencies = futures_util::future::try_join_all(running).await?.concat();
        let seconds = begun.elapsed().as_secs_f64();
        let after = self.processor_time()?;
        let calls = latencies.len() as f64;
        rounds.per_second.push(calls / seconds);
        rounds.gateway.push((after.gateways - before.gateways) * 1e6 / calls);
        rounds.database.push((after.database - before.database) * 1e6 / calls);
        rounds.latencies.extend(latencies);
        Ok(())
    }

    fn processor_time(&self) -> io::Result<ProcessorTime> {
        let mut time = ProcessorTime::default();
        for gateway in &self.gateways {
            time.gateways += processor_time(gateway.process())?;
        }
        if let Some(database) = &self.database {
            let server = database.server_process();
            for process in children(server)?.into_iter().chain([server]) {
                // A worker of the server may have ended since.
                time.database += processor_time(process).unwrap_or_default();
            }
        }
        Ok(time)
    }
}

/// Seconds on a processor since the start.
#[derive(Clone, Copy, Debug, Default)]
struct ProcessorTime {
    gateways: f64,
    database: f64,
}

fn children(process: u32) -> io::Result<Vec<u32>> {
    let listed = fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    Ok(listed.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}

impl Rounds {
    fn row(&self, name: &str, width: usize, budget: String, is_kept: bool) -> TableRow {
        let median = |values: &[f64]| quartiles(values.to_vec())[1];
        let text = format!(
            "{name:<14} {width:>2} connections {:>7.0} calls/s   gateway {:>5.0} µs   database {:>5.0} µs   p50 {:>6.2} ms   p99 {:>6.2} ms{budget}",
            median(&self.per_second),
            median(&self.gateway),
            median(&self.database),
            percentile(&self.latencies, 50),
            percentile(&self.latencies, 99),
        );
        TableRow::new(text, is_kept)
    }
}

/// The value that this percentage of all values does not exceed.
fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(values.len() * percent / 100).copied().unwrap_or(f64::NAN)
}
