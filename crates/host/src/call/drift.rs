//! Whether a tool or prompt and its server are still what was seen first, and what becomes of the call if not.
//!
//! `drift/entry.rs` has the entry of a server with the files that it names, `drift/instructions.rs` its instructions.

mod entry;
mod instructions;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use entry::NamedFiles;
pub(crate) use entry::{EntryNow, entry_baseline};
pub use instructions::ServerInstructions;
use instructions::UnacceptedInstructions;

use parking_lot::Mutex;
use serde_json::json;
use toolway_config::{DriftEffect, ServerName};
use toolway_wire::json::Raw;

use super::{
    CallKind, Caller,
    find::{Found, FoundDefinition},
};
use crate::{
    catalog::{
        Catalog, Fingerprint, ItemKind, Listing,
        entry::{CatalogItem, ListedItem},
        guard,
    },
    connection::Way,
    host::Inner,
    policy::{
        Surface,
        baseline::{Baseline, MAX_ITEMS, SeenItem, SeenServer, Sight},
    },
    record::{AuditNote, kind},
};

/// Tools and prompts that were compared since the last change of the configuration, and of a file that an entry names.
#[derive(Debug, Default)]
pub(crate) struct ComparedDefinitions {
    // No await under this lock.
    compared: Mutex<HashMap<ServerName, ComparedOfServer>>,
}

/// Those of one server, by name.
#[derive(Debug, Default)]
struct ComparedOfServer {
    tools: HashMap<String, Compared>,
    prompts: HashMap<String, Compared>,
    /// What single callers see, by its stored key.
    own: HashMap<String, Compared>,
    /// The files that the entry of the server names, as they were compared.
    files: Option<NamedFiles>,
    /// Bytes of the names.
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Compared {
    fingerprint: Fingerprint,
    policy_revision: u64,
    /// Whether it is the baseline; else it is recorded that it is not, and only callers that are not asked pass.
    is_baseline: bool,
}

/// A definition or server that is not what was seen first.
pub(super) struct Drift {
    /// What becomes of the call.
    pub(super) effect: DriftEffect,
    /// The differences, one on each line.
    pub(super) lines: Vec<String>,
    /// The definitions as they are now.
    now: Vec<Baseline>,
    /// Compared definitions are the baseline if a person has approved them, or if models pass without one. A call of another
    /// caller, who is not shown the difference, decides nothing for models.
    compared: Compared,
    files: Option<NamedFiles>,
}

/// Bytes of differences in one entry of the audit log.
const MAX_AUDITED: usize = 64 * 1024;
/// Bytes of names of one server that are remembered as compared.
const MAX_COMPARED_BYTES: usize = 1024 * 1024;

impl ComparedDefinitions {
    /// Forgets what was compared of a server if a file that its entry names has changed and a process was started since
    /// then: that process may run another program. Returns whether it did.
    fn forget_if_started_anew(&self, host: &Inner, server: &ServerName) -> bool {
        let files = self.compared.lock().get(server).and_then(|of_server| of_server.files.clone());
        let Some(files) = files else { return false };
        let attempts = host.context.dialer.sign_ins.counters.of(server).counts().attempts;
        if files.were_compared_at(attempts) {
            return false;
        }
        let are_same = files.are_unchanged();
        let mut servers = self.compared.lock();
        match servers.get_mut(server) {
            Some(of_server) if are_same => of_server.files = Some(files.compared_at(attempts)),
            _ => drop(servers.remove(server)),
        }
        !are_same
    }

    /// Forgets what was compared of a server.
    fn forget(&self, server: &ServerName) {
        self.compared.lock().remove(server);
    }

    /// Whether the definition was compared as it is now, with a result that holds for this caller.
    fn contains(&self, found: &Found, wanted: &Compared, caller: &Caller) -> bool {
        let is_same = |known: &Compared| {
            let holds = known.is_baseline || !matches!(caller, Caller::Agent(_));
            holds && known.fingerprint == wanted.fingerprint && known.policy_revision == wanted.policy_revision
        };
        let servers = self.compared.lock();
        let Some(server) = servers.get(&found.subject.server) else { return false };
        let known = match &found.definition {
            FoundDefinition::Tool => server.tools.get(&found.subject.raw_name),
            FoundDefinition::Prompt(_) => server.prompts.get(&found.subject.raw_name),
            FoundDefinition::Own(_) => item_of(found).and_then(|item| server.own.get(&item.key())),
            FoundDefinition::Unknown => None,
        };
        known.is_some_and(is_same)
    }

