//! Instructions of a call through the gateway, counted by callgrind, with the store off and on, and of the relay.
//!
//! Unlike times they repeat on a busy machine. One connection makes calls one after another. The counts of two rounds of
//! different lengths are subtracted, so that what happens once in a round does not count. A process runs about fifty
//! times slower under valgrind: what depends on the clock (how many calls a commit of the store has) is less favourable
//! than it is otherwise. Needs `valgrind`.

use std::{io, path::Path, process::ExitCode, time::Instant};

use super::{FEW_TOOLS, id};
use crate::{
    callgrind::{Callgrind, Costs},
    load::Load,
    measure::{Table, TableRow},
    peer::{PeerProcess, Way},
    processes::{self, GatewayProcess, Launcher, Relay},
};

/// Calls before the first count.
const WARM_UP: usize = 300;
/// Calls of the two rounds.
const SHORT: usize = 100;
const LONG: usize = 500;
/// Instructions of a call at most: store off; store, audit and log on.
const OFF: f64 = 90_000.0;
const ON: f64 = 170_000.0;
/// Parts with fewer instructions are summed up.
const SMALL_PART: f64 = 500.0;

/// `kept`: a folder in which the files of callgrind are kept.
pub(crate) fn run(kept: Option<&Path>) -> io::Result<ExitCode> {
    let kept = kept.map(Path::to_owned);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measuring = runtime.spawn(async move {
        let program = processes::program().await?;
        let mut table = Table::default();
        let way = Way::HttpModern;
        let server = PeerProcess::with_tools(way, FEW_TOOLS).await?;
        let kept = kept.as_deref();
        let relay = of_relay(&Callgrind::new(kept, "relay")?, &server).await?;
        table.add(TableRow::without_budget("relay", relay.total(), "instructions a call"));
        let off = Callgrind::new(kept, "off")?;
        let off = of_gateway(&off, &program, &server, &["--console", "off", "--log", "off", "--no-store"]).await?;
        table.add(TableRow::at_most("store off", off.total(), OFF, "instructions a call"));
        print_parts(&off);
        let on =
            of_gateway(&Callgrind::new(kept, "on")?, &program, &server, &["--console", "off", "--log", "text"]).await?;
        table.add(TableRow::at_most("store, audit and log on", on.total(), ON, "instructions a call"));
        print_parts(&on);
        io::Result::Ok(table.verdict())
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}

async fn of_relay(callgrind: &Callgrind, server: &PeerProcess) -> io::Result<Costs> {
    let relay = Relay::start_under(&Launcher::Callgrind(callgrind), &["relay", "http", &server.address]).await?;
    let process = relay.process().ok_or_else(|| io::Error::other("the relay ended"))?;
    let mut load = relay.load(server.way.era()).await?;
    count(callgrind, process, &mut load).await
}

async fn of_gateway(
    callgrind: &Callgrind,
    program: &Path,
    server: &PeerProcess,
    options: &[&str],
) -> io::Result<Costs> {
    let way = server.way;
    let content = serde_json::json!({ "mcpServers": { id(way): processes::entry(way, Some(server), FEW_TOOLS)? } });
    let gateway = GatewayProcess::start_under(&Launcher::Callgrind(callgrind), program, content, options).await?;
    gateway.wait_for_tools(&[format!("{}__small", id(way))]).await?;
    let mut load = gateway.load(way.era(), id(way)).await?;
    count(callgrind, gateway.process(), &mut load).await
}

/// The costs of one call.
async fn count(callgrind: &Callgrind, process: u32, load: &mut Load) -> io::Result<Costs> {
    load.round_trips("small", WARM_UP, 1).await?;
    callgrind.take(process).await?;
    load.round_trips("small", SHORT, 1).await?;
    let short = callgrind.take(process).await?;
    let begun = Instant::now();
    load.round_trips("small", LONG, 1).await?;
    let each = begun.elapsed().as_secs_f64() * 1e3 / LONG as f64;
    let long = callgrind.take(process).await?;
    println!("     {each:.1} ms a call under valgrind");
    Ok(long.difference(&short, (LONG - SHORT) as f64))
}

fn print_parts(costs: &Costs) {
    println!("     {} source files", costs.source_files());
    for (thread, parts) in costs.by_thread() {
        let whole: f64 = parts.iter().map(|part| part.instructions).sum();
        println!("     {thread:<24} {whole:>9.0}");
        let small = parts.iter().filter(|part| part.instructions < SMALL_PART);
        let rest: f64 = small.map(|part| part.instructions).sum();
        for part in parts.iter().filter(|part| SMALL_PART <= part.instructions) {
            println!("         {:<20} {:>9.0}", part.name, part.instructions);
        }
        println!("         {:<20} {rest:>9.0}", "other");
    }
}
