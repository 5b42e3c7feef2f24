//! The documented exit codes.

use std::process;

/// Exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitCode {
    /// The command succeeded.
    Ok = 0,
    /// Internal error of Toolway.
    Internal = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// The server requires credentials, or rejects the ones sent.
    Authorization = 3,
    /// A server cannot be started or reached, ended, or timed out.
    Unreachable = 4,
    /// The tool returned an error result.
    ToolError = 5,
    /// The server requests user input, and none is available.
    InputRequired = 6,
    /// The call is refused: excluded by the server's entry, server not accepted, or denied by policy.
    Denied = 7,
    /// A JSON-RPC error, or a server that violates the protocol.
    Protocol = 8,
    /// Interrupted with Ctrl-C.
    Interrupted = 130,
}

impl ExitCode {
    /// All codes, for the reference page.
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

    /// The meaning, for the reference page.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "Success.",
            Self::Internal => {
                "Internal error of Toolway, a result that cannot be written, a credential vault that cannot be used, or a \
                difference found by `history replay`."
            }
            Self::Usage => {
                "The command line or the configuration is invalid: unknown server, tool or argument, missing or \
                malformed argument, invalid file, or an error found by `tools lint`. No tool was called."
            }
            Self::Authorization => "The server requires credentials, or rejects the ones sent.",
            Self::Unreachable => {
                "A server cannot be started or reached, ended, or timed out; `doctor` found an unhealthy server."
            }
            Self::ToolError => "The tool returned an error result (`isError`); the result is on standard output.",
            Self::InputRequired => {
                "The server requests user input (elicitation, sampling or roots), and none is available."
            }
            Self::Denied => {
                "The call was refused and not sent: the server's entry excludes the tool, prompt or resource, the \
                server comes from a project file and is not accepted, a policy denies it, or a limit has no \
                room for it or for its result. The message names the file and the line, or the limit. Or a process of a server ran a command that only the user may run."
            }
            Self::Protocol => "A JSON-RPC error, or a server that violates the protocol.",
            Self::Interrupted => "Interrupted with Ctrl-C; the call was cancelled at the server.",
        }
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}
