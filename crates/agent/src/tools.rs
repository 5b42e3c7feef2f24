//! The tools on offer: those of the visible servers, adapted to the model, and the agent's own.

use std::collections::BTreeSet;

use serde_json::Value;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    catalog::{PublicName, ToolEntry},
};
use toolway_model::{ToolDefinition, Wire, schema};

use crate::builtin::Builtin;

/// Which servers the agent sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visible(pub(crate) Option<BTreeSet<ServerName>>);

impl Visible {
    pub(crate) fn covers(&self, server: &ServerName) -> bool {
        self.0.as_ref().is_none_or(|servers| servers.contains(server))
    }
}

/// The tools of one request, in a stable order so that vendors can cache them.
#[derive(Debug, Default)]
pub(crate) struct ToolSet {
    pub(crate) definitions: Vec<ToolDefinition>,
    /// Why tools are not offered.
    pub(crate) left_out: Vec<String>,
}

/// What the model wants to call.
pub(crate) enum Wanted {
    Tool(PublicName),
    Builtin(Builtin),
}

impl ToolSet {
    pub(crate) fn of(host: &Host, wire: Wire, visible: &Visible, resources: bool, prompts: bool) -> Self {
        let mut set = Self::default();
        let catalog = host.catalog();
        for entry in catalog.tools().iter().filter(|entry| visible.covers(&entry.origin.server)) {
            match adapt(wire, entry) {
                Ok(definition) => set.definitions.push(definition),
                Err(reason) => set.left_out.push(reason),
            }
        }
        set.definitions.sort_by(|one, other| one.name.cmp(&other.name));
        let owners = |capability: &str| -> Vec<String> {
            let statuses = host.servers();
            let having = statuses.iter().filter(|status| {
                let profile = status.profile.as_ref();
                visible.covers(&status.server) && profile.is_some_and(|profile| profile.capabilities.has(capability))
            });
            having.map(|status| status.server.to_string()).collect()
        };
        for (wanted, capability, tool) in
            [(resources, "resources", Builtin::ReadResource), (prompts, "prompts", Builtin::GetPrompt)]
        {
            let owners = if wanted { owners(capability) } else { Vec::new() };
            if !owners.is_empty() {
                set.definitions.push(tool.definition(&owners));
            }
        }
        set.definitions.push(Builtin::ReadResult.definition(&[]));
        set
    }

    /// Finds what the model means. Only tools on offer can be called.
    pub(crate) fn find(&self, name: &str) -> Option<Wanted> {
        self.definitions.iter().find(|tool| tool.name == name)?;
        match Builtin::find(name) {
            Some(builtin) => Some(Wanted::Builtin(builtin)),
            None => name.parse().ok().map(Wanted::Tool),
        }
    }
}

fn adapt(wire: Wire, entry: &ToolEntry) -> Result<ToolDefinition, String> {
    let definition = &entry.item;
    let schema: Value = serde_json::from_str(&definition.input_schema.to_string()).unwrap_or_default();
    let description = definition.description.as_deref().unwrap_or_default();
    schema::adapt(wire, entry.public.as_str(), description, &schema).map_err(|left_out| left_out.to_string())
}
