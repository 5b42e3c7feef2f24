//! Responses of `/ready` and `/servers`.

use http::{HeaderMap, Response, StatusCode, header};
use serde_json::{Value, json};
use toolway_host::{
    Host,
    catalog::Catalog,
    cluster::{ClusterMember, MemberState},
    connection::ServerStatus,
};
use toolway_wire::down::http::ResponseBody;

use crate::{access::Client, cluster::ClusterMembership, reply};

/// Whether all required servers that this client may see are ready, and whether this gateway is a member of its cluster; names
/// what is missing.
pub(crate) fn ready(host: &Host, client: &Client, cluster: Option<&ClusterMembership>) -> Response<ResponseBody> {
    let missing = host.missing_required();
    let seen = missing.iter().filter(|status| client.sees(&status.server));
    let named: Vec<Value> =
        seen.map(|status| json!({ "name": status.server.as_str(), "because": because(status) })).collect();
    let is_ready = named.is_empty() && cluster.is_none_or(|cluster| cluster.current().is_some());
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut shown = json!({ "ready": is_ready, "missing": named });
    if let Some(cluster) = cluster {
        shown["cluster"] = members(cluster);
    }
    reply::json(status, &shown)
}

/// The members of a cluster, as this gateway knows them. `member` is `null` while it has no lease.
pub(crate) fn members(cluster: &ClusterMembership) -> Value {
    let own = cluster.current();
    let shown = |row: &ClusterMember| {
        let state = match row.state {
            MemberState::Live { .. } => "live",
            MemberState::Expired => "expired",
        };
        json!({
            "gateway": row.member.gateway.to_string(),
            "generation": row.member.generation.0,
            "address": row.address.to_string(),
            "state": state,
            "self": own == Some(row.member),
        })
    };
    let members: Vec<Value> = cluster.members().iter().map(shown).collect();
    json!({ "member": own.map(|own| own.generation.0), "members": members })
}

/// State of each server that the client may see: JSON, or a table if the client prefers text.
pub(crate) fn servers(host: &Host, client: &Client, headers: &HeaderMap) -> Response<ResponseBody> {
    let catalog = host.catalog();
    let seen = host.servers().into_iter().filter(|status| client.sees(&status.server));
    let seen: Vec<_> = seen.map(|status| with_visible_counts(status, &catalog)).collect();
    if wants_text(headers) {
        return reply::text(StatusCode::OK, table(&seen));
    }
    let servers: Vec<Value> = seen.iter().map(server).collect();
    reply::json(StatusCode::OK, &json!({ "servers": servers }))
}

/// The status with the number of items that clients can see, after the filters of the server; without a number before the
/// catalog contains the server: snapshots follow listings with a delay.
pub(crate) fn with_visible_counts(mut status: ServerStatus, catalog: &Catalog) -> ServerStatus {
    let server = &status.server;
    if catalog.listing_of(server).is_none() {
        status.counts = None;
    }
    if let Some(counts) = &mut status.counts {
        counts.tools = catalog.tools_of(server).len();
        counts.resources = catalog.resources_of(server).len();
        counts.templates = catalog.templates_of(server).len();
        counts.prompts = catalog.prompts_of(server).len();
    }
    status
}

/// Whether the first type in `Accept` is text, as in requests of browsers.
fn wants_text(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let first = accept.split([',', ';']).next().unwrap_or_default().trim();
    first.eq_ignore_ascii_case("text/html") || first.eq_ignore_ascii_case("text/plain")
}

/// One server, without its address and stderr output, which only the operator may see.
fn server(status: &ServerStatus) -> Value {
    let counts = status.counts.map(|counts| {
        json!({
            "tools": counts.tools,
            "resources": counts.resources,
            "templates": counts.templates,
            "prompts": counts.prompts,
        })
    });
    json!({
        "name": status.server.as_str(),
        "label": status.label,
        "description": status.description,
        "state": status.phase.word(),
        "because": because(status),
        "revision": status.profile.as_ref().map(|profile| profile.revision.as_str()),
        "counts": counts,
        "path": format!("/servers/{}/mcp", status.server),
    })
}

fn table(servers: &[ServerStatus]) -> String {
    let row = |status: &ServerStatus| {
        let counts = status.counts.unwrap_or_default();
        let [tools, resources, prompts] =
            [counts.tools, counts.resources, counts.prompts].map(|count| match status.counts {
                Some(_) => count.to_string(),
                None => "-".to_owned(),
            });
        [
            status.server.to_string(),
            status.phase.word().to_owned(),
            tools,
            resources,
            prompts,
            because(status).unwrap_or_default(),
        ]
    };
    let head = ["NAME", "STATE", "TOOLS", "RESOURCES", "PROMPTS", "BECAUSE"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(servers.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 6] = std::array::from_fn(width);
    let line = |row: &[String; 6]| {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Why a server is not usable, for clients and the access log: a class, and the id under which the operator log has the
/// details. `None` if it is usable.
pub(crate) fn because(status: &ServerStatus) -> Option<String> {
    let text = status.for_client()?;
    Some(match &status.last_error {
        Some(last) => text.with_id(last.id),
        None => text.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use toolway_host::{
        catalog::Catalog,
        connection::{ConnectionCounts, Phase, ServerStatus, TransportKind},
    };

    use super::{wants_text, with_visible_counts};

    #[test]
    fn a_server_that_the_catalog_does_not_contain_yet_has_no_counts() {
        let listed = ServerStatus {
            server: "notes".parse().unwrap(),
            label: "notes".to_owned(),
            description: None,
            source: "a test".to_owned(),
            transport: TransportKind::InProcess,
            target: "this process".to_owned(),
            phase: Phase::Ready,
            since: std::time::SystemTime::UNIX_EPOCH,
            last_connected: None,
            profile: None,
            counts: Some(Default::default()),
            last_error: None,
            process: None,
            cleanup: None,
            losses: 0,
            ended: None,
            stderr: Vec::new(),
            stray_output: None,
            caller_connections: Vec::new(),
            connections: ConnectionCounts::default(),
        };
        assert!(with_visible_counts(listed, &Catalog::empty()).counts.is_none());
    }

    #[test]
    fn browsers_get_text_and_programs_json() {
        let wants = |accept: &'static str| {
            wants_text(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(wants("text/html,application/xhtml+xml,*/*;q=0.8") && wants("text/plain; q=1"));
        assert!(!wants("application/json, text/plain") && !wants("*/*") && !wants_text(&HeaderMap::new()));
    }
}
