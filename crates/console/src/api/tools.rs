//! `/api/v1/tools`: the tools of all servers.

use toolway_host::{
    call::DefinitionState,
    catalog::{ItemKind, Origin},
};

use super::{Answered, Segment, blocking};
use crate::{console::Console, error::ApiError, reply, view::tool};

/// All tools. Their texts can be long: they are written off the runtime.
pub(super) async fn list(console: &Console) -> Answered {
    let catalog = console.host.own_catalog();
    blocking(move || {
        let hidden = catalog.hidden().iter().filter(|item| item.kind == ItemKind::Tool);
        reply::json(&tool::list(catalog.tools(), hidden))
    })
    .await?
}

/// One tool, by server and its name there.
pub(super) async fn show(console: &Console, server: &str, name: &str) -> Answered {
    let origin = origin(console, server, name)?;
    let catalog = console.host.own_catalog();
    let definition = definition(console, ItemKind::Tool, &origin).await;
    let trust = console.host.trust_of(&origin.server);
    blocking(move || {
        let entry = catalog.tool_at(&origin.server, &origin.raw_name);
        let entry = entry.ok_or_else(|| ApiError::not_found("unknown tool"))?;
        reply::json(&tool::details(entry, trust, definition.as_ref()))
    })
    .await?
}

/// How a definition compares with what was seen; `None` if that cannot be read.
async fn definition(console: &Console, kind: ItemKind, origin: &Origin) -> Option<DefinitionState> {
    let compared = console.host.definition_state(kind, origin).await;
    compared.unwrap_or_else(|error| {
        tracing::error!(%error, server = %origin.server, "definitions that were seen cannot be read");
        None
    })
}

/// The server and name of an item as they stand in an address.
pub(super) fn origin(console: &Console, server: &str, name: &str) -> Result<Origin, ApiError> {
    let server = super::servers::find(console, server)?;
    let raw_name = Segment::decode(name).ok_or_else(|| ApiError::bad_request("the address is not UTF-8"))?;
    Ok(Origin { server, raw_name })
}
