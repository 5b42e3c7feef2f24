//! Finds the server of a URI: the one it names explicitly, else one that lists the resource, else one with a matching
//! template.
//!
//! A URI that matches templates of several servers is ambiguous and refused: a guess could disclose the request to the
//! wrong server. The caller can name the server explicitly.

use toolway_config::ServerName;

use super::{Catalog, ItemKind, Origin, filter::Switch, template::Matcher, uri};

/// Why the server of a URI was not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOwner {
    /// No server lists the URI, and no template matches it.
    #[error("no server offers `{0}`")]
    Unknown(String),
    /// Several servers offer the URI.
    #[error("`{uri}` is offered by {}; use `{}`", listed(servers), uri::example(uri))]
    Ambiguous {
        /// The requested URI, shortened.
        uri: String,
        /// Servers that offer it.
        servers: Vec<ServerName>,
    },
}

/// Maximum number of templates per server that are matched against a URI.
const TEMPLATES: usize = 1_000;

impl Catalog {
    /// Finds the server of a URI, and the URI at that server.
    pub fn owner(&self, uri: &str) -> Result<Origin, NoOwner> {
        self.owner_among(uri, |_| true)
    }

    /// Like [`Catalog::owner`], considering these servers only.
    pub fn owner_among(&self, uri: &str, among: impl Fn(&ServerName) -> bool) -> Result<Origin, NoOwner> {
        if let Some((server, raw)) = uri::split_owned(uri) {
            let named = Some(server).filter(&among).and_then(|server| self.named_owner(server, &raw));
            return named.ok_or_else(|| NoOwner::Unknown(shown(uri)));
        }
        if let Some(entry) = self.resources.find(uri).filter(|entry| among(&entry.origin.server)) {
            return Ok(entry.origin.clone());
        }
        // If several servers list it, each is offered with its server as prefix, and the plain URI is ambiguous.
        let listing = |server: &&ServerName| among(server) && self.resources.at(server, uri).is_some();
        let mut owners: Vec<_> = self.servers.keys().filter(listing).cloned().collect();
        if owners.is_empty() {
            owners = self.covering(uri);
            owners.retain(among);
        }
        match owners.len() {
            0 => Err(NoOwner::Unknown(shown(uri))),
            1 => Ok(Origin { server: owners.remove(0), raw_name: uri.to_owned() }),
            _ => Err(NoOwner::Ambiguous { uri: shown(uri), servers: owners }),
        }
    }

    /// Whether a server lists a resource of this URI, or a template of exactly this text.
    pub(crate) fn lists_resource(&self, server: &ServerName, uri: &str) -> bool {
        self.resources.at(server, uri).is_some() || self.templates.at(server, uri).is_some()
    }

    /// The template of a server that matches a URI.
    pub(crate) fn template_of(&self, server: &ServerName, uri: &str) -> Option<String> {
        let matchers = self.matchers.get_or_init(|| self.read_templates());
        let mut entries = matchers.iter().map(|(position, matcher)| (&self.templates.all()[*position].origin, matcher));
        let found = entries.find(|(origin, matcher)| origin.server == *server && matcher.matches(uri));
        found.map(|(origin, _)| origin.raw_name.clone())
    }

    /// A URI with an explicit server need not be listed.
    fn named_owner(&self, server: ServerName, raw: &str) -> Option<Origin> {
        let offer = self.servers.get(&server)?;
        let reads =
            offer.filter.switch(ItemKind::Resource) == Switch::On && offer.listing.capabilities.has("resources");
        reads.then(|| Origin { server, raw_name: raw.to_owned() })
    }

    /// Returns the servers with a template that matches a URI, each once, in order.
    fn covering(&self, uri: &str) -> Vec<ServerName> {
        let matchers = self.matchers.get_or_init(|| self.read_templates());
        let mut servers: Vec<&ServerName> = Vec::new();
        for (position, matcher) in matchers {
            let server = &self.templates.all()[*position].origin.server;
            if servers.last() != Some(&server) && matcher.matches(uri) {
                servers.push(server);
            }
        }
        servers.into_iter().cloned().collect()
    }

