//! Secrets in clear in configuration: found in a file, and replaced in an entry by references to stored secrets.
//!
//! Which values are secret is decided by `mask`, as for what is shown. Everything that our commands write passes
//! [`detach`]; the caller stores the values before it writes the entry.

mod find;
mod rewrite;
mod role;

pub use find::{ClearSecret, members_with_secrets, written_assistant, written_entry};

use crate::{
    edit::NewValue,
    secret::{Secret, SecretName},
    server::ServerName,
};
pub(crate) use rewrite::escaped;
use rewrite::rewrite;
use role::TextRole;

/// A secret that was replaced by a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedSecret {
    /// Key of the value in the entry, such as `env.GITHUB_TOKEN`.
    pub key: String,
    /// Name in the reference.
    pub name: SecretName,
    /// The secret.
    pub value: Secret,
}

/// Members of an entry without their secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Detached<T> {
    /// The same with references in place of the secrets.
    pub entry: T,
    /// The secrets, in the order of the references.
    pub secrets: Vec<DetachedSecret>,
}

/// Changes of an entry: new values by key; `None` removes the key.
pub type Changes = Vec<(String, Option<NewValue>)>;

/// Chooses the name of a secret: one that is free, or already has this value. The first candidate is preferred.
pub trait SecretNames {
    /// Why no name can be chosen.
    type Error;

    /// The name for the value of this key.
    fn choose(&mut self, wanted: SecretName, key: &str, value: &Secret) -> Result<SecretName, Self::Error>;
}

/// Replaces the secrets of an entry of Toolway's own format.
pub fn detach<N: SecretNames>(
    server: &ServerName,
    entry: &NewValue,
    names: &mut N,
) -> Result<Detached<NewValue>, N::Error> {
    let mut walk = Walk { server, names, secrets: Vec::new() };
    let entry = walk.value(&[], entry)?;
    Ok(Detached { entry, secrets: walk.secrets })
}

/// Replaces the secrets among changes of an entry; a key may be nested, such as `env.NAME`.
pub fn detach_changes<N: SecretNames>(
    server: &ServerName,
    changes: &[(String, Option<NewValue>)],
    names: &mut N,
) -> Result<Detached<Changes>, N::Error> {
    let mut walk = Walk { server, names, secrets: Vec::new() };
    let mut entry = Vec::new();
    for (key, value) in changes {
        let path: Vec<&str> = key.splitn(2, '.').collect();
        let value = value.as_ref().map(|value| walk.value(&path, value)).transpose()?;
        entry.push((key.clone(), value));
    }
    Ok(Detached { entry, secrets: walk.secrets })
}

/// The values of one entry, from the outside in.
struct Walk<'a, N> {
    server: &'a ServerName,
    names: &'a mut N,
    secrets: Vec<DetachedSecret>,
}

impl<N: SecretNames> Walk<'_, N> {
    fn value(&mut self, path: &[&str], value: &NewValue) -> Result<NewValue, N::Error> {
        Ok(match value {
            NewValue::Flag(_) | NewValue::Number(_) => value.clone(),
            NewValue::Text(text) => NewValue::Text(self.text(path, text, "")?),
            NewValue::List(elements) => NewValue::List(self.list(path, elements)?),
            NewValue::Object(members) => {
                let mut inner = Vec::new();
                for (key, value) in members {
                    let path = [path, &[key.as_str()]].concat();
                    inner.push((key.clone(), self.value(&path, value)?));
                }
                NewValue::Object(inner)
            }
        })
    }

    fn list(&mut self, path: &[&str], elements: &[NewValue]) -> Result<Vec<NewValue>, N::Error> {
        let (mut list, mut before) = (Vec::new(), "");
        for element in elements {
            list.push(match element {
                NewValue::Text(text) => {
                    let element = NewValue::Text(self.text(path, text, before)?);
                    before = text;
                    element
                }
                other => self.value(path, other)?,
            });
        }
        Ok(list)
    }

    /// `before` is the element before in a list.
    fn text(&mut self, path: &[&str], text: &str, before: &str) -> Result<String, N::Error> {
        let Some(role) = TextRole::of(path, before) else { return Ok(text.to_owned()) };
        let key = path.join(".");
        let rewritten = rewrite(text, role, &mut |word: &str, value: &str| {
            let value = Secret::new(value);
            let wanted = SecretName::derived(&[self.server.as_str(), word]);
            let name = self.names.choose(wanted, &key, &value)?;
            let reference = name.reference();
            self.secrets.push(DetachedSecret { key: key.clone(), name, value });
            Ok(reference)
        })?;
        Ok(rewritten.unwrap_or_else(|| text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
