//! What changes, told to whoever wants to hear it: lists by the catalog, resources by their servers.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use tokio::sync::{
    broadcast::{self, error::RecvError},
    mpsc, watch,
};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{OnBehalf, Subscription, beside::Update},
    catalog::{Catalog, Diff, ItemKind},
    connection::{OwnChange, OwnLog},
};
use toolway_wire::{
    down::{Caller, Heard},
    json::Raw,
    message::splice::{self, Edit},
    notice::{List, Notice, Wanted},
};

use super::{Scope, tasks};
use crate::access::Client;

/// Notices that wait for one listener; over the bound the listener is told that it missed some.
const UNHEARD: usize = 64;
/// How long a server may take to say whether it tells of a resource.
const TO_HONOUR: Duration = Duration::from_millis(500);
/// How long all of them may take together, where there are many and few may be asked at once.
const TO_HONOUR_ALL: Duration = Duration::from_secs(4);
/// Resources of one subscription.
const MOST_URIS: usize = 1_000;

/// Listens to nothing.
pub(super) fn nothing() -> Heard {
    let (_, notices) = mpsc::channel(1);
    Heard { honoured: Wanted::default(), notices }
}

/// Begins to listen. What no server tells of is not honoured.
pub(super) async fn listen(host: &Host, scope: &Scope, client: Arc<Client>, caller: &Caller, wanted: Wanted) -> Heard {
    let (sender, notices) = mpsc::channel(UNHEARD);
    // From here on nothing is lost: what changes while servers are asked is seen by comparison.
    let mut catalogs = host.watch_catalog();
    catalogs.borrow_and_update();
    let (own, on_behalf) = ((host.own_changes(), host.own_logs()), tasks::on_behalf((&client, caller)));
    let known = host.catalog_of(&on_behalf);
    let subscriptions = subscribed(host, scope, &on_behalf, &wanted.uris).await;
    let uris = subscriptions.iter().map(|(uri, _)| uri.clone()).collect();
    let honoured = Wanted { uris, ..wanted.clone() };
    let lists = Lists { host: host.clone(), on_behalf, scope: scope.clone(), client, wanted };
    let tasks = tokio::runtime::Handle::current();
    if lists.wanted.tools || lists.wanted.prompts || lists.wanted.resources {
        tasks.spawn(lists.tell((catalogs, known), own, sender.clone()));
    }
    for (uri, subscription) in subscriptions {
        tasks.spawn(tell_of(uri, subscription, sender.clone()));
    }
    Heard { honoured, notices }
}

/// Subscribes to what may be subscribed to, in the order in which it was asked for.
async fn subscribed(host: &Host, scope: &Scope, on_behalf: &OnBehalf, uris: &[String]) -> Vec<(String, Subscription)> {
    let asked = async |(place, uri): (usize, &String)| {
        let target = host.located(on_behalf, scope.resource(uri.clone()));
        let subscribing = host.subscribe(on_behalf.clone(), target);
        let subscription = tokio::time::timeout(TO_HONOUR, subscribing).await.ok()?.ok()?;
        Some((place, (uri.clone(), subscription)))
    };
    // Together they would take all the calls that the client may have under way.
    let at_once = (host.calls_per_client() / 2).max(1);
    let each = futures_util::stream::iter(uris.iter().take(MOST_URIS).enumerate().map(asked));
    let each = each.buffer_unordered(at_once).take_until(tokio::time::sleep(TO_HONOUR_ALL));
    let mut subscribed: Vec<_> = each.filter_map(std::future::ready).collect().await;
    subscribed.sort_unstable_by_key(|(place, _)| *place);
    subscribed.into_iter().map(|(_, subscribed)| subscribed).collect()
}

struct Lists {
    host: Host,
    on_behalf: OnBehalf,
    scope: Scope,
    client: Arc<Client>,
    wanted: Wanted,
}

