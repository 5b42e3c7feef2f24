//! No keychain: this system's is not spoken to yet, and credentials are kept in the sealed file.

use std::{collections::BTreeMap, convert::Infallible};

use toolway_config::{Environment, Secret};

use super::KeychainProblem;

/// Where a keychain would be asked for; there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bus(Infallible);

/// A visit that is never made.
pub(crate) struct Visit(Infallible);

/// An entry that never was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item(Infallible);

/// What an entry would be found by.
pub(crate) type Attributes<'a> = BTreeMap<&'a str, &'a str>;

impl Bus {
    pub(crate) fn of(_environment: &Environment) -> Option<Self> {
        None
    }

    pub(crate) async fn visit(&self) -> Result<Visit, KeychainProblem> {
        match self.0 {}
    }
}

impl Visit {
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
