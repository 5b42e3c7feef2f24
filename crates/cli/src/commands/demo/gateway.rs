//! The tools of the demo at one URL, for a client of each era.

use std::sync::Arc;

use serde_json::json;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolway_gateway::{Gateway, GatewayOptions, access::Access};
use toolway_host::host::Host;
use toolway_wire::{
    exchange::Outcome,
    json::Raw,
    limit::Limits,
    message::result::CallResult,
    up::{
        ConnectOptions, EraChoice, Peer, client::HttpClient, connector::HttpOptions, credential::NoCredentials,
        http::HttpTransport,
    },
};

use crate::{output::Output, report::Report};

/// Serves the host, and lets a client of each era list and call.
pub(super) async fn show(host: &Host, output: &mut Output) -> Result<(), Report> {
    let (access, key) = Access::with_keys(None).map_err(|error| super::failed(&error))?;
    let gateway = Gateway::new(host.clone(), GatewayOptions::of(access)).map_err(|error| super::failed(&error))?;
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = gateway.bind(loopback).await.map_err(|error| super::failed(&error))?;
    let address = listener.local_addr().map_err(|error| super::failed(&error))?;
    let stop = CancellationToken::new();
    let serving = {
        let stop = stop.clone();
        // If serving fails, the clients below report it.
        async move { drop(gateway.serve(listener, stop).await) }
    };
    let serving = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(serving));
    let url = format!("http://{address}/mcp");
    output.line(&format!("   {url}"));
    for (era, year) in [(EraChoice::Legacy, "2025"), (EraChoice::Modern, "2026")] {
        let key = key.as_ref().map(toolway_config::Secret::expose);
        let said = client(&url, era, key).await.map_err(|error| super::failed(&*error))?;
        output.field(&format!("   a client of {year}: {said}"));
    }
    stop.cancel();
    drop(serving.await);
    Ok(())
}

async fn client(url: &str, era: EraChoice, key: Option<&str>) -> Result<String, Box<dyn std::error::Error>> {
    let limits = Limits::default();
    let http = HttpClient::new(HttpOptions::default(), &limits);
    let mut headers = http::HeaderMap::new();
    if let Some(key) = key {
        headers.insert(http::header::AUTHORIZATION, format!("Bearer {key}").parse()?);
    }
    let transport = HttpTransport::new(http, url.parse()?, headers, Arc::new(NoCredentials), limits);
    let peer = Peer::connect(Arc::new(transport), ConnectOptions { era, ..ConnectOptions::default() }).await?;
    let tools = peer.list_tools().await?.items.len();
    let arguments = Raw::of(&json!({ "name": "shopping" }));
    let note = match peer.call_tool("notes__read_note", Some(arguments))?.outcome().await {
        Outcome::Answered(result) => CallResult::view(&result).raw.get("content").map(|content| content.elements()),
        other => return Err(format!("{other:?}").into()),
    };
    let note = note.unwrap_or_default().first().and_then(|block| block.get("text"));
    let note = note.as_ref().and_then(Raw::as_str).unwrap_or_default().into_owned();
    let revision = peer.profile().revision;
    Ok(format!("protocol {revision}, {tools} tools, notes__read_note → {note}"))
}
