//! The top of the command line.

use clap::{Parser, Subcommand};

use crate::commands::{demo::DemoArgs, sample::SampleArgs};

/// Connect people, models and programs to any number of MCP servers
#[derive(Debug, Parser)]
#[command(name = "toolway", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArgs),
    Sample(SampleArgs),
}
