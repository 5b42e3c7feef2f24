//! The keychain of Linux and the BSDs: the Secret Service on the session bus, as provided by GNOME, KDE and others.
//!
//! Each session uses its own connection, so a restarted keychain or bus does not matter. The bus is a private socket of
//! the user; secrets are sent unencrypted (`plain`), because a program that could listen there could read the keychain as
//! well. Nothing here opens a prompt: a locked keychain is reported as locked.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    os::unix::fs::FileTypeExt,
    path::PathBuf,
};

use toolway_config::{Environment, Secret};
use zbus::{
    Address, Connection, DBusError as _, ObjectPath, OwnedObjectPath, OwnedVariant, Variant,
    address::Transport,
    connection::Builder,
    fdo,
    message::{Body, Message},
};

use super::KeychainProblem;

/// Address of the session bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bus(Address);

/// A Secret Service session on its own connection.
pub(crate) struct KeychainSession {
    connection: Connection,
    session: OwnedObjectPath,
}

/// An entry of the keychain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item(OwnedObjectPath);

/// Attributes of an entry.
pub(crate) type Attributes<'a> = BTreeMap<&'a str, &'a str>;

/// The `Secret` struct of the Secret Service: session, parameters, value, content type.
type SecretStruct = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

const SERVICE: &str = "org.freedesktop.secrets";
const PATH: &str = "/org/freedesktop/secrets";
const OF_SERVICE: &str = "org.freedesktop.Secret.Service";
const OF_COLLECTION: &str = "org.freedesktop.Secret.Collection";
const OF_ITEM: &str = "org.freedesktop.Secret.Item";
const OF_PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// Object path that means "no object".
const NO_OBJECT: &str = "/";
/// Maximum number of secrets per request.
const BATCH: usize = 64;

// === impl Bus ===

impl Bus {
    /// The session bus of this environment. Only Unix sockets are accepted: an address can also be a host or a program.
    pub(crate) fn of(environment: &Environment) -> Option<Self> {
        let text = |name: &str| environment.get(OsStr::new(name)).and_then(|value| value.to_str());
        if let Some(addresses) = text("DBUS_SESSION_BUS_ADDRESS") {
            let sockets = addresses.split(';').filter_map(|address| address.parse::<Address>().ok());
            return sockets.filter(|address| matches!(address.transport(), Transport::Unix(_))).map(Self).next();
        }
        let socket = PathBuf::from(text("XDG_RUNTIME_DIR")?).join("bus");
        let is_socket = socket.metadata().is_ok_and(|found| found.file_type().is_socket());
        let address = format!("unix:path={}", socket.to_str()?);
        if is_socket { address.parse().ok().map(Self) } else { None }
    }

    /// Connects and opens a session.
    pub(crate) async fn open_session(&self) -> Result<KeychainSession, KeychainProblem> {
        let connection = Builder::address(self.0.clone()).build().await.map_err(problem)?;
        let input = ("plain", Variant::from(""));
        let reply = connection.call_method(Some(SERVICE), PATH, Some(OF_SERVICE), "OpenSession", &input).await;
        let reply = reply.map_err(problem)?.body();
        let (_, session): (OwnedVariant, OwnedObjectPath) = reply.deserialize().map_err(problem)?;
        Ok(KeychainSession { connection, session })
    }
}

// === impl KeychainSession ===

impl KeychainSession {
    /// Checks that new entries can be stored: the default collection exists and is unlocked.
    pub(crate) async fn ready(&self) -> Result<(), KeychainProblem> {
        self.default_collection().await.map(drop)
    }

    async fn default_collection(&self) -> Result<OwnedObjectPath, KeychainProblem> {
        let alias = self.call(PATH, OF_SERVICE, "ReadAlias", &("default",)).await?;
        let collection: OwnedObjectPath = alias.deserialize().map_err(problem)?;
        if collection.as_str() == NO_OBJECT {
            return Err(KeychainProblem::NoCollection);
        }
        let locked = self.call(collection.as_str(), OF_PROPERTIES, "Get", &(OF_COLLECTION, "Locked")).await?;
        let locked: OwnedVariant = locked.deserialize().map_err(problem)?;
        match bool::try_from(locked) {
            Ok(false) => Ok(collection),
            _ => Err(KeychainProblem::Locked),
        }
    }

    /// Entries with these attributes, in a stable order; a locked entry is an error.
    pub(crate) async fn find(&self, attributes: &Attributes<'_>) -> Result<Vec<Item>, KeychainProblem> {
        let found = self.call(PATH, OF_SERVICE, "SearchItems", &(attributes,)).await?;
        let (mut open, locked): (Vec<OwnedObjectPath>, Vec<OwnedObjectPath>) = found.deserialize().map_err(problem)?;
        open.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        if locked.is_empty() { Ok(open.into_iter().map(Item).collect()) } else { Err(KeychainProblem::Locked) }
    }

