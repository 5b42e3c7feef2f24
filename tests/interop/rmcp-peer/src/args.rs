//! The command line: which transport, and which era of the protocol.

use std::borrow::Cow;
use std::fmt;

use rmcp::model::ProtocolVersion;

/// Parsed command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) transport: Transport,
    pub(crate) era: Era,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// The handshake revisions only, up to 2025-11-25.
    Legacy,
    /// 2026-07-28 only; `initialize` is refused.
    Modern,
    /// The era of the first message of the client.
    Both,
}

/// The command line is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage;

// === impl Args ===

impl Args {
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, Usage> {
        let mut words = words.into_iter();
        let mut transport = None;
        let mut era = Era::Both;
        while let Some(word) = words.next() {
            match word.as_str() {
                "stdio" if transport.is_none() => transport = Some(Transport::Stdio),
                "http" if transport.is_none() => transport = Some(Transport::Http),
                "--era" => era = Era::parse(&words.next().ok_or(Usage)?)?,
                _ => return Err(Usage),
            }
        }
        Ok(Self { transport: transport.ok_or(Usage)?, era })
    }
}

// === impl Era ===

impl Era {
    fn parse(word: &str) -> Result<Self, Usage> {
        match word {
            "legacy" => Ok(Self::Legacy),
            "modern" => Ok(Self::Modern),
            "both" => Ok(Self::Both),
            _ => Err(Usage),
        }
    }

    pub(crate) fn versions(self) -> Cow<'static, [ProtocolVersion]> {
        match self {
            Self::Legacy => Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25)),
            Self::Modern => Cow::Owned(vec![ProtocolVersion::V_2026_07_28]),
            Self::Both => Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS),
        }
    }
}

// === impl Usage ===

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("usage: rmcp-peer (stdio | http) [--era legacy|modern|both]")
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, Usage> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_era_may_stand_on_either_side() {
        let wanted = Args { transport: Transport::Http, era: Era::Legacy };
        assert_eq!(parse("http --era legacy"), Ok(wanted));
        assert_eq!(parse("--era legacy http"), Ok(wanted));
        assert_eq!(parse("stdio"), Ok(Args { transport: Transport::Stdio, era: Era::Both }));
    }

    #[test]
    fn anything_else_is_refused() {
        for line in ["", "tcp", "stdio http", "stdio --era", "stdio --era new"] {
            assert_eq!(parse(line), Err(Usage), "{line}");
        }
    }
}
