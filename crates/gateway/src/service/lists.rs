//! One list for one caller: from the catalog at once, or after a short wait for servers that have not listed yet.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::{CallKind, CallerContext},
    catalog::{Catalog, ItemKind, Origin},
    host::FirstListingWait,
};
use toolway_wire::{
    down::{Caller, ListDialect, ListPage},
    exchange::{Exchange, ExchangeEvent, ExchangeInterceptor, Outcome, Request},
    json::Raw,
    message::{
        RpcError,
        result::{CacheHint, CacheScope},
    },
};

use super::{HostService, Scope, pages::Pages, tasks, unknown_method};
use crate::access::{Access, Client};

/// How long a list waits for servers that have not listed yet, because many clients list only once. A slower server
/// causes a `list_changed` notification later.
const FIRST_LISTING_WAIT: Duration = Duration::from_millis(150);

/// The same for the path of a single server: as long as most servers take to start.
const FIRST_LISTING_WAIT_ONE: Duration = Duration::from_secs(2);

/// The same for a client that starts us with its session, from its first list on: all servers are starting then, and the
/// shortest start-up timeout of the clients we know is 10 s.
const FIRST_LISTING_WAIT_STARTING: Duration = Duration::from_secs(8);

/// How long lists wait for servers that have not listed yet.
#[derive(Debug, Default)]
pub(super) enum FirstLists {
    /// Each one for a moment: the servers run already, and other clients wait.
    #[default]
    Briefly,
    /// Until [`FIRST_LISTING_WAIT_STARTING`] after the first list. A client requests several lists one after the other,
    /// which together wait no longer.
    UntilStarted {
        /// Set by the first list.
        deadline: OnceLock<Instant>,
    },
}

impl FirstLists {
    fn wait(&self, scope: &Scope) -> FirstListingWait {
        let briefly = scope.first_listing_wait();
        match self {
            Self::Briefly => FirstListingWait::of_listings(briefly),
            Self::UntilStarted { deadline } => {
                let now = Instant::now();
                let deadline = deadline.get_or_init(|| now + FIRST_LISTING_WAIT_STARTING);
                FirstListingWait::of_both(deadline.saturating_duration_since(now).max(briefly))
            }
        }
    }
}

impl HostService {
    /// Answers a `*/list` request with one page.
    pub(super) fn list(
        &self,
        kind: ItemKind,
        request: &Request,
        client: Arc<Client>,
        caller: &Caller,
    ) -> Result<Exchange, RpcError> {
        if !self.scope.offers(&self.host, kind) {
            return Err(unknown_method(request.method()));
        }
        let list = self.list_request(kind, request, client, caller);
        let waiting = self.first_listings(&list);
        let (host, access, pages) = (self.host.clone(), Arc::clone(&self.access), Arc::clone(&self.pages));
        let page = move || list.page(&host, &access, &pages).map(ListPage::into_result);
        Ok(match waiting {
            None => Exchange::ended(Outcome::Answered(page()?)),
            Some(listed) => Exchange::through(DeferredOutcome::new(async move {
                listed.await;
                page().map_or_else(Outcome::Refused, Outcome::Answered)
            })),
        })
    }

    /// The page of a `*/list` request; `None` if it must wait for servers or is refused.
    pub(super) fn page_of(&self, kind: ItemKind, request: &Request, caller: &Caller) -> Option<ListPage> {
        let client = self.client(caller).ok().filter(|_| self.scope.offers(&self.host, kind))?;
        let list = self.list_request(kind, request, client, caller);
        match self.first_listings(&list) {
            None => list.page(&self.host, &self.access, &self.pages).ok(),
            Some(_) => None,
        }
    }

    fn list_request(&self, kind: ItemKind, request: &Request, client: Arc<Client>, caller: &Caller) -> ListRequest {
        let caller_context = tasks::caller_context((&client, caller));
        let (scope, dialect) = (self.scope.clone(), caller.list_dialect());
        ListRequest { kind, cursor: request.param("cursor"), client, caller_context, scope, dialect }
    }

