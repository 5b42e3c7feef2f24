//! `cargo xtask`: the chores of this repository.
//!
//! One so far: `tidy`, the rules of the house that a machine can check (`tidy.rs`). It also runs as a test, so nobody
//! has to remember it.

mod tidy;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next()) {
        (Some("tidy"), None) => tidy(),
        _ => {
            writeln!(io::stderr(), "usage: cargo xtask tidy")?;
            Ok(ExitCode::from(2))
        }
    }
}

fn tidy() -> io::Result<ExitCode> {
    let findings = tidy::check(&tidy::root())?;
    let mut output = io::stdout().lock();
    for finding in &findings {
        writeln!(output, "{finding}")?;
    }
    let broken = tidy::broken(&findings).count();
    writeln!(output, "tidy: {broken} broken, {} worth a look", findings.len() - broken)?;
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
