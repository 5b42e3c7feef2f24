//! `/api/v1/session`: what a page needs first.

use serde_json::json;
use std::sync::Arc;

use super::{Answered, blocking};
use crate::{console::Console, reply};

/// `has_csrf`: the request has the token for changes, so a page can tell whether its own is right.
pub(super) async fn show(console: &Console, has_csrf: bool) -> Answered {
    let backend = Arc::clone(&console.backend);
    let (models, settings) = blocking(move || (backend.models(), backend.settings())).await?;
    reply::json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "defaultModel": settings.default_model.or_else(|| models.first().map(|model| model.name.clone())),
        "models": models,
        "mode": settings.mode.map(toolway_config::PolicyMode::as_str),
        "store": console.records.is_some(),
        "key": has_csrf,
        "configProblem": settings.problem,
    }))
}
