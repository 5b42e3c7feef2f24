//! What a service says of itself: who it is, what it offers, how it wants to be used.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use toolway_config::ServerName;
use toolway_host::{Host, catalog::Catalog};
use toolway_wire::{
    down::Profile,
    json::Raw,
    message::{
        ServerCapabilities,
        splice::{self, Edit},
    },
};

use super::{Scope, icons};
use crate::access::Client;

/// Longer instructions of one server are cut when those of many are put together.
const OF_ONE: usize = 4 * 1024;
/// And all of them together here.
const OF_ALL: usize = 64 * 1024;

/// Extensions that go through to one server without our having to know anything of them: their methods are requests as
/// any other, and what they say stands in `_meta` and in resources, under the server's own names.
const PASSED_ON: [&str; 2] = ["io.modelcontextprotocol/ui", "io.modelcontextprotocol/skills"];

pub(super) fn of(host: &Host, scope: &Scope, client: Option<&Client>) -> Profile {
    let catalog = host.catalog();
    match scope {
        Scope::All => Profile {
            info: ours(),
            capabilities: of_everything(),
            instructions: client.and_then(|client| instructions(&catalog, client)),
        },
        Scope::One(server) => of_one(host, &catalog, server),
    }
}

/// A server alone is shown as itself: what it declared, as far as it goes through here.
fn of_one(host: &Host, catalog: &Catalog, server: &ServerName) -> Profile {
    let known = host.status(server).ok().and_then(|status| status.profile);
    let listing = catalog.listing_of(server);
    let capabilities = known.as_ref().map(|known| &known.capabilities);
    let capabilities = capabilities.or_else(|| listing.map(|listing| &listing.capabilities));
    Profile {
        info: known.as_ref().map_or_else(ours, |known| icons::fitted(&known.info)),
        capabilities: capabilities.map_or_else(Raw::empty_object, passed_on),
        instructions: listing.and_then(|listing| listing.instructions.clone()),
    }
}

/// Who answers, and no more of it: every result says so.
pub(super) fn info(host: &Host, scope: &Scope) -> Raw {
    match scope {
        Scope::All => ours(),
        Scope::One(server) => host
            .status(server)
            .ok()
            .and_then(|status| status.profile)
            .map_or_else(ours, |known| icons::fitted(&known.info)),
    }
}

fn ours() -> Raw {
    static OURS: LazyLock<Raw> = LazyLock::new(|| {
        Raw::of(&json!({ "name": "toolway", "title": "Toolway", "version": env!("CARGO_PKG_VERSION") }))
    });
    OURS.clone()
}

/// More than is there now, so that a server that joins later needs no new handshake.
fn of_everything() -> Raw {
    Raw::of(&json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "completions": {},
        "logging": {},
    }))
}

fn passed_on(declared: &ServerCapabilities) -> Raw {
    let mut passed = Map::new();
    for list in ["tools", "prompts", "resources"] {
        if declared.has(list) {
            // Told by us, whatever the server does: its lists are watched.
            let mut says = json!({ "listChanged": true });
            if list == "resources" && declared.flag("resources", "subscribe") {
                says["subscribe"] = Value::Bool(true);
            }
            passed.insert(list.to_owned(), says);
        }
    }
    for plain in ["completions", "logging"] {
        if declared.has(plain) {
            passed.insert(plain.to_owned(), json!({}));
        }
    }
    let passed = Raw::of(&Value::Object(passed));
    let extensions: Vec<_> =
        PASSED_ON.iter().filter_map(|id| Some((*id, declared.0.get("extensions")?.get(id)?))).collect();
    if extensions.is_empty() {
        return passed;
    }
    let extensions = splice::object(extensions.iter().map(|(id, says)| (*id, says)));
    splice::edited(&passed, &[Edit::Set("extensions", extensions)])
}

/// What each server a client sees says about its use, under the server's name.
fn instructions(catalog: &Catalog, client: &Client) -> Option<String> {
    let mut all = String::new();
    for (server, offer) in catalog.servers().filter(|(server, _)| client.sees(server)) {
        let Some(text) = offer.listing.instructions.as_deref().filter(|text| !text.trim().is_empty()) else { continue };
        let end = text.floor_char_boundary(OF_ONE);
        let part = format!("## {server}\n\n{}\n\n", &text[..end]);
        if OF_ALL < all.len() + part.len() {
            break;
        }
        all.push_str(&part);
    }
    let all = all.trim_end();
    (!all.is_empty()).then(|| all.to_owned())
}
