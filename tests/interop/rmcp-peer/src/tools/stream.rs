//! Tools that send notifications before their result, or take time.
#![expect(deprecated, reason = "the SDK marks logging as deprecated; clients still use it")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::model::{
    CallToolResult, ErrorData, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
};
use rmcp::service::ServiceError;
use serde::Deserialize;
use serde_json::json;

use super::text;
use crate::server::{Context, World};

#[derive(Debug, Deserialize)]
pub(super) struct Progress {
    steps: u32,
}

pub(super) async fn progress(Progress { steps }: &Progress, context: &Context) -> Result<CallToolResult, ErrorData> {
    if let Some(token) = context.meta.get_progress_token() {
        for step in 1..=*steps {
            let report = ProgressNotificationParam::new(token.clone(), f64::from(step))
                .with_total(f64::from(*steps))
                .with_message(format!("step {step} of {steps}"));
            context.peer.notify_progress(report).await.map_err(|error| unsent(&error))?;
        }
    }
    Ok(text(format!("{steps} steps")))
}

/// Logs three messages, except those below `least`.
pub(super) async fn log(least: Option<LoggingLevel>, context: &Context) -> Result<CallToolResult, ErrorData> {
    for level in [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Error] {
        // The SDK does not order the levels, but it declares them from the least to the gravest.
        if least.is_some_and(|least| level as u8 >= least as u8) {
            let message = LoggingMessageNotificationParam::new(level, json!("a message")).with_logger("rmcp-peer");
            context.peer.notify_logging_message(message).await.map_err(|error| unsent(&error))?;
        }
    }
    Ok(text("logged"))
}

#[derive(Debug, Deserialize)]
pub(super) struct Sleep {
    ms: u64,
}

/// Counts a call that does not end by itself: also one whose client is gone before its first notification is sent.
struct Unfinished<'a>(&'a World);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.cancelled.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends progress at the start, so that a client knows when it can cancel.
pub(super) async fn sleep(Sleep { ms }: &Sleep, world: &World, context: &Context) -> Result<CallToolResult, ErrorData> {
    let unfinished = Unfinished(world);
    if let Some(token) = context.meta.get_progress_token() {
        let begun = ProgressNotificationParam::new(token, 0.0);
        context.peer.notify_progress(begun).await.map_err(|error| unsent(&error))?;
    }
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(*ms)) => {
            std::mem::forget(unfinished);
            Ok(text(format!("slept {ms} ms")))
        }
        () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
    }
}

fn unsent(error: &ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
