//! `/api/v1/resources`, `/api/v1/prompts`: what servers offer to be read and filled in; completion; updates of resources.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use toolway_host::{
    call::{Caller, Completion, CompletionOf},
    catalog::Origin,
};
use toolway_wire::json::Raw;

use super::{Answered, blocking, done, servers};
use crate::{console::Console, error::ApiError, reply, view::resource};

/// Values of a completion.
const MAX_VALUES: usize = 100;

/// All resources and templates.
pub(super) async fn list(console: &Console) -> Answered {
    let catalog = console.host.own_catalog();
    let watched = console.watches.list();
    blocking(move || reply::json(&resource::resources(&catalog, &watched))).await?
}

/// All prompts.
pub(super) async fn prompts(console: &Console) -> Answered {
    let catalog = console.host.own_catalog();
    blocking(move || reply::json(&resource::prompts(&catalog))).await?
}

/// A resource.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watched {
    server: String,
    uri: String,
}

/// Follows the updates of a resource.
pub(super) async fn watch(console: &Console, watched: Watched) -> Answered {
    let server = servers::find(console, &watched.server)?;
    console.watches.start(Origin { server, raw_name: watched.uri }).await?;
    done()
}

/// Follows them no longer.
pub(super) fn unwatch(console: &Console, watched: Watched) -> Answered {
    let server = watched.server.parse().map_err(|_| ApiError::not_found("unknown server"))?;
    console.watches.end(&Origin { server, raw_name: watched.uri });
    done()
}

/// An argument to complete.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    of: WantedOf,
    server: String,
    /// Name of a prompt, or a template.
    name: String,
    argument: String,
    value: String,
    /// Values of the others.
    #[serde(default)]
    known: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WantedOf {
    Prompt,
    Template,
}

/// What a server offers for an argument.
pub(super) async fn complete(console: &Console, wanted: Wanted) -> Answered {
    let origin = Origin { server: servers::find(console, &wanted.server)?, raw_name: wanted.name };
    let completion = Completion {
        caller_context: (&Caller::Console).into(),
        of: match wanted.of {
            WantedOf::Prompt => CompletionOf::PromptOf(origin),
            WantedOf::Template => CompletionOf::TemplateOf(origin),
        },
        argument: wanted.argument,
        value: wanted.value,
        known: (!wanted.known.is_empty()).then(|| json!(wanted.known)),
    };
    let completed = console.host.complete(completion).await.map_err(|outcome| ApiError::of_outcome(&outcome))?;
    let completion = completed.get("completion").unwrap_or_else(Raw::empty_object);
    let values = completion.get("values").map(|values| values.elements_within(MAX_VALUES)).unwrap_or_default();
    let values: Vec<_> = values.iter().filter_map(|value| Some(value.as_str()?.into_owned())).collect();
    let has_more = completion.get("hasMore").and_then(|more| more.as_bool()).unwrap_or_default();
    reply::json(&json!({ "values": values, "more": has_more }))
}
