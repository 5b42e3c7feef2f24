//! The first stage of a call: finds the server of the requested item, and the item's name at that server.
//!
//! A caller finds items of visible servers only. A request for any other server is refused with the same error as one
//! for a server that does not exist, and wakes, awaits or suggests nothing. This is the only place that checks
//! visibility.

use std::sync::Arc;

use toolway_config::ServerName;
use toolway_wire::{
    json::Raw,
    message::{ServerCapabilities, item::Prompt},
};

use super::{CallKind, Caller, CallerContext, CompletionRef, MethodSpelling, Target, VisibleServers};
use crate::{
    catalog::{
        Catalog, Fingerprint, HiddenItem, ItemKind, Listing, Naming, NoOwner, Origin, PublicName, ToolEntry, uri,
    },
    connection::{Connection, NotConnected, Phase, pool::RequestOrigin},
    host::{Host, Inner},
    policy::{Annotations, Reach, Refusal, ResourceOffer, SeenUrls, Subject},
};

/// Destination of a request, with everything that later stages need of the catalog: they do not look it up again.
pub(super) struct Found {
    pub(super) connection: Connection,
    pub(super) subject: Subject,
    pub(super) fingerprint: Option<Fingerprint>,
    /// The tool as it is listed to this caller; `None` for other kinds.
    pub(super) tool: Option<ToolEntry>,
    /// Annotations that policy considers.
    pub(super) annotations: Annotations,
    /// How the server offers a resource.
    pub(super) offer: FoundOffer,
    /// Capabilities that the server declared when it was listed.
    pub(super) capabilities: Option<ServerCapabilities>,
    /// Revision of the shared catalog at that moment.
    pub(super) revision: u64,
    /// Whether `fingerprint` is the one in the shared catalog.
    pub(super) is_shared: bool,
    /// The definition of a tool or prompt, to be compared with what was seen first.
    pub(super) definition: FoundDefinition,
    /// Set if the server requires a sign-in first. The item may not be listed then.
    pub(super) sign_in_required: Option<NotConnected>,
}

/// A target as one caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The target, by server and raw name where the caller's own catalog differs.
    pub target: Target,
    /// Server and name at that server, if it is visible to the caller and either listed or given by server.
    pub origin: Option<Origin>,
    /// Whether a tool is not listed because its server has not listed anything yet: a call waits for that.
    pub is_awaited: bool,
}

/// How the server offers a resource; [`ResourceOffer`] without a borrow.
pub(super) enum FoundOffer {
    Listed,
    Template(String),
    Unlisted,
}

/// The definition of a tool or prompt, as this caller sees it.
pub(super) enum FoundDefinition {
    /// That of the tool in the shared catalog.
    Tool,
    /// That of the prompt in the shared catalog.
    Prompt(Arc<Prompt>),
    /// One that the server lists to this caller only.
    Own(OwnDefinition),
    /// It is not listed, or it has none.
    Unknown,
}

/// A definition that the server lists to one caller only: a client, or the user of this process.
pub(super) struct OwnDefinition {
    raw: Raw,
    fingerprint: Fingerprint,
    /// Label of the caller.
    pub(super) caller: String,
    /// The tool as that caller sees it; `None` for a prompt, and for a tool that has no public name there.
    tool: Option<ToolEntry>,
    /// Everything that the server lists to that caller.
    pub(super) listing: Arc<Listing>,
}

/// Lookup on behalf of one caller.
struct Finder<'a> {
    host: &'a Inner,
    visible: &'a VisibleServers,
    /// The whole context, made only when it is needed.
    caller_context: &'a (dyn Fn() -> CallerContext + Sync),
}

/// Whose lists a caller was shown.
struct ViewContext {
    context: CallerContext,
    shown: Shown,
}

/// Which lists a caller was shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Its own, where they differ from the shared ones.
    Own,
    /// The shared ones; it may find a name in its own.
    Shared,
}

/// The definition that a request is for.
#[derive(Clone, Copy)]
enum Chosen {
    /// The one in the shared catalog.
    AsListed,
    /// One that a caller sees.
    Definition(Fingerprint),
    Unknown,
}

/// An item, and its tool in the catalog where it is one.
struct ListedItem<'a> {
    kind: CallKind,
    origin: Origin,
    fingerprint: Option<Fingerprint>,
    tool: Option<&'a ToolEntry>,
}

