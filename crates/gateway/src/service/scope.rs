//! How much of a host a service offers, and what things are called there.

use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::Target,
    catalog::{Catalog, ItemKind, Origin},
};
use toolway_wire::message::RpcError;

use super::{invalid, unknown_method};
use crate::access::Client;

/// How much is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything, under public names.
    All,
    /// One server, under its own names.
    One(ServerName),
}

impl Scope {
    /// The tool of this name.
    pub(super) fn tool(&self, name: &str) -> Result<Target, RpcError> {
        match self {
            Self::All => name.parse().map(Target::Tool).map_err(|_| unknown("tool", name)),
            Self::One(server) => Ok(Target::ToolOf(origin(server, name))),
        }
    }

    /// The prompt of this name.
    pub(super) fn prompt(&self, name: &str) -> Result<Target, RpcError> {
        match self {
            Self::All => name.parse().map(Target::Prompt).map_err(|_| unknown("prompt", name)),
            Self::One(server) => Ok(Target::PromptOf(origin(server, name))),
        }
    }

    /// The resource at this URI.
    pub(super) fn resource(&self, uri: String) -> Target {
        match self {
            Self::All => Target::Resource(uri),
            Self::One(server) => Target::ResourceOf(Origin { server: server.clone(), raw_name: uri }),
        }
    }

    /// A method that we know nothing of: one server may.
    pub(super) fn method(&self, method: &str) -> Result<Target, RpcError> {
        match self {
            Self::All => Err(unknown_method(method)),
            Self::One(server) => Ok(Target::Method { server: server.clone(), method: method.to_owned() }),
        }
    }

    /// Whose prompt or template a completion is about, and what it is called there, of what a client sees.
    pub(super) fn referred(
        &self,
        catalog: &Catalog,
        client: &Client,
        key: &str,
        named: &str,
    ) -> Result<Origin, RpcError> {
        if let Self::One(server) = self {
            return Ok(origin(server, named));
        }
        let owner = |uri| catalog.owner_among(uri, |server| client.sees(server)).ok();
        let found = if key == "name" {
            let prompts = named.parse().ok().and_then(|name| catalog.find_prompt(&name));
            prompts.map(|prompt| prompt.origin.clone())
        } else {
            let template = catalog.templates().iter().find(|entry| entry.public.as_str() == named);
            template.map(|entry| entry.origin.clone()).or_else(|| owner(named))
        };
        found
            .filter(|origin| client.sees(&origin.server))
            .ok_or_else(|| invalid(&format!("there is nothing called `{named}` to complete")))
    }

    /// Whether anything of this server is.
    pub(super) fn covers(&self, server: &ServerName) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == server,
        }
    }

    /// Whether this kind of thing is offered at all.
    pub(super) fn offers(&self, host: &Host, kind: ItemKind) -> bool {
        match self {
            // Whoever joins later may.
            Self::All => true,
            Self::One(server) => {
                let catalog = host.catalog();
                let word = match kind {
                    ItemKind::Tool => "tools",
                    ItemKind::Prompt => "prompts",
                    ItemKind::Resource | ItemKind::Template => "resources",
                };
                catalog.listing_of(server).is_none_or(|listing| listing.capabilities.has(word))
            }
        }
    }
}

fn origin(server: &ServerName, name: &str) -> Origin {
    Origin { server: server.clone(), raw_name: name.to_owned() }
}

fn unknown(kind: &str, name: &str) -> RpcError {
    let name: String = name.chars().take(200).collect();
    invalid(&format!("there is no {kind} `{name}`"))
}
