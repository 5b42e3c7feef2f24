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
    /// The server wants credentials, or better ones.
    Authorization = 3,
    /// A server cannot be started or reached, ended, or took too long.
    Unreachable = 4,
    /// The tool says that it failed.
    ToolError = 5,
    /// The server asks something that nobody answers.
    InputRequired = 6,
    /// It is refused: the server's entry leaves it out, nobody has accepted the server, or a policy says no.
    Denied = 7,
    /// A JSON-RPC error, or a server that breaks the protocol.
    Protocol = 8,
    /// The person at the keyboard stopped it.
    Interrupted = 130,
}

impl ExitCode {
    /// All of them, for the reference.
    pub(crate) const ALL: [Self; 10] = [
        Self::Ok,
        Self::Internal,
        Self::Usage,
        Self::Authorization,
        Self::Unreachable,
        Self::ToolError,
        Self::InputRequired,
        Self::Denied,
        Self::Protocol,
        Self::Interrupted,
    ];

    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// What it means and what to do, for the reference and the man page.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "It did what was asked.",
            Self::Internal => {
                "A fault of Toolway itself, a result that could not be written, or a vault of credentials that cannot be used."
            }
            Self::Usage => {
                "The command line or the configuration is wrong: unknown server, tool or argument, a missing or \
                 malformed argument, a broken file, an error that `tools lint` found. Nothing was sent to a tool."
            }
            Self::Authorization => "The server wants credentials, or better ones.",
            Self::Unreachable => {
                "A server cannot be started or reached, ended, or took too long; `doctor` found one that is not well."
            }
            Self::ToolError => "The tool ran and says that it failed (`isError`); its result is on standard output.",
            Self::InputRequired => "The server asks for something before it answers, and nobody is there to answer.",
            Self::Denied => {
                "The call is refused and was not sent: the server's entry leaves the tool, prompt or resource out, the \
                 server comes from a project's file and nobody has accepted it, or a policy says no. The message names \
                 the file and the line."
            }
            Self::Protocol => "A JSON-RPC error, or a server that breaks the protocol.",
            Self::Interrupted => "Stopped from the keyboard; the call was cancelled at the server.",
        }
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}
