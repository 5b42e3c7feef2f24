//! On whose behalf a call is made.

use std::{fmt, sync::Arc};

/// Whoever asked. A name is what the surface that let it in knows; it is never taken from the request itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The person at the terminal, or their script.
    Terminal,
    /// The program that embeds the host.
    Program,
    /// A model that works for somebody, by the name of its run.
    Agent(Arc<str>),
    /// Somebody who came in through the gateway, by principal.
    Client(Arc<str>),
    /// The operator at the console.
    Console,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("terminal"),
            Self::Program => f.write_str("program"),
            Self::Agent(run) => write!(f, "agent {run}"),
            Self::Client(principal) => write!(f, "client {principal}"),
            Self::Console => f.write_str("console"),
        }
    }
}
