//! Processor time of a call through the gateway, with the store off and on, against that of the relay.
//!
//! Time is that of the process under load alone, with all its threads, from the scheduler's accounts; the load and the
//! server are other processes. Rounds alternate between the targets; each gives a ratio, and the median counts.

use std::{fs, io, process::ExitCode};

use super::{FEW_TOOLS, id};
use crate::{
    keep_awake,
    load::Load,
    measure::{Size, Table, TableRow, quartiles},
    peer::{Era, PeerProcess, Way},
    processes::{self, GatewayProcess, Relay},
};

/// Parallel connections.
const WIDTH: usize = 16;
/// Calls of each connection in a round.
const CALLS: usize = 200;
/// Processor time at most, as a multiple of the relay's: store off; store, audit and log on.
const OFF: f64 = 2.2;
const ON: f64 = 3.0;

/// A process under load, and its microseconds for each call.
struct Measured {
    process: u32,
    load: Load,
    each: Vec<f64>,
}

pub(crate) fn run(size: Size) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measuring = runtime.spawn(async move {
        let program = processes::program().await?;
        let _awake = keep_awake::start()?;
        let mut table = Table::default();
        for way in [Way::HttpModern, Way::HttpLegacy] {
            compare(&program, way, size, &mut table).await?;
        }
        io::Result::Ok(table.verdict())
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}

async fn compare(program: &std::path::Path, way: Way, size: Size, table: &mut Table) -> io::Result<()> {
    let server = PeerProcess::with_tools(way, FEW_TOOLS).await?;
    let entries = serde_json::json!({ id(way): processes::entry(way, Some(&server), FEW_TOOLS)? });
    let relay = Relay::over_http(&server).await?;
    let off = GatewayProcess::start_with(program, entries.clone(), &["--log", "off", "--no-store"]).await?;
    let on = GatewayProcess::start_with(program, entries, &["--log", "text"]).await?;
    for gateway in [&off, &on] {
        gateway.wait_for_tools(&[format!("{}__small", id(way))]).await?;
    }
    let process = relay.process().ok_or_else(|| io::Error::other("the relay ended"))?;
    let mut relay = Measured { process, load: relay.load(way.era()).await?, each: Vec::new() };
    let mut off = Measured::of(&off, way.era(), id(way)).await?;
    let mut on = Measured::of(&on, way.era(), id(way)).await?;
    for round in 0..=size.rounds() / 4 {
        relay.round().await?;
        off.round().await?;
        on.round().await?;
        if round == 0 {
            // Connections and caches are warm from here on.
            [&mut relay, &mut off, &mut on].into_iter().for_each(|measured| measured.each.clear());
        }
    }
    for (name, measured, budget) in [("store off", &off, OFF), ("store, audit and log on", &on, ON)] {
        let ratios = measured.each.iter().zip(&relay.each).map(|(own, relay)| own / relay).collect();
        let [low, ratio, high] = quartiles(ratios);
        let (own, relay) = (quartiles(measured.each.clone())[1], quartiles(relay.each.clone())[1]);
        let name = format!("processor time of a call, {}, {WIDTH} connections, {name}", id(way));
        let text = format!(
            "{name:<82} relay {relay:>6.1} µs   gateway {own:>6.1} µs   ratio {ratio:.2} [{low:.2} {high:.2}] (at most {budget})"
        );
        table.add(TableRow::new(text, ratio <= budget));
    }
    Ok(())
}

impl Measured {
    async fn of(gateway: &GatewayProcess, era: Era, server: &str) -> io::Result<Self> {
        Ok(Self { process: gateway.process(), load: gateway.load(era, server).await?, each: Vec::new() })
    }

    async fn round(&mut self) -> io::Result<()> {
        let before = processor_time(self.process)?;
        self.load.round_trips("small", CALLS, WIDTH).await?;
        let took = processor_time(self.process)? - before;
        self.each.push(took * 1e6 / (CALLS * WIDTH) as f64);
        Ok(())
    }
}

/// Seconds that the threads of a process were on a processor.
pub(crate) fn processor_time(process: u32) -> io::Result<f64> {
    let mut nanoseconds = 0.0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let accounts = fs::read_to_string(thread?.path().join("schedstat"))?;
        let running = accounts.split_whitespace().next().unwrap_or_default();
        nanoseconds += running.parse::<f64>().map_err(io::Error::other)?;
    }
    Ok(nanoseconds / 1e9)
}
