//! The documented numbers a command ends with.

use std::process;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// It did what was asked.
    Ok = 0,
    /// A fault of ours.
    Internal = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// A server cannot be started or reached, ended, or took too long.
    Unreachable = 4,
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}
