//! The latency of a call to one server while sessions of another, hostile one make the gateway keep what they can.

use std::{io, process::ExitCode};

use serde_json::json;
use toolway_testkit::hoarder::Hoarder;

use super::{FEW_TOOLS, GatewayProcess, PeerProcess, Table, TableRow, Way, keep_awake, memory, processes};
use crate::{load::Load, peer::Era};

/// Sessions at the hostile server; a caller has at most this many connections.
const SESSIONS: usize = 16;
/// Measured calls before and during the attack.
const CALLS: usize = 2_000;
/// Byte budget of the gateway.
const BUDGET: &str = "64MB";
const MEGABYTE: f64 = 1024.0 * 1024.0;

pub(crate) fn run() -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measuring = runtime.spawn(async move {
        let program = processes::program().await?;
        let _awake = keep_awake::start()?;
        let mut table = Table::default();
        let quiet = PeerProcess::with_tools(Way::HttpModern, FEW_TOOLS).await?;
        // About 6 MB for each session, other items after every change, of which it announces fifty a second.
        let hoarder = Hoarder::new(600, 10_000).over_http().await?;
        let servers = json!({
            "quiet": processes::entry(Way::HttpModern, Some(&quiet), FEW_TOOLS)?,
            "hoarder": { "url": hoarder.url(), "sharing": "session" },
        });
        let content = json!({ "limits": { "memory": BUDGET }, "mcpServers": servers });
        let gateway = GatewayProcess::start_configured(&program, content, &[]).await?;
        gateway.wait_for_tools(&["quiet__small", "hoarder__small"].map(str::to_owned)).await?;
        let mut load = gateway.load(Era::Modern, "quiet").await?;
        latency("before", &mut load, &mut table).await?;
        memory::reset_peak(gateway.process())?;
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let mut session = gateway.load(Era::Legacy, "hoarder").await?;
            session.first_byte("small").await?;
            sessions.push(session);
        }
        latency("during", &mut load, &mut table).await?;
        let peak = memory::peak(gateway.process())? as f64 / MEGABYTE;
        table.add(TableRow::without_budget("largest resident set with hostile lists, budget 64 MB", peak, "MB"));
        io::Result::Ok(table.verdict())
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}

async fn latency(when: &str, load: &mut Load, table: &mut Table) -> io::Result<()> {
    let mut waits = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        waits.push(load.first_byte("small").await?.0 * 1e3);
    }
    waits.sort_by(f64::total_cmp);
    for (name, part) in [("median", 0.5), ("99th percentile", 0.99)] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of the list")]
        let wait = waits[((CALLS - 1) as f64 * part) as usize];
        table.add(TableRow::without_budget(
            &format!("call to another server {when} hostile lists, {name}"),
            wait,
            "ms",
        ));
    }
    Ok(())
}