/// Maximum number of names that are compared with an unknown name.
const MAX_COMPARED_NAMES: usize = 5_000;
/// Minimum Jaro-Winkler similarity of a suggested name.
const MIN_SIMILARITY: f64 = 0.7;

/// Finds the requested item. Waits for the listing of a server if the name has the prefix of that server.
pub(super) async fn find(
    host: &Inner,
    (visible, caller_context): (&VisibleServers, &(dyn Fn() -> CallerContext + Sync)),
    target: &Target,
    params: Option<&Raw>,
) -> Result<Found, Refusal> {
    if host.is_stopping() {
        return Err(Refusal::ShuttingDown);
    }
    let finder = Finder { host, visible, caller_context };
    match target {
        Target::Tool(name) => finder.find_by_name(CallKind::Tool, name).await,
        Target::Prompt(name) => finder.find_by_name(CallKind::Prompt, name).await,
        Target::Resource(uri) => finder.find_by_uri(uri).await,
        Target::ToolOf(origin) => finder.find_at(CallKind::Tool, origin.clone(), Chosen::AsListed),
        Target::PromptOf(origin) => finder.find_at(CallKind::Prompt, origin.clone(), Chosen::AsListed),
        Target::ResourceOf(origin) => finder.find_at(CallKind::Resource, origin.clone(), Chosen::Unknown),
        Target::Method { server, method } => {
            let (kind, raw_name) = resolve_method(method, params)?;
            finder.find_at(kind, Origin { server: server.clone(), raw_name }, Chosen::AsListed)
        }
    }
}

impl Host {
    /// Resolves a public name with the caller's own catalog ([`Host::catalog_of`]): returns the target by server and
    /// raw name if that catalog differs from the shared one in this name, otherwise the target unchanged.
    pub fn locate_for(&self, caller_context: &CallerContext, target: Target) -> Located {
        let catalog = self.catalog();
        let origin = find_in_catalog(&catalog, &caller_context.visible, &target);
        // With prefixes a name determines its server. Without prefixes, and for URIs, it may differ between catalogs.
        let names_server = catalog.naming() == Naming::Always && !matches!(target, Target::Resource(_));
        let is_awaited = origin.is_none() && self.awaits_tool(&catalog, &caller_context.visible, &target);
        if names_server && origin.is_some() {
            return Located { target, origin, is_awaited };
        }
        let view = self.catalog_of(caller_context);
        if Arc::ptr_eq(&view, &catalog) {
            return Located { target, origin, is_awaited };
        }
        match (find_in_catalog(&view, &caller_context.visible, &target), &target) {
            (Some(own), Target::Tool(_)) => Located::at(own, Target::ToolOf),
            (Some(own), Target::Prompt(_)) => Located::at(own, Target::PromptOf),
            (Some(own), Target::Resource(_)) => Located::at(own, Target::ResourceOf),
            (_, _) => Located { target, origin, is_awaited },
        }
    }

    /// Whether a tool of this name may come with the first listing of a server.
    fn awaits_tool(&self, catalog: &Catalog, visible: &VisibleServers, target: &Target) -> bool {
        let Target::Tool(name) = target else { return false };
        let has_not_listed =
            |origin: &Origin| visible.covers(&origin.server) && catalog.listing_of(&origin.server).is_none();
        name.origins(&self.inner().server_names()).iter().any(has_not_listed)
    }
}

impl Located {
    fn at(origin: Origin, target: impl FnOnce(Origin) -> Target) -> Self {
        Self { target: target(origin.clone()), origin: Some(origin), is_awaited: false }
    }
}

/// The definition of a listed tool or prompt.
pub(super) fn listed_fingerprint(catalog: &Catalog, subject: &Subject) -> Option<Fingerprint> {
    let Subject { server, kind, raw_name } = subject;
    match kind {
        CallKind::Tool => catalog.tool_at(server, raw_name).map(|tool| tool.fingerprint),
        CallKind::Prompt => catalog.prompt_at(server, raw_name).map(|prompt| prompt.fingerprint),
        CallKind::Resource | CallKind::Method => None,
    }
}

/// Finds a visible target in a catalog.
fn find_in_catalog(catalog: &Catalog, visible: &VisibleServers, target: &Target) -> Option<Origin> {
    let origin = match target {
        Target::Tool(name) => catalog.find_tool(name)?.origin.clone(),
        Target::Prompt(name) => catalog.find_prompt(name)?.origin.clone(),
        Target::Resource(uri) => catalog.owner_among(uri, |server| visible.covers(server)).ok()?,
        Target::ToolOf(origin) | Target::PromptOf(origin) | Target::ResourceOf(origin) => origin.clone(),
        Target::Method { .. } => return None,
    };
    visible.covers_item(target.kind(), &origin).then_some(origin)
}