    fn insert(&self, found: &Found, compared: Compared, files: Option<NamedFiles>) {
        let Some(item) = item_of(found) else { return };
        let mut servers = self.compared.lock();
        let server = servers.entry(found.subject.server.clone()).or_default();
        // Of two comparisons the one that began first counts: what changed since then is compared again.
        if server.files.as_ref().is_none_or(|known| files.as_ref().is_some_and(|files| files.is_older_than(known))) {
            server.files = files;
        }
        let (names, key) = match item {
            SeenItem::Shared { kind: ItemKind::Prompt, name } => (&mut server.prompts, name),
            SeenItem::Shared { name, .. } => (&mut server.tools, name),
            item => (&mut server.own, item.key()),
        };
        let bytes = key.len();
        if names.insert(key, compared).is_none() {
            server.bytes += bytes;
        }
        // What is forgotten is compared again.
        if MAX_COMPARED_BYTES < server.bytes {
            *server = ComparedOfServer::default();
        }
    }
}

/// What the definition of a call is compared as; `None` if it has none.
fn item_of(found: &Found) -> Option<SeenItem> {
    let kind = match found.subject.kind {
        CallKind::Tool => ItemKind::Tool,
        CallKind::Prompt => ItemKind::Prompt,
        CallKind::Resource | CallKind::Method => return None,
    };
    let name = found.subject.raw_name.clone();
    match &found.definition {
        FoundDefinition::Unknown => None,
        FoundDefinition::Tool | FoundDefinition::Prompt(_) => Some(SeenItem::Shared { kind, name }),
        FoundDefinition::Own(own) => Some(SeenItem::Own { kind, name, caller: own.caller.clone() }),
    }
}

/// Compares the definition of a call with its baseline. The first sight of a server keeps all its tools and prompts as they
/// are.
pub(super) async fn find(host: &Inner, found: &Found, caller: &Caller, surface: Surface) -> Option<Drift> {
    let print = found.fingerprint?;
    host.compared.forget_if_started_anew(host, &found.subject.server);
    let compared = Compared { fingerprint: print, policy_revision: host.policy_revision(), is_baseline: true };
    // It was listed to this caller a moment ago, and nothing is known of it now.
    let Some(raw) = found.raw_definition() else {
        return Some(not_compared(host, caller, compared, "its definition is not known any more"));
    };
    if host.compared.contains(found, &compared, caller) {
        return None;
    }
    let item = item_of(found)?;
    let definition = DefinitionNow { item, raw, print, surface };
    Box::pin(compare(host, found, caller, definition, compared)).await
}

/// Whether a process of the server was started since its definitions were compared, and a file that its entry names has
/// changed: the call has to be decided on again.
pub(super) fn is_outdated(host: &Inner, found: &Found) -> bool {
    host.compared.forget_if_started_anew(host, &found.subject.server)
}

/// A definition as it is listed now.
struct DefinitionNow<'a> {
    item: SeenItem,
    raw: &'a Raw,
    print: Fingerprint,
    /// Where the call is from.
    surface: Surface,
}

