//! The texts of an entry after expansion, by which a server is recognised.

use super::{ServerConfig, Transport};
use crate::{
    interpolate::{Lookup, Template},
    is_secret_name,
    keychain::NoKeychain,
    mask,
    paths::Environment,
};

impl ServerConfig {
    /// All texts that say which program or URL this is, with their keys, after expansion of environment variables. Secrets,
    /// files and what cannot be resolved are named only, so that a new token is not another server. The program is not
    /// looked up in `PATH`.
    pub fn expanded_texts(&self, environment: &Environment) -> Vec<(String, String)> {
        let lookup = Lookup {
            environment,
            keychain: &NoKeychain,
            folder: self.source.folder.as_deref(),
            base: &self.source.base,
            server: self.name.as_str(),
            file: &self.source.place.file,
            defined_by: self.source.defined_by,
        };
        let expanded = |key: &str, template: &Template| {
            let name = key.rsplit_once('.').map_or(key, |(_, name)| name);
            if is_secret_name(name) {
                return template.written().expose().to_owned();
            }
            template.expand_known(&lookup)
        };
        let texts = self.transport.texts();
        let mut texts: Vec<_> = texts.iter().map(|(key, template)| (key.clone(), expanded(key, template))).collect();
        let folder = self.source.folder.iter().map(|folder| ("folder".to_owned(), folder.display().to_string()));
        texts.extend(folder);
        // Relative paths in another file name other programs and files.
        texts.push(("base".to_owned(), self.source.base.display().to_string()));
        texts
    }
}

impl ServerConfig {
    /// The texts of the transport as they may be shown, with secrets masked; in the order of
    /// [`expanded_texts`](Self::expanded_texts), which has two more at its end.
    pub fn masked_texts(&self) -> Vec<String> {
        let mut arguments = match &self.transport {
            Transport::Process(process) => mask::arguments(&process.arguments).into_iter(),
            Transport::Http(_) => Vec::new().into_iter(),
        };
        let masked = |(key, text): &(String, &Template)| match key.split_once('.') {
            None if key == "args" => arguments.next().unwrap_or_default(),
            None => mask::text(text),
            Some(("headers", name)) => mask::header(name, text),
            Some((_, name)) => mask::variable(name, text),
        };
        self.transport.texts().iter().map(masked).collect()
    }
}
