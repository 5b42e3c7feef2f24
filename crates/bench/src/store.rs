//! Benchmarks of the store: calls a second, and queries on many records.
//!
//! `toolway-bench store` writes each call as a host does: its beginning (not awaited), its sending and its end (both
//! awaited), with bodies, rollups and audit events, from 16 and more callers at once. Then it fills a file with one
//! million calls of the last day and measures queries; `store quick` takes a fiftieth of that. Every figure has its budget.

use std::{io, path::Path, process::ExitCode, time::Instant};

use tokio::task::JoinSet;
use toolway_store::{
    Reader, Store, StoreError, StoreOptions, Uuid,
    audit::Verified,
    calls::{CallBody, CallFilter, CallRow, CallState, Delivery},
    rollup::RollupFilter,
    time::{self, Micros},
};

use crate::measure::{Size, Table, TableRow, quartiles};

/// Callers at once.
const WIDTHS: [usize; 3] = [16, 64, 256];
/// Calls a second at least.
const CALLS_PER_SECOND: f64 = 15_000.0;
/// Milliseconds at most: the last 100 calls, a filtered page, statistics.
const LAST: f64 = 5.0;
const PAGE: f64 = 50.0;
const STATISTICS: f64 = 20.0;
/// Time over which the calls of the filled file are spread.
const DAY: Micros = 24 * 60 * 60 * 1_000_000;
/// Times that a query is repeated; the median counts.
const REPEATS: usize = 21;

pub(crate) fn run(size: Size) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measuring = runtime.spawn(async move {
        let folder = tempfile::tempdir()?;
        let mut table = Table::default();
        for width in WIDTHS {
            let per_second = write(&folder.path().join(format!("{width}.db")), width, size.written()).await?;
            let name = format!("calls a second, {width} callers at once");
            let text = format!("{name:<70} {per_second:>8.0} (at least {CALLS_PER_SECOND})");
            table.add(TableRow::new(text, CALLS_PER_SECOND <= per_second));
        }
        let path = folder.path().join("filled.db");
        fill(&path, size.filled()).await?;
        queries(&path, size.filled(), &mut table)?;
        io::Result::Ok(table.verdict())
    });
    runtime.block_on(measuring).map_err(io::Error::other)?
}

impl Size {
    /// Calls of one measurement of writing.
    fn written(self) -> usize {
        match self {
            Self::Full => 100_000,
            Self::Quick => 5_000,
        }
    }

    /// Calls in the file that is queried.
    fn filled(self) -> usize {
        match self {
            Self::Full => 1_000_000,
            Self::Quick => 20_000,
        }
    }
}

/// Writes calls and returns how many a second.
async fn write(path: &Path, width: usize, calls: usize) -> io::Result<f64> {
    let store = open(path)?;
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..width {
        let store = store.clone();
        callers.spawn(async move {
            for number in 0..calls / width {
                call(&store, row(caller + number, time::now())).await?;
            }
            Ok(())
        });
    }
    while let Some(done) = callers.join_next().await {
        let done: Result<(), StoreError> = done.map_err(io::Error::other)?;
        done.map_err(io::Error::other)?;
    }
    // Calls that were acknowledged count when they are in the database.
    store.catch_up();
    let per_second = (calls / width * width) as f64 / begun.elapsed().as_secs_f64();
    let verified = store.reader().and_then(|reader| reader.verify_audit()).map_err(io::Error::other)?;
    match verified {
        Verified::Intact { .. } => Ok(per_second),
        Verified::Broken { seq } => Err(io::Error::other(format!("audit entry {seq} is broken"))),
    }
}

