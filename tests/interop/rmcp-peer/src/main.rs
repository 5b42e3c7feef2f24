//! An MCP server written on the official Rust SDK, for the interop tests.
//!
//! `rmcp-peer stdio` serves stdin and stdout until stdin ends; `rmcp-peer http` binds a free loopback port and prints
//! it in its first line of output. `--era` restricts the protocol era. Tools, resources and prompts are the same over
//! both transports ([`server`]).

mod args;
mod audience;
mod http;
mod prompts;
mod resources;
mod server;
mod stdio;
mod tools;

use std::io::{self, Write};
use std::process::ExitCode;

use tokio::runtime::Runtime;

use crate::args::{Args, Transport};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be reported if stderr is closed.
            writeln!(io::stderr(), "rmcp-peer: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse(std::env::args().skip(1))?;
    let runtime = Runtime::new()?;
    let outcome = match args.transport {
        Transport::Stdio => runtime.block_on(stdio::serve(args.era)),
        Transport::Http => runtime.block_on(http::serve(args.era)).map_err(Into::into),
    };
    // A read that blocks on standard input must not keep the process alive.
    runtime.shutdown_background();
    outcome
}
