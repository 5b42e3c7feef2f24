//! Calls with an idempotency key: claimed after policy has decided and before anything is sent.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use ring::digest::{SHA256, digest};
use toolway_wire::{exchange::Request, json::Raw};

use super::{CallKind, CallOutcome, find::Found};
use crate::{
    host::Inner,
    policy::Refusal,
    record::{Delivery, HeldKey, IdempotencyKey, KeyClaim, KeyHolder, Recording, Repeated, Requirement},
    task::adoption,
};

/// First pause before a running call is looked at again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long the record of a call may be missing: it is written at the same time as its key.
const UNWRITTEN: Duration = Duration::from_secs(5);
/// Longest wait for a running call; that of a whole call by default.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Claims the key for this call. A repetition gets the recorded answer, waits for the running call, or is refused.
pub(super) async fn claim(
    host: &Arc<Inner>,
    key: &IdempotencyKey,
    found: &Found,
    request: Option<&Request>,
    recording: &mut Recording,
) -> Result<(), CallOutcome> {
    let (Some(recorder), Some(call)) = (host.context.ports.recorder.clone(), recording.id()) else {
        return Err(Refusal::NotRecorded("an idempotency key needs a store".to_owned()).into());
    };
    let subject = &found.subject;
    let arguments = request.and_then(|request| match subject.kind {
        CallKind::Tool | CallKind::Prompt => request.param("arguments"),
        CallKind::Resource => None,
        CallKind::Method => request.params().cloned(),
    });
    let claim = KeyClaim {
        key: key.clone(),
        item: format!("{}\n{}\n{}", subject.server, subject.kind, subject.raw_name),
        digest: digest(&SHA256, arguments.as_ref().map(Raw::as_bytes).unwrap_or_default()).as_ref().to_vec(),
        call: call.uuid(),
        at: SystemTime::now(),
        idempotent: found.annotations.idempotent,
    };
    // A key without its call could never be freed.
    recording.ensure_pending_written();
    let waiting = async {
        let began = tokio::time::Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut next_look = began;
        loop {
            let held = match recorder.claim_key(claim.clone()).await {
                Ok(KeyHolder::Claimed) => return Ok(()),
                Ok(KeyHolder::Held(held)) => held,
                Err(error) if !key.is_strict() && recorder.requirement() == Requirement::BestEffort => {
                    tracing::warn!(call_id = %call, %error, "the call is sent without its idempotency key");
                    return Ok(());
                }
                Err(error) => return Err(Refusal::NotRecorded(error.to_string()).into()),
            };
            if !held.is_same {
                return Err(Refusal::Repeated(Repeated::OtherArguments).into());
            }
            let patience = if held.record.is_some() { PATIENCE } else { UNWRITTEN };
            if held.is_open() && began.elapsed() < patience {
                // The process that followed its task may have ended: then nothing else would end this wait.
                if next_look <= tokio::time::Instant::now() {
                    next_look += adoption::LOOK;
                    adoption::adopt_if_left(host, held.call).await;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            // Freed meanwhile: claimed again.
            if held.record.as_ref().is_some_and(|call| call.row.outcome == Some(Delivery::NotSent)) {
                continue;
            }
            return Err(recorded_answer(&held));
        }
    };
    let claimed: Result<(), CallOutcome> = recording.while_pending(waiting).await;
    if claimed.is_ok() {
        recording.mark_key_claimed();
    }
    claimed
}

/// The recorded answer of the call that holds the key, or why it has no answer.
fn recorded_answer(held: &HeldKey) -> CallOutcome {
    let answered = held.record.as_ref().filter(|call| call.row.outcome == Some(Delivery::Answered));
    let result = answered.and_then(|call| call.body.result.clone()).and_then(|text| Raw::parse(text).ok());
    let is_kept = |result: &Raw| result.get("toolway").and_then(|own| own.get("notKept")).is_none();
    match result.filter(is_kept) {
        Some(result) => CallOutcome::Answered(result),
        None => Refusal::Repeated(held.refusal()).into(),
    }
}
