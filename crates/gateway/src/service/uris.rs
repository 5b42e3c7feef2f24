//! Converts URIs in messages of a server to public URIs.
//!
//! A public URI differs from the raw one only if several servers own it, so for most servers nothing is changed or even
//! scanned.

use std::sync::Arc;

use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::CallerContext,
    catalog::{Catalog, ItemKind, PublicUri},
};
use toolway_wire::{
    json::{JsonKind, Raw},
    message::{
        RpcError,
        splice::{self, Edit},
    },
};

/// Public URIs as one caller sees them. The catalog is looked up only when there is something to convert.
pub(super) struct PublicUris {
    pub(super) host: Host,
    pub(super) caller_context: CallerContext,
}

/// Map from the URIs of one server to public URIs; exists only if some differ.
#[derive(Clone, Debug)]
pub(super) struct UriMap {
    catalog: Arc<Catalog>,
    server: ServerName,
}

/// Key in `_meta` of a tool for the URI of its UI page, before `ui.resourceUri` was specified.
const LEGACY_UI_KEY: &str = "ui/resourceUri";

/// Larger results are not scanned first, because the catalog lookup is cheaper.
const MAX_SCAN_BYTES: usize = 16 * 1024;

impl PublicUris {
    /// A result of a server with public URIs.
    pub(super) fn to_public(&self, result: Raw, server: &ServerName) -> Raw {
        // Matches the ends of the keys `uri` and `resourceUri`.
        if result.as_bytes().len() <= MAX_SCAN_BYTES && !result.may_mention("ri\"") {
            return result;
        }
        match self.uris(server) {
            Some(uris) => uris.to_public(&result),
            None => result,
        }
    }

    /// An error of a server with a public URI in its data.
    pub(super) fn to_public_error(&self, error: RpcError, server: &ServerName) -> RpcError {
        let Some(data) = error.data().filter(|data| data.kind() == JsonKind::Object) else { return error };
        let public = data.get("uri").and_then(|uri| self.uris(server)?.public(&uri));
        let Some(public) = public else { return error };
        let data = splice::edited(&data, &[Edit::Set("uri", public)]);
        RpcError::from_raw(splice::edited(error.raw(), &[Edit::Set("data", data)]))
    }

    fn uris(&self, server: &ServerName) -> Option<UriMap> {
        UriMap::of(&self.host.catalog_of(&self.caller_context), server)
    }
}

impl UriMap {
    /// The map of one server; `None` if all its public URIs are equal to its own.
    pub(super) fn of(catalog: &Arc<Catalog>, server: &ServerName) -> Option<Self> {
        let located = |kind| matches!(kind, ItemKind::Resource | ItemKind::Template);
        let mut conflicts = catalog.conflicts().iter().filter(|conflict| located(conflict.kind));
        let concerned = conflicts.any(|conflict| conflict.claims.iter().any(|(origin, _)| origin.server == *server));
        concerned.then(|| Self { catalog: Arc::clone(catalog), server: server.clone() })
    }

    /// A result with public URIs in links, embedded resources and contents.
    pub(super) fn to_public(&self, result: &Raw) -> Raw {
        let mut edits = Vec::new();
        for list in ["content", "contents"] {
            if let Some(blocks) = result.get(list) {
                edits.push(Edit::Set(list, self.each(&blocks, |block| self.block(block))));
            }
        }
        if let Some(messages) = result.get("messages") {
            edits.push(Edit::Set("messages", self.each(&messages, |message| self.message(message))));
        }
        edits.extend(result.get("_meta").and_then(|meta| self.meta(&meta)).map(|meta| Edit::Set("_meta", meta)));
        if edits.is_empty() { result.clone() } else { splice::edited(result, &edits) }
    }

    /// A tool with the public URI of its UI page.
    pub(super) fn tool(&self, tool: &Raw) -> Raw {
        match tool.get("_meta").and_then(|meta| self.meta(&meta)) {
            Some(meta) => splice::edited(tool, &[Edit::Set("_meta", meta)]),
            None => tool.clone(),
        }
    }

    /// `_meta` with the public URI of the UI page; `None` if it does not change.
    fn meta(&self, meta: &Raw) -> Option<Raw> {
        let mut edits = Vec::new();
        if let Some(ui) = meta.get("ui").filter(|ui| ui.kind() == JsonKind::Object)
            && let Some(public) = ui.get("resourceUri").and_then(|uri| self.public(&uri))
        {
            edits.push(Edit::Set("ui", splice::edited(&ui, &[Edit::Set("resourceUri", public)])));
        }
        let older = meta.get(LEGACY_UI_KEY).and_then(|uri| self.public(&uri));
        edits.extend(older.map(|public| Edit::Set(LEGACY_UI_KEY, public)));
        (!edits.is_empty()).then(|| splice::edited(meta, &edits))
    }

    fn each(&self, list: &Raw, to_public: impl Fn(&Raw) -> Raw) -> Raw {
        if list.kind() != JsonKind::Array {
            return list.clone();
        }
        let items: Vec<Raw> = list.elements().iter().map(to_public).collect();
        splice::array(&items)
    }

    fn message(&self, message: &Raw) -> Raw {
        match message.get("content") {
            Some(content) if content.kind() == JsonKind::Array => {
                let content = self.each(&content, |block| self.block(block));
                splice::edited(message, &[Edit::Set("content", content)])
            }
            Some(content) => splice::edited(message, &[Edit::Set("content", self.block(&content))]),
            None => message.clone(),
        }
    }

    /// A resource link, an embedded resource, or resource contents.
    fn block(&self, block: &Raw) -> Raw {
        if block.kind() != JsonKind::Object {
            return block.clone();
        }
        let mut edits = Vec::new();
        if let Some(public) = block.get("uri").and_then(|uri| self.public(&uri)) {
            edits.push(Edit::Set("uri", public));
        }
        if let Some(resource) = block.get("resource").filter(|resource| resource.kind() == JsonKind::Object)
            && let Some(public) = resource.get("uri").and_then(|uri| self.public(&uri))
        {
            edits.push(Edit::Set("resource", splice::edited(&resource, &[Edit::Set("uri", public)])));
        }
        if edits.is_empty() { block.clone() } else { splice::edited(block, &edits) }
    }

    /// The public URI; `None` if it is equal to the URI of the server.
    fn public(&self, uri: &Raw) -> Option<Raw> {
        let uri = uri.as_str()?;
        let listed = self.catalog.resources_of(&self.server).iter().find(|entry| entry.origin.raw_name == uri);
        if let Some(entry) = listed {
            return (entry.public.as_str() != uri).then(|| Raw::of(entry.public.as_str()));
        }
        match self.catalog.owner(&uri) {
            Ok(owner) if owner.server == self.server => None,
            _ => Some(Raw::of(PublicUri::owned(&self.server, &uri).as_str())),
        }
    }
}
