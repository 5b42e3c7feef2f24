//! The sessions of gateway clients, through which servers on a client's own connections ask for its roots outside a call.
//!
//! A connection belongs to one caller, or to one session of it. If several sessions share it, the server gets the roots of
//! all of them: it works for each.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use parking_lot::Mutex;
use toolway_wire::{
    exchange::{Answer, ServerRequestDetails, ServerRequestHandler},
    message::splice,
};

use crate::call::Caller;

/// The open sessions of all gateway clients. The gateway bounds their number.
#[derive(Default)]
pub(crate) struct ClientSessions {
    // Nothing awaits under this lock.
    open: Mutex<HashMap<Caller, Vec<ClientSession>>>,
}

/// One session, and the way to its client.
#[derive(Clone)]
struct ClientSession {
    name: Arc<str>,
    client: Arc<dyn ServerRequestHandler>,
}

/// How long a server waits for the roots of each session: a client that is gone must not delay the others.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

impl ClientSessions {
    /// Records a session.
    pub(crate) fn add(&self, caller: &Caller, session: &Arc<str>, client: Arc<dyn ServerRequestHandler>) {
        let mut open = self.open.lock();
        let sessions = open.entry(caller.clone()).or_default();
        sessions.retain(|known| known.name != *session);
        sessions.push(ClientSession { name: Arc::clone(session), client });
    }

    /// Removes a session, or all sessions of the caller.
    pub(crate) fn remove(&self, caller: &Caller, session: Option<&str>) {
        let mut open = self.open.lock();
        if let Some(sessions) = open.get_mut(caller) {
            sessions.retain(|known| session.is_some_and(|session| *known.name != *session));
            if sessions.is_empty() {
                open.remove(caller);
            }
        }
    }

    /// Asks the sessions of a caller, or one of them, for their roots.
    pub(crate) async fn roots(
        &self,
        caller: &Caller,
        session: Option<&Arc<str>>,
        request: ServerRequestDetails,
    ) -> Answer {
        let mut sessions = self.open.lock().get(caller).cloned().unwrap_or_default();
        let answers_roots = |known: &ClientSession| known.client.capabilities().lacks("roots/list", None).is_none();
        sessions.retain(|known| session.is_none_or(|session| known.name == *session) && answers_roots(known));
        let asked = sessions.iter().map(|known| async {
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, known.client.answer(request.clone())).await;
            answer.unwrap_or(Answer::Unavailable)
        });
        joined(join_all(asked).await)
    }
}

/// The only answer, unchanged, or the roots of all successful ones.
fn joined(mut answers: Vec<Answer>) -> Answer {
    if answers.iter().any(|answer| matches!(answer, Answer::Given(_))) {
        answers.retain(|answer| matches!(answer, Answer::Given(_)));
    }
    if answers.len() < 2 || !matches!(answers[0], Answer::Given(_)) {
        return answers.pop().unwrap_or(Answer::Unavailable);
    }
    let (mut roots, mut seen) = (Vec::new(), HashSet::new());
    for answer in &answers {
        let Answer::Given(given) = answer else { continue };
        let listed = given.get("roots").map(|roots| roots.elements()).unwrap_or_default();
        roots.extend(listed.into_iter().filter(|root| seen.insert(root.get("uri").map(|uri| uri.to_string()))));
    }
    Answer::Given(splice::object([("roots", &splice::array(&roots))]))
}

impl fmt::Debug for ClientSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSessions").field("callers", &self.open.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolway_wire::{exchange::Answer, json::Raw};

    use super::joined;

    fn given(roots: &[&str]) -> Answer {
        let roots: Vec<Value> = roots.iter().map(|uri| json!({ "uri": uri })).collect();
        Answer::Given(Raw::of(&json!({ "roots": roots })))
    }

    #[test]
    fn server_gets_the_roots_of_all_sessions_that_answer() {
        let said = |answers| match joined(answers) {
            Answer::Given(given) => given.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(said(vec![]), "Unavailable");
        assert_eq!(said(vec![Answer::Unavailable, given(&["file:///a"])]), r#"{"roots":[{"uri":"file:///a"}]}"#);
        let both = said(vec![given(&["file:///a"]), given(&["file:///b", "file:///a"])]);
        assert_eq!(both, r#"{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}"#);
    }
}
