//! One catalog entry: the item, its origin and its public name.

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

/// An item of a server with its public name.
#[derive(Clone, Debug)]
pub struct Entry<T, K> {
    /// Public name or URI, used by models and clients.
    pub public: K,
    /// Server and name of the item at that server.
    pub origin: Origin,
    /// The item as listed by the server; [`CatalogItem::raw`] is its unchanged text.
    pub item: Arc<T>,
    /// Fingerprint of the definition.
    pub fingerprint: Fingerprint,
}

/// Catalog entry of a tool.
pub type ToolEntry = Entry<Tool, PublicName>;
/// Catalog entry of a prompt.
pub type PromptEntry = Entry<Prompt, PublicName>;
/// Catalog entry of a resource.
pub type ResourceEntry = Entry<Resource, PublicUri>;
/// Catalog entry of a resource template.
pub type TemplateEntry = Entry<Template, PublicUri>;

/// An item of a listing, with its precomputed fingerprint.
#[derive(Debug)]
pub struct ListedItem<T> {
    /// The listed item.
    pub item: Arc<T>,
    /// Fingerprint of the definition.
    pub fingerprint: Fingerprint,
}

/// Common operations of the four kinds of items.
pub trait CatalogItem: Item {
    /// Kind of the item.
    const KIND: ItemKind;
    /// Name of the item at its server: a name, a URI or a template.
    fn raw_name(&self) -> &str;
    /// The unchanged text of the item.
    fn raw(&self) -> &Raw;
    /// Fingerprint of the definition; by default, of the whole item.
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_whole(self.raw())
    }
}

// === impl ListedItem ===

impl<T: CatalogItem> ListedItem<T> {
    /// Computes the fingerprint of an item.
    pub fn new(item: T) -> Self {
        let fingerprint = item.fingerprint();
        Self { item: Arc::new(item), fingerprint }
    }
}

impl<T> Clone for ListedItem<T> {
    fn clone(&self) -> Self {
        Self { item: Arc::clone(&self.item), fingerprint: self.fingerprint }
    }
}

// === impl CatalogItem ===

impl CatalogItem for Tool {
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

impl CatalogItem for Resource {
    const KIND: ItemKind = ItemKind::Resource;

    fn raw_name(&self) -> &str {
        &self.uri
    }

    fn raw(&self) -> &Raw {
        &self.raw
    }
}

impl CatalogItem for Template {
    const KIND: ItemKind = ItemKind::Template;

    fn raw_name(&self) -> &str {
        &self.uri_template
    }

    fn raw(&self) -> &Raw {
        &self.raw
    }
}

impl CatalogItem for Prompt {
    const KIND: ItemKind = ItemKind::Prompt;

    fn raw_name(&self) -> &str {
        &self.name
    }

    fn raw(&self) -> &Raw {
        &self.raw
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_prompt(self)
    }
}
