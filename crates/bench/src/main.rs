//! Benchmarks of the wire: the same traffic through a raw loop and through `toolway-wire`, in one run.
//!
//! `cargo run --release -p toolway-bench` prints one line per measurement and fails when a ratio is under its
//! budget. The server ([`peer`]) is hand-written and the same for all loops; the raw loop ([`raw_client`]) does the minimum
//! of a client: it frames messages and validates their JSON. A loop over bytes alone is printed for comparison. Rounds are
//! short and alternate, so that a busy machine slows both; each gives a ratio, and the median with its quartiles is
//! printed. The argument `quick` makes few rounds;
//! `loop <way> <raw|wire_client> <small|big|list> <width> <count>` runs one loop alone, for a profiler.
//!
//! Loops and servers share one core ([`affinity`]), so that CPU work is compared. `spread` leaves the placement to the
//! system.
//!
//! The argument `gateway` compares `toolway serve` with a raw relay instead ([`gateway`], [`relay`]); `gateway lists`
//! measures only lists; `gateway hoard` the latency of a call while another server is hostile ([`gateway::hoard`]);
//! `gateway path` compares processor time with the store off and on ([`gateway::path`]); `gateway instructions` counts the
//! instructions of a call ([`gateway::instructions`]), and keeps the files of callgrind if a folder is given;
//! `gateway load <way> <legacy|modern> <small|big|list> <width> <seconds> [relay]` puts one load on it,
//! or on the relay, for a profiler. The argument `replicas` compares records in a file with gateways over Postgres
//! ([`replicas`]), `store` measures the store ([`store`]),
//! `chat` the time that a chat adds to the first token ([`chat`]), `console` the API of the console and its page in a
//! browser ([`console`]).

mod affinity;
mod allocation;
mod callgrind;
mod chat;
mod console;
mod gateway;
mod keep_awake;
mod load;
mod measure;
mod memory;
mod nginx;
mod peer;
mod processes;
mod raw_client;
mod relay;
mod replicas;
mod store;
mod wire_client;

use std::{io, process::ExitCode};

use measure::{Budget, Table, compare};

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["awake"] => keep_awake::run().map(|()| ExitCode::SUCCESS),
        ["peer", "stdio", era, tools] => peer::stdio(era.parse()?, number(tools)?).map(|()| ExitCode::SUCCESS),
        ["peer", "late", milliseconds] => peer::late(number(milliseconds)?).map(|()| ExitCode::SUCCESS),
        ["peer", "http", era, tools] => peer::http(era.parse()?, number(tools)?).map(|()| ExitCode::SUCCESS),
        ["relay", "http", address] => relay::run(relay::RelayUpstream::http(address)),
        ["relay", "stdio", era] => relay::run(relay::RelayUpstream::stdio(era.parse()?)),
        ["nginx", folder] => nginx::keep(folder.as_ref()),
        ["chat"] => chat::run(),
        ["console"] => console::run(),
        ["gateway"] => gateway::run(measure::Size::Full),
        ["gateway", "lists"] => gateway::run_lists(),
        ["gateway", "hoard"] => gateway::hoard::run(),
        ["gateway", "path"] => gateway::path::run(measure::Size::Full),
        ["gateway", "path", "quick"] => gateway::path::run(measure::Size::Quick),
        ["gateway", "instructions"] => gateway::instructions::run(None),
        ["gateway", "instructions", folder] => gateway::instructions::run(Some(folder.as_ref())),
        ["replicas"] => replicas::run(measure::Size::Full),
        ["replicas", "quick"] => replicas::run(measure::Size::Quick),
        ["store"] => store::run(measure::Size::Full),
        ["store", "quick" | "--quick"] => store::run(measure::Size::Quick),
        ["gateway", "quick"] => gateway::run(measure::Size::Quick),
        ["gateway", "load", way, era, what, width, seconds, ref target @ ..] => {
            let what = ["small", "big", "list"].into_iter().find(|known| *known == what).unwrap_or("small");
            let target = if *target == ["relay"] { gateway::LoadTarget::Relay } else { gateway::LoadTarget::Gateway };
            gateway::alone(target, (way.parse()?, era.parse()?), what, number(width)?, number(seconds)?)
        }
        [] => affinity::pin_to_one_core().and_then(|()| run(measure::Size::Full)),
        ["quick"] => affinity::pin_to_one_core().and_then(|()| run(measure::Size::Quick)),
        ["spread"] => run(measure::Size::Full),
        ["loop", way, whose, what, width, count] => {
            let what = ["small", "big", "list"].into_iter().find(|known| *known == what).unwrap_or("small");
            let (width, count) = (number(width)?, number(count)?);
            alone(way.parse()?, whose == "raw", what, width, count)
        }
        _ => {
            eprintln!(
                "usage: toolway-bench [quick | spread | chat | console | gateway [quick | lists | hoard | path [quick] | instructions [folder]] | replicas [quick] | store [quick]]"
            );
            Ok(ExitCode::from(2))
        }
    }
}

fn number(text: &str) -> io::Result<usize> {
    text.parse().map_err(io::Error::other)
}

/// Runs one loop, for a profiler.
fn alone(way: peer::Way, raw: bool, what: &'static str, width: usize, count: usize) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measuring = runtime.spawn(async move {
        let mut server = peer::PeerProcess::new(way).await?;
        let begun = std::time::Instant::now();
        if raw {
            raw_client::RawClient::connect(&mut server)
                .await?
                .round_trips(raw_client::JsonCheck::Validate, what, count, width)
                .await?;
        } else {
            wire_client::WireClient::connect(&mut server).await?.round_trips(what, count, width).await?;
        }
        println!("{:.1} µs each", begun.elapsed().as_secs_f64() * 1e6 / (count * width) as f64);
        io::Result::Ok(ExitCode::SUCCESS)
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}

fn run(size: measure::Size) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Measured on the worker threads of the runtime: a loop on the blocked thread would wake them for each message.
    let measuring = runtime.spawn(async move {
        let mut table = Table::default();
        for way in peer::Way::ALL {
            let mut server = peer::PeerProcess::new(way).await?;
            let mut raw = raw_client::RawClient::connect(&mut server).await?;
            let mut second = peer::PeerProcess::new(way).await?;
            let ours = wire_client::WireClient::connect(&mut second).await?;
            table.add(
                compare(way, "tools/call, one at a time", Budget::Ratio(0.8), size, &mut raw, &ours, "small", 1)
                    .await?,
            );
            if way.is_http() {
                table.add(
                    compare(way, "tools/call, 16 connections", Budget::Ratio(0.8), size, &mut raw, &ours, "small", 16)
                        .await?,
                );
            }
            table.add(compare(way, "1 MB result", Budget::Ratio(0.8), size, &mut raw, &ours, "big", 1).await?);
            table.add(compare(way, "10,000 tools", Budget::Ratio(0.8), size, &mut raw, &ours, "list", 1).await?);
            let large = ours.large_allocations().await?;
            table.add(measure::TableRow::allocations(way, large));
        }
        io::Result::Ok(table.verdict())
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}
