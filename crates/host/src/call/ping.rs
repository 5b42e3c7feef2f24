//! Ping of one server.

use toolway_config::ServerName;
use toolway_wire::json::Raw;

use super::{CallError, CallOutcome, CallerContext, Target, auxiliary::reach};
use crate::{
    host::{Host, Inner},
    record::Recording,
};

/// Method name in records, whichever request the protocol era uses.
const PING: &str = "ping";

impl Host {
    /// Pings a server with the request that its protocol era defines for that.
    pub async fn ping(&self, caller_context: impl Into<CallerContext>, server: &ServerName) -> Result<(), CallOutcome> {
        let caller_context = caller_context.into();
        let mut recording = self.inner().begin_recording(&caller_context.caller, PING, 0);
        let result = ping(self.inner(), &caller_context, server, &mut recording).await;
        recording.end_with(result.as_ref()).await;
        result.map(drop)
    }
}

async fn ping(
    host: &Inner,
    caller_context: &CallerContext,
    server: &ServerName,
    recording: &mut Recording,
) -> Result<Raw, CallOutcome> {
    let target = Target::Method { server: server.clone(), method: PING.to_owned() };
    let reached = reach(host, caller_context, &target, recording).await?;
    let failed = |error| CallOutcome::Failed(CallError::Wire(error));
    let request = reached.ready.peer.ping_request().map_err(failed)?;
    let terms = reached.found.connection.wanted().clocks.list;
    match reached.ready.peer.open(request, terms).outcome().await.into() {
        CallOutcome::Answered(answer) => Ok(answer),
        other => Err(other),
    }
}
