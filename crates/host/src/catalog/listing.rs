//! What one server lists, and how it is asked: only for what it declared, within bounds, item by item.
//!
//! A malformed item is set aside and hides none of the others; a list that the server refuses is set aside as a
//! whole and hides none of its other lists. Public names are no business of a listing.

use std::collections::BTreeMap;

use toolway_config::ServerName;
use toolway_wire::{
    json::Raw,
    message::{
        ServerCapabilities,
        item::{Prompt, Resource, Template, Tool},
        result::CacheHint,
    },
};

use super::{ItemKind, SetAside, entry::Listed};

/// Everything one server lists, as it came.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Its tools, in its order.
    pub tools: Vec<Listed<Tool>>,
    /// Its resources.
    pub resources: Vec<Listed<Resource>>,
    /// Its resource templates.
    pub templates: Vec<Listed<Template>>,
    /// Its prompts.
    pub prompts: Vec<Listed<Prompt>>,
    /// How it wants to be used.
    pub instructions: Option<String>,
    /// What it declared.
    pub capabilities: ServerCapabilities,
    /// How long each kind keeps, where the server says so.
    pub keeps: BTreeMap<ItemKind, CacheHint>,
    /// What could not be read, and why.
    pub set_aside: Vec<Unlisted>,
}

/// Something of a listing that cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlisted {
    /// What it is.
    pub kind: ItemKind,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// A lower-case fragment.
    pub reason: String,
}

// === impl Listing ===

impl Listing {
    /// A listing of a server that offers nothing.
    pub fn empty() -> Self {
        Self {
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            instructions: None,
            capabilities: ServerCapabilities(Raw::empty_object()),
            keeps: BTreeMap::new(),
            set_aside: Vec::new(),
        }
    }
}

// === impl Unlisted ===

impl Unlisted {
    pub(super) fn of(&self, server: &ServerName) -> SetAside {
        let Self { kind, name, reason } = self.clone();
        SetAside { server: server.clone(), kind, name, reason }
    }
}
