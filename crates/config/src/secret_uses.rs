//! Where the configuration refers to stored secrets.

use crate::{
    Loaded, SecretName,
    error::Place,
    interpolate::{Reference, Template},
    settings::Origin,
};

/// A reference `${secret:NAME}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretUse {
    /// Name of the secret.
    pub name: SecretName,
    /// File and line.
    pub place: Place,
    /// Key of the value, such as `mcpServers.github.env.GITHUB_TOKEN`.
    pub key: String,
    /// Name of the server; `None` for a model, the store and the cluster.
    pub server: Option<String>,
}

impl Loaded {
    /// All references to stored secrets: of servers, also of those that are not accepted, of models, the store and the cluster.
    pub fn secret_uses(&self) -> Vec<SecretUse> {
        let mut uses = Vec::new();
        let waiting = self.proposals.iter().map(|proposal| &proposal.server);
        for server in self.config.servers.values().chain(waiting) {
            for (key, text) in server.transport.texts() {
                let key = server.source.key(&server.label, &key);
                let place = server.source.place.at(text.line());
                add(&mut uses, text, &place, &key, Some(server.name.as_str()));
            }
        }
        let url = &self.config.settings.store.url;
        if let (Origin::File(place), Some(text)) = (&url.origin, &url.value) {
            add(&mut uses, text, &place.at(text.line()), "store.url", None);
        }
        let cluster = &self.config.settings.cluster;
        if let (Origin::File(place), Some(settings)) = (&cluster.origin, &cluster.value) {
            let accepted = settings.accepted_key.as_ref().map(|key| ("cluster.acceptedKey", key));
            for (key, text) in [("cluster.key", &settings.key)].into_iter().chain(accepted) {
                add(&mut uses, text, &place.at(text.line()), key, None);
            }
        }
        let models = &self.config.settings.models;
        let Origin::File(place) = &models.origin else { return uses };
        for (name, model) in &models.value {
            let fields = [("baseUrl", &model.base_url), ("apiKey", &model.api_key)];
            let fields = fields.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.as_ref()?)));
            let headers = model.headers.iter().map(|(header, text)| (format!("headers.{header}"), text));
            for (key, text) in fields.chain(headers) {
                add(&mut uses, text, &place.at(text.line()), &format!("models.{name}.{key}"), None);
            }
        }
        uses
    }
}

fn add(uses: &mut Vec<SecretUse>, text: &Template, place: &Place, key: &str, server: Option<&str>) {
    for reference in text.references() {
        let Reference::Secret(name) = reference else { continue };
        let (place, key, server) = (place.clone(), key.to_owned(), server.map(str::to_owned));
        uses.push(SecretUse { name, place, key, server });
    }
}
