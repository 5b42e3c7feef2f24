//! Tools that policy hides from models and clients: a person sees them, with the reason.

use serde_json::json;
use toolway_config::ServerName;
use toolway_host::catalog::{Catalog, HiddenItem, ItemKind};
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
};

use crate::{
    exit_code::ExitCode,
    output::{Output, clean},
    report::Report,
};

/// What lets a hidden tool be used again.
const REMEDY: &str =
    "to accept a definition, set `policy.changedTools` to `ask` and use the tool once in `toolway chat`";

/// The hidden tools of one server, or of all.
pub(super) fn of<'a>(catalog: &'a Catalog, server: Option<&ServerName>) -> Vec<&'a HiddenItem> {
    let is_meant =
        |item: &&HiddenItem| item.kind == ItemKind::Tool && server.is_none_or(|server| item.origin.server == *server);
    catalog.hidden().iter().filter(is_meant).collect()
}

/// Prints them after the list.
pub(super) fn print(hidden: &[&HiddenItem], output: &mut Output) {
    for item in hidden {
        let server = &item.origin.server;
        let name = clean::flat(&item.origin.raw_name);
        output.entry(&name, &format!("  of {server}  [hidden]"));
        output.print_wrapped("    ", &item.reason);
    }
    if !hidden.is_empty() {
        output.notice(&format!("toolway: hidden tools are shown to no model and no client; {REMEDY}"));
    }
}

/// Adds them to the JSON object of a list, apart from the tools that can be used.
pub(super) fn add(listed: Raw, hidden: &[&HiddenItem]) -> Raw {
    if hidden.is_empty() {
        return listed;
    }
    let view = |item: &&HiddenItem| json!({ "server": item.origin.server.as_str(), "name": item.origin.raw_name, "reason": item.reason });
    let views: Vec<_> = hidden.iter().map(view).collect();
    splice::edited(&listed, &[Edit::Set("hidden", Raw::of(&views))])
}

/// The report of a hidden tool that is called or shown.
pub(crate) fn report(item: &HiddenItem) -> Report {
    let HiddenItem { origin, reason, .. } = item;
    let name = clean::flat(&origin.raw_name);
    let message =
        format!("tool `{name}` of `{}` is hidden, because it is not what was seen first: {reason}", origin.server);
    Report::new(ExitCode::Denied, "hidden", message).hint(REMEDY)
}
