//! Whose a URI is: a resource that was listed, else a template of one server, else the server it names itself.
//!
//! A URI that templates of several servers cover is nobody's: to guess would show one server what was meant for
//! another. It can be asked for with its server in front.

use toolway_config::ServerName;

use super::{Catalog, ItemKind, Origin, filter::Switch, template::Matcher, uri};

/// Why a URI leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOwner {
    /// No server lists it and no template covers it.
    #[error("no server offers `{0}`")]
    Unknown(String),
    /// Several do.
    #[error("`{uri}` is offered by {}; write `toolway+<server>:{uri}`", listed(servers))]
    Several {
        /// What was asked for.
        uri: String,
        /// Whose it may be.
        servers: Vec<ServerName>,
    },
}

/// Templates of one server that are compared with a URI; a server with more is going in circles.
const TEMPLATES: usize = 1_000;

impl Catalog {
    /// The server a URI is read from, and the URI as that server knows it.
    pub fn owner(&self, uri: &str) -> Result<Origin, NoOwner> {
        self.owner_among(uri, |_| true)
    }

    /// The same as if there were no other servers than these.
    pub fn owner_among(&self, uri: &str, among: impl Fn(&ServerName) -> bool) -> Result<Origin, NoOwner> {
        if let Some((server, raw)) = uri::split_owned(uri) {
            let named = Some(server).filter(&among).and_then(|server| self.named_owner(server, raw));
            return named.ok_or_else(|| NoOwner::Unknown(shown(uri)));
        }
        if let Some(entry) = self.resources.find(uri).filter(|entry| among(&entry.origin.server)) {
            return Ok(entry.origin.clone());
        }
        // Owned by several, each is offered with its server in front; then the URI alone says nothing.
        let listing = |server: &&ServerName| among(server) && self.resources.at(server, uri).is_some();
        let mut owners: Vec<_> = self.servers.keys().filter(listing).cloned().collect();
        if owners.is_empty() {
            owners = self.covering(uri);
            owners.retain(among);
        }
        match owners.len() {
            0 => Err(NoOwner::Unknown(shown(uri))),
            1 => Ok(Origin { server: owners.remove(0), raw_name: uri.to_owned() }),
            _ => Err(NoOwner::Several { uri: shown(uri), servers: owners }),
        }
    }

    /// A server that is named is asked for whatever it may have, listed or not.
    fn named_owner(&self, server: ServerName, raw: &str) -> Option<Origin> {
        let offer = self.servers.get(&server)?;
        let reads =
            offer.filter.switch(ItemKind::Resource) == Switch::On && offer.listing.capabilities.has("resources");
        reads.then(|| Origin { server, raw_name: raw.to_owned() })
    }

    /// The servers with a template that covers a URI, each once, in order.
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
    use crate::catalog::{Catalog, Filter, sketch::Sketch};

    fn owner(catalog: &Catalog, uri: &str) -> Result<(String, String), NoOwner> {
        catalog.owner(uri).map(|origin| (origin.server.to_string(), origin.raw_name))
    }

    fn found(server: &str, uri: &str) -> Result<(String, String), NoOwner> {
        Ok((server.to_owned(), uri.to_owned()))
    }

    #[test]
    fn a_listed_uri_goes_to_who_lists_it() {
        let catalog = Sketch::default().resources("a", &["r://1"]).templates("b", &["r://{id}"]).merge();
        assert_eq!(owner(&catalog, "r://1"), found("a", "r://1"));
        assert_eq!(owner(&catalog, "r://2"), found("b", "r://2"));
        assert_eq!(owner(&catalog, "s://2"), Err(NoOwner::Unknown("s://2".to_owned())));
    }

    #[test]
    fn a_uri_of_several_is_nobodys_until_it_names_one() {
        let catalog = Sketch::default().resources("a", &["r://1"]).resources("b", &["r://1"]).merge();
        assert_eq!(
            owner(&catalog, "r://1").unwrap_err().to_string(),
            "`r://1` is offered by `a` and `b`; write `toolway+<server>:r://1`"
        );
        assert_eq!(owner(&catalog, "toolway+b:r://1"), found("b", "r://1"));
        let catalog = Sketch::default().templates("a", &["r://{x}", "r://{+y}"]).templates("b", &["r://{z}"]).merge();
        assert!(matches!(owner(&catalog, "r://1"), Err(NoOwner::Several { servers, .. }) if servers.len() == 2));
        assert_eq!(owner(&catalog, "r://1/2"), found("a", "r://1/2"));
    }

    #[test]
    fn a_uri_is_found_as_if_there_were_no_other_servers_than_those_that_are_meant() {
        let sketch = Sketch::default().resources("a", &["r://1"]).resources("b", &["r://1", "r://2"]);
        let catalog = sketch.templates("c", &["r://{x}"]).merge();
        let among = |uri, servers: &[&str]| {
            let found = catalog.owner_among(uri, |server| servers.contains(&server.as_str()));
            found.map(|origin| (origin.server.to_string(), origin.raw_name))
        };
        assert_eq!(among("r://1", &["a", "c"]), found("a", "r://1"));
        assert_eq!(among("r://2", &["a", "c"]), found("c", "r://2"));
        assert_eq!(among("r://2", &["a"]), Err(NoOwner::Unknown("r://2".to_owned())));
        assert_eq!(among("toolway+b:r://2", &["a"]), Err(NoOwner::Unknown("toolway+b:r://2".to_owned())));
        assert!(matches!(among("r://1", &["a", "b"]), Err(NoOwner::Several { servers, .. }) if servers.len() == 2));
    }

    #[test]
    fn a_named_server_is_asked_for_what_it_did_not_list_but_only_if_it_offers_resources() {
        let sketch = Sketch::default().resources("a", &["r://1"]);
        assert_eq!(owner(&sketch.merge(), "toolway+a:other://7"), found("a", "other://7"));
        assert!(owner(&sketch.merge(), "toolway+b:other://7").is_err());
        let off = Filter { resources: Switch::Off, ..Filter::default() };
        assert!(owner(&sketch.filter("a", off).merge(), "toolway+a:r://1").is_err());
    }
}
