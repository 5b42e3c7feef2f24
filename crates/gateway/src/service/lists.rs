//! One list for one caller: at once from what is known, or a moment later where nobody has been heard yet.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use toolway_config::ServerName;
use toolway_host::catalog::ItemKind;
use toolway_wire::{
    down::Caller,
    exchange::{Between, Exchange, Happening, Outcome, Request},
    message::RpcError,
};

use super::{HostService, Scope, tasks, unknown_method};
use crate::access::Client;

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
        let on_behalf = tasks::on_behalf(caller);
        let (host, pages, scope, cursor) =
            (self.host.clone(), Arc::clone(&self.pages), self.scope.clone(), request.param("cursor"));
        let waiting = match &cursor {
            // Whoever goes on reading has begun with what was known.
            Some(_) => None,
            None => {
                let shown = |server: &ServerName| scope.covers(server) && client.sees(server);
                host.first_heard(on_behalf.clone(), shown, scope.patience())
            }
        };
        let page = move || pages.page(&host.catalog_of(&on_behalf), &scope, &client, kind, cursor.as_ref());
        Ok(match waiting {
            None => Exchange::ended(Outcome::Answered(page()?)),
            Some(heard) => Exchange::through(Later::new(async move {
                heard.await;
                page().map_or_else(Outcome::Refused, Outcome::Answered)
            })),
        })
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
