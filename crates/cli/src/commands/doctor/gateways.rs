//! What is wrong with the cluster of this gateway: its configuration, and members without a valid lease.

use toolway_gateway::control::ControlRequest;

use crate::app::App;

/// One line for each problem; none without `cluster`.
pub(super) async fn find(app: &App) -> Vec<String> {
    let Ok(loaded) = app.load() else { return Vec::new() };
    match app.cluster_plan(&loaded.config) {
        Ok(None) => Vec::new(),
        Ok(Some(_)) => running(app).await,
        Err(report) => vec![report.message],
    }
}

/// What the running gateway knows; nothing without one.
async fn running(app: &App) -> Vec<String> {
    let order = ControlRequest::Status { servers: Vec::new() };
    let Ok(Some(reply)) = app.ask_gateway(&order).await else { return Vec::new() };
    let cluster = &reply.value["cluster"];
    let is_outside = cluster.is_object() && cluster["member"].is_null();
    let outside = "the running gateway has no lease and refuses calls; check `store.url` and the log".to_owned();
    let expired = cluster["members"].as_array().into_iter().flatten().filter(|member| member["state"] == "expired");
    let expired = expired.map(|member| {
        let address = member["address"].as_str().unwrap_or_default();
        format!("the gateway at `{address}` has lost its lease; another one takes over its calls")
    });
    is_outside.then_some(outside).into_iter().chain(expired).collect()
}
