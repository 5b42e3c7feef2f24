//! What a host does when people come and go: sessions and callers that are over, clients that have signed in or out, and
//! sign-ins that are being renewed.

use toolway_config::ServerName;

use super::{Host, HostError};
use crate::{
    call::Caller,
    connection::{
        ServerStatus,
        sign_in::{Account, Signing},
    },
};

impl Host {
    /// A session of a caller is over: what servers were kept for it ends with the calls that are under way.
    pub fn end_session(&self, caller: &Caller, session: &str) {
        self.connections().iter().for_each(|connection| connection.shared().lines.leave(caller, Some(session)));
    }

    /// A caller is gone: what servers were kept for it ends with the calls that are under way.
    pub fn end_caller(&self, caller: &Caller) {
        self.connections().iter().for_each(|connection| connection.shared().lines.leave(caller, None));
    }

    /// A client of the gateway has signed in to a server, or out of it: what is open on its behalf ends with the calls that
    /// are under way, and what it asks for next is asked for as it has signed in. Nobody else notices.
    pub fn signed_in(&self, server: &ServerName, client: &str, signing: Signing) -> Result<ServerStatus, HostError> {
        let connection = self.connection(server)?;
        if let Account::Anonymous(signed_in) = &connection.live().account {
            signed_in.change(client, signing);
        }
        connection.shared().lines.leave(&Caller::Client(client.into()), None);
        Ok(connection.status())
    }

    /// Whether sign-ins are being renewed. That goes on when the host is gone; whoever ends the process waits for it.
    pub fn is_renewing(&self) -> bool {
        self.inner.room.dialler.sign_ins.renewals.is_under_way()
    }

    /// Waits, though not for ever, until sign-ins that are being renewed are kept.
    pub async fn renewed(&self) {
        if !self.inner.room.dialler.sign_ins.renewed().await {
            tracing::warn!("a renewed sign-in was not kept in time; somebody may have to sign in again");
        }
    }
}
