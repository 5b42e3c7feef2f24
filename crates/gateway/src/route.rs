//! Which path leads where. There are no others.

use toolway_config::ServerName;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/health`: whether anybody is there; open to all.
    Health,
    /// `/ready`: whether everything that is required is.
    Ready,
    /// `/servers`: the state of each server.
    Servers,
    /// `/mcp`: everything, under public names.
    Mcp,
    /// `/servers/<id>/mcp`: one server, under its own names.
    Server(ServerName),
}

impl Route {
    /// Where this path leads, if anywhere.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "/health" => Some(Self::Health),
            "/ready" => Some(Self::Ready),
            "/servers" => Some(Self::Servers),
            "/mcp" => Some(Self::Mcp),
            _ => {
                let server = path.strip_prefix("/servers/")?.strip_suffix("/mcp")?;
                server.parse().ok().map(Self::Server)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Route;

    #[test]
    fn a_path_leads_to_one_place_or_nowhere() {
        assert_eq!(Route::of("/mcp"), Some(Route::Mcp));
        assert_eq!(Route::of("/servers/files/mcp"), Some(Route::Server("files".parse().unwrap())));
        for nowhere in ["", "/", "/mcp/", "/MCP", "/servers/", "/servers//mcp", "/servers/a/b/mcp", "/servers/../mcp"] {
            assert_eq!(Route::of(nowhere), None, "{nowhere}");
        }
    }
}
