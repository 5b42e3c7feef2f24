//! Options that `calls`, `audit` and `history` share.

use toolway_host::time::{self, Micros};

/// Records in one list.
pub(crate) const DEFAULT_LIMIT: usize = 100;

/// Which records are listed.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT)]
    pub(crate) limit: usize,

    /// Only those of this caller: `KIND` or `KIND:NAME`
    #[arg(long, value_parser = parse_caller)]
    pub(crate) caller: Option<String>,

    /// Only those since then: a time (RFC 3339) or a duration such as `2h`
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub(crate) since: Option<Micros>,
}

impl Default for RecordArgs {
    fn default() -> Self {
        Self { limit: DEFAULT_LIMIT, caller: None, since: None }
    }
}

impl RecordArgs {
    /// Whether an option leaves records out.
    pub(crate) fn is_filter(&self) -> bool {
        self.limit == 0 || self.caller.is_some() || self.since.is_some()
    }
}

/// A caller as records name it.
fn parse_caller(text: &str) -> Result<String, String> {
    match text.split(':').next() {
        Some("terminal" | "agent" | "client" | "console" | "program") => Ok(text.to_owned()),
        _ => Err("must be `terminal`, `agent`, `client`, `client:NAME`, `console` or `program`".to_owned()),
    }
}

/// A time in RFC 3339, or a duration before now.
pub(crate) fn parse_since(text: &str) -> Result<Micros, String> {
    let ago = || toolway_config::parse_duration(text).map(|ago| time::now() - time::duration(ago));
    let expected = "must be a time such as `2026-11-16T10:00:00Z`, or a duration such as `2h`";
    time::parse_rfc3339(text).or_else(ago).ok_or_else(|| expected.to_owned())
}
