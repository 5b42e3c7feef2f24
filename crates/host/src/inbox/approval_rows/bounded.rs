//! Rows of one approval: computed once, in bounded work, and not on the runtime if the arguments are long.

use std::sync::Arc;

use ring::digest::{SHA256, digest};
use toolway_wire::json::Raw;

use super::{ArgumentRow, WholeArguments, hidden, rows};

/// Bytes of arguments that are shown one by one. Larger ones are one row.
const MAX_BYTES: usize = 64 * 1024;
/// Levels of arguments that are shown one by one: each costs one pass over what is inside.
const MAX_LEVELS: usize = 32;
/// Bytes of arguments whose rows are computed in place.
const SHORT: usize = 4 * 1024;

/// The rows of a call's arguments.
pub(crate) async fn compute(arguments: Option<&Raw>) -> Arc<[ArgumentRow]> {
    let Some(long) = arguments.filter(|arguments| SHORT < arguments.as_bytes().len()) else {
        return rows(arguments).into();
    };
    let given = long.clone();
    let computed = tokio::task::spawn_blocking(move || rows(Some(&given))).await;
    // The runtime is shutting down.
    computed.unwrap_or_else(|_| vec![whole(long)]).into()
}

/// Whether arguments are shown as one row.
pub(super) fn are_too_large(arguments: &Raw) -> bool {
    MAX_BYTES < arguments.as_bytes().len() || MAX_LEVELS < levels(arguments.as_bytes())
}

/// The row of arguments that are too large to be shown one by one.
pub(super) fn whole(arguments: &Raw) -> ArgumentRow {
    let sha256 = digest(&SHA256, arguments.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let value = arguments.to_string();
    ArgumentRow {
        argument: String::new(),
        label: "arguments".to_owned(),
        important: true,
        has_hidden: hidden::in_json(&value),
        whole: Some(WholeArguments { bytes: arguments.as_bytes().len(), sha256 }),
        value,
    }
}

/// Levels of nesting, in one pass.
pub(crate) fn levels(text: &[u8]) -> usize {
    let (mut level, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' if !is_text => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