async fn compare(
    host: &Inner,
    found: &Found,
    caller: &Caller,
    definition: DefinitionNow<'_>,
    compared: Compared,
) -> Option<Drift> {
    let server = &found.subject.server;
    let wanted = found.connection.wanted();
    let environment = host.context.dialer.environment.clone();
    let attempts = host.context.dialer.sign_ins.counters.of(server).counts().attempts;
    let read = move || EntryNow::read(&wanted, &environment, attempts);
    let entry = match &found.connection.wanted().way {
        Way::Configured(_) => entry::read_with(read).await,
        // It names no files.
        _ => Ok(read()),
    };
    let EntryNow { baseline: entry, files } = match entry {
        Ok(entry) => entry,
        Err(error) => {
            tracing::error!(%error, %server, "the files that a server's entry names cannot be read");
            return Some(not_compared(host, caller, compared, "what the server's entry names cannot be read"));
        }
    };
    let DefinitionNow { item, raw, print, surface } = definition;
    let now = Baseline::of(server, item, raw, print);
    let baselines = &host.context.ports.baselines;
    let seen = match baselines.digests(server).await {
        Ok(seen) => SeenServer::new(seen),
        Err(error) => {
            tracing::error!(%error, %server, "definitions that were seen cannot be read");
            return Some(not_compared(host, caller, compared, UNREADABLE));
        }
    };
    let mut lines = Vec::new();
    if seen.entry(&entry.digest) == Sight::Changed {
        let difference = difference(host, &entry).await;
        lines.extend(difference.into_iter().map(|line| format!("server: {line}")));
    }
    let unaccepted = instructions::unaccepted(host, &found.connection).await;
    let is_asked = instructions::are_asked_about(caller, surface);
    // A call that does not ask about them leaves the question to the next one that does.
    let compared = Compared { is_baseline: unaccepted.is_none() || is_asked, ..compared };
    let instructions = unaccepted.filter(|_| is_asked).map(|UnacceptedInstructions { now, difference }| {
        lines.extend(difference.into_iter().map(|line| format!("server: {line}")));
        now
    });
    let sight = seen.item(&now.item, &now.digest);
    match sight {
        Sight::First | Sight::Same => {}
        Sight::Changed => lines.extend(difference(host, &now).await),
        Sight::New if lines.is_empty() => lines.push(guard::NEW.to_owned()),
        Sight::New => {}
    }
    if lines.is_empty() {
        if sight == Sight::First {
            let catalog = host.catalog_publisher.catalog();
            let shared = catalog.listing_of(server);
            let mut first = shared.map(|listing| first_sight(server, &seen, &entry, listing)).unwrap_or_default();
            // With the first definition of a caller's own, all of its own are known: a later one is new.
            first.extend(own_first_sight(found, &seen, &catalog));
            first.push(now);
            if !save(host, first).await {
                // Else every later look would be the first one.
                return Some(not_compared(host, caller, compared, UNSAVED));
            }
        }
        host.compared.insert(found, compared, files);
        return None;
    }
    let kind = if sight == Sight::New && lines.len() == 1 && lines[0] == guard::NEW {
        DriftKind::New
    } else {
        DriftKind::Changed
    };
    let policy = host.policy();
    let effect = policy.drift_effect(caller, kind);
    let is_baseline = effect == DriftEffect::Ask || policy.drift_effect(&Caller::Agent("".into()), kind) == effect;
    Some(Drift {
        effect,
        lines,
        now: [entry, now].into_iter().chain(instructions).collect(),
        compared: Compared { is_baseline, ..compared },
        files,
    })
}

/// Said where a baseline is not at hand.
const UNREADABLE: &str = "what was seen before cannot be read";

/// Said where the first sight of a definition could not be kept.
const UNSAVED: &str = "it is seen for the first time, and that cannot be kept";

/// How a definition differs from its baseline.
async fn difference(host: &Inner, now: &Baseline) -> Vec<String> {
    if let Ok(Some(before)) = host.context.ports.baselines.find(&now.server, &now.item).await {
        return before.difference(now);
    }
    // What all callers saw under this name is what this one expects.
    if let SeenItem::Own { kind, name, .. } = &now.item
        && let Ok(Some(before)) = host.context.ports.baselines.find(&now.server, &SeenItem::shared(*kind, name)).await
    {
        return before.difference(now);
    }
    vec![UNREADABLE.to_owned()]
}

/// A comparison that was not possible counts as a change, which nothing accepts for later calls.
fn not_compared(host: &Inner, caller: &Caller, compared: Compared, why: &str) -> Drift {
    let effect = host.policy().drift_effect(caller, DriftKind::Changed);
    Drift { effect, lines: vec![why.to_owned()], now: Vec::new(), compared, files: None }
}

