//! Which servers a service offers, and how names are resolved in it.

use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallKind, CompletionRef, Target},
    catalog::{Catalog, ItemKind, Origin},
};
use toolway_wire::message::RpcError;

use super::{invalid, unknown_method};
use crate::access::Client;

/// Which servers a service offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All servers, under public names.
    All,
    /// One server, under its own names.
    One(ServerName),
}

impl Scope {
    /// Target of a tool name.
    pub(super) fn tool(&self, name: &str) -> Result<Target, RpcError> {
        match self {
            Self::All => name.parse().map(Target::Tool).map_err(|_| unknown("tool", name)),
            Self::One(server) => Ok(Target::ToolOf(origin(server, name))),
        }
    }

    /// Target of a prompt name.
    pub(super) fn prompt(&self, name: &str) -> Result<Target, RpcError> {
        match self {
            Self::All => name.parse().map(Target::Prompt).map_err(|_| unknown("prompt", name)),
            Self::One(server) => Ok(Target::PromptOf(origin(server, name))),
        }
    }

    /// Target of a resource URI.
    pub(super) fn resource(&self, uri: String) -> Target {
        match self {
            Self::All => Target::Resource(uri),
            Self::One(server) => Target::ResourceOf(Origin { server: server.clone(), raw_name: uri }),
        }
    }

    /// Target of a method that the protocol does not define: forwarded to a single server whose entry admits it, refused
    /// otherwise.
    pub(super) fn method(&self, host: &Host, method: &str) -> Result<Target, RpcError> {
        match self {
            Self::One(server) if host.admits_method(server, method) => {
                Ok(Target::Method { server: server.clone(), method: method.to_owned() })
            }
            Self::All | Self::One(_) => Err(unknown_method(method)),
        }
    }

    /// Server and raw name of the prompt or template of a completion request, among those the client may see.
    pub(super) fn completion_origin(
        &self,
        catalog: &Catalog,
        client: &Client,
        about: &CompletionRef,
    ) -> Result<Origin, RpcError> {
        let named = about.name();
        if let Self::One(server) = self {
            return Ok(origin(server, named));
        }
        let owner = |uri| catalog.owner_among(uri, |server| client.sees(server)).ok();
        let found = if about.kind() == CallKind::Prompt {
            let prompts = named.parse().ok().and_then(|name| catalog.find_prompt(&name));
            prompts.map(|prompt| prompt.origin.clone())
        } else {
            let template = catalog.templates().iter().find(|entry| entry.public.as_str() == named);
            template.map(|entry| entry.origin.clone()).or_else(|| owner(named))
        };
        found
            .filter(|origin| client.sees(&origin.server))
            .ok_or_else(|| invalid(&format!("unknown prompt or resource `{named}`")))
    }

    /// Whether the service offers this server.
    pub(super) fn covers(&self, server: &ServerName) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == server,
        }
    }

    /// Whether the service offers items of this kind.
    pub(super) fn offers(&self, host: &Host, kind: ItemKind) -> bool {
        match self {
            // A server added later may offer it.
            Self::All => true,
            Self::One(server) => {
                let catalog = host.catalog();
                let capability = match kind {
                    ItemKind::Tool => "tools",
                    ItemKind::Prompt => "prompts",
                    ItemKind::Resource | ItemKind::Template => "resources",
                };
                catalog.listing_of(server).is_none_or(|listing| listing.capabilities.has(capability))
            }
        }
    }
}

fn origin(server: &ServerName, name: &str) -> Origin {
    Origin { server: server.clone(), raw_name: name.to_owned() }
}

fn unknown(kind: &str, name: &str) -> RpcError {
    let name: String = name.chars().take(200).collect();
    invalid(&format!("unknown {kind} `{name}`"))
}
