//! Rounds that alternate between the raw loop and ours, and the table they end in.

use std::{
    io,
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::{
    ours,
    peer::Way,
    raw::{self, Look},
};

/// How long the rounds are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Full,
    Quick,
}

/// What a line is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Budget {
    /// At least this part of the raw loop's throughput.
    Ratio(f64),
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    failed: usize,
    lines: usize,
}

#[derive(Debug)]
pub(crate) struct Line {
    text: String,
    kept: bool,
}

/// Alternates between the two; the median round of each counts.
#[expect(clippy::too_many_arguments, reason = "the arguments of one row, in the order of its columns")]
pub(crate) async fn compare(
    way: Way,
    name: &str,
    Budget::Ratio(budget): Budget,
    size: Size,
    raw: &mut raw::Client,
    ours: &ours::Client,
    what: &'static str,
    width: usize,
) -> io::Result<Line> {
    let rounds = if size == Size::Full { 15 } else { 5 };
    let count = trips(raw, what, width, size).await?;
    ours.round_trips(what, count.div_ceil(4), width).await?;
    raw.round_trips(Look::Once, what, count.div_ceil(4), width).await?;
    let (mut bare, mut theirs, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = Instant::now();
        raw.round_trips(Look::Never, what, count, width).await?;
        bare.push(begun.elapsed());
        let begun = Instant::now();
        raw.round_trips(Look::Once, what, count, width).await?;
        theirs.push(begun.elapsed());
        let begun = Instant::now();
        ours.round_trips(what, count, width).await?;
        own.push(begun.elapsed());
    }
    let (bare, theirs, own) = (median(bare), median(theirs), median(own));
    let ratio = theirs.as_secs_f64() / own.as_secs_f64();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / (count * width) as f64;
    let text = format!(
        "{:<12} {name:<27} bytes {:>8.1} µs   raw {:>8.1} µs   ours {:>8.1} µs   ratio {ratio:.2} (at least {budget})",
        format!("{way:?}"),
        each(bare),
        each(theirs),
        each(own)
    );
    Ok(Line { text, kept: budget <= ratio })
}

/// Round trips that take a tenth of a second, or a third of that.
async fn trips(raw: &mut raw::Client, what: &'static str, width: usize, size: Size) -> io::Result<usize> {
    raw.round_trips(Look::Never, what, 3, width).await?;
    let begun = Instant::now();
    raw.round_trips(Look::Never, what, 10, width).await?;
    let target = if size == Size::Full { 0.1 } else { 0.03 };
    let trips = target / (begun.elapsed().as_secs_f64() / 10.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    Ok((trips as usize).clamp(5, 10_000))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

impl Line {
    pub(crate) fn allocations(way: Way, count: usize) -> Self {
        let text = format!("{:<12} allocations of the size of a 1 MB result: {count} (at most 1)", format!("{way:?}"));
        Self { text, kept: count <= 1 }
    }
}

impl Table {
    pub(crate) fn add(&mut self, line: Line) {
        println!("{} {}", if line.kept { "ok  " } else { "OVER" }, line.text);
        self.lines += 1;
        self.failed += usize::from(!line.kept);
    }

    pub(crate) fn verdict(&self) -> ExitCode {
        println!("{} of {} within budget", self.lines - self.failed, self.lines);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
