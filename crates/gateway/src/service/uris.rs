//! URIs of one server in what it says, put back to what they are called here.
//!
//! A URI keeps its own form unless several servers own it; so for almost every server there is nothing to do, and
//! nothing is looked at.

use std::sync::Arc;

use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::OnBehalf,
    catalog::{Catalog, ItemKind, PublicUri},
};
use toolway_wire::{
    json::{Kind, Raw},
    message::{
        RpcError,
        splice::{self, Edit},
    },
};

/// What things are called where everything is, as one caller sees it. Looked up when there is something to put back.
pub(super) struct Here {
    pub(super) host: Host,
    pub(super) on_behalf: OnBehalf,
}

/// What the URIs of one server are called here, where some are called otherwise.
#[derive(Clone, Debug)]
pub(super) struct Uris {
    catalog: Arc<Catalog>,
    server: ServerName,
}

/// Where a tool said which page shows it before there was a place for all that concerns pages.
const OLDER_PAGE: &str = "ui/resourceUri";

/// To look through more than this takes longer than to find out whether anything is called otherwise here.
const LOOKED_THROUGH: usize = 16 * 1024;

impl Here {
    /// A server's result with its URIs as this caller knows them.
    pub(super) fn put_back(&self, result: Raw, server: &ServerName) -> Raw {
        // Of what names no URI nothing is called otherwise: `uri`, `resourceUri`.
        if result.as_bytes().len() <= LOOKED_THROUGH && !result.may_mention("ri\"") {
            return result;
        }
        match self.uris(server) {
            Some(uris) => uris.put_back(&result),
            None => result,
        }
    }

    /// A server's error with the URI that it is about as this caller knows it.
    pub(super) fn put_back_in(&self, error: RpcError, server: &ServerName) -> RpcError {
        let Some(data) = error.data().filter(|data| data.kind() == Kind::Object) else { return error };
        let public = data.get("uri").and_then(|uri| self.uris(server)?.public(&uri));
        let Some(public) = public else { return error };
        let data = splice::edited(&data, &[Edit::Set("uri", public)]);
        RpcError::from_raw(splice::edited(error.raw(), &[Edit::Set("data", data)]))
    }

    fn uris(&self, server: &ServerName) -> Option<Uris> {
        Uris::of(&self.host.catalog_of(&self.on_behalf), server)
    }
}

impl Uris {
    /// Of one server; none where all its URIs are called what it calls them.
    pub(super) fn of(catalog: &Arc<Catalog>, server: &ServerName) -> Option<Self> {
        let located = |kind| matches!(kind, ItemKind::Resource | ItemKind::Template);
        let mut conflicts = catalog.conflicts().iter().filter(|conflict| located(conflict.kind));
        let concerned = conflicts.any(|conflict| conflict.claims.iter().any(|(origin, _)| origin.server == *server));
        concerned.then(|| Self { catalog: Arc::clone(catalog), server: server.clone() })
    }

    /// A result with its links, embedded resources and contents under the URIs they have here.
    pub(super) fn put_back(&self, result: &Raw) -> Raw {
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

    /// A tool with the page that shows it under the URI that has here.
    pub(super) fn tool(&self, tool: &Raw) -> Raw {
        match tool.get("_meta").and_then(|meta| self.meta(&meta)) {
            Some(meta) => splice::edited(tool, &[Edit::Set("_meta", meta)]),
            None => tool.clone(),
        }
    }

    /// What is said of a page, where that is called otherwise here; older servers say it under one key.
    fn meta(&self, meta: &Raw) -> Option<Raw> {
        let mut edits = Vec::new();
        if let Some(ui) = meta.get("ui").filter(|ui| ui.kind() == Kind::Object)
            && let Some(public) = ui.get("resourceUri").and_then(|uri| self.public(&uri))
        {
            edits.push(Edit::Set("ui", splice::edited(&ui, &[Edit::Set("resourceUri", public)])));
        }
        let older = meta.get(OLDER_PAGE).and_then(|uri| self.public(&uri));
        edits.extend(older.map(|public| Edit::Set(OLDER_PAGE, public)));
        (!edits.is_empty()).then(|| splice::edited(meta, &edits))
    }

    fn each(&self, list: &Raw, put_back: impl Fn(&Raw) -> Raw) -> Raw {
        if list.kind() != Kind::Array {
            return list.clone();
        }
        let items: Vec<Raw> = list.elements().iter().map(put_back).collect();
        splice::array(&items)
    }

    fn message(&self, message: &Raw) -> Raw {
        match message.get("content") {
            Some(content) if content.kind() == Kind::Array => {
                let content = self.each(&content, |block| self.block(block));
                splice::edited(message, &[Edit::Set("content", content)])
            }
            Some(content) => splice::edited(message, &[Edit::Set("content", self.block(&content))]),
            None => message.clone(),
        }
    }

    /// A link, an embedded resource, or the content of one.
    fn block(&self, block: &Raw) -> Raw {
        if block.kind() != Kind::Object {
            return block.clone();
        }
        let mut edits = Vec::new();
        if let Some(public) = block.get("uri").and_then(|uri| self.public(&uri)) {
            edits.push(Edit::Set("uri", public));
        }
        if let Some(resource) = block.get("resource").filter(|resource| resource.kind() == Kind::Object)
            && let Some(public) = resource.get("uri").and_then(|uri| self.public(&uri))
        {
            edits.push(Edit::Set("resource", splice::edited(&resource, &[Edit::Set("uri", public)])));
        }
        if edits.is_empty() { block.clone() } else { splice::edited(block, &edits) }
    }

    /// What a URI is called here; none where that is what it is called anyway.
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
