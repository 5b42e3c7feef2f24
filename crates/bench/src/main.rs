//! What the wire costs: the same traffic through a raw loop and through `toolway-wire`, in one run.
//!
//! `cargo run --release -p toolway-bench` prints one line per measurement and fails when a ratio is under its
//! budget. The server ([`peer`]) is hand-written and the same for all loops; the raw loop ([`raw`]) does what a client
//! cannot avoid: it frames messages and looks once whether they are JSON. A loop over bytes alone is printed beside
//! it. Rounds are short and alternate, so that a busy machine slows both; each gives a ratio, and the median of those with
//! its quartiles is printed. `quick` as argument makes few rounds;
//! `loop <way> <raw|ours> <small|big|list> <width> <count>` runs one loop alone, for a profiler.
//!
//! Loops and servers share one core ([`place`]): what is compared is work. `spread` leaves both to the system's choice
//! and measures where it puts them as well.
//!
//! `gateway` as argument measures `toolway serve` beside a raw relay instead ([`gateway`], [`relay`]); `gateway load <way>
//! <legacy|modern> <small|big|list> <width> <seconds> [relay]` puts one load on it, or on the relay, for a profiler.

mod allocation;
mod awake;
mod gateway;
mod load;
mod measure;
mod memory;
mod nginx;
mod ours;
mod peer;
mod place;
mod raw;
mod relay;
mod served;

use std::{io, process::ExitCode};

use measure::{Budget, Table, compare};

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["awake"] => awake::stay().map(|()| ExitCode::SUCCESS),
        ["peer", "stdio", era, tools] => peer::stdio(era.parse()?, number(tools)?).map(|()| ExitCode::SUCCESS),
        ["peer", "late", milliseconds] => peer::late(number(milliseconds)?).map(|()| ExitCode::SUCCESS),
        ["peer", "http", era, tools] => peer::http(era.parse()?, number(tools)?).map(|()| ExitCode::SUCCESS),
        ["relay", "http", address] => relay::run(relay::Behind::http(address)),
        ["relay", "stdio", era] => relay::run(relay::Behind::stdio(era.parse()?)),
        ["nginx", folder] => nginx::keep(folder.as_ref()),
        ["gateway"] => gateway::run(measure::Size::Full),
        ["gateway", "quick"] => gateway::run(measure::Size::Quick),
        ["gateway", "load", way, era, what, width, seconds, ref whom @ ..] => {
            let what = ["small", "big", "list"].into_iter().find(|known| *known == what).unwrap_or("small");
            let whom = if *whom == ["relay"] { gateway::Whom::Relay } else { gateway::Whom::Gateway };
            gateway::alone(whom, (way.parse()?, era.parse()?), what, number(width)?, number(seconds)?)
        }
        [] => place::on_one_core().and_then(|()| run(measure::Size::Full)),
        ["quick"] => place::on_one_core().and_then(|()| run(measure::Size::Quick)),
        ["spread"] => run(measure::Size::Full),
        ["loop", way, whose, what, width, count] => {
            let what = ["small", "big", "list"].into_iter().find(|known| *known == what).unwrap_or("small");
            let (width, count) = (number(width)?, number(count)?);
            alone(way.parse()?, whose == "raw", what, width, count)
        }
        _ => {
            eprintln!("usage: toolway-bench [quick | spread | gateway [quick]]");
            Ok(ExitCode::from(2))
        }
    }
}

fn number(text: &str) -> io::Result<usize> {
    text.parse().map_err(io::Error::other)
}

/// One loop and nothing else.
fn alone(way: peer::Way, raw: bool, what: &'static str, width: usize, count: usize) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measuring = runtime.spawn(async move {
        let mut server = peer::Started::new(way).await?;
        let begun = std::time::Instant::now();
        if raw {
            raw::Client::connect(&mut server).await?.round_trips(raw::Look::Once, what, count, width).await?;
        } else {
            ours::Client::connect(&mut server).await?.round_trips(what, count, width).await?;
        }
        println!("{:.1} µs each", begun.elapsed().as_secs_f64() * 1e6 / (count * width) as f64);
        io::Result::Ok(ExitCode::SUCCESS)
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}

fn run(size: measure::Size) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Measured on the runtime's own threads: a loop on the thread that blocks would wake the others for each message.
    let measuring = runtime.spawn(async move {
        let mut table = Table::default();
        for way in peer::Way::ALL {
            let mut server = peer::Started::new(way).await?;
            let mut raw = raw::Client::connect(&mut server).await?;
            let mut second = peer::Started::new(way).await?;
            let ours = ours::Client::connect(&mut second).await?;
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
            table.add(measure::Line::allocations(way, large));
        }
        io::Result::Ok(table.verdict())
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}