impl Finder<'_> {
    /// Returns the connection of a visible server.
    fn connection(&self, server: &ServerName) -> Option<Connection> {
        self.host.connection(server).filter(|_| self.visible.covers(server))
    }

    fn find_at(&self, kind: CallKind, origin: Origin, chosen: Chosen) -> Result<Found, Refusal> {
        let catalog = self.host.catalog_publisher.catalog();
        let tool = catalog.tool_at(&origin.server, &origin.raw_name).filter(|_| kind == CallKind::Tool);
        let fingerprint = match chosen {
            Chosen::Unknown => None,
            Chosen::AsListed => match kind {
                CallKind::Prompt => {
                    catalog.prompt_at(&origin.server, &origin.raw_name).map(|prompt| prompt.fingerprint)
                }
                _ => tool.map(|tool| tool.fingerprint),
            },
            Chosen::Definition(fingerprint) => Some(fingerprint),
        };
        self.found(&catalog, ListedItem { kind, origin, fingerprint, tool }, chosen)
    }

    /// Everything about an item whose entry in the shared catalog is known.
    fn found(&self, catalog: &Catalog, item: ListedItem<'_>, chosen: Chosen) -> Result<Found, Refusal> {
        let ListedItem { kind, origin, fingerprint, tool } = item;
        let connection = self.connection(&origin.server);
        let connection = connection.ok_or_else(|| Refusal::UnknownServer(origin.server.to_string()))?;
        if !self.visible.covers_item(kind, &origin) {
            return Err(Refusal::Unknown { kind, name: origin.raw_name, near: None });
        }
        // A definition of this caller's own is compared by itself.
        if !matches!(chosen, Chosen::Definition(_))
            && let Some(hidden) = hidden_item(catalog, kind, &origin)
        {
            return Err(Refusal::hidden(hidden, origin.raw_name));
        }
        let own = self.own_definition(catalog, kind, &origin, &connection, chosen);
        let Origin { server, raw_name } = origin;
        let live = connection.live();
        let sign_in_required = match live.status.phase {
            Phase::Disabled => return Err(Refusal::Disabled(server)),
            Phase::SignInRequired { .. } => Some(live.status.not_connected()),
            _ => None,
        };
        let subject = Subject { server, kind, raw_name };
        let annotations = match (tool, &own) {
            (_, Some(own)) if kind == CallKind::Tool => Annotations::of_tool(own.raw.get("annotations").as_ref()),
            (Some(tool), _) => Annotations::of_tool(tool.item.annotations.as_ref()),
            (None, _) => Annotations::of_kind(kind, &subject.raw_name),
        };
        let fingerprint = own.as_ref().map(|own| own.fingerprint).or(fingerprint);
        let tool = match &own {
            Some(own) if kind == CallKind::Tool => own.tool.clone(),
            _ => tool.cloned(),
        };
        let prompt = || catalog.prompt_at(&subject.server, &subject.raw_name);
        let definition = match (own, kind) {
            (Some(own), _) => FoundDefinition::Own(own),
            (None, CallKind::Tool) if tool.is_some() => FoundDefinition::Tool,
            (None, CallKind::Prompt) => match prompt() {
                Some(prompt) => FoundDefinition::Prompt(Arc::clone(&prompt.item)),
                None => FoundDefinition::Unknown,
            },
            (None, _) => FoundDefinition::Unknown,
        };
        let is_shared = listed_fingerprint(catalog, &subject) == fingerprint;
        let offer = match kind {
            CallKind::Resource => offer_of(catalog, &subject),
            CallKind::Tool | CallKind::Prompt | CallKind::Method => FoundOffer::Listed,
        };
        let capabilities = catalog.listing_of(&subject.server).map(|listing| listing.capabilities.clone());
        Ok(Found {
            connection,
            subject,
            fingerprint,
            tool,
            annotations,
            offer,
            capabilities,
            revision: catalog.revision(),
            is_shared,
            definition,
            sign_in_required,
        })
    }

    /// The caller whose lists this one was shown. All calls of the user of this process have the lists of
    /// [`Host::own_catalog`], whichever conversation makes them.
    fn view_context(&self) -> ViewContext {
        let given = (self.caller_context)();
        let is_own_user = matches!(given.caller, Caller::Agent(_) | Caller::Console) && given.capabilities.is_some();
        match self.host.own_context().filter(|_| is_own_user) {
            Some(own) => ViewContext { context: own, shown: Shown::Own },
            None if given.caller.client().is_some() => ViewContext { context: given, shown: Shown::Own },
            None => ViewContext { context: given, shown: Shown::Shared },
        }
    }

    /// The definition that the server lists to this caller only; `None` if the caller sees the shared one.
    fn own_definition(
        &self,
        catalog: &Catalog,
        kind: CallKind,
        origin: &Origin,
        connection: &Connection,
        chosen: Chosen,
    ) -> Option<OwnDefinition> {
        // Few servers list anything else to single callers.
        if !matches!(kind, CallKind::Tool | CallKind::Prompt) || !connection.has_own_listings() {
            return None;
        }
        let ViewContext { context, shown } = self.view_context();
        // What was found in a view is compared as that view has it.
        if shown == Shown::Shared && !matches!(chosen, Chosen::Definition(_)) {
            return None;
        }
        let base = catalog.listing_of(&origin.server)?;
        let listing = connection.caller_listing(RequestOrigin::of(&context), base)?;
        let caller = context.caller.label();
        let own = match kind {
            CallKind::Tool => {
                let listed = listing.tools.iter().find(|tool| tool.item.name == origin.raw_name)?;
                let fingerprint = listed.fingerprint;
                let public = match catalog.tool_at(&origin.server, &origin.raw_name) {
                    Some(shared) => Some(shared.public.clone()),
                    None => {
                        let view = self.host.catalog_of(&context);
                        view.tool_at(&origin.server, &origin.raw_name).map(|tool| tool.public.clone())
                    }
                };
                let item = Arc::clone(&listed.item);
                let raw = item.raw.clone();
                let tool = public.map(|public| ToolEntry { public, origin: origin.clone(), item, fingerprint });
                OwnDefinition { raw, fingerprint, caller, tool, listing }
            }
            _ => {
                let prompt = listing.prompts.iter().find(|prompt| prompt.item.name == origin.raw_name)?;
                let fingerprint = prompt.fingerprint;
                let raw = prompt.item.raw.clone();
                OwnDefinition { raw, fingerprint, caller, tool: None, listing }
            }
        };
        let subject = Subject { server: origin.server.clone(), kind, raw_name: origin.raw_name.clone() };
        (listed_fingerprint(catalog, &subject) != Some(own.fingerprint)).then_some(own)
    }

    async fn find_by_name(&self, kind: CallKind, name: &PublicName) -> Result<Found, Refusal> {
        if let Some(found) = self.find_listed(kind, name) {
            return found;
        }
        let origins = name.origins(&self.host.server_names());
        for connection in origins.iter().filter_map(|origin| self.connection(&origin.server)) {
            self.wait_until_listed(&connection).await?;
        }
        if let Some(found) = self.find_listed(kind, name) {
            return found;
        }
        // Boxed: the future is large and rarely needed.
        match Box::pin(self.find_in_own_view(kind, name)).await {
            Some((origin, fingerprint)) => self.find_at(kind, origin, Chosen::Definition(fingerprint)),
            None => self.find_sign_in_required(kind, origins).ok_or_else(|| self.unknown(kind, name)),
        }
    }

    /// Finds a name in the caller's own view, after a bounded wait for the parts of it that are not known yet.
    async fn find_in_own_view(&self, kind: CallKind, name: &PublicName) -> Option<(Origin, Fingerprint)> {
        // With prefixes a name determines its server.
        let naming = self.host.catalog_publisher.catalog().naming();
        let origins = name.origins(&self.host.server_names());
        let may_have_it =
            |server: &ServerName| naming != Naming::Always || origins.iter().any(|origin| origin.server == *server);
        let caller_context = self.view_context().context;
        self.host.wait_for_own_view(&caller_context, |server| self.visible.covers(server) && may_have_it(server)).await;
        let view = self.host.catalog_of(&caller_context);
        let listed = listed_in(&view, self.visible, kind, name)?;
        Some((listed.origin, listed.fingerprint?))
    }

    /// Finds a visible name in the shared catalog; `None` if it is not listed there. A name that is that of another item in
    /// the lists that this caller was shown is found there.
    fn find_listed(&self, kind: CallKind, name: &PublicName) -> Option<Result<Found, Refusal>> {
        let catalog = self.host.catalog_publisher.catalog();
        let listed = listed_in(&catalog, self.visible, kind, name)?;
        // With prefixes a name determines its server.
        if catalog.naming() != Naming::Always
            && let ViewContext { context, shown: Shown::Own } = self.view_context()
        {
            let view = self.host.catalog_of(&context);
            let shown = listed_in(&view, self.visible, kind, name)?;
            if shown.origin != listed.origin {
                let chosen = Chosen::Definition(shown.fingerprint?);
                return Some(self.find_at(kind, shown.origin, chosen));
            }
        }
        Some(self.found(&catalog, listed, Chosen::AsListed))
    }

    /// Finds an unlisted item whose server requires a sign-in, so that the call fails with that reason.
    fn find_sign_in_required(&self, kind: CallKind, origins: impl IntoIterator<Item = Origin>) -> Option<Found> {
        let mut found = origins.into_iter().filter_map(|origin| self.find_at(kind, origin, Chosen::Unknown).ok());
        found.find(|found| found.sign_in_required.is_some())
    }

    /// Waits until a server was listed.
    async fn wait_until_listed(&self, connection: &Connection) -> Result<(), Refusal> {
        if connection.is_disabled() {
            return Err(Refusal::Disabled(connection.name().clone()));
        }
        Box::pin(self.host.wait_until_listed(connection)).await;
        // A sign-in has just ended and the server is being connected again.
        if !connection.live().status.phase.is_settled() {
            Box::pin(self.host.wait_until_listed(connection)).await;
        }
        Ok(())
    }

    async fn find_by_uri(&self, uri: &str) -> Result<Found, Refusal> {
        let owner = || self.host.catalog_publisher.catalog().owner_among(uri, |server| self.visible.covers(server));
        let (owner, named) = match (owner(), uri::split_owned(uri)) {
            (Err(NoOwner::Unknown(_)), Some((server, raw_name))) => {
                if let Some(connection) = self.connection(&server) {
                    self.wait_until_listed(&connection).await?;
                }
                (owner(), Some(Origin { server, raw_name: raw_name.into_owned() }))
            }
            (owner, _) => (owner, None),
        };
        match owner {
            Ok(origin) => self.find_at(CallKind::Resource, origin, Chosen::Unknown),
            Err(NoOwner::Unknown(name)) => {
                let unknown = Refusal::Unknown { kind: CallKind::Resource, name, near: None };
                self.find_sign_in_required(CallKind::Resource, named).ok_or(unknown)
            }
            Err(ambiguous @ NoOwner::Ambiguous { .. }) => Err(Refusal::Malformed(ambiguous.to_string())),
        }
    }

    fn unknown(&self, kind: CallKind, name: &PublicName) -> Refusal {
        let catalog = self.host.catalog_publisher.catalog();
        let origins = name.origins(&self.host.server_names());
        let mut hidden = origins.iter().filter_map(|origin| hidden_item(&catalog, kind, origin));
        if let Some(hidden) = hidden.find(|hidden| self.visible.covers_item(kind, &hidden.origin)) {
            return Refusal::hidden(hidden, name.to_string());
        }
        Refusal::Unknown { kind, name: name.to_string(), near: self.nearest(kind, name.as_str()) }
    }

    /// Returns the most similar visible name.
    fn nearest(&self, kind: CallKind, name: &str) -> Option<String> {
        let catalog = self.host.catalog_publisher.catalog();
        let tools = || catalog.tools().iter().map(|entry| (&entry.origin, &entry.public));
        let prompts = || catalog.prompts().iter().map(|entry| (&entry.origin, &entry.public));
        let seen = |(origin, public): (&Origin, &PublicName)| {
            let alike = || (strsim::jaro_winkler(public.as_str(), name), public.to_string());
            self.visible.covers_item(kind, origin).then(alike)
        };
        let scored: Vec<_> = match kind {
            CallKind::Tool => tools().filter_map(seen).take(MAX_COMPARED_NAMES).collect(),
            _ => prompts().filter_map(seen).take(MAX_COMPARED_NAMES).collect(),
        };
        let best = scored.into_iter().max_by(|one, other| one.0.total_cmp(&other.0))?;
        (MIN_SIMILARITY < best.0).then_some(best.1)
    }
}

