//! Where an entry comes from: which file and line, whose format, and who stands behind it.

use std::{fmt, path::PathBuf};

use crate::error::Place;

/// Whose way of writing a server down an entry follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Ours.
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
}

/// Who stands behind an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Behind {
    /// The user: their own file, or a file they named.
    User,
    /// Whoever wrote the project; nothing of it runs or is dialled before it is accepted.
    Project,
    /// The program that embeds us.
    Program,
}

/// Where an entry comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// File and line.
    pub place: Place,
    /// Whose way of writing.
    pub format: Format,
    /// Who stands behind it.
    pub behind: Behind,
    /// Where its programs run when the entry does not say; `${workspaceFolder}` where the format has it.
    pub folder: Option<PathBuf>,
    /// What a relative path in the entry is relative to.
    pub base: PathBuf,
}

// === impl Source ===

impl Source {
    /// An entry that no file holds.
    pub fn program() -> Self {
        Self {
            place: Place { file: PathBuf::from("the program"), line: 0 },
            format: Format::Toolway,
            behind: Behind::Program,
            folder: None,
            base: PathBuf::new(),
        }
    }

    /// A key of an entry with the keys above it, as far as the format has one place for them.
    pub(crate) fn key(&self, label: &str, key: &str) -> String {
        match self.format {
            Format::Toolway => format!("mcpServers.{label}.{key}"),
            _ => format!("{label}.{key}"),
        }
    }
}

// === impl Format ===

impl Format {
    /// The sixteen formats of others.
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

    /// The word people use on the command line and in `imports`.
    pub fn word(self) -> &'static str {
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
        }
    }

    /// The format a word means.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::OTHERS.into_iter().find(|format| format.word() == word)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
