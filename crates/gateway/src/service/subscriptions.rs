//! Change notifications for one listener: lists from the catalog, resources from their servers.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use tokio::sync::{
    broadcast::{self, error::RecvError},
    mpsc, watch,
};
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallerContext, ResourceUpdate, Subscription},
    catalog::{Catalog, Diff, ItemKind, PublicUri, uri::split_owned},
    connection::{CallerListChange, CallerLog},
};
use toolway_wire::{
    down::{Caller, ServiceSubscription},
    json::Raw,
    message::splice::{self, Edit},
    notice::{List, Notice, SubscriptionFilter},
};

use super::{Scope, tasks};
use crate::access::Client;

/// Maximum number of queued notices per listener; beyond it the listener is told that it missed some.
const MAX_QUEUED_NOTICES: usize = 64;
/// Timeout for one resource subscription at a server.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout for all resource subscriptions of one request.
const SUBSCRIBE_ALL_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum number of resources per request.
const MAX_URIS: usize = 1_000;

/// A subscription without notices.
pub(super) fn none() -> ServiceSubscription {
    let (_, notices) = mpsc::channel(1);
    ServiceSubscription { accepted: SubscriptionFilter::default(), notices }
}

/// Starts to listen. Resources that no server accepts a subscription for are not in `accepted`.
pub(super) async fn listen(
    host: &Host,
    scope: &Scope,
    client: Arc<Client>,
    caller: &Caller,
    wanted: SubscriptionFilter,
) -> ServiceSubscription {
    let (sender, notices) = mpsc::channel(MAX_QUEUED_NOTICES);
    // Taken first: changes during the subscriptions are found by comparing catalogs.
    let mut catalogs = host.watch_catalog();
    catalogs.borrow_and_update();
    let (own, caller_context) =
        ((host.caller_list_changes(), host.caller_logs()), tasks::caller_context((&client, caller)));
    let known = host.catalog_of(&caller_context);
    let subscriptions = subscribe(host, scope, &caller_context, &wanted.uris).await;
    let uris = subscriptions.iter().map(|(uri, _)| uri.clone()).collect();
    let accepted = SubscriptionFilter { uris, ..wanted.clone() };
    let lists = ListWatcher { host: host.clone(), caller_context, scope: scope.clone(), client, wanted };
    let tasks = tokio::runtime::Handle::current();
    if lists.wanted.tools || lists.wanted.prompts || lists.wanted.resources {
        tasks.spawn(lists.run((catalogs, known), own, sender.clone()));
    }
    for (uri, subscription) in subscriptions {
        tasks.spawn(forward_updates(uri, subscription, sender.clone()));
    }
    ServiceSubscription { accepted, notices }
}

/// Subscribes to the resources; returns the successful subscriptions in the requested order.
async fn subscribe(
    host: &Host,
    scope: &Scope,
    caller_context: &CallerContext,
    uris: &[String],
) -> Vec<(String, Subscription)> {
    let asked = async |(place, uri): (usize, &String)| {
        let target = host.locate_for(caller_context, scope.resource(uri.clone())).target;
        let subscribing = host.subscribe(caller_context.clone(), target);
        let subscription = tokio::time::timeout(SUBSCRIBE_TIMEOUT, subscribing).await.ok()?.ok()?;
        Some((place, (uri.clone(), subscription)))
    };
    // All at once would use up the calls in flight that the client may have.
    let at_once = (host.calls_per_client() / 2).max(1);
    let each = futures_util::stream::iter(uris.iter().take(MAX_URIS).enumerate().map(asked));
    let each = each.buffer_unordered(at_once).take_until(tokio::time::sleep(SUBSCRIBE_ALL_TIMEOUT));
    let mut subscribed: Vec<_> = each.filter_map(std::future::ready).collect().await;
    subscribed.sort_unstable_by_key(|(place, _)| *place);
    subscribed.into_iter().map(|(_, subscribed)| subscribed).collect()
}

struct ListWatcher {
    host: Host,
    caller_context: CallerContext,
    scope: Scope,
    client: Arc<Client>,
    wanted: SubscriptionFilter,
}