/// A tool or prompt that policy hides.
fn hidden_item<'a>(catalog: &'a Catalog, kind: CallKind, origin: &Origin) -> Option<&'a HiddenItem> {
    let kind = match kind {
        CallKind::Tool => ItemKind::Tool,
        CallKind::Prompt => ItemKind::Prompt,
        CallKind::Resource | CallKind::Method => return None,
    };
    catalog.hidden_at(kind, &origin.server, &origin.raw_name)
}

impl Found {
    /// The definition as it is listed.
    pub(super) fn raw_definition(&self) -> Option<&Raw> {
        match &self.definition {
            FoundDefinition::Tool => self.tool.as_ref().map(|tool| &tool.item.raw),
            FoundDefinition::Prompt(prompt) => Some(&prompt.raw),
            FoundDefinition::Own(own) => Some(&own.raw),
            FoundDefinition::Unknown => None,
        }
    }

    /// What policy knows about where the request goes.
    pub(super) fn reach<'a>(&'a self, seen: Option<&'a SeenUrls>, roots: &'a [String]) -> Reach<'a> {
        let resource = match &self.offer {
            FoundOffer::Listed => ResourceOffer::Listed,
            FoundOffer::Template(template) => ResourceOffer::Template(template),
            FoundOffer::Unlisted => ResourceOffer::Unlisted,
        };
        Reach { schema: self.tool.as_ref().map(|tool| &tool.item.input_schema), seen, resource, roots }
    }

    /// Public name of a listed tool.
    pub(super) fn public_name(&self) -> Option<&PublicName> {
        self.tool.as_ref().map(|tool| &tool.public)
    }
}

