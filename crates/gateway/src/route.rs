//! The closed list of HTTP paths, and the guard of each.

use toolway_config::ServerName;

use crate::access::KeyScope;

/// A known path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/health`: liveness; needs no key.
    Health,
    /// `/ready`: whether all required servers are ready.
    Ready,
    /// `/servers`: the state of each server.
    Servers,
    /// `/metrics`: Prometheus metrics.
    Metrics,
    /// `/mcp`: all servers, under public names.
    Mcp,
    /// `/servers/<id>/mcp`: one server, under its own names.
    Server(ServerName),
    /// `/sse`: event stream of HTTP+SSE clients, if enabled.
    Sse,
    /// `/messages`: messages of HTTP+SSE clients.
    Messages,
    /// `/requests`: forms and URLs of servers in the client's own calls.
    Requests,
    /// `/requests/<id>`: one of them.
    Request(String),
    /// `/roots`: the roots that the client supplied.
    Roots,
}

/// Authentication that a route requires. A foreign `Host` or `Origin` is refused before, on every route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// No key.
    Open,
    /// A valid key.
    Key,
}

// === impl Route ===

impl Route {
    /// Path patterns of all routes, in order of [`Route::index`].
    pub const PATHS: [&str; 11] = [
        "/health",
        "/ready",
        "/servers",
        "/metrics",
        "/mcp",
        "/servers/<id>/mcp",
        "/sse",
        Self::MESSAGES,
        "/requests",
        "/requests/<id>",
        "/roots",
    ];
    /// Path to which HTTP+SSE clients post messages.
    pub(crate) const MESSAGES: &str = "/messages";

    /// The route of a path; `None` if it is unknown.
    pub fn of(path: &str) -> Option<Self> {
        match path {
            "/health" => Some(Self::Health),
            "/ready" => Some(Self::Ready),
            "/servers" => Some(Self::Servers),
            "/metrics" => Some(Self::Metrics),
            "/mcp" => Some(Self::Mcp),
            "/sse" => Some(Self::Sse),
            Self::MESSAGES => Some(Self::Messages),
            "/requests" => Some(Self::Requests),
            "/roots" => Some(Self::Roots),
            _ if path.starts_with("/requests/") => {
                let id = path.strip_prefix("/requests/").filter(|id| is_item_id(id))?;
                Some(Self::Request(id.to_owned()))
            }
            _ => {
                let server = path.strip_prefix("/servers/")?.strip_suffix("/mcp")?;
                server.parse().ok().map(Self::Server)
            }
        }
    }

    /// Required authentication.
    pub fn guard(&self) -> Guard {
        match self {
            Self::Health => Guard::Open,
            Self::Ready
            | Self::Servers
            | Self::Metrics
            | Self::Mcp
            | Self::Server(_)
            | Self::Sse
            | Self::Messages
            | Self::Requests
            | Self::Request(_)
            | Self::Roots => Guard::Key,
        }
    }

    /// Whether a key of this scope opens the route.
    pub(crate) fn is_open_to(&self, scope: KeyScope) -> bool {
        match scope {
            KeyScope::All => true,
            KeyScope::Metrics => matches!(self, Self::Health | Self::Ready | Self::Metrics),
        }
    }

    /// Allowed HTTP methods.
    pub fn methods(&self) -> &'static str {
        match self {
            Self::Health | Self::Ready | Self::Servers | Self::Metrics => "GET, HEAD",
            Self::Mcp | Self::Server(_) => "POST, GET, DELETE",
            Self::Sse => "GET",
            Self::Messages | Self::Request(_) => "POST",
            Self::Requests => "GET",
            Self::Roots => "GET, PUT",
        }
    }

    /// All routes, with `server` in the route of a single server.
    pub fn every(server: &ServerName) -> Vec<Self> {
        std::iter::successors(Some(Self::Health), |route| route.next(server)).collect()
    }

    /// Path of the route.
    pub fn path(&self) -> String {
        match self {
            Self::Server(server) => format!("/servers/{server}/mcp"),
            Self::Request(id) => format!("/requests/{id}"),
            fixed => Self::PATHS[fixed.index()].to_owned(),
        }
    }

    /// Index in [`Route::PATHS`].
    pub(crate) fn index(&self) -> usize {
        match self {
            Self::Health => 0,
            Self::Ready => 1,
            Self::Servers => 2,
            Self::Metrics => 3,
            Self::Mcp => 4,
            Self::Server(_) => 5,
            Self::Sse => 6,
            Self::Messages => 7,
            Self::Requests => 8,
            Self::Request(_) => 9,
            Self::Roots => 10,
        }
    }

    /// The next route. The match is exhaustive, so a new route must be added to the chain.
    fn next(&self, server: &ServerName) -> Option<Self> {
        match self {
            Self::Health => Some(Self::Ready),
            Self::Ready => Some(Self::Servers),
            Self::Servers => Some(Self::Metrics),
            Self::Metrics => Some(Self::Mcp),
            Self::Mcp => Some(Self::Server(server.clone())),
            Self::Server(_) => Some(Self::Sse),
            Self::Sse => Some(Self::Messages),
            Self::Messages => Some(Self::Requests),
            Self::Requests => Some(Self::Request("0".to_owned())),
            Self::Request(_) => Some(Self::Roots),
            Self::Roots => None,
        }
    }
}

/// Whether a path segment can be the id of an inbox item.
fn is_item_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Whether clients request this path to sign in with OAuth. The gateway has no such routes.
pub(crate) fn is_oauth(path: &str) -> bool {
    matches!(path, "/register" | "/authorize" | "/token")
        || path.starts_with("/.well-known/oauth-")
        || path.contains("/.well-known/openid-configuration")
}

#[cfg(test)]
mod tests {
    use super::{Guard, Route};

    #[test]
    fn path_has_one_route_or_none() {
        assert_eq!(Route::of("/mcp"), Some(Route::Mcp));
        assert_eq!(Route::of("/servers/files/mcp"), Some(Route::Server("files".parse().unwrap())));
        for unknown in ["", "/", "/mcp/", "/MCP", "/servers/", "/servers//mcp", "/servers/a/b/mcp", "/servers/../mcp"] {
            assert_eq!(Route::of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn every_route_has_a_path_and_only_health_is_open() {
        let every = Route::every(&"files".parse().unwrap());
        assert_eq!(every.iter().map(Route::index).collect::<Vec<_>>(), (0..Route::PATHS.len()).collect::<Vec<_>>());
        for route in &every {
            assert_eq!(Route::of(&route.path()).as_ref(), Some(route));
        }
        let open: Vec<_> = every.iter().filter(|route| route.guard() == Guard::Open).collect();
        assert_eq!(open, [&Route::Health]);
    }
}
