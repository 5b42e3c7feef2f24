//! Two processes go on with one conversation: the messages of one are stored, and the answer of the other fails.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolway_agent::{Agent, AgentError, Answer, Conversation};
use toolway_host::{
    conversation::{ConversationHead, ConversationLog, ConversationMessage, ConversationNote},
    policy::ApprovalAnswer,
    record::RecordsError,
};
use toolway_model::{Message, ScriptedModel};
use toolway_testkit::test_host::TestHost;

use crate::{files_host, options};

/// The messages of one conversation, each written once.
#[derive(Default)]
struct Shared(Mutex<BTreeMap<usize, String>>);

impl Shared {
    fn messages(&self) -> Vec<Message> {
        self.0.lock().values().map(|body| serde_json::from_str(body).unwrap()).collect()
    }
}

impl ConversationLog for Shared {
    fn put(&self, _: &ConversationHead) -> BoxFuture<'static, Result<(), RecordsError>> {
        Box::pin(async { Ok(()) })
    }

    fn append(&self, _: &str, message: ConversationMessage) -> BoxFuture<'static, Result<(), RecordsError>> {
        let body = message.body.clone();
        let stored = self.0.lock().entry(message.seq).or_insert(body).clone();
        Box::pin(async move { if stored == message.body { Ok(()) } else { Err(RecordsError::Continued) } })
    }

    fn keep(&self, _: &str, _: ConversationNote) -> BoxFuture<'static, Result<(), RecordsError>> {
        Box::pin(async { Ok(()) })
    }
}

async fn say(host: &TestHost, conversation: &mut Conversation, text: &str, script: &str) -> Result<Answer, AgentError> {
    let model = Arc::new(ScriptedModel::parse("script", script).unwrap());
    let agent = Agent::new(host.host.clone(), model, options());
    agent.answer(conversation, vec![Message::user(text)], &CancellationToken::new(), &mut |_| {}).await
}

const CALLS: &str = r#"{"turns": [{"calls": [{"tool": "files__read"}]}, {"text": "done"}]}"#;

#[tokio::test]
async fn the_second_of_two_processes_makes_no_call_and_stores_nothing() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let shared = Arc::new(Shared::default());
    let log = || Some(Arc::<Shared>::clone(&shared) as Arc<dyn ConversationLog>);
    let mut one = Conversation::new(log());
    say(&host, &mut one, "hello", r#"{"turns": [{"text": "hi"}]}"#).await.unwrap();
    let mut other = Conversation::resume(one.id(), shared.messages(), log());
    say(&host, &mut one, "read it", CALLS).await.unwrap();
    let stored = shared.messages();
    let calls = host.log.records().len();
    for text in ["write it", "again"] {
        let failed = say(&host, &mut other, text, CALLS).await;
        assert!(matches!(failed, Err(AgentError::Continued)), "{failed:?}");
    }
    assert_eq!((host.log.records().len(), shared.messages()), (calls, stored));
}

/// The other process may come between a message and its answer.
#[tokio::test]
async fn a_process_that_loses_the_conversation_makes_no_call_of_a_message_that_is_not_stored() {
    let host = files_host(Some(ApprovalAnswer::approved("test"))).await;
    let shared = Arc::new(Shared::default());
    shared.0.lock().insert(1, r#"{"role": "assistant", "parts": []}"#.to_owned());
    let mut late = Conversation::new(Some(Arc::<Shared>::clone(&shared) as Arc<dyn ConversationLog>));
    let failed = say(&host, &mut late, "read it", CALLS).await;
    assert!(matches!(failed, Err(AgentError::Continued)), "{failed:?}");
    assert!(host.log.records().is_empty());
}