/// One call, as a host writes it.
async fn call(store: &Store, ended: CallRow) -> Result<(), StoreError> {
    let begun =
        CallRow { state: CallState::Pending, outcome: None, duration: None, server: None, tool: None, ..ended.clone() };
    drop(store.write_call(begun, CallBody::default()));
    let arguments = Some(r#"{"path":"/home/ada/notes/2026/today.md","limit":20}"#.to_owned());
    let sent = CallRow { state: CallState::Running, outcome: None, duration: None, ..ended.clone() };
    store.write_call(sent, CallBody { arguments, result: None }).await?;
    let text = "hello Ada, this is a small result";
    let result = Some(format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}"#));
    store.end_call(ended, CallBody { arguments: None, result }).await
}

/// Fills a file with calls of the last day, oldest first.
async fn fill(path: &Path, calls: usize) -> io::Result<()> {
    let store = open(path)?;
    let first = time::now() - DAY;
    let step = DAY / i64::try_from(calls).map_err(io::Error::other)?;
    let mut waiting = Vec::new();
    for number in 0..calls {
        let at = first + step * i64::try_from(number).map_err(io::Error::other)?;
        let body = CallBody { arguments: Some(r#"{"path":"/home/ada"}"#.to_owned()), result: None };
        waiting.push(store.end_call(row(number, at), body));
        if waiting.len() == 1_000 {
            for written in waiting.drain(..) {
                written.await.map_err(io::Error::other)?;
            }
        }
    }
    for written in waiting {
        written.await.map_err(io::Error::other)?;
    }
    Ok(())
}

fn queries(path: &Path, calls: usize, table: &mut Table) -> io::Result<()> {
    let mut add = |name: &str, budget: f64, query: &dyn Fn(&Reader) -> Result<usize, StoreError>| -> io::Result<()> {
        let (took, found) = median(path, query)?;
        let name = format!("{name} of {calls} calls ({found} rows)");
        table.add(TableRow::at_most(&name, took, budget, "ms"));
        Ok(())
    };
    let any = || CallFilter { limit: 100, ..CallFilter::default() };
    let (server, tool) = (Some("server-3".to_owned()), Some("server-3__tool-1".to_owned()));
    let list = |filter: CallFilter| move |reader: &Reader| reader.calls(&filter).map(|calls| calls.len());
    add("last 100", LAST, &list(any()))?;
    let half_a_day_ago = Some(id_at(time::now() - DAY / 2));
    let by_server = CallFilter { server: server.clone(), before: half_a_day_ago, ..any() };
    add("page of one server in the middle", PAGE, &list(by_server))?;
    let unsuccessful = vec![CallState::Failed, CallState::Refused, CallState::ToolError];
    let by_state = CallFilter { states: unsuccessful, caller: Some("client:editor-2".to_owned()), ..any() };
    add("page of unsuccessful calls of one caller", PAGE, &list(by_state))?;
    let rare = CallFilter { tool, states: vec![CallState::Refused], ..any() };
    add("page of refused calls of one tool", PAGE, &list(rare))?;
    let none = CallFilter { caller: Some("client:unknown".to_owned()), ..any() };
    add("page of a caller without calls", PAGE, &list(none))?;
    let of_kind = CallFilter { caller: Some("client".to_owned()), ..any() };
    add("page of all callers of one kind", PAGE, &list(of_kind))?;
    let since = |ago: Micros| RollupFilter { since: time::now() - ago, ..RollupFilter::default() };
    let statistics = |filter: RollupFilter| move |reader: &Reader| reader.stats(&filter).map(|tools| tools.len());
    add("statistics by tool over the last hour", STATISTICS, &statistics(since(DAY / 24)))?;
    add("statistics by tool over the last day", STATISTICS, &statistics(since(DAY)))?;
    let of_server = RollupFilter { server, ..since(DAY) };
    add("statistics of one server over the last day", STATISTICS, &statistics(of_server))
}

/// Median of the milliseconds of a query, each on an open connection, and the rows of the last one.
fn median(path: &Path, query: &dyn Fn(&Reader) -> Result<usize, StoreError>) -> io::Result<(f64, usize)> {
    let reader = Reader::open(path).map_err(io::Error::other)?;
    let reader = reader.ok_or_else(|| io::Error::other("the file is missing"))?;
    let (mut times, mut found) = (Vec::new(), 0);
    for _ in 0..REPEATS {
        let begun = Instant::now();
        found = query(&reader).map_err(io::Error::other)?;
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok((quartiles(times)[1], found))
}

fn open(path: &Path) -> io::Result<Store> {
    let options = StoreOptions { path: Some(path.to_owned()), ..StoreOptions::default() };
    Ok(Store::open(&options).map_err(io::Error::other)?.0)
}

/// A call that ended: 5 servers with 4 tools each, 3 callers, one in 50 refused, failed or with an error of the tool.
fn row(number: usize, at: Micros) -> CallRow {
    // Mixed, so that the properties do not follow one another.
    let chance = number.wrapping_mul(2_654_435_761) >> 7;
    let state = match chance % 150 {
        0 => CallState::Refused,
        1 => CallState::Failed,
        2 => CallState::ToolError,
        _ => CallState::Succeeded,
    };
    let server = format!("server-{}", chance / 150 % 5);
    let tool = format!("{server}__tool-{}", chance / 750 % 4);
    CallRow {
        id: id_at(at),
        started_at: at,
        duration: Some(200 + (chance % 10_000) as i64),
        waited: 0,
        prepared: None,
        caller: format!("client:editor-{}", chance / 3_000 % 3),
        surface: "gateway".to_owned(),
        kind: "tool".to_owned(),
        name: tool.clone(),
        server: Some(server),
        tool: Some(tool),
        state,
        outcome: Some(Delivery::Answered),
        idempotent: false,
        from_cache: false,
        rule: Some("default of `gateway`: allow".to_owned()),
        approved_by: None,
        error: None,
        code: None,
        conversation: None,
        argument_bytes: 52,
        result_bytes: 80,
        server_requests: 0,
        task: None,
    }
}

/// A new id of a call begun at this time.
fn id_at(at: Micros) -> Uuid {
    let fresh = Uuid::now_v7();
    let mut bytes = fresh.into_bytes();
    let millis = u64::try_from(at / 1_000).unwrap_or_default().to_be_bytes();
    bytes[..6].copy_from_slice(&millis[2..]);
    Uuid::from_bytes(bytes)
}
