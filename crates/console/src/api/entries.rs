//! `/api/v1/servers` where entries of the configuration are read, planned, tested, saved and removed, and `/api/v1/import`.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::{Answered, blocking, done, servers::find};
use crate::{
    backend::{EntryDraft, FoundKey, Problem},
    console::Console,
    error::ApiError,
    reply,
};

/// Servers that are copied at once.
const MAX_IMPORTED: usize = 200;

/// Pasted text, and the name for the entry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pasted {
    text: String,
    name: Option<String>,
}

/// A draft, and whether the user agreed to it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Agreed {
    draft: EntryDraft,
    /// Whether the user has agreed to run the command or to connect to the URL.
    #[serde(default)]
    consent: bool,
}

/// Which entry is removed: the one that the user saw.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Removal {
    pub(super) version: String,
}

/// Which servers of other applications are copied.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chosen {
    servers: Vec<FoundKey>,
}

pub(super) async fn parse(console: &Console, pasted: Pasted) -> Answered {
    let backend = Arc::clone(&console.backend);
    let name = pasted.name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    judged(blocking(move || backend.parse(&pasted.text, name.as_deref())).await?)
}

pub(super) async fn show(console: &Console, name: &str) -> Answered {
    let name = find(console, name)?;
    let backend = Arc::clone(&console.backend);
    reply::json(&blocking(move || backend.entry(&name)).await??)
}

pub(super) async fn plan(console: &Console, draft: EntryDraft) -> Answered {
    let backend = Arc::clone(&console.backend);
    judged(blocking(move || backend.plan(&draft)).await?)
}

/// What is wrong with a draft is the answer to the question what is wrong with it: the page asks while the user types.
pub(super) fn judged(result: Result<impl Serialize, Problem>) -> Answered {
    match result {
        Ok(value) => reply::json(&value),
        Err(problem) if problem.conflict => Err(problem.into()),
        Err(problem) => reply::json(&ApiError::from(problem).json()),
    }
}

/// Starts a program, or connects to an address, that the user has agreed to.
pub(super) async fn test(console: &Console, agreed: Agreed) -> Answered {
    require_consent(agreed.consent)?;
    reply::json(&console.backend.test(&agreed.draft).await?)
}

pub(super) async fn save(console: &Console, agreed: Agreed) -> Answered {
    let backend = Arc::clone(&console.backend);
    let saved = blocking(move || {
        if backend.plan(&agreed.draft)?.needs_consent {
            require_consent(agreed.consent)?;
        }
        Ok::<_, ApiError>(backend.save(&agreed.draft)?)
    });
    let saved = saved.await??;
    let host = console.host.clone();
    let name = saved.name.clone();
    console.commands.spawn(async move { drop(host.connect(&name).await) });
    reply::json(&saved)
}

pub(super) async fn plan_removal(console: &Console, name: &str) -> Answered {
    let name = find(console, name)?;
    let backend = Arc::clone(&console.backend);
    reply::json(&blocking(move || backend.plan_removal(&name)).await??)
}

pub(super) async fn remove(console: &Console, name: &str, removal: Removal) -> Answered {
    let name = find(console, name)?;
    let backend = Arc::clone(&console.backend);
    blocking(move || backend.remove(&name, &removal.version)).await??;
    done()
}

pub(super) async fn importable(console: &Console) -> Answered {
    let backend = Arc::clone(&console.backend);
    reply::json(&blocking(move || backend.importable()).await??)
}

pub(super) async fn import(console: &Console, chosen: Chosen) -> Answered {
    if chosen.servers.is_empty() || MAX_IMPORTED < chosen.servers.len() {
        return Err(ApiError::bad_request(format!("choose 1 to {MAX_IMPORTED} servers")));
    }
    let backend = Arc::clone(&console.backend);
    reply::json(&blocking(move || backend.import(&chosen.servers)).await??)
}

fn require_consent(given: bool) -> Result<(), ApiError> {
    if given {
        return Ok(());
    }
    let error = ApiError::new(StatusCode::FORBIDDEN, "consent", "the server was not started: your consent is missing");
    Err(error.hint("review what will run, then confirm it"))
}