    fn read_templates(&self) -> Vec<(usize, Matcher)> {
        let mut matchers = Vec::new();
        let mut before = 0;
        for server in self.servers.keys() {
            let templates = self.templates.of(server);
            let read = |(index, entry): (usize, &super::TemplateEntry)| {
                Some((before + index, Matcher::read(&entry.origin.raw_name)?))
            };
            matchers.extend(templates.iter().take(TEMPLATES).enumerate().filter_map(read));
            before += templates.len();
        }
        matchers
    }
}

fn shown(uri: &str) -> String {
    uri.chars().take(200).collect()
}

fn listed(servers: &[ServerName]) -> String {
    servers.iter().map(|server| format!("`{server}`")).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::{NoOwner, Switch};
    use crate::catalog::{Catalog, Filter, test_catalog::CatalogBuilder};

    fn owner(catalog: &Catalog, uri: &str) -> Result<(String, String), NoOwner> {
        catalog.owner(uri).map(|origin| (origin.server.to_string(), origin.raw_name))
    }

    fn found(server: &str, uri: &str) -> Result<(String, String), NoOwner> {
        Ok((server.to_owned(), uri.to_owned()))
    }

    #[test]
    fn listed_uri_takes_precedence_over_templates() {
        let catalog = CatalogBuilder::default().resources("a", &["r://1"]).templates("b", &["r://{id}"]).merge();
        assert_eq!(owner(&catalog, "r://1"), found("a", "r://1"));
        assert_eq!(owner(&catalog, "r://2"), found("b", "r://2"));
        assert_eq!(owner(&catalog, "s://2"), Err(NoOwner::Unknown("s://2".to_owned())));
    }

    #[test]
    fn uri_of_several_servers_is_ambiguous_without_prefix() {
        let catalog = CatalogBuilder::default().resources("a", &["r://1"]).resources("b", &["r://1"]).merge();
        assert_eq!(
            owner(&catalog, "r://1").unwrap_err().to_string(),
            "`r://1` is offered by `a` and `b`; use `toolway+<server>:r://1`"
        );
        assert_eq!(owner(&catalog, "toolway+b:r://1"), found("b", "r://1"));
        let catalog =
            CatalogBuilder::default().templates("a", &["r://{x}", "r://{+y}"]).templates("b", &["r://{z}"]).merge();
        assert!(matches!(owner(&catalog, "r://1"), Err(NoOwner::Ambiguous { servers, .. }) if servers.len() == 2));
        assert_eq!(owner(&catalog, "r://1/2"), found("a", "r://1/2"));
    }

    #[test]
    fn lookup_considers_only_the_given_servers() {
        let test_catalog = CatalogBuilder::default().resources("a", &["r://1"]).resources("b", &["r://1", "r://2"]);
        let catalog = test_catalog.templates("c", &["r://{x}"]).merge();
        let among = |uri, servers: &[&str]| {
            let found = catalog.owner_among(uri, |server| servers.contains(&server.as_str()));
            found.map(|origin| (origin.server.to_string(), origin.raw_name))
        };
        assert_eq!(among("r://1", &["a", "c"]), found("a", "r://1"));
        assert_eq!(among("r://2", &["a", "c"]), found("c", "r://2"));
        assert_eq!(among("r://2", &["a"]), Err(NoOwner::Unknown("r://2".to_owned())));
        assert_eq!(among("toolway+b:r://2", &["a"]), Err(NoOwner::Unknown("toolway+b:r://2".to_owned())));
        assert!(matches!(among("r://1", &["a", "b"]), Err(NoOwner::Ambiguous { servers, .. }) if servers.len() == 2));
    }

    #[test]
    fn prefixed_uri_need_not_be_listed_if_the_server_offers_resources() {
        let test_catalog = CatalogBuilder::default().resources("a", &["r://1"]);
        assert_eq!(owner(&test_catalog.merge(), "toolway+a:other://7"), found("a", "other://7"));
        assert!(owner(&test_catalog.merge(), "toolway+b:other://7").is_err());
        let off = Filter { resources: Switch::Off, ..Filter::default() };
        assert!(owner(&test_catalog.filter("a", off).merge(), "toolway+a:r://1").is_err());
    }
}
