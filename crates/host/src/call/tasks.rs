//! Access to the tasks that a server runs for a caller.

use toolway_config::ServerName;
use toolway_wire::up::PeerTasks;

use super::{
    CallOutcome, Caller, CallerContext, Target,
    find::{self, Found},
    pipeline::{self, Asker, not_connected},
};
use crate::{
    connection::{
        Connection, Lease, ReadyPeer,
        pool::{Interactivity, RequestOrigin},
        withheld,
    },
    host::Host,
    policy::Permit,
};

/// The tasks of one caller at one server, over the connection on which they run. Holds a call slot.
#[derive(Debug)]
pub struct CallerTasks {
    tasks: PeerTasks,
    connection: Connection,
    caller: Caller,
    _held: Box<(Permit, ReadyPeer, Lease)>,
}

impl Host {
    /// Returns access to the tasks that a server runs for a caller. `task` is the id of the task concerned, if there is
    /// one; it selects the connection. Access is decided and admitted like a call, but not recorded: the call that
    /// created the task was.
    pub async fn tasks(
        &self,
        caller_context: impl Into<CallerContext>,
        server: &ServerName,
        task: Option<&str>,
    ) -> Result<CallerTasks, CallOutcome> {
        let (caller_context, inner) = (caller_context.into(), self.inner());
        let target = Target::Method { server: server.clone(), method: "tasks/get".to_owned() };
        let client_slot = inner.slots.take_client_slot(&caller_context.caller)?;
        let found = find::find(inner, (&caller_context.visible, &|| caller_context.clone()), &target, None).await?;
        let grant = pipeline::obtain_grant(inner, &found, Asker::of(&caller_context.caller), None, None, None).await?;
        let Found { connection, .. } = found;
        let ready = connection.ready().await.map_err(|why| not_connected(&connection, why))?;
        let origin = RequestOrigin { task, ..RequestOrigin::of(&caller_context) };
        let lease = connection.lease(&ready, origin, Interactivity::NonInteractive, inner.slots.patience()).await;
        let lease = lease.map_err(|no_lease| pipeline::no_lease_outcome(&connection, no_lease))?;
        let permit = pipeline::admit(inner, &connection, grant, client_slot).await?;
        let withheld = connection.wanted().withheld;
        let declared = caller_context.capabilities.map(|declared| withheld::remaining(&declared, withheld));
        let tasks = lease.peer(&ready).tasks(declared);
        let held = Box::new((permit, ready, lease));
        Ok(CallerTasks { tasks, connection, caller: caller_context.caller, _held: held })
    }

    /// Whether a server runs tasks of a caller, on a connection of that caller or on the shared one.
    pub fn keeps_tasks(&self, caller: &Caller, server: &ServerName) -> bool {
        let connection = self.inner().connection(server);
        connection.is_some_and(|connection| connection.shared().pool.has_task(caller, None))
    }
}

impl CallerTasks {
    /// Whether this task is known to belong to the caller. A server that is reached with one credential for all callers
    /// may list the tasks of others too.
    pub fn is_theirs(&self, task: &str) -> bool {
        self.connection.shared().pool.has_task(&self.caller, Some(task))
    }

    /// The task operations of the server.
    pub fn tasks(&self) -> &PeerTasks {
        &self.tasks
    }
}
