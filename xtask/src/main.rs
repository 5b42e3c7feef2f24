//! `cargo xtask`: the chores of this repository.
//!
//! | command | what it does | file |
//! |---|---|---|
//! | `tidy` | checks the rules that a machine can check | `tidy.rs` |
//! | `schema` | writes the configuration reference | `schema.rs` |
//! | `messages` | writes the page of all messages | `messages.rs` |
//! | `commits REVISION` | lists commit subjects that are too long | `commits.rs` |
//!
//! The first three also run as tests.

mod commits;
mod messages;
mod schema;
mod tidy;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["tidy"] => tidy(),
        ["schema"] => schema::write(&tidy::root()).map(|()| ExitCode::SUCCESS),
        ["messages"] => messages::write(&tidy::root()).map(|()| ExitCode::SUCCESS),
        ["commits", revision] => commits(revision),
        _ => {
            writeln!(io::stderr(), "usage: cargo xtask tidy|schema|messages|commits REVISION")?;
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

fn commits(revision: &str) -> io::Result<ExitCode> {
    let subjects = commits::too_long(revision)?;
    let mut output = io::stdout().lock();
    for subject in &subjects {
        writeln!(output, "{subject}")?;
    }
    Ok(if subjects.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
