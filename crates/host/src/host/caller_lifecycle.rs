//! Lifecycle of callers: ended sessions and callers, sign-ins and sign-outs of clients, and token refreshes.

use std::sync::Arc;

use toolway_config::ServerName;
use toolway_wire::exchange::ServerRequestHandler;

use super::{Host, HostError};
use crate::{
    call::Caller,
    connection::{
        ServerStatus,
        sign_in::{Account, SignInChange},
    },
};

impl Host {
    /// Records a session of a gateway client. Servers on the client's own connections ask `client` for its roots outside a
    /// call. [`Host::end_session`] removes it.
    pub fn begin_session(&self, caller: &Caller, session: &Arc<str>, client: Arc<dyn ServerRequestHandler>) {
        self.inner.context.client_sessions.add(caller, session, client);
    }

    /// Passes on that the roots of a gateway client changed, to the servers on its own connections.
    pub fn announce_roots_changed(&self, caller: &Caller, session: Option<&str>) {
        let connections = self.connections();
        connections.iter().for_each(|connection| connection.shared().pool.announce_roots_changed(caller, session));
    }

    /// Ends a session of a caller. Connections reserved for it close when their calls in flight have ended.
    pub fn end_session(&self, caller: &Caller, session: &str) {
        self.inner.context.client_sessions.remove(caller, Some(session));
        self.forget_approvals(caller, Some(session));
        self.connections().iter().for_each(|connection| connection.shared().pool.remove_caller(caller, Some(session)));
        self.inner.remove_unused_catalogs();
    }

    /// Ends all sessions of a caller. Connections reserved for it close when their calls in flight have ended.
    pub fn end_caller(&self, caller: &Caller) {
        self.inner.context.client_sessions.remove(caller, None);
        self.forget_approvals(caller, None);
        self.inbox().withdraw_of(caller);
        self.forget_client_roots(caller);
        self.connections().iter().for_each(|connection| connection.shared().pool.remove_caller(caller, None));
        self.inner.remove_unused_catalogs();
    }

    /// Ends a conversation: answers that were given for it no longer hold, and what it read is not used again.
    pub fn end_conversation(&self, conversation: &str) {
        self.inner.conversation_answers.forget(conversation);
        self.inner.resource_cache.forget_caller(&Caller::Agent(conversation.into()));
    }

    /// Forgets the approvals that held for a session of a caller, or for all of them.
    fn forget_approvals(&self, caller: &Caller, session: Option<&str>) {
        self.inner.conversation_answers.forget_caller(&caller.label(), session);
    }

    /// Applies that a gateway client signed in to a server or out of it. Its open connections close when their calls in
    /// flight have ended, and its next requests use the new credential. Other clients are not affected.
    pub fn apply_sign_in_change(
        &self,
        server: &ServerName,
        client: &str,
        change: SignInChange,
    ) -> Result<ServerStatus, HostError> {
        let connection = self.connection(server)?;
        if let Account::Anonymous(signed_in) = &connection.live().account {
            signed_in.change(client, change);
        }
        connection.shared().pool.remove_caller(&Caller::Client(client.into()), None);
        Ok(connection.status())
    }

    /// Whether token refreshes are in progress. They continue after the host was dropped; wait for them before the
    /// process exits.
    pub fn is_refreshing(&self) -> bool {
        self.inner.context.dialer.sign_ins.refreshes.is_in_progress()
    }

    /// Waits, with a time limit, until refreshed tokens are stored.
    pub async fn wait_for_renewals(&self) {
        if !self.inner.context.dialer.sign_ins.settle_refreshes().await {
            tracing::warn!("a refreshed token was not stored in time; a new sign-in may be required");
        }
    }
}
