//! Conversations, saved approvals and inbox items.

use std::time::UNIX_EPOCH;

use toolway_host::policy::{ApprovalKey, Attendance, SavedApproval, SavedEffect, Scope};
use toolway_store::{
    StoreError, Uuid,
    approvals::StoredApproval,
    conversations::{ConversationNote, StoredConversation, StoredMessage},
    inbox::InboxRow,
    time,
};

use crate::stage::Stage;

fn conversation(title: &str) -> StoredConversation {
    let now = time::now();
    let (title, model, surface) = (title.to_owned(), "scripted".to_owned(), "chat".to_owned());
    StoredConversation { id: Uuid::now_v7(), started_at: now, updated_at: now, title, model, surface }
}

fn message(seq: i64, role: &str, text: &str) -> StoredMessage {
    let (role, text) = (role.to_owned(), text.to_owned());
    StoredMessage { seq, at: time::now(), role, text, body: "{}".to_owned() }
}

#[tokio::test]
async fn conversations_are_listed_searched_and_deleted() {
    let stage = Stage::new();
    let store = stage.open();
    let (old, new) = (conversation("old"), conversation("new"));
    for talk in [&old, &new] {
        store.write_conversation(talk.clone()).await.unwrap();
    }
    store.write_message(new.id, message(0, "user", "Where is the Invoice?")).await.unwrap();
    store.write_message(new.id, message(1, "assistant", "The invoice is in the folder")).await.unwrap();
    store.write_message(old.id, message(0, "user", "hello")).await.unwrap();

    let reader = stage.reader();
    let titles: Vec<_> = reader.conversations(10).unwrap().into_iter().map(|talk| talk.title).collect();
    assert_eq!(titles, ["old", "new"], "the one with the last message comes first");
    let found = reader.search_conversations("INVOICE", 10).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].conversation.id, found[0].message.seq), (new.id, 0));
    assert_eq!(reader.messages(new.id).unwrap().len(), 2);

    for body in ["{}", r#"{"until":2}"#] {
        let note = ConversationNote { name: "compaction".to_owned(), body: body.to_owned() };
        store.write_note(new.id, note).await.unwrap();
    }
    let notes: Vec<String> = reader.conversation_notes(new.id).unwrap().into_iter().map(|note| note.body).collect();
    assert_eq!(notes, [r#"{"until":2}"#], "a note is replaced by its name");

    store.delete_conversation(new.id).await.unwrap();
    assert!(reader.conversation_notes(new.id).unwrap().is_empty());
    assert_eq!(reader.conversation(new.id).unwrap(), None);
    assert!(reader.messages(new.id).unwrap().is_empty());
}

#[tokio::test]
async fn a_message_is_written_once_and_another_process_is_told_that_the_conversation_went_on() {
    let stage = Stage::new();
    let (one, other) = (stage.open(), stage.open());
    let talk = conversation("shared");
    one.write_conversation(talk.clone()).await.unwrap();
    let said =
        |seq, text: &str| StoredMessage { body: format!("{{\"text\":\"{text}\"}}"), ..message(seq, "user", text) };
    one.write_message(talk.id, said(0, "first")).await.unwrap();
    // Again is a repeated commit.
    one.write_message(talk.id, said(0, "first")).await.unwrap();
    other.write_message(talk.id, said(1, "of the other")).await.unwrap();
    // In one batch with others, which are written.
    let late = one.write_message(talk.id, said(1, "of the one"));
    let note = ConversationNote { name: "n".to_owned(), body: "{}".to_owned() };
    let beside = one.write_note(talk.id, note);
    assert!(matches!(late.await, Err(StoreError::Continued)));
    beside.await.unwrap();
    let texts: Vec<_> = stage.reader().messages(talk.id).unwrap().into_iter().map(|message| message.text).collect();
    assert_eq!(texts, ["first", "of the other"]);
    assert_eq!(stage.reader().conversation_notes(talk.id).unwrap().len(), 1);
}

#[tokio::test]
async fn saved_approvals_are_found_by_tool_and_removed() {
    let stage = Stage::new();
    let store = stage.open();
    let key = ApprovalKey {
        caller: "agent".to_owned(),
        server: "files".parse().unwrap(),
        entry: "e".to_owned(),
        tool: "write_file".to_owned(),
        digest: "abc".to_owned(),
    };
    let stored = |scope, effect| StoredApproval {
        approval: SavedApproval { created_at: UNIX_EPOCH, ..SavedApproval::new(key.clone(), scope, effect) },
        created_by: "terminal".to_owned(),
    };
    let id = |stored: &StoredApproval| stored.approval.id.parse().unwrap();
    let approval = stored(Scope::same(None), SavedEffect::Allow);
    store.save_approval(approval.clone()).await.unwrap();
    let never = stored(Scope::Any, SavedEffect::Deny);
    store.save_approval(never.clone()).await.unwrap();
    let reader = stage.reader();
    assert_eq!(reader.approvals_of("files", "write_file").unwrap(), [never.clone(), approval.clone()]);
    assert!(reader.approvals_of("files", "read_file").unwrap().is_empty());
    store.remove_approval(id(&never)).await.unwrap();
    assert_eq!(reader.approvals().unwrap(), std::slice::from_ref(&approval));
    store.set_approval_holds(id(&approval), Attendance::Unattended).await.unwrap();
    assert_eq!(reader.approvals().unwrap()[0].approval.holds, Attendance::Unattended);
    let hosts = stored(Scope::Hosts(["a.example".to_owned()].into()), SavedEffect::Allow);
    store.save_approval(hosts.clone()).await.unwrap();
    assert_eq!(reader.approvals_of("files", "read_file").unwrap(), [hosts], "hosts are about every tool");
}

#[tokio::test]
async fn an_inbox_item_keeps_its_question_when_it_is_answered() {
    let stage = Stage::new();
    let store = stage.open();
    let item = InboxRow {
        id: Uuid::now_v7(),
        created_at: time::now(),
        expires_at: time::now() + 600_000_000,
        kind: "approval".to_owned(),
        server: Some("files".to_owned()),
        caller: "client:editor".to_owned(),
        call: None,
        text: "write_file path=a".to_owned(),
        ended_at: None,
        answer: None,
        answered_by: None,
    };
    store.write_inbox(item.clone()).await.unwrap();
    let answer = (Some(time::now()), Some("once".to_owned()), Some("console".to_owned()));
    let (ended_at, answer, answered_by) = answer;
    let answered = InboxRow { ended_at, answer, answered_by, text: String::new(), ..item.clone() };
    store.write_inbox(answered.clone()).await.unwrap();
    assert_eq!(stage.reader().inbox(10).unwrap(), [InboxRow { text: item.text, ..answered }]);
}