impl ListWatcher {
    /// Sends a notice for each changed list; ends with its listener.
    async fn run(
        self,
        (mut catalogs, mut known): (watch::Receiver<Arc<Catalog>>, Arc<Catalog>),
        (mut own, mut logs): (broadcast::Receiver<CallerListChange>, broadcast::Receiver<CallerLog>),
        sender: mpsc::Sender<Notice>,
    ) {
        loop {
            tokio::select! {
                () = sender.closed() => return,
                changed = catalogs.changed() => if changed.is_err() { return },
                log = logs.recv() => {
                    // Logs are best effort: some are lost when there are too many.
                    if let Ok(log) = log
                        && self.is_for_caller(&log)
                    {
                        drop(sender.try_send(Notice::Log(log.params)));
                    }
                    continue;
                }
                change = own.recv() => match change {
                    Ok(change) if !self.may_concern(&change) => continue,
                    // The missed changes may concern this listener.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                },
            }
            catalogs.borrow_and_update();
            let current = self.host.catalog_of(&self.caller_context);
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

    /// Whether a change on a caller connection may concern this listener; a change without caller concerns all.
    fn may_concern(&self, change: &CallerListChange) -> bool {
        let theirs = change.caller.as_ref().is_none_or(|caller| *caller == self.caller_context.caller);
        theirs && self.covers(&change.server)
    }

    /// Whether the log came from a connection of this caller and session.
    fn is_for_caller(&self, log: &CallerLog) -> bool {
        let session = log.session.is_none() || log.session == self.caller_context.session;
        log.caller == self.caller_context.caller && session && self.covers(&log.server)
    }

    fn concerns(&self, diff: &Diff, list: List) -> bool {
        self.wants(list) && diff.changes.iter().any(|change| is_in(change.kind, list) && self.covers(&change.server))
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

fn is_in(kind: ItemKind, list: List) -> bool {
    match kind {
        ItemKind::Tool => list == List::Tools,
        ItemKind::Prompt => list == List::Prompts,
        ItemKind::Resource | ItemKind::Template => list == List::Resources,
    }
}

/// Forwards updates of one resource under its public URI; ends with its listener.
async fn forward_updates(public: String, mut subscription: Subscription, sender: mpsc::Sender<Notice>) {
    loop {
        let update = tokio::select! {
            () = sender.closed() => return,
            update = subscription.next() => update,
        };
        let Some(update) = update else { return };
        let notice = match update {
            ResourceUpdate::Changed { uri, params } => {
                let uri = public_uri(&uri, subscription.uri(), &public);
                let params = splice::edited(&params, &[Edit::Set("uri", Raw::of(&uri))]);
                Notice::Updated { uri, params }
            }
            // The resource may have changed while the subscription was interrupted.
            ResourceUpdate::Resumed => updated(&public),
        };
        if sender.send(notice).await.is_err() {
            return;
        }
    }
}

/// Public form of a URI in an update. A server may name a sub-resource of `asked`, or another one; it gets the same server.
fn public_uri(named: &str, asked: &str, public: &str) -> String {
    match (named.strip_prefix(asked), split_owned(public)) {
        (Some(part), _) => format!("{public}{part}"),
        (None, Some((server, _))) => PublicUri::owned(&server, named).to_string(),
        (None, None) => named.to_owned(),
    }
}

fn updated(uri: &str) -> Notice {
    Notice::Updated { uri: uri.to_owned(), params: Raw::of(&serde_json::json!({ "uri": uri })) }
}

#[cfg(test)]
mod tests {
    use super::public_uri;

    #[test]
    fn sub_resource_gets_the_public_prefix() {
        assert_eq!(public_uri("r://a", "r://a", "toolway+x:r://a"), "toolway+x:r://a");
        assert_eq!(public_uri("r://a/part", "r://a", "toolway+x:r://a"), "toolway+x:r://a/part");
        assert_eq!(public_uri("r://b", "r://a", "toolway+x:r://a"), "toolway+x:r://b");
        assert_eq!(public_uri("ui://b", "ui://a", "ui://toolway+x/a"), "ui://toolway+x/b");
        assert_eq!(public_uri("r://a/part", "r://a", "r://a"), "r://a/part");
    }
}
