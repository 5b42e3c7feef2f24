//! Which tools a server lists only to clients whose user answers its requests: forms, URLs, sampling that is asked about.
//!
//! The lists of a command are those of such a client. To mark these tools, the server is listed once more as a client that
//! answers nothing; what came of it is remembered for as long as the server lists the same names.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use toolway_config::ServerName;
use toolway_host::{
    catalog::{Catalog, ItemKind},
    connection::{Lists, ServerStatus},
    host::Host,
    inbox::NoAnswerer,
    state_file::StateFile,
};

use crate::{app::App, lifecycle, target::Target};

/// How long the second lists may take; what is not known then is not marked.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum size of the file in bytes.
const BYTES: usize = 1024 * 1024;
/// Maximum number of servers in the file.
const MAX_SERVERS: usize = 256;

/// Tools that are listed only to clients whose user answers, by server.
#[derive(Debug, Default)]
pub(crate) struct AnsweringTools(BTreeMap<ServerName, BTreeSet<String>>);

impl AnsweringTools {
    /// Whether this tool of the server needs such a client.
    pub(crate) fn has(&self, server: &ServerName, tool: &str) -> bool {
        self.0.get(server).is_some_and(|tools| tools.contains(tool))
    }
}

/// Content of the file: by server and definition, the names that were listed, and whether each needs a client that answers.
type Remembered = BTreeMap<String, BTreeMap<String, bool>>;

impl App {
    /// The tools of these servers, which are listed in `host`, that need a user who answers.
    pub(crate) async fn answering_tools(&self, host: &Host, targets: &[Target]) -> AnsweringTools {
        let catalog = host.catalog();
        let mut remembered = self.remembered_tools();
        let mut found = AnsweringTools::default();
        let mut unknown = Vec::new();
        for target in targets {
            let server = &target.server.name;
            if !host.status(server).is_ok_and(|status| can_depend_on_client(&status)) {
                continue;
            }
            let listed = names(&catalog, server);
            let known = definition(target).and_then(|key| remembered.get(&key));
            match known.filter(|known| known.keys().eq(&listed)) {
                Some(known) => {
                    let answering = known.iter().filter(|(_, needs_answers)| **needs_answers);
                    found.0.insert(server.clone(), answering.map(|(name, _)| name.clone()).collect());
                }
                None => unknown.push(target.clone()),
            }
        }
        for (server, plain) in self.plain_names(&unknown).await {
            let listed = names(&catalog, &server);
            let target = unknown.iter().find(|target| target.server.name == server);
            if let Some(key) = target.and_then(definition) {
                let named = listed.iter().map(|name| (name.clone(), !plain.contains(name)));
                remembered.insert(key, named.collect());
            }
            found.0.insert(server, listed.difference(&plain).cloned().collect());
        }
        if !unknown.is_empty() {
            self.remember_tools(remembered);
        }
        found
    }

    /// The names that these servers list to a client that answers nothing; without those that do not respond in time.
    async fn plain_names(&self, targets: &[Target]) -> BTreeMap<ServerName, BTreeSet<String>> {
        if targets.is_empty() {
            return BTreeMap::new();
        }
        let Ok((host, _taps)) = self.command_host(targets, Lists::Only(ItemKind::Tool), Arc::new(NoAnswerer)).await
        else {
            return BTreeMap::new();
        };
        let listed = join_all(targets.iter().map(async |target| {
            let server = &target.server.name;
            let listing = async { host.connect(server).await.is_ok() && host.list(server).await.is_ok() };
            let is_listed = tokio::time::timeout(PATIENCE, listing).await.unwrap_or(false);
            is_listed.then(|| (server.clone(), names(&host.catalog(), server)))
        }));
        let listed = listed.await.into_iter().flatten().collect();
        lifecycle::disconnect(&host).await;
        listed
    }

    fn remembered_tools(&self) -> Remembered {
        let text = self.tools_file().and_then(|file| file.read().ok().flatten());
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Without the file the servers are listed twice again, which is no reason to fail.
    fn remember_tools(&self, mut remembered: Remembered) {
        while MAX_SERVERS < remembered.len() {
            remembered.pop_first();
        }
        if let (Some(file), Ok(text)) = (self.tools_file(), serde_json::to_vec(&remembered)) {
            let written = file.lock().and_then(|lock| file.replace(&lock, &text));
            written.unwrap_or_else(|error| tracing::debug!(%error, "cannot store which tools need answers"));
        }
    }

    fn tools_file(&self) -> Option<StateFile> {
        Some(StateFile::at(self.paths.state.as_ref()?.join("catalog/answering-tools"), BYTES))
    }
}

/// A list depends on the client only if the server can change it when it learns what the client declares.
fn can_depend_on_client(status: &ServerStatus) -> bool {
    status.profile.as_ref().is_some_and(|profile| profile.capabilities.flag("tools", "listChanged"))
}

fn names(catalog: &Catalog, server: &ServerName) -> BTreeSet<String> {
    catalog.tools_of(server).iter().map(|tool| tool.item.name.clone()).collect()
}

/// The server and its connection settings; `None` for a server of the command line.
fn definition(target: &Target) -> Option<String> {
    target.entry.as_ref()?;
    Some(format!("{} {}", target.server.name, target.server.definition()?))
}
