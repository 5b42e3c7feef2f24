//! The tools on offer: those of the visible servers, adapted to the model, and the agent's own.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use toolway_config::{ServerName, ToolPattern};
use toolway_host::{
    Host,
    call::Selection,
    catalog::{Catalog, Origin, PublicName, ToolEntry},
    connection::ServerStatus,
};
use toolway_model::{
    ToolDefinition, Vendor,
    schema::{self, ToolWords},
    vendor,
};

use crate::{
    builtin::{Builtin, Effect},
    context::{USUAL_WINDOW, tokens_of},
    hints,
};

/// Share of the context window that definitions may fill, as a divisor.
const SHARE: u64 = 4;
/// The extension of tasks in the revision without sessions.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Which servers and tools the agent sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visible(pub(crate) Selection);

impl Visible {
    pub(crate) fn covers(&self, server: &ServerName) -> bool {
        self.0.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }

    pub(crate) fn covers_tool(&self, tool: &Origin) -> bool {
        let is_named = |patterns: &Vec<ToolPattern>| {
            patterns.iter().any(|pattern| pattern.matches(tool.server.as_str(), &tool.raw_name))
        };
        self.covers(&tool.server) && self.0.tools.as_ref().is_none_or(is_named)
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

/// What decides which tools are offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) vendor: Vendor,
    /// Tokens that a conversation may have; `None` if unknown.
    pub(crate) window: Option<u64>,
    pub(crate) visible: &'a Visible,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
    /// Whether calls may go on as tasks in the background.
    pub(crate) tasks: bool,
}

/// The adapted tools of the last catalog. Adapting parses every schema.
#[derive(Debug, Default)]
pub(crate) struct AdaptedTools(Mutex<Option<(u64, Vendor, Arc<Adapted>)>>);

#[derive(Debug, Default)]
struct Adapted {
    definitions: Vec<ToolDefinition>,
    left_out: Vec<String>,
    tokens: u64,
}

impl AdaptedTools {
    fn of(&self, catalog: &Catalog, offer: Offer<'_>) -> Arc<Adapted> {
        let mut last = self.0.lock();
        if let Some((revision, vendor, adapted)) = &*last
            && (*revision, *vendor) == (catalog.revision(), offer.vendor)
        {
            return Arc::clone(adapted);
        }
        let adapted = Arc::new(Adapted::of(catalog, offer));
        *last = Some((catalog.revision(), offer.vendor, Arc::clone(&adapted)));
        adapted
    }
}

impl Adapted {
    fn of(catalog: &Catalog, offer: Offer<'_>) -> Self {
        let mut adapted = Self::default();
        for entry in catalog.tools().iter().filter(|entry| offer.visible.covers_tool(&entry.origin)) {
            match adapt(offer.vendor, entry) {
                // Possible without prefixes; vendors refuse two tools with one name.
                Ok(definition) if Builtin::find(&definition.name).is_some() => {
                    let name = &definition.name;
                    adapted.left_out.push(format!("tool `{name}` is left out: the agent has a tool of this name"));
                }
                Ok(definition) => adapted.definitions.push(definition),
                Err(reason) => adapted.left_out.push(reason),
            }
        }
        adapted.definitions.sort_by(|one, other| one.name.cmp(&other.name));
        adapted.tokens = adapted.definitions.iter().map(tokens).sum();
        adapted
    }
}

impl ToolSet {
    pub(crate) fn of(host: &Host, adapted: &AdaptedTools, offer: Offer<'_>) -> Self {
        let (catalog, statuses) = (host.own_catalog(), host.servers());
        let adapted = adapted.of(&catalog, offer);
        let is_seen = |status: &&ServerStatus| offer.visible.covers(&status.server);
        let servers = || statuses.iter().filter(is_seen);
        let mut set = Self { left_out: adapted.left_out.clone(), ..Self::default() };
        let most = vendor::entry(offer.vendor).tools.as_ref().and_then(|rules| rules.count).unwrap_or(usize::MAX);
        let fits = adapted.tokens <= offer.window.unwrap_or(USUAL_WINDOW) / SHARE
            && adapted.definitions.len() + Builtin::MAX_WITH_SERVER_TOOLS <= most;
        if !fits {
            let names: Vec<String> = servers().map(|status| status.server.to_string()).collect();
            let effects = [Effect::Read, Effect::Write, Effect::Destructive].map(Builtin::CallTool);
            let tools = [Builtin::SearchTools, Builtin::DescribeTool].into_iter().chain(effects);
            set.definitions.extend(tools.map(|tool| tool.definition(&names)));
        } else {
            set.definitions.clone_from(&adapted.definitions);
        }
        let owners = |capability: &str| -> Vec<String> {
            let having = servers()
                .filter(|status| status.profile.as_ref().is_some_and(|profile| profile.capabilities.has(capability)));
            having.map(|status| status.server.to_string()).collect()
        };
        for (wanted, capability, tool) in [
            (offer.resources, "resources", Builtin::ListResources),
            (offer.resources, "resources", Builtin::ReadResource),
            (offer.prompts, "prompts", Builtin::GetPrompt),
        ] {
            let owners = if wanted { owners(capability) } else { Vec::new() };
            if !owners.is_empty() {
                set.definitions.push(tool.definition(&owners));
            }
        }
        set.definitions.push(Builtin::ReadResult.definition(&[]));
        if offer.tasks && servers().any(has_tasks) {
            set.definitions.extend([Builtin::TaskStatus, Builtin::TaskCancel].map(|tool| tool.definition(&[])));
        }
        set
    }

    /// Tokens of all definitions, estimated.
    pub(crate) fn tokens(&self) -> u64 {
        self.definitions.iter().map(tokens).sum()
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

/// Whether a server may continue a call as a task.
fn has_tasks(status: &ServerStatus) -> bool {
    let Some(profile) = &status.profile else { return false };
    let extensions = profile.capabilities.0.get("extensions");
    profile.capabilities.has("tasks") || extensions.is_some_and(|all| all.get(TASKS).is_some())
}

fn adapt(vendor: Vendor, entry: &ToolEntry) -> Result<ToolDefinition, String> {
    let definition = &entry.item;
    let schema: Value = serde_json::from_str(&definition.input_schema.to_string()).unwrap_or_default();
    let hints = hints::words(definition.annotations.as_ref()).unwrap_or_default();
    let words = ToolWords { description: definition.description.as_deref().unwrap_or_default(), hints: &hints };
    schema::adapt_hinted(vendor, entry.public.as_str(), words, &schema).map_err(|left_out| left_out.to_string())
}

fn tokens(tool: &ToolDefinition) -> u64 {
    tokens_of(tool.name.len() + tool.description.len() + tool.input_schema.to_string().len())
}
