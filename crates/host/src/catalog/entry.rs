//! One thing on offer: the item as it came, where it lives, and what it is called here.

use std::sync::Arc;

use toolway_wire::{
    json::Raw,
    message::item::{Item, Prompt, Resource, Template, Tool},
};

use super::{
    ItemKind,
    fingerprint::Fingerprint,
    name::{Origin, PublicName},
    uri::PublicUri,
};

/// An item of some server under its public name.
#[derive(Clone, Debug)]
pub struct Entry<T, K> {
    /// What models and clients call it.
    pub public: K,
    /// Where it lives, and what it is called there.
    pub origin: Origin,
    /// The item as its server described it; [`Offered::raw`] is every byte of it.
    pub item: Arc<T>,
    /// What a grant for it is bound to.
    pub fingerprint: Fingerprint,
}

/// A tool on offer.
pub type ToolEntry = Entry<Tool, PublicName>;
/// A prompt on offer.
pub type PromptEntry = Entry<Prompt, PublicName>;
/// A resource on offer.
pub type ResourceEntry = Entry<Resource, PublicUri>;
/// A resource template on offer.
pub type TemplateEntry = Entry<Template, PublicUri>;

/// An item of a listing, with its fingerprint taken once.
#[derive(Debug)]
pub struct Listed<T> {
    /// The item.
    pub item: Arc<T>,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
}

/// What the four kinds have in common.
pub trait Offered: Item {
    /// Which of the four.
    const KIND: ItemKind;
    /// What it is called at its server: a name, a URI or a template.
    fn raw_name(&self) -> &str;
    /// All of it, as it came.
    fn raw(&self) -> &Raw;
    /// What is known about it before anyone reads it.
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_whole(self.raw())
    }
}

// === impl Listed ===

impl<T: Offered> Listed<T> {
    /// Takes the fingerprint of an item.
    pub fn new(item: T) -> Self {
        let fingerprint = item.fingerprint();
        Self { item: Arc::new(item), fingerprint }
    }
}

impl<T> Clone for Listed<T> {
    fn clone(&self) -> Self {
        Self { item: Arc::clone(&self.item), fingerprint: self.fingerprint }
    }
}

// === impl Offered ===

impl Offered for Tool {
    const KIND: ItemKind = ItemKind::Tool;

    fn raw_name(&self) -> &str {
        &self.name
    }

    fn raw(&self) -> &Raw {
        &self.raw
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_tool(self)
    }
}

impl Offered for Resource {
    const KIND: ItemKind = ItemKind::Resource;

    fn raw_name(&self) -> &str {
        &self.uri
    }

    fn raw(&self) -> &Raw {
        &self.raw
    }
}

impl Offered for Template {
    const KIND: ItemKind = ItemKind::Template;

    fn raw_name(&self) -> &str {
        &self.uri_template
    }

    fn raw(&self) -> &Raw {
        &self.raw
    }
}

impl Offered for Prompt {
    const KIND: ItemKind = ItemKind::Prompt;

    fn raw_name(&self) -> &str {
        &self.name
    }

    fn raw(&self) -> &Raw {
        &self.raw
    }
}
