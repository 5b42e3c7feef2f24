//! Programs that install a server before they run it, such as `npx` and `uvx`.
//!
//! The first start of such a server takes as long as its download. Ending it halfway can leave a damaged package cache,
//! so that it has more time to connect (`wanted.rs`).

use std::{path::Path, time::Duration};

/// Default connect timeout of a server that may have to be installed first.
pub const INSTALL: Duration = Duration::from_secs(5 * 60);

/// The installer that a command runs; `None` if the command starts the server itself.
pub fn installer_of<'a>(command: &str, mut arguments: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    let name = Path::new(command).file_name()?.to_str()?;
    let name = [".exe", ".cmd", ".bat"].into_iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    let mut runs =
        |words: &[&str]| arguments.find(|word| !word.starts_with('-')).is_some_and(|word| words.contains(&word));
    match name {
        "npx" => Some("npx"),
        "uvx" => Some("uvx"),
        "bunx" => Some("bunx"),
        "pnpx" => Some("pnpx"),
        "npm" if runs(&["exec", "x"]) => Some("npm exec"),
        "pnpm" if runs(&["dlx"]) => Some("pnpm dlx"),
        "yarn" if runs(&["dlx"]) => Some("yarn dlx"),
        "bun" if runs(&["x"]) => Some("bun x"),
        "uv" if runs(&["run", "tool"]) => Some("uv"),
        "pipx" if runs(&["run"]) => Some("pipx run"),
        "docker" if runs(&["run"]) => Some("docker run"),
        "podman" if runs(&["run"]) => Some("podman run"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::installer_of;

    #[test]
    fn installers_are_recognised_by_their_command() {
        let found = |line: &str| {
            let mut words = line.split(' ');
            installer_of(words.next().unwrap(), words)
        };
        assert_eq!(found("npx -y @modelcontextprotocol/server-memory"), Some("npx"));
        assert_eq!(found("/usr/local/bin/npx.cmd x"), Some("npx"));
        assert_eq!(found("uvx mcp-server-git"), Some("uvx"));
        assert_eq!(found("docker run -i --rm mcp/git"), Some("docker run"));
        assert_eq!(found("uv tool run x"), Some("uv"));
        assert_eq!(found("npm run server"), None);
        assert_eq!(found("node npx"), None);
    }
}