    /// Waits for servers that have not listed yet; `None` if there are none.
    fn first_listings(&self, list: &ListRequest) -> Option<impl Future<Output = ()> + Send + 'static> {
        // A following page belongs to a snapshot that was already read.
        if list.cursor.is_some() {
            return None;
        }
        let (caller_context, patience) = (list.caller_context.clone(), self.first_lists.wait(&list.scope));
        self.host.wait_for_first_listings(caller_context, |server| list.shows(server), patience)
    }
}

/// The list that a method requests.
pub(super) fn kind_of(method: &str) -> Option<ItemKind> {
    match method {
        "tools/list" => Some(ItemKind::Tool),
        "prompts/list" => Some(ItemKind::Prompt),
        "resources/list" => Some(ItemKind::Resource),
        "resources/templates/list" => Some(ItemKind::Template),
        _ => None,
    }
}

/// A list requested by one caller.
pub(super) struct ListRequest {
    pub(super) kind: ItemKind,
    /// Cursor of the page; `None` for the first.
    pub(super) cursor: Option<Raw>,
    pub(super) client: Arc<Client>,
    pub(super) caller_context: CallerContext,
    pub(super) scope: Scope,
    pub(super) dialect: ListDialect,
}

impl ListRequest {
    fn page(&self, host: &Host, access: &Access, pages: &Pages) -> Result<ListPage, RpcError> {
        let catalog = host.catalog_of(&self.caller_context);
        let hint = self.cache_hint(host, &catalog, access);
        pages.page(&catalog, self, hint)
    }

    /// Whether the list contains the items of this server.
    pub(super) fn shows(&self, server: &ServerName) -> bool {
        self.scope.covers(server) && self.client.sees(server)
    }

    /// Whether the list contains this item.
    pub(super) fn shows_item(&self, origin: &Origin) -> bool {
        let kind = match self.kind {
            ItemKind::Tool => CallKind::Tool,
            ItemKind::Prompt => CallKind::Prompt,
            ItemKind::Resource | ItemKind::Template => CallKind::Resource,
        };
        self.scope.covers(&origin.server) && self.client.servers.covers_item(kind, origin)
    }

    /// How long the list may be cached. The scope is shared only if all clients get the same list.
    fn cache_hint(&self, host: &Host, catalog: &Arc<Catalog>, access: &Access) -> CacheHint {
        if host.lacks_listing_of_any(|server| self.shows(server)) {
            return CacheHint { ttl: Duration::ZERO, scope: CacheScope::Private };
        }
        let hint = catalog.cache_hint(self.kind, |server| self.shows(server), Instant::now());
        let is_shared = access.all_clients_see_all_servers() && Arc::ptr_eq(catalog, &host.catalog());
        if is_shared { hint } else { CacheHint { scope: CacheScope::Private, ..hint } }
    }
}

impl Scope {
    fn first_listing_wait(&self) -> Duration {
        match self {
            Self::All => FIRST_LISTING_WAIT,
            Self::One(_) => FIRST_LISTING_WAIT_ONE,
        }
    }
}

/// An exchange whose outcome is computed by a future.
pub(super) struct DeferredOutcome(Option<BoxFuture<'static, Outcome>>);

impl DeferredOutcome {
    pub(super) fn new(answer: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self(Some(Box::pin(answer)))
    }
}

impl ExchangeInterceptor for DeferredOutcome {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        let Some(answer) = &mut self.0 else { return Poll::Ready(None) };
        answer.as_mut().poll(context).map(|outcome| {
            self.0 = None;
            Some(ExchangeEvent::Ended(outcome))
        })
    }

    fn cancel(&mut self, _reason: &str) {
        self.0 = Some(Box::pin(std::future::ready(Outcome::Cancelled)));
    }

    fn missed(&self) -> u64 {
        0
    }
}

impl fmt::Debug for DeferredOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeferredOutcome")
    }
}
