//! Server info, capabilities and instructions of a service.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    catalog::{Catalog, skills::SKILLS},
};
use toolway_wire::{
    down::Profile,
    json::Raw,
    message::{
        ServerCapabilities,
        splice::{self, Edit},
    },
};

use super::{Scope, icons, skills};
use crate::access::Client;

/// Maximum length of the instructions of one server when those of all servers are joined, in bytes.
const MAX_SERVER_INSTRUCTIONS: usize = 4 * 1024;
/// Maximum length of the joined instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 64 * 1024;

/// The extension of UI pages, whose data is in `_meta` of tools and in resources.
const UI: &str = "io.modelcontextprotocol/ui";
/// Extensions that are declared for a single server and need no support here: their methods are plain requests, and their
/// data is in `_meta` and in resources, under the server's own names.
const FORWARDED_EXTENSIONS: [&str; 2] = [UI, SKILLS];

pub(super) fn of(host: &Host, scope: &Scope, client: Option<&Client>) -> Profile {
    let catalog = host.catalog();
    match scope {
        Scope::All => Profile {
            info: gateway_info(),
            capabilities: gateway_capabilities(host, &catalog, client),
            instructions: client.and_then(|client| instructions(&catalog, client)),
        },
        Scope::One(server) => server_profile(host, &catalog, server),
    }
}

/// Profile of a single server: what it declared, reduced to what the gateway forwards.
fn server_profile(host: &Host, catalog: &Catalog, server: &ServerName) -> Profile {
    let known = host.status(server).ok().and_then(|status| status.profile);
    let listing = catalog.listing_of(server);
    let capabilities = known.as_ref().map(|known| &known.capabilities);
    let capabilities = capabilities.or_else(|| listing.map(|listing| &listing.capabilities));
    Profile {
        info: known.as_ref().map_or_else(gateway_info, |known| icons::keep_embedded(&known.info)),
        capabilities: capabilities.map_or_else(Raw::empty_object, forwarded_capabilities),
        instructions: listing.and_then(|listing| listing.instructions.clone()),
    }
}

/// Server info only, because every result contains it.
pub(super) fn info(host: &Host, scope: &Scope) -> Raw {
    match scope {
        Scope::All => gateway_info(),
        Scope::One(server) => host
            .status(server)
            .ok()
            .and_then(|status| status.profile)
            .map_or_else(gateway_info, |known| icons::keep_embedded(&known.info)),
    }
}

fn gateway_info() -> Raw {
    static OURS: LazyLock<Raw> = LazyLock::new(|| {
        Raw::of(&json!({ "name": "toolway", "title": "Toolway", "version": env!("CARGO_PKG_VERSION") }))
    });
    OURS.clone()
}

/// Declares everything, so that a server added later needs no new handshake; UI pages and skills only if a server that the
/// client sees has them.
fn gateway_capabilities(host: &Host, catalog: &Catalog, client: Option<&Client>) -> Raw {
    let all = Raw::of(&json!({
        "tools": { "listChanged": true },
        "prompts": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "completions": {},
        "logging": {},
    }));
    let sees = |server: &ServerName| client.is_none_or(|client| client.sees(server));
    let seen = || catalog.servers().filter(|(server, _)| sees(server));
    let pages = seen().any(|(_, offer)| offer.listing.capabilities.extension(UI)).then(Raw::empty_object);
    let skills = skills::declared(host, seen().map(|(server, _)| server.clone()));
    let extensions = [(UI, pages), (SKILLS, skills)];
    let extensions: Vec<_> = extensions.iter().filter_map(|(id, says)| Some((*id, says.as_ref()?))).collect();
    match extensions.is_empty() {
        true => all,
        false => splice::edited(&all, &[Edit::Add("extensions", splice::object(extensions))]),
    }
}

fn forwarded_capabilities(declared: &ServerCapabilities) -> Raw {
    let mut passed = Map::new();
    for list in ["tools", "prompts", "resources"] {
        if declared.has(list) {
            // The gateway watches the lists and sends this itself.
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
        FORWARDED_EXTENSIONS.iter().filter_map(|id| Some((*id, declared.0.get("extensions")?.get(id)?))).collect();
    if extensions.is_empty() {
        return passed;
    }
    let extensions = splice::object(extensions.iter().map(|(id, says)| (*id, says)));
    splice::edited(&passed, &[Edit::Set("extensions", extensions)])
}

/// Joined instructions of the servers that the client may see, each under the server name.
fn instructions(catalog: &Catalog, client: &Client) -> Option<String> {
    let mut all = String::new();
    for (server, offer) in catalog.servers().filter(|(server, _)| client.sees(server)) {
        let Some(text) = offer.listing.instructions.as_deref().filter(|text| !text.trim().is_empty()) else { continue };
        let end = text.floor_char_boundary(MAX_SERVER_INSTRUCTIONS);
        let part = format!("## {server}\n\n{}\n\n", &text[..end]);
        if MAX_INSTRUCTIONS < all.len() + part.len() {
            break;
        }
        all.push_str(&part);
    }
    let all = all.trim_end();
    (!all.is_empty()).then(|| all.to_owned())
}
