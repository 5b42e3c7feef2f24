//! Alternating rounds of the raw loop and the wire client, and the result table.

use std::{io, process::ExitCode, time::Instant};

use crate::{
    peer::Way,
    raw_client::{self, JsonCheck},
    wire_client,
};

/// Duration of one loop in one round, in seconds.
pub(crate) const ROUND: f64 = 0.025;

/// Number of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Full,
    Quick,
}

/// Budget of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Budget {
    /// Minimum fraction of the throughput of the raw loop.
    Ratio(f64),
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    failed: usize,
    rows: usize,
}

#[derive(Debug)]
pub(crate) struct TableRow {
    text: String,
    kept: bool,
}

/// Alternates between the loops in many short rounds. A temporary slowdown of the machine affects both loops of a round,
/// so each round gives a ratio, and their median counts.
#[expect(clippy::too_many_arguments, reason = "the arguments of one row, in the order of its columns")]
pub(crate) async fn compare(
    way: Way,
    name: &str,
    Budget::Ratio(budget): Budget,
    size: Size,
    raw: &mut raw_client::RawClient,
    ours: &wire_client::WireClient,
    what: &'static str,
    width: usize,
) -> io::Result<TableRow> {
    let count = trips(raw, what, width).await?;
    ours.round_trips(what, count, width).await?;
    raw.round_trips(JsonCheck::Validate, what, count, width).await?;
    let (mut bare, mut theirs, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..size.rounds() {
        // The second loop finds warmer cores, so the order alternates.
        let ours_first = round % 2 == 1;
        if ours_first {
            own.push(timed(ours.round_trips(what, count, width)).await?);
        }
        theirs.push(timed(raw.round_trips(JsonCheck::Validate, what, count, width)).await?);
        if !ours_first {
            own.push(timed(ours.round_trips(what, count, width)).await?);
        }
        if round % 4 == 0 {
            bare.push(timed(raw.round_trips(JsonCheck::Skip, what, count, width)).await?);
        }
    }
    let ratios = theirs.iter().zip(&own).map(|(theirs, own)| theirs / own).collect();
    let [low, ratio, high] = quartiles(ratios);
    let each = |times| quartiles(times)[1] * 1e6 / (count * width) as f64;
    let text = format!(
        "{:<12} {name:<27} bytes {:>8.1} µs   raw {:>8.1} µs   ours {:>8.1} µs   ratio {ratio:.2} [{low:.2} {high:.2}] (at least {budget})",
        format!("{way:?}"),
        each(bare),
        each(theirs),
        each(own)
    );
    Ok(TableRow { text, kept: budget <= ratio })
}

/// Duration of a loop, in seconds.
pub(crate) async fn timed(work: impl Future<Output = io::Result<()>>) -> io::Result<f64> {
    let begun = Instant::now();
    work.await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Number of round trips that take about [`ROUND`].
async fn trips(raw: &mut raw_client::RawClient, what: &'static str, width: usize) -> io::Result<usize> {
    const LOOK: usize = 20;
    raw.round_trips(JsonCheck::Validate, what, LOOK, width).await?;
    let each = timed(raw.round_trips(JsonCheck::Validate, what, LOOK, width)).await? / LOOK as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    Ok(((ROUND / each) as usize).clamp(2, 10_000))
}

/// The quartiles and, between them, the median.
pub(crate) fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values.get(values.len() * quarter / 4).copied().unwrap_or(f64::NAN))
}

impl Size {
    pub(crate) fn rounds(self) -> usize {
        match self {
            Self::Full => 80,
            Self::Quick => 16,
        }
    }
}

impl TableRow {
    pub(crate) fn new(text: String, kept: bool) -> Self {
        Self { text, kept }
    }

    /// A value with an upper limit.
    pub(crate) fn at_most(name: &str, value: f64, budget: f64, unit: &str) -> Self {
        Self { text: format!("{name:<70} {value:>8.1} {unit} (at most {budget})"), kept: value <= budget }
    }

    /// A value without a budget.
    pub(crate) fn without_budget(name: &str, value: f64, unit: &str) -> Self {
        Self { text: format!("{name:<70} {value:>8.1} {unit}"), kept: true }
    }

    pub(crate) fn allocations(way: Way, count: usize) -> Self {
        let text = format!("{:<12} allocations of the size of a 1 MB result: {count} (at most 1)", format!("{way:?}"));
        Self { text, kept: count <= 1 }
    }
}

impl Table {
    pub(crate) fn add(&mut self, line: TableRow) {
        println!("{} {}", if line.kept { "ok  " } else { "OVER" }, line.text);
        self.rows += 1;
        self.failed += usize::from(!line.kept);
    }

    pub(crate) fn verdict(&self) -> ExitCode {
        println!("{} of {} within budget", self.rows - self.failed, self.rows);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