fn offer_of(catalog: &Catalog, subject: &Subject) -> FoundOffer {
    let Subject { server, raw_name, .. } = subject;
    match catalog.lists_resource(server, raw_name) {
        true => FoundOffer::Listed,
        false => catalog.template_of(server, raw_name).map_or(FoundOffer::Unlisted, FoundOffer::Template),
    }
}

/// Finds a visible tool or prompt by its public name.
fn listed_in<'a>(
    catalog: &'a Catalog,
    visible: &VisibleServers,
    kind: CallKind,
    name: &PublicName,
) -> Option<ListedItem<'a>> {
    let tool = catalog.find_tool(name).filter(|_| kind == CallKind::Tool);
    let (origin, fingerprint) = match kind {
        CallKind::Tool => tool.map(|tool| (&tool.origin, tool.fingerprint))?,
        _ => catalog.find_prompt(name).map(|prompt| (&prompt.origin, prompt.fingerprint))?,
    };
    let listed = || ListedItem { kind, origin: origin.clone(), fingerprint: Some(fingerprint), tool };
    visible.covers_item(kind, origin).then(listed)
}

/// Determines the item that a raw method with these params is about, so that policy rules and filters apply to raw
/// requests too. Refuses a request that servers may read differently, and one that is not a single request and response.
fn resolve_method(method: &str, params: Option<&Raw>) -> Result<(CallKind, String), Refusal> {
    if method.starts_with("notifications/") || method.starts_with("subscriptions/") {
        return Err(Refusal::Malformed(format!("`{method}` cannot be sent as a raw request")));
    }
    match MethodSpelling::of(method) {
        MethodSpelling::Protocol | MethodSpelling::Other => {}
        MethodSpelling::Disguised => {
            let problem = "is another spelling of a method of the protocol, which servers may read as that method";
            return Err(Refusal::Malformed(format!("`{method}` {problem}")));
        }
        MethodSpelling::Unreadable => {
            let escaped = method.escape_default();
            return Err(Refusal::Malformed(format!(
                "method `{escaped}` must consist of visible ASCII characters without `%`"
            )));
        }
    }
    let member = |key: &'static str| params.and_then(|params| params.get(key));
    // Some servers take `["read"]` for `"read"`.
    let text = |key: &'static str| match member(key) {
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text.into_owned())),
            None => Err(Refusal::Malformed(format!("`{key}` of `{method}` must be a string"))),
        },
        None => Ok(None),
    };
    let (kind, name) = match method {
        "tools/call" => (CallKind::Tool, text("name")?),
        "prompts/get" => (CallKind::Prompt, text("name")?),
        "resources/read" | "resources/subscribe" => (CallKind::Resource, text("uri")?),
        "completion/complete" => match member("ref") {
            Some(raw) => {
                let about = CompletionRef::parse(&raw).map_err(Refusal::Malformed)?;
                (about.kind(), Some(about.name().to_owned()))
            }
            None => (CallKind::Method, None),
        },
        _ => (CallKind::Method, None),
    };
    Ok((kind, name.unwrap_or_else(|| method.to_owned())))
}
