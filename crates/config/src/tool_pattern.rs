//! Tools of servers by pattern, as clients of the gateway, assistants and limits name them.

use std::{fmt, str::FromStr};

use crate::pattern::Pattern;

/// Tools of servers, written `SERVER.TOOL`; both parts may contain `*`. The tool is matched by its name at the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPattern {
    server: Pattern,
    tool: Pattern,
}

/// The text is not `SERVER.TOOL`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` must be SERVER.TOOL; both parts may contain `*`, e.g. `files.read_*`")]
pub struct InvalidToolPattern(String);

impl ToolPattern {
    /// Tools of any server, by their name there.
    pub fn of_tool(tool: impl Into<String>) -> Self {
        Self { server: "*".into(), tool: Pattern::new(tool) }
    }

    /// Whether it covers a tool.
    pub fn matches(&self, server: &str, tool: &str) -> bool {
        self.server.matches(server) && self.tool.matches(tool)
    }

    /// The server, unless it is a pattern.
    pub fn server(&self) -> Option<&str> {
        Some(self.server.as_str()).filter(|server| !server.contains('*'))
    }
}

impl FromStr for ToolPattern {
    type Err = InvalidToolPattern;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Names of tools may contain dots, names of servers do not.
        let parts = text.split_once('.').filter(|(server, tool)| !server.is_empty() && !tool.is_empty());
        let (server, tool) = parts.ok_or_else(|| InvalidToolPattern(text.to_owned()))?;
        Ok(Self { server: server.into(), tool: tool.into() })
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.server.as_str(), self.tool.as_str())
    }
}
