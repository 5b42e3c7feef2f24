//! The closed list of writes, and how a batch of them becomes one transaction.

use std::collections::HashMap;

use rusqlite::{Connection, TransactionBehavior};
use uuid::Uuid;

use crate::{
    StoreError,
    approvals::SavedApproval,
    audit::{AuditEvent, kind},
    calls::{self, CallBody, CallRow},
    chain::Link,
    conversations::{self, Conversation, StoredMessage},
    inbox::InboxRow,
    retention::RetentionPlan,
    rollup, runs, time,
};

/// One change of the database.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// A call began or was sent.
    Call(Box<CallRow>, CallBody),
    /// A call ended: its row, its body, its rollup and its audit event.
    CallEnd(Box<CallRow>, CallBody),
    Audit(Box<AuditEvent>),
    SaveApproval(Box<SavedApproval>),
    RemoveApproval(Uuid),
    Inbox(Box<InboxRow>),
    Conversation(Box<Conversation>),
    Message(Uuid, Box<StoredMessage>),
    DeleteConversation(Uuid),
    Prune(Box<RetentionPlan>),
    /// Closes the calls of a process that has ended.
    Recover(Uuid),
}

/// Applies a batch in one transaction. Either all of it is committed or nothing.
pub(crate) fn apply(connection: &mut Connection, run: Uuid, batch: &[&Write]) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Other processes append too: the head is read under the write lock.
    let mut head = Link::read(&transaction, "head")?;
    let first = head;
    let mut rollups = rollup::Pending::default();
    let last_of_call = last_writes(batch);
    for (index, write) in batch.iter().enumerate() {
        match write {
            // A later write of this batch has everything that this one has.
            Write::Call(call, body) => {
                body.write(&transaction, call.id)?;
                if last_of_call.get(&call.id) == Some(&index) {
                    call.write(&transaction, run)?;
                }
            }
            Write::CallEnd(call, body) => {
                call.write(&transaction, run)?;
                body.write(&transaction, call.id)?;
                rollups.count(call);
                head = end_event(call).append(&transaction, head)?;
            }
            Write::Audit(event) => head = event.append(&transaction, head)?,
            Write::SaveApproval(approval) => approval.write(&transaction)?,
            Write::RemoveApproval(id) => {
                transaction.execute("DELETE FROM approvals WHERE id = ?", [id])?;
            }
            Write::Inbox(item) => item.write(&transaction)?,
            Write::Conversation(conversation) => conversation.write(&transaction)?,
            Write::Message(conversation, message) => message.write(&transaction, *conversation)?,
            Write::DeleteConversation(id) => conversations::delete(&transaction, *id)?,
            Write::Prune(plan) => plan.apply(&transaction)?,
            Write::Recover(dead) => head = recover(&transaction, *dead, head)?,
        }
    }
    rollups.write(&transaction)?;
    if head != first {
        head.write(&transaction, "head")?;
    }
    transaction.commit()?;
    Ok(())
}

/// For each call the position of its last write in the batch.
fn last_writes(batch: &[&Write]) -> HashMap<Uuid, usize> {
    let ids = batch.iter().enumerate().filter_map(|(index, write)| match write {
        Write::Call(call, _) | Write::CallEnd(call, _) => Some((call.id, index)),
        _ => None,
    });
    ids.collect()
}

fn end_event(call: &CallRow) -> AuditEvent {
    let mut details = serde_json::Map::new();
    let texts = [
        ("state", Some(call.state.as_str())),
        ("surface", Some(call.surface.as_str())),
        ("kind", Some(call.kind.as_str())),
        ("rule", call.rule.as_deref()),
        ("approvedBy", call.approved_by.as_deref()),
    ];
    for (key, value) in texts {
        if let Some(value) = value {
            details.insert(key.to_owned(), value.into());
        }
    }
    AuditEvent {
        at: call.started_at.saturating_add(call.duration.unwrap_or_default()),
        kind: kind::CALL,
        caller: Some(call.caller.clone()),
        server: call.server.clone(),
        subject: Some(call.tool.clone().unwrap_or_else(|| call.name.clone())),
        call: Some(call.id),
        details: serde_json::Value::Object(details).to_string(),
    }
}

fn recover(connection: &Connection, dead: Uuid, mut head: Link) -> Result<Link, StoreError> {
    for call in calls::interrupt(connection, dead)? {
        let event = AuditEvent { at: time::now(), kind: kind::RECOVERY, ..end_event(&call) };
        head = event.append(connection, head)?;
    }
    runs::forget(connection, dead)?;
    Ok(head)
}
