//! `/api/v1/session`: what a page needs first.

use serde_json::json;
use std::sync::Arc;

use super::{Answered, blocking};
use crate::{console::Console, reply};

pub(super) async fn show(console: &Console) -> Answered {
    let backend = Arc::clone(&console.backend);
    let (models, default_model, mode) =
        blocking(move || (backend.models(), backend.default_model(), backend.mode())).await?;
    reply::json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "defaultModel": default_model.or_else(|| models.first().map(|model| model.name.clone())),
        "models": models,
        "mode": mode.map(toolway_config::PolicyMode::as_str),
        "store": console.records.is_some(),
    }))
}
