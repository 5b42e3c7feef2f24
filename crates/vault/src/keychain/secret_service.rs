//! The keychain of Linux and the BSDs: the Secret Service on the session's bus, as GNOME, KDE and others offer it.
//!
//! Each visit is a connection of its own, so a keychain that was started again, or a bus, is no matter. The bus is a
//! socket of the user's own; over it secrets go as they are (`plain`), for whoever could listen there could ask as well.
//! Nothing here opens a prompt: what is locked is said to be locked.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    os::unix::fs::FileTypeExt,
    path::PathBuf,
};

use toolway_config::{Environment, Secret};
use zbus::{
    Address, Connection, ObjectPath, OwnedObjectPath, OwnedVariant, Variant,
    address::Transport,
    connection::Builder,
    fdo,
    message::{Body, Message},
};

use super::KeychainProblem;

/// Where the keychain is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bus(Address);

/// One visit to the keychain.
pub(crate) struct Visit {
    connection: Connection,
    session: OwnedObjectPath,
}

/// An entry of the keychain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item(OwnedObjectPath);

/// What an entry is found by.
pub(crate) type Attributes<'a> = BTreeMap<&'a str, &'a str>;

/// A secret on its way: session, parameters, value, content type.
type Parcel = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

const SERVICE: &str = "org.freedesktop.secrets";
const PATH: &str = "/org/freedesktop/secrets";
const OF_SERVICE: &str = "org.freedesktop.Secret.Service";
const OF_COLLECTION: &str = "org.freedesktop.Secret.Collection";
const OF_ITEM: &str = "org.freedesktop.Secret.Item";
const OF_PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// What stands where there is no object.
const NOTHING: &str = "/";
/// How many secrets are asked for at once.
const BATCH: usize = 64;

// === impl Bus ===

impl Bus {
    /// The session's bus in this environment, if it is a socket: an address can also name a machine or a program.
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

    /// Begins a visit.
    pub(crate) async fn visit(&self) -> Result<Visit, KeychainProblem> {
        let connection = Builder::address(self.0.clone()).build().await.map_err(problem)?;
        let input = ("plain", Variant::from(""));
        let reply = connection.call_method(Some(SERVICE), PATH, Some(OF_SERVICE), "OpenSession", &input).await;
        let reply = reply.map_err(problem)?.body();
        let (_, session): (OwnedVariant, OwnedObjectPath) = reply.deserialize().map_err(problem)?;
        Ok(Visit { connection, session })
    }
}

// === impl Visit ===

impl Visit {
    /// Whether new entries can be kept: the default collection is there and open.
    pub(crate) async fn ready(&self) -> Result<(), KeychainProblem> {
        self.default_collection().await.map(drop)
    }

    async fn default_collection(&self) -> Result<OwnedObjectPath, KeychainProblem> {
        let alias = self.ask(PATH, OF_SERVICE, "ReadAlias", &("default",)).await?;
        let collection: OwnedObjectPath = alias.deserialize().map_err(problem)?;
        if collection.as_str() == NOTHING {
            return Err(KeychainProblem::NoCollection);
        }
        let locked = self.ask(collection.as_str(), OF_PROPERTIES, "Get", &(OF_COLLECTION, "Locked")).await?;
        let locked: OwnedVariant = locked.deserialize().map_err(problem)?;
        match bool::try_from(locked) {
            Ok(false) => Ok(collection),
            _ => Err(KeychainProblem::Locked),
        }
    }

    /// The entries with these attributes, always in the same order; a locked one among them is an error.
    pub(crate) async fn find(&self, attributes: &Attributes<'_>) -> Result<Vec<Item>, KeychainProblem> {
        let found = self.ask(PATH, OF_SERVICE, "SearchItems", &(attributes,)).await?;
        let (mut open, locked): (Vec<OwnedObjectPath>, Vec<OwnedObjectPath>) = found.deserialize().map_err(problem)?;
        open.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        if locked.is_empty() { Ok(open.into_iter().map(Item).collect()) } else { Err(KeychainProblem::Locked) }
    }

    /// What stands in these entries.
    pub(crate) async fn read(&self, items: &[Item]) -> Result<Vec<Vec<u8>>, KeychainProblem> {
        let mut secrets = Vec::new();
        for batch in items.chunks(BATCH) {
            let paths: Vec<&ObjectPath<'_>> = batch.iter().map(|item| &*item.0).collect();
            let reply = self.ask(PATH, OF_SERVICE, "GetSecrets", &(paths, &self.session)).await?;
            let parcels: HashMap<OwnedObjectPath, Parcel> = reply.deserialize().map_err(problem)?;
            secrets.extend(parcels.into_values().map(|(_, _, value, _)| value));
        }
        Ok(secrets)
    }

    /// Puts a secret into an entry that is there.
    pub(crate) async fn replace(&self, item: &Item, secret: &Secret) -> Result<(), KeychainProblem> {
        self.ask(item.0.as_str(), OF_ITEM, "SetSecret", &(self.parcel(secret),)).await.map(drop)
    }

    /// Makes an entry in the default collection, in the place of one with the same attributes.
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
        let item = (properties, self.parcel(secret), true);
        let reply = self.ask(collection.as_str(), OF_COLLECTION, "CreateItem", &item).await?;
        let (_, prompt): (OwnedObjectPath, OwnedObjectPath) = reply.deserialize().map_err(problem)?;
        done_without(&prompt)
    }

    /// Removes an entry.
    pub(crate) async fn remove(&self, item: &Item) -> Result<(), KeychainProblem> {
        let reply = self.ask(item.0.as_str(), OF_ITEM, "Delete", &()).await?;
        done_without(&reply.deserialize().map_err(problem)?)
    }

    fn parcel(&self, secret: &Secret) -> Parcel {
        (self.session.clone(), Vec::new(), secret.expose().into(), "text/plain; charset=utf8".to_owned())
    }

    async fn ask<B>(&self, path: &str, interface: &str, method: &str, body: &B) -> Result<Body, KeychainProblem>
    where
        B: serde::Serialize + zbus::DynamicType,
    {
        let reply = self.connection.call_method(Some(SERVICE), path, Some(interface), method, body).await;
        reply.as_ref().map(Message::body).map_err(|error| problem(error.clone()))
    }
}

/// A keychain that wants to ask a person first has not done it.
fn done_without(prompt: &OwnedObjectPath) -> Result<(), KeychainProblem> {
    if prompt.as_str() == NOTHING { Ok(()) } else { Err(KeychainProblem::Locked) }
}

/// In our words; what the other side says could quote what it was sent.
fn problem(error: zbus::Error) -> KeychainProblem {
    match error {
        zbus::Error::Connection(error, _) => KeychainProblem::Absent(error.kind().to_string()),
        zbus::Error::InputOutput(error) => KeychainProblem::Broken(error.kind().to_string()),
        zbus::Error::MethodError(name, ..) if name.as_str().ends_with(".IsLocked") => KeychainProblem::Locked,
        zbus::Error::MethodError(name, ..) => KeychainProblem::Broken(name.to_string()),
        zbus::Error::FDO(error) => match *error {
            fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_) => {
                KeychainProblem::Absent("the session's bus knows of none".to_owned())
            }
            _ => KeychainProblem::Broken("the session's bus refuses".to_owned()),
        },
        _ => KeychainProblem::Broken("its answer cannot be read".to_owned()),
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
    fn only_a_socket_of_the_user_is_a_bus() {
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
