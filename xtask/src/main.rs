//! `cargo xtask`: the chores of this repository.
//!
//! `tidy`: the rules of the house that a machine can check (`tidy.rs`). `schema`: the configuration described in
//! `docs/reference` (`schema.rs`). Both also run as tests, so nobody has to remember them.

mod schema;
mod tidy;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next()) {
        (Some("tidy"), None) => tidy(),
        (Some("schema"), None) => schema::write(&tidy::root()).map(|()| ExitCode::SUCCESS),
        _ => {
            writeln!(io::stderr(), "usage: cargo xtask tidy|schema")?;
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
