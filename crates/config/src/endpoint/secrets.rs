//! What of a server must not be shown once its references are put in: what looks like a secret or is called one, and
//! everything that came from somewhere else than the file. An ordinary value (`true`, `node`, a path) is none.

use super::Endpoint;
use crate::{
    interpolate::{Reference, Template},
    mask::{Role, secrets},
    secret::Secret,
    server::{
        ServerConfig, Transport,
        auth::{Nature, SignIn},
    },
};

/// Variables that everybody has, and that are in every path.
const HARMLESS: [&str; 9] = ["HOME", "USER", "LOGNAME", "LANG", "PATH", "SHELL", "TMPDIR", "TZ", "PWD"];

impl ServerConfig {
    /// What must not be shown of the server, as it is reached now.
    pub fn secrets(&self, endpoint: &Endpoint) -> Vec<Secret> {
        let mut found = Found::default();
        match (endpoint, &self.transport) {
            (Endpoint::Process { command, arguments, variables, .. }, Transport::Process(process)) => {
                found.look(command, Role::Plain, Some(&process.command));
                let mut before = "";
                for (argument, written) in arguments.iter().zip(&process.arguments) {
                    found.look(argument.expose(), Role::Argument(before), Some(written));
                    before = argument.expose();
                }
                for (name, value) in variables {
                    let written = process.variables.iter().find(|(known, _)| known == name).map(|(_, text)| text);
                    found.look(value.expose(), Role::Variable(name), written);
                }
            }
            (Endpoint::Http { url, headers, sign_in, .. }, Transport::Http(http)) => {
                found.look(url.expose(), Role::Plain, Some(&http.url));
                for ((name, value), (_, written)) in headers.iter().zip(&http.headers) {
                    found.look(value.expose(), Role::Header(name), Some(written));
                }
                found.of_sign_in(sign_in);
            }
            _ => {}
        }
        found.0
    }
}

/// The secrets of a program's variables or an address's headers that no entry describes.
pub fn secrets_of_variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Secret> {
    let mut found = Found::default();
    variables.into_iter().for_each(|(name, value)| found.look(value, Role::Variable(name), None));
    found.0
}

/// The same for an address and its headers.
pub fn secrets_of_address<'a>(url: &str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Secret> {
    let mut found = Found::default();
    found.look(url, Role::Plain, None);
    headers.into_iter().for_each(|(name, value)| found.look(value, Role::Header(name), None));
    found.0
}

#[derive(Default)]
struct Found(Vec<Secret>);

impl Found {
    fn of_sign_in(&mut self, sign_in: &SignIn<Secret>) {
        let texts = sign_in.auth.texts().into_iter().chain(sign_in.oauth.texts());
        let secret = texts.filter(|(_, nature, _)| *nature == Nature::Secret);
        self.0.extend(secret.map(|(_, _, text)| text.clone()));
    }

    /// Looks through a value as it is now; `written` is what stands in the file.
    fn look(&mut self, value: &str, role: Role<'_>, written: Option<&Template>) {
        if written.is_some_and(came_from_elsewhere) {
            self.0.push(Secret::new(value));
            // `Bearer <key>`: the key alone is one too.
            let key = value.rsplit(' ').next().filter(|_| matches!(role, Role::Header(_)));
            self.0.extend(key.map(Secret::new));
            return;
        }
        let ranges = secrets(value, role);
        self.0.extend(ranges.into_iter().map(|range| Secret::new(&value[range])));
    }
}

fn came_from_elsewhere(written: &Template) -> bool {
    written.references().iter().any(|reference| match reference {
        Reference::Variable { name, .. } => !HARMLESS.contains(&name.as_str()),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{secrets_of_address, secrets_of_variables};
    use crate::{Config, Environment, NoKeychain, document::Document};

    fn secrets(entry: &str) -> Vec<String> {
        let text = format!("{{ \"mcpServers\": {{ \"a\": {entry} }} }}");
        let config = Config::of(&Document::of(Path::new("/x/toolway.json"), &text).unwrap(), None).unwrap();
        let environment: Environment =
            [("HOME".into(), "/home/ada".into()), ("MODE".into(), "fast".into()), ("T".into(), "t0k3n".into())].into();
        let server = config.find("a").unwrap();
        let endpoint = server.endpoint(&environment, &NoKeychain).unwrap();
        let mut secrets: Vec<String> =
            server.secrets(&endpoint).iter().map(|secret| secret.expose().to_owned()).collect();
        secrets.dedup();
        secrets
    }

    #[test]
    fn ordinary_values_are_shown_and_what_came_from_elsewhere_is_not() {
        let entry = r#"{ "command": "node", "args": ["server.js", "--port", "8080", "--token", "abc123"],
            "env": { "NODE_ENV": "production", "DEBUG": "true", "DATA": "${HOME}/data", "MODE": "${MODE}",
                     "API_KEY": "hunter2", "DB": "postgres://ada:s3cret@db/x", "N": "sk-0123456789" } }"#;
        assert_eq!(secrets(entry), ["abc123", "fast", "hunter2", "s3cret", "sk-0123456789"]);
        let entry = r#"{ "url": "https://example.org/mcp?mode=all&key=k3y",
            "headers": { "Authorization": "Bearer ${T}", "Accept": "text/plain", "X-Team": "blue" } }"#;
        assert_eq!(secrets(entry), ["k3y", "Bearer t0k3n", "t0k3n", "blue"]);
    }

    #[test]
    fn what_no_entry_describes_is_judged_by_its_name_and_its_looks() {
        let shown = |secrets: Vec<crate::Secret>| secrets.iter().map(|it| it.expose().to_owned()).collect::<Vec<_>>();
        assert_eq!(shown(secrets_of_variables([("MODE", "fast"), ("MY_TOKEN", "abcd")])), ["abcd"]);
        let headers = [("accept", "text/plain"), ("authorization", "Bearer abcd")];
        assert_eq!(shown(secrets_of_address("https://u:pass@example.org/?q=word", headers)), ["pass", "abcd"]);
    }
}
