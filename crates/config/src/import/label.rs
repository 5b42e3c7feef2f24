//! A label for an entry that has none, from its program or URL.

use url::Url;

/// Programs that download what they run.
const INSTALLERS: [&str; 8] = ["npx", "npm", "pnpm", "bunx", "uvx", "uv", "pipx", "docker"];

/// Words of an installer that are not the package.
const SUBCOMMANDS: [&str; 5] = ["run", "exec", "x", "tool", "dlx"];

/// A label for an entry: from its URL, from the package that an installer runs, or from its program.
pub fn label_for(url: Option<&str>, command: Option<&str>, arguments: &[&str]) -> String {
    if let Some(url) = url.and_then(|url| Url::parse(url).ok()) {
        return of_url(&url);
    }
    let program = command.unwrap_or_default();
    let is_package = |word: &&&str| !word.starts_with('-') && !SUBCOMMANDS.contains(*word) && !word.contains('=');
    let package = arguments.iter().find(is_package).filter(|_| INSTALLERS.contains(&program));
    let whole = package.copied().unwrap_or(program);
    let last = whole.trim_end_matches('/').rsplit('/').next().unwrap_or(whole);
    let plain = last.split('@').find(|part| !part.is_empty()).unwrap_or(last);
    let plain = plain.trim_start_matches("server-").trim_start_matches("mcp-server-").trim_start_matches("mcp-");
    let plain = plain.trim_end_matches("-mcp").trim_end_matches("-server");
    if plain.is_empty() { "server".to_owned() } else { plain.to_owned() }
}

/// Whether a program downloads what it runs.
pub fn is_installer(program: &str) -> bool {
    INSTALLERS.contains(&program)
}

/// The part of a host name that names its owner: `example` of `mcp.example.com`.
fn of_url(url: &Url) -> String {
    let host = url.host_str().unwrap_or("server");
    if host.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[') || host == "localhost" {
        return "local".to_owned();
    }
    let parts: Vec<&str> = host.split('.').collect();
    parts.len().checked_sub(2).and_then(|at| parts.get(at)).unwrap_or(&host).to_string()
}
