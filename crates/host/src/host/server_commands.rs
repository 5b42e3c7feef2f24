//! Commands to one server, and waiting for the servers that are required.

use serde_json::json;
use toolway_config::{
    ServerName,
    server::{Need, Standing},
};
use toolway_wire::exchange::LogLevel;

use super::{Host, HostError};
use crate::{
    connection::{Connection, Phase, ServerStatus, SupervisorCommand},
    record::{AuditNote, kind},
};

impl Host {
    /// Connects a server and returns its status when the attempt has ended.
    pub async fn connect(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        self.refuse_disabled(server)?;
        self.send_command(server, SupervisorCommand::Connect).await
    }

    /// Connects a server if necessary, waits until its lists are in the catalog, and returns its status.
    pub async fn list(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        let connection = self.connection(server)?;
        self.inner.wait_until_listed(&connection).await;
        Ok(connection.status())
    }

    /// Disconnects a server until it is connected explicitly.
    pub async fn disconnect(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        self.send_command(server, SupervisorCommand::Disconnect).await
    }

    /// Closes the connection to a server and opens a new one.
    pub async fn reconnect(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        self.refuse_disabled(server)?;
        self.send_command(server, SupervisorCommand::Reconnect).await
    }

    /// Enables or disables a server until its configuration entry changes.
    pub async fn toggle(&self, server: &ServerName, standing: Standing) -> Result<ServerStatus, HostError> {
        self.send_command(server, |done| SupervisorCommand::Toggle(standing, done)).await
    }

    /// Requests all lists of a server again and returns its status afterwards.
    pub async fn refresh(&self, server: &ServerName) -> Result<ServerStatus, HostError> {
        let connection = self.connection(server)?;
        connection.execute(SupervisorCommand::Refresh).await;
        self.inner.wait_until_listed(&connection).await;
        Ok(connection.status())
    }

    /// Sets the minimum log level requested of a server, for this connection and later ones.
    pub async fn set_log_level(&self, server: &ServerName, level: LogLevel) -> Result<(), HostError> {
        let connection = self.connection(server)?;
        let details = json!({ "logLevel": level.as_str() });
        self.note(AuditNote::of_server(kind::CONNECTION, server, details));
        connection.execute(|done| SupervisorCommand::LogLevel(level, done)).await;
        Ok(())
    }

    /// Waits until all required servers are ready; otherwise returns those that are not.
    pub async fn wait_for_required(&self) -> Result<(), Vec<ServerStatus>> {
        let required = |connection: &Connection| connection.wanted().need == Need::Required;
        let connections: Vec<_> = self.connections().into_iter().filter(required).collect();
        let ready = connections.iter().map(|connection| async { connection.ready().await.is_ok() });
        let ready = futures_util::future::join_all(ready).await;
        let missing: Vec<_> = connections
            .iter()
            .zip(ready)
            .filter(|(_, ready)| !ready)
            .map(|(connection, _)| connection.status())
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }

    /// Returns the required servers that are not ready.
    pub fn missing_required(&self) -> Vec<ServerStatus> {
        let required = |connection: &Connection| connection.wanted().need == Need::Required;
        let statuses = self.connections().into_iter().filter(required).map(|connection| connection.status());
        statuses.filter(|status| status.phase != Phase::Ready).collect()
    }

    async fn send_command(
        &self,
        server: &ServerName,
        order: impl FnOnce(tokio::sync::oneshot::Sender<()>) -> SupervisorCommand,
    ) -> Result<ServerStatus, HostError> {
        let connection = self.connection(server)?;
        connection.execute(order).await;
        connection.wait_until_settled().await;
        Ok(connection.status())
    }

    fn refuse_disabled(&self, server: &ServerName) -> Result<(), HostError> {
        match self.connection(server)?.status().phase {
            Phase::Disabled => Err(HostError::Disabled(server.clone())),
            _ => Ok(()),
        }
    }
}
