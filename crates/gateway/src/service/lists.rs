//! One list for one caller: at once from what is known, or a moment later where nobody has been heard yet.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_host::{
    Host,
    call::OnBehalf,
    catalog::{Catalog, ItemKind},
};
use toolway_wire::{
    down::Caller,
    exchange::{Between, Exchange, Happening, Outcome, Request},
    message::{
        RpcError,
        result::{CacheHint, CacheScope},
    },
};

use super::{HostService, Scope, tasks, unknown_method};
use crate::access::{Access, Client};

/// How long a list waits for servers that nothing is known of yet: many clients list once, and never again. A server
/// that takes longer is told of as a change.
const FIRST_WORDS: Duration = Duration::from_millis(150);

/// How long it waits at one server, which is then the only one that anybody waits for: as long as most take to start.
const FIRST_WORDS_OF_ONE: Duration = Duration::from_secs(2);

impl HostService {
    /// A page of a list.
    pub(super) fn listed(
        &self,
        kind: ItemKind,
        request: &Request,
        client: Arc<Client>,
        caller: &Caller,
    ) -> Result<Exchange, RpcError> {
        if !self.scope.offers(&self.host, kind) {
            return Err(unknown_method(request.method()));
        }
        let cursor = request.param("cursor");
        let on_behalf = tasks::on_behalf((&client, caller));
        let list = ListFor { kind, client, on_behalf, scope: self.scope.clone() };
        let waiting = match &cursor {
            // Whoever goes on reading has begun with what was known.
            Some(_) => None,
            None => self.host.first_heard(list.on_behalf.clone(), |server| list.shows(server), list.scope.patience()),
        };
        let (host, access, pages) = (self.host.clone(), Arc::clone(&self.access), Arc::clone(&self.pages));
        let page = move || {
            let catalog = host.catalog_of(&list.on_behalf);
            let keeps = list.keeps(&host, &catalog, &access);
            pages.page(&catalog, &list, keeps, cursor.as_ref())
        };
        Ok(match waiting {
            None => Exchange::ended(Outcome::Answered(page()?)),
            Some(heard) => Exchange::through(Later::new(async move {
                heard.await;
                page().map_or_else(Outcome::Refused, Outcome::Answered)
            })),
        })
    }
}

/// Which list, for whom.
pub(super) struct ListFor {
    pub(super) kind: ItemKind,
    pub(super) client: Arc<Client>,
    pub(super) on_behalf: OnBehalf,
    pub(super) scope: Scope,
}

impl ListFor {
    /// Whether what this server lists is in it.
    pub(super) fn shows(&self, server: &ServerName) -> bool {
        self.scope.covers(server) && self.client.sees(server)
    }

    /// How long it keeps, and for whom: for all only where everybody is given the same.
    fn keeps(&self, host: &Host, catalog: &Arc<Catalog>, access: &Access) -> CacheHint {
        if host.lacks_any(|server| self.shows(server)) {
            return CacheHint { keeps: Duration::ZERO, scope: CacheScope::Private };
        }
        let hint = catalog.keeps(self.kind, |server| self.shows(server), Instant::now());
        let is_everybodys = access.shows_all_to_all() && Arc::ptr_eq(catalog, &host.catalog());
        if is_everybodys { hint } else { CacheHint { scope: CacheScope::Private, ..hint } }
    }
}

impl Scope {
    fn patience(&self) -> Duration {
        match self {
            Self::All => FIRST_WORDS,
            Self::One(_) => FIRST_WORDS_OF_ONE,
        }
    }
}

/// An answer that takes a moment.
struct Later(Option<BoxFuture<'static, Outcome>>);

impl Later {
    fn new(answer: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self(Some(Box::pin(answer)))
    }
}

impl Between for Later {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Happening>> {
        let Some(answer) = &mut self.0 else { return Poll::Ready(None) };
        answer.as_mut().poll(context).map(|outcome| {
            self.0 = None;
            Some(Happening::Ended(outcome))
        })
    }

    fn cancel(&mut self, _reason: &str) {
        self.0 = Some(Box::pin(std::future::ready(Outcome::Cancelled)));
    }

    fn missed(&self) -> u64 {
        0
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Later")
    }
}