impl Lists {
    /// Tells of each change of a list; ends with its listener.
    async fn tell(
        self,
        (mut catalogs, mut known): (watch::Receiver<Arc<Catalog>>, Arc<Catalog>),
        (mut own, mut logs): (broadcast::Receiver<OwnChange>, broadcast::Receiver<OwnLog>),
        sender: mpsc::Sender<Notice>,
    ) {
        loop {
            tokio::select! {
                () = sender.closed() => return,
                changed = catalogs.changed() => if changed.is_err() { return },
                log = logs.recv() => {
                    // Of too many at once some are lost; a log is no promise.
                    if let Ok(log) = log
                        && self.is_theirs(&log)
                    {
                        drop(sender.try_send(Notice::Log(log.params)));
                    }
                    continue;
                }
                change = own.recv() => match change {
                    Ok(change) if !self.may_concern(&change) => continue,
                    // Of too many at once those that were missed may have been theirs.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                },
            }
            catalogs.borrow_and_update();
            let current = self.host.catalog_of(&self.on_behalf);
            if Arc::ptr_eq(&current, &known) {
                continue;
            }
            let diff = Diff::between(&known, &current);
            known = current;
            for list in [List::Tools, List::Prompts, List::Resources] {
                if self.concerns(&diff, list) && sender.send(Notice::Changed(list)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// A change on a connection of the listener's own, or for all whose side can be asked the same.
    fn may_concern(&self, change: &OwnChange) -> bool {
        let theirs = change.caller.as_ref().is_none_or(|caller| *caller == self.on_behalf.caller);
        theirs && self.covers(&change.server)
    }

    /// What was logged on a connection of the listener's own.
    fn is_theirs(&self, log: &OwnLog) -> bool {
        let session = log.session.is_none() || log.session == self.on_behalf.session;
        log.caller == self.on_behalf.caller && session && self.covers(&log.server)
    }

    fn concerns(&self, diff: &Diff, list: List) -> bool {
        self.wants(list) && diff.changes.iter().any(|change| is_of(change.kind, list) && self.covers(&change.server))
    }

    fn wants(&self, list: List) -> bool {
        match list {
            List::Tools => self.wanted.tools,
            List::Prompts => self.wanted.prompts,
            List::Resources => self.wanted.resources,
        }
    }

    fn covers(&self, server: &ServerName) -> bool {
        self.scope.covers(server) && self.client.sees(server)
    }
}

fn is_of(kind: ItemKind, list: List) -> bool {
    match kind {
        ItemKind::Tool => list == List::Tools,
        ItemKind::Prompt => list == List::Prompts,
        ItemKind::Resource | ItemKind::Template => list == List::Resources,
    }
}

/// Tells of updates of one resource, under the URI it was asked for; ends with its listener.
async fn tell_of(public: String, mut subscription: Subscription, sender: mpsc::Sender<Notice>) {
    loop {
        let update = tokio::select! {
            () = sender.closed() => return,
            update = subscription.next() => update,
        };
        let Some(update) = update else { return };
        let notice = match update {
            Update::Changed { uri, params } => {
                let uri = named_here(&uri, subscription.uri(), &public);
                let params = splice::edited(&params, &[Edit::Set("uri", Raw::of(&uri))]);
                Notice::Updated { uri, params }
            }
            // It may have changed while nobody listened.
            Update::Resumed => updated(&public),
        };
        if sender.send(notice).await.is_err() {
            return;
        }
    }
}

/// A server may name a part of what was asked for; then the part is named as the whole was.
fn named_here(named: &str, asked: &str, public: &str) -> String {
    match (named.strip_prefix(asked), public.strip_suffix(asked)) {
        (Some(part), _) => format!("{public}{part}"),
        (None, Some(front)) => format!("{front}{named}"),
        (None, None) => named.to_owned(),
    }
}

fn updated(uri: &str) -> Notice {
    Notice::Updated { uri: uri.to_owned(), params: Raw::of(&serde_json::json!({ "uri": uri })) }
}

#[cfg(test)]
mod tests {
    use super::named_here;

    #[test]
    fn a_part_is_named_as_the_whole_was() {
        assert_eq!(named_here("r://a", "r://a", "toolway+x:r://a"), "toolway+x:r://a");
        assert_eq!(named_here("r://a/part", "r://a", "toolway+x:r://a"), "toolway+x:r://a/part");
        assert_eq!(named_here("r://b", "r://a", "toolway+x:r://a"), "toolway+x:r://b");
        assert_eq!(named_here("r://a/part", "r://a", "r://a"), "r://a/part");
    }
}
