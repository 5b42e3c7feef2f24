//! `/api/v1/assistants`: assistants that a conversation can have, and their entries in the user's file.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::{
    Answered, blocking, done,
    entries::{Removal, judged},
};
use crate::{backend::EntryDraft, console::Console, reply};

/// A draft that is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saving {
    draft: EntryDraft,
}

pub(super) async fn list(console: &Console) -> Answered {
    let backend = Arc::clone(&console.backend);
    reply::json(&json!(blocking(move || backend.assistants()).await?))
}

pub(super) async fn entry(console: &Console, name: &str) -> Answered {
    let backend = Arc::clone(&console.backend);
    let name = name.to_owned();
    reply::json(&blocking(move || backend.assistant_entry(&name)).await??)
}

pub(super) async fn plan(console: &Console, draft: EntryDraft) -> Answered {
    let backend = Arc::clone(&console.backend);
    judged(blocking(move || backend.plan_assistant(&draft)).await?)
}

pub(super) async fn save(console: &Console, saving: Saving) -> Answered {
    let backend = Arc::clone(&console.backend);
    let name = blocking(move || backend.save_assistant(&saving.draft)).await??;
    reply::json(&json!({ "name": name }))
}

pub(super) async fn plan_removal(console: &Console, name: &str) -> Answered {
    let backend = Arc::clone(&console.backend);
    let name = name.to_owned();
    reply::json(&blocking(move || backend.plan_assistant_removal(&name)).await??)
}

pub(super) async fn remove(console: &Console, name: &str, removal: Removal) -> Answered {
    let backend = Arc::clone(&console.backend);
    let name = name.to_owned();
    blocking(move || backend.remove_assistant(&name, &removal.version)).await??;
    done()
}