    /// Reads the secrets of these entries.
    pub(crate) async fn read(&self, items: &[Item]) -> Result<Vec<Vec<u8>>, KeychainProblem> {
        let mut secrets = Vec::new();
        for batch in items.chunks(BATCH) {
            let paths: Vec<&ObjectPath<'_>> = batch.iter().map(|item| &*item.0).collect();
            let reply = self.call(PATH, OF_SERVICE, "GetSecrets", &(paths, &self.session)).await?;
            let found: HashMap<OwnedObjectPath, SecretStruct> = reply.deserialize().map_err(problem)?;
            secrets.extend(found.into_values().map(|(_, _, value, _)| value));
        }
        Ok(secrets)
    }

    /// Replaces the secret of an entry.
    pub(crate) async fn replace(&self, item: &Item, secret: &Secret) -> Result<(), KeychainProblem> {
        self.call(item.0.as_str(), OF_ITEM, "SetSecret", &(self.secret_struct(secret),)).await.map(drop)
    }

    /// Creates an entry in the default collection; replaces one with the same attributes.
    pub(crate) async fn create(
        &self,
        label: &str,
        attributes: &Attributes<'_>,
        secret: &Secret,
    ) -> Result<(), KeychainProblem> {
        let collection = self.default_collection().await?;
        let attributes: HashMap<&str, &str> = attributes.iter().map(|(name, value)| (*name, *value)).collect();
        let properties = HashMap::from([
            ("org.freedesktop.Secret.Item.Label", Variant::from(label)),
            ("org.freedesktop.Secret.Item.Attributes", Variant::from(attributes)),
        ]);
        let item = (properties, self.secret_struct(secret), true);
        let reply = self.call(collection.as_str(), OF_COLLECTION, "CreateItem", &item).await?;
        let (_, prompt): (OwnedObjectPath, OwnedObjectPath) = reply.deserialize().map_err(problem)?;
        require_no_prompt(&prompt)
    }

    /// Removes an entry.
    pub(crate) async fn remove(&self, item: &Item) -> Result<(), KeychainProblem> {
        let reply = self.call(item.0.as_str(), OF_ITEM, "Delete", &()).await?;
        require_no_prompt(&reply.deserialize().map_err(problem)?)
    }

    fn secret_struct(&self, secret: &Secret) -> SecretStruct {
        (self.session.clone(), Vec::new(), secret.expose().into(), "text/plain; charset=utf8".to_owned())
    }

    async fn call<B>(&self, path: &str, interface: &str, method: &str, body: &B) -> Result<Body, KeychainProblem>
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        let reply = self.connection.call_method(Some(SERVICE), path, Some(interface), method, body).await;
        reply.as_ref().map(Message::body).map_err(|error| problem(error.clone()))
    }
}

/// A keychain that wants to prompt the user first has not done the operation.
fn require_no_prompt(prompt: &OwnedObjectPath) -> Result<(), KeychainProblem> {
    if prompt.as_str() == NO_OBJECT { Ok(()) } else { Err(KeychainProblem::Locked) }
}

/// Converts an error without its message, which could quote a secret.
fn problem(error: zbus::Error) -> KeychainProblem {
    match error {
        zbus::Error::Connection(error, _) => KeychainProblem::Absent(error.kind().to_string()),
        zbus::Error::InputOutput(error) => KeychainProblem::Broken(error.kind().to_string()),
        zbus::Error::MethodError(name, ..) if name.as_str().ends_with(".IsLocked") => KeychainProblem::Locked,
        zbus::Error::MethodError(name, ..) => KeychainProblem::Broken(name.to_string()),
        zbus::Error::FDO(error) => match *error {
            fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_) => {
                KeychainProblem::Absent("the session bus has no Secret Service".to_owned())
            }
            // Its name, such as `NoReply` of a keyring that ended, quotes nothing.
            error => KeychainProblem::Broken(format!("the session bus refused the request: {}", error.name())),
        },
        _ => KeychainProblem::Broken("its response is invalid".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use toolway_config::Environment;

    use super::Bus;

    fn bus(variables: &[(&str, &str)]) -> Option<Bus> {
        Bus::of(&variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect::<Environment>())
    }

    #[test]
    fn only_a_unix_socket_is_accepted_as_session_bus() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().to_str().unwrap();
        assert_eq!(bus(&[]), None);
        assert_eq!(bus(&[("XDG_RUNTIME_DIR", runtime)]), None);
        let _listener = UnixListener::bind(folder.path().join("bus")).unwrap();
        assert!(bus(&[("XDG_RUNTIME_DIR", runtime)]).is_some());
        for elsewhere in ["tcp:host=example.org,port=1", "unixexec:path=/bin/sh", "nonsense", ""] {
            let given = [("XDG_RUNTIME_DIR", runtime), ("DBUS_SESSION_BUS_ADDRESS", elsewhere)];
            assert_eq!(bus(&given), None, "{elsewhere}");
        }
        let several = [("DBUS_SESSION_BUS_ADDRESS", "tcp:host=localhost,port=1;unix:path=/run/bus")];
        assert_eq!(bus(&several), bus(&[("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/bus")]));
    }
}
