//! Origin of a server entry: file, line, format and who defined it.

use std::{fmt, path::PathBuf};

use crate::error::Place;

/// Format of an entry: Toolway's own or that of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Toolway's own format.
    Toolway,
    /// `.mcp.json`, `~/.claude.json`.
    ClaudeCode,
    /// `claude_desktop_config.json`.
    ClaudeDesktop,
    /// `.cursor/mcp.json`.
    Cursor,
    /// `.vscode/mcp.json`.
    VsCode,
    /// `mcp-config.json`.
    CopilotCli,
    /// `config.toml`.
    Codex,
    /// `.gemini/settings.json`.
    GeminiCli,
    /// `opencode.json` with `mcp.<name>`.
    Opencode,
    /// `opencode.json` with `mcp.servers.<name>`.
    OpencodeTwo,
    /// `.zed/settings.json`.
    Zed,
    /// `mcp_config.json`.
    Windsurf,
    /// `config.yaml` with `extensions`.
    Goose,
    /// `.kiro/settings/mcp.json`.
    Kiro,
    /// `cline_mcp_settings.json`, `.roo/mcp.json`, `.kilocode/mcp.json`.
    Cline,
    /// `~/.mcp-inspector/mcp.json`.
    Inspector,
    /// `mcporter.json`.
    Mcporter,
    /// A file with `mcp.servers` as a list, usually YAML; it has no fixed location.
    McpSection,
    /// A file with `servers` and `globalSettings`; it has no fixed location.
    ServerMap,
    /// A file with a list of servers; it has no fixed location.
    ServerList,
    /// Entries without a container, or in one that no application has; it has no fixed location.
    Snippet,
}

/// Who defined an entry; decides whether it needs acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DefinedBy {
    /// The user, in the user file or a file given on the command line.
    User,
    /// The author of the project; the server is not started or connected before the user accepts it.
    Project,
    /// The embedding program.
    Program,
}

/// Origin of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// File and line.
    pub place: Place,
    /// Format of the entry.
    pub format: Format,
    /// Who defined it.
    pub defined_by: DefinedBy,
    /// Default working directory of programs, and value of `${workspaceFolder}`.
    pub folder: Option<PathBuf>,
    /// Base of relative paths in the entry.
    pub base: PathBuf,
}

// === impl Source ===

impl Source {
    /// The origin of an entry that an embedding program added.
    pub fn program() -> Self {
        Self {
            place: Place { file: PathBuf::from("the program"), line: 0 },
            format: Format::Toolway,
            defined_by: DefinedBy::Program,
            folder: None,
            base: PathBuf::new(),
        }
    }

    /// Full path of a key of an entry; for other hosts only from the label on.
    pub(crate) fn key(&self, label: &str, key: &str) -> String {
        match self.format {
            Format::Toolway => format!("mcpServers.{label}.{key}"),
            _ => format!("{label}.{key}"),
        }
    }
}

// === impl Format ===

impl Format {
    /// The sixteen formats of other hosts whose files have fixed locations.
    pub const OTHERS: [Self; 16] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::CopilotCli,
        Self::Codex,
        Self::GeminiCli,
        Self::Opencode,
        Self::OpencodeTwo,
        Self::Zed,
        Self::Windsurf,
        Self::Goose,
        Self::Kiro,
        Self::Cline,
        Self::Inspector,
        Self::Mcporter,
    ];

    /// Name on the command line and in `imports`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Toolway => "toolway",
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::CopilotCli => "copilot",
            Self::Codex => "codex",
            Self::GeminiCli => "gemini",
            Self::Opencode => "opencode",
            Self::OpencodeTwo => "opencode-v2",
            Self::Zed => "zed",
            Self::Windsurf => "windsurf",
            Self::Goose => "goose",
            Self::Kiro => "kiro",
            Self::Cline => "cline",
            Self::Inspector => "inspector",
            Self::Mcporter => "mcporter",
            Self::McpSection => "mcp-section",
            Self::ServerMap => "server-map",
            Self::ServerList => "server-list",
            Self::Snippet => "snippet",
        }
    }

    /// The format of a host name; `None` for unknown names and `toolway`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::OTHERS.into_iter().find(|format| format.as_str() == name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
