//! Placeholder for systems whose keychain is not supported yet; credentials are stored in the encrypted file.

use std::{collections::BTreeMap, convert::Infallible};

use toolway_config::{Environment, Secret};

use super::KeychainProblem;

/// Never constructed: there is no session bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bus(Infallible);

/// Never constructed: there are no sessions.
pub(crate) struct KeychainSession(Infallible);

/// Never constructed: there are no entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item(Infallible);

/// Attributes of an entry.
pub(crate) type Attributes<'a> = BTreeMap<&'a str, &'a str>;

impl Bus {
    pub(crate) fn of(_environment: &Environment) -> Option<Self> {
        None
    }

    pub(crate) async fn open_session(&self) -> Result<KeychainSession, KeychainProblem> {
        match self.0 {}
    }
}

impl KeychainSession {
    pub(crate) async fn ready(&self) -> Result<(), KeychainProblem> {
        match self.0 {}
    }

    pub(crate) async fn find(&self, _attributes: &Attributes<'_>) -> Result<Vec<Item>, KeychainProblem> {
        match self.0 {}
    }

    pub(crate) async fn read(&self, _items: &[Item]) -> Result<Vec<Vec<u8>>, KeychainProblem> {
        match self.0 {}
    }

    pub(crate) async fn replace(&self, _item: &Item, _secret: &Secret) -> Result<(), KeychainProblem> {
        match self.0 {}
    }

    pub(crate) async fn create(
        &self,
        _label: &str,
        _attributes: &Attributes<'_>,
        _secret: &Secret,
    ) -> Result<(), KeychainProblem> {
        match self.0 {}
    }

    pub(crate) async fn remove(&self, _item: &Item) -> Result<(), KeychainProblem> {
        match self.0 {}
    }
}
