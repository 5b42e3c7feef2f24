//! Which path leads where, and who may go there. There are no others.

use toolway_config::ServerName;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/health`: whether anybody is there; open to all.
    Health,
    /// `/ready`: whether everything that is required is.
    Ready,
    /// `/servers`: the state of each server.
    Servers,
    /// `/metrics`: figures.
    Metrics,
    /// `/mcp`: everything, under public names.
    Mcp,
    /// `/servers/<id>/mcp`: one server, under its own names.
    Server(ServerName),
    /// `/sse`: the stream of the oldest clients, where they may come in.
    Sse,
    /// `/messages`: what they say.
    Messages,
}

/// Who may go somewhere. Whatever it is, a foreign `Host` or `Origin` has been turned away before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Everybody.
    Nobody,
    /// Whoever brings a key.
    Key,
}

// === impl Route ===

impl Route {
    /// The routes as they are written down, in their order.
    pub const WORDS: [&str; 8] =
        ["/health", "/ready", "/servers", "/metrics", "/mcp", "/servers/<id>/mcp", "/sse", Self::MESSAGES];
    /// Where the oldest clients post what they say.
    pub(crate) const MESSAGES: &str = "/messages";

    /// Where this path leads, if anywhere.
    pub fn of(path: &str) -> Option<Self> {
        match path {
            "/health" => Some(Self::Health),
            "/ready" => Some(Self::Ready),
            "/servers" => Some(Self::Servers),
            "/metrics" => Some(Self::Metrics),
            "/mcp" => Some(Self::Mcp),
            "/sse" => Some(Self::Sse),
            Self::MESSAGES => Some(Self::Messages),
            _ => {
                let server = path.strip_prefix("/servers/")?.strip_suffix("/mcp")?;
                server.parse().ok().map(Self::Server)
            }
        }
    }

    /// Who may go there.
    pub fn guard(&self) -> Guard {
        match self {
            Self::Health => Guard::Nobody,
            Self::Ready | Self::Servers | Self::Metrics | Self::Mcp | Self::Server(_) | Self::Sse | Self::Messages => {
                Guard::Key
            }
        }
    }

    /// The methods that mean something there.
    pub fn methods(&self) -> &'static str {
        match self {
            Self::Health | Self::Ready | Self::Servers | Self::Metrics => "GET, HEAD",
            Self::Mcp | Self::Server(_) => "POST, GET, DELETE",
            Self::Sse => "GET",
            Self::Messages => "POST",
        }
    }

    /// Every route there is; the one that has a server in it with this one.
    pub fn every(server: &ServerName) -> Vec<Self> {
        std::iter::successors(Some(Self::Health), |route| route.next(server)).collect()
    }

    /// Its path.
    pub fn path(&self) -> String {
        match self {
            Self::Server(server) => format!("/servers/{server}/mcp"),
            fixed => Self::WORDS[fixed.number()].to_owned(),
        }
    }

    /// Its place among [`Route::WORDS`].
    pub(crate) fn number(&self) -> usize {
        match self {
            Self::Health => 0,
            Self::Ready => 1,
            Self::Servers => 2,
            Self::Metrics => 3,
            Self::Mcp => 4,
            Self::Server(_) => 5,
            Self::Sse => 6,
            Self::Messages => 7,
        }
    }

    /// The one after it. A new route cannot be left out of this chain without leaving out another.
    fn next(&self, server: &ServerName) -> Option<Self> {
        match self {
            Self::Health => Some(Self::Ready),
            Self::Ready => Some(Self::Servers),
            Self::Servers => Some(Self::Metrics),
            Self::Metrics => Some(Self::Mcp),
            Self::Mcp => Some(Self::Server(server.clone())),
            Self::Server(_) => Some(Self::Sse),
            Self::Sse => Some(Self::Messages),
            Self::Messages => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Guard, Route};

    #[test]
    fn a_path_leads_to_one_place_or_nowhere() {
        assert_eq!(Route::of("/mcp"), Some(Route::Mcp));
        assert_eq!(Route::of("/servers/files/mcp"), Some(Route::Server("files".parse().unwrap())));
        for nowhere in ["", "/", "/mcp/", "/MCP", "/servers/", "/servers//mcp", "/servers/a/b/mcp", "/servers/../mcp"] {
            assert_eq!(Route::of(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn every_route_is_written_down_and_only_one_is_open() {
        let every = Route::every(&"files".parse().unwrap());
        assert_eq!(every.iter().map(Route::number).collect::<Vec<_>>(), (0..Route::WORDS.len()).collect::<Vec<_>>());
        for route in &every {
            assert_eq!(Route::of(&route.path()).as_ref(), Some(route));
        }
        let open: Vec<_> = every.iter().filter(|route| route.guard() == Guard::Nobody).collect();
        assert_eq!(open, [&Route::Health]);
    }
}