/// What is kept at the first sight of a server, or of a kind of its items: the entry, and what it lists to all.
pub(crate) fn first_sight(
    server: &ServerName,
    seen: &SeenServer,
    entry: &Baseline,
    listing: &Listing,
) -> Vec<Baseline> {
    let mut first = Vec::new();
    if seen.entry(&entry.digest) == Sight::First {
        first.push(entry.clone());
    }
    let shared = |kind, name: &str, _| Some(SeenItem::shared(kind, name));
    add_first(server, seen, &listing.tools, shared, &mut first);
    add_first(server, seen, &listing.prompts, shared, &mut first);
    first
}

/// What is kept at the first sight of a definition that only one caller is listed: all of those.
fn own_first_sight(found: &Found, seen: &SeenServer, catalog: &Catalog) -> Vec<Baseline> {
    let FoundDefinition::Own(own) = &found.definition else { return Vec::new() };
    let server = &found.subject.server;
    let mut first = Vec::new();
    let item = |kind, name: &str, fingerprint| {
        let shared = match kind {
            ItemKind::Prompt => catalog.prompt_at(server, name).map(|prompt| prompt.fingerprint),
            _ => catalog.tool_at(server, name).map(|tool| tool.fingerprint),
        };
        let item = SeenItem::Own { kind, name: name.to_owned(), caller: own.caller.clone() };
        (shared != Some(fingerprint)).then_some(item)
    };
    add_first(server, seen, &own.listing.tools, item, &mut first);
    add_first(server, seen, &own.listing.prompts, item, &mut first);
    first
}

/// Adds the definitions that are seen for the first time, of those with an `item`.
fn add_first<T: CatalogItem>(
    server: &ServerName,
    seen: &SeenServer,
    listed: &[ListedItem<T>],
    item: impl Fn(ItemKind, &str, Fingerprint) -> Option<SeenItem>,
    first: &mut Vec<Baseline>,
) {
    // Of several items of one name only the first is offered.
    let mut names = HashSet::new();
    for listed in listed.iter().take(MAX_ITEMS) {
        let name = listed.item.raw_name();
        let Some(item) = item(T::KIND, name, listed.fingerprint) else { continue };
        if names.insert(name) && seen.item(&item, &listed.fingerprint.to_string()) == Sight::First {
            first.push(Baseline::of(server, item, listed.item.raw(), listed.fingerprint));
        }
    }
}

/// What differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriftKind {
    Changed,
    New,
}

impl Drift {
    /// The differences in one text, each on a line.
    pub(super) fn reason(&self) -> String {
        self.lines.join(";\n")
    }

    /// The changed instructions of the server, if an approval accepts them.
    pub(super) fn instructions(&self) -> Option<String> {
        let baseline = self.now.iter().find(|baseline| baseline.item == SeenItem::Instructions)?;
        let text = Raw::parse(baseline.text.clone()).ok()?.get("instructions")?;
        text.as_str().map(Cow::into_owned)
    }

    /// As many of the differences as the audit log keeps. A person who is asked sees all.
    fn audited(&self) -> Vec<&str> {
        let mut bytes = 0;
        let fits = |line: &&str| {
            bytes += line.len();
            bytes <= MAX_AUDITED
        };
        self.lines.iter().map(String::as_str).take_while(fits).collect()
    }

    /// Records that the call passes. The definitions as they are now become the baseline if a person has seen the difference,
    /// or if policy lets models pass without.
    pub(super) async fn accept(self, host: &Inner, found: &Found, caller: &Caller) {
        let server = &found.subject.server;
        let audited = self.audited();
        let further = self.lines.len() - audited.len();
        let mut details = json!({ "change": "definition", "effect": self.effect.as_str(), "differences": audited });
        if 0 < further {
            details["further"] = further.into();
        }
        host.context.note(AuditNote {
            kind: kind::DECISION,
            caller: Some(caller.label()),
            server: Some(server.clone()),
            subject: Some(found.subject.raw_name.clone()),
            call: None,
            details,
        });
        if !self.now.is_empty() {
            if self.compared.is_baseline {
                save(host, self.now).await;
            }
            host.compared.insert(found, self.compared, self.files);
        }
    }
}

async fn save(host: &Inner, baselines: Vec<Baseline>) -> bool {
    let saved = host.context.ports.baselines.save(baselines).await;
    if let Err(error) = &saved {
        tracing::error!(%error, "definitions that were seen cannot be kept");
    }
    host.catalog_publisher.compare_again();
    saved.is_ok()
}
