//! Clients of either era that call under faults. Each call is different from every other and ends exactly once: with its
//! own answer, with an error that says something, or with a connection that broke for good.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use super::{
    call::{Call, Ended},
    dice::Dice,
    speaking::{self, Broken, Heard},
};

/// Somebody who calls.
pub(super) struct Client {
    era: Era,
    name: String,
    key: String,
    door: SocketAddr,
    dice: Dice,
    calls: u64,
    /// Sessions by path, where this era has them.
    sessions: HashMap<String, String>,
    /// How often a session had to be begun.
    pub(super) begun: usize,
    /// How often that broke off in the middle: there may be a session that nobody knows of.
    pub(super) half_begun: usize,
    /// How often a stream was taken up again.
    pub(super) resumed: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    Stateful,
    Stateless,
}

/// No call takes longer, whatever happens: a minute is what a call waits for its turn at a server that asks.
const BOUND: Duration = Duration::from_secs(75);
/// How often something is said again over a connection that breaks.
const AGAIN: usize = 20;
const MODERN: &str = "2026-07-28";

impl Client {
    pub(super) fn new(era: Era, name: &str, key: &str, door: SocketAddr, dice: Dice) -> Self {
        let (name, key) = (format!("{name}-{era:?}"), key.to_owned());
        Self { era, name, key, door, dice, calls: 0, sessions: HashMap::new(), begun: 0, half_begun: 0, resumed: 0 }
    }

    /// A call of a random tool of a random server.
    pub(super) fn any(&mut self) -> Call {
        let word = self.word();
        Call::any(word, &mut self.dice)
    }

    /// A call that this server answers at once.
    pub(super) fn plain(&mut self, server: &str) -> Call {
        Call::plain(self.word(), server)
    }

    fn word(&mut self) -> String {
        let number = self.next_id();
        format!("{}-{number}", self.name)
    }

    /// Makes a call; it ends, and in time.
    pub(super) async fn make(&mut self, call: &Call) -> Ended {
        let (name, era) = (self.name.clone(), self.era);
        let making = async {
            match era {
                Era::Stateful => self.in_session(call).await,
                Era::Stateless => self.alone(call).await,
            }
        };
        let ended = tokio::time::timeout(BOUND, making).await;
        ended.unwrap_or_else(|_| panic!("{name}: {call:?} has not ended after {BOUND:?}")).unwrap_or(Ended::Lost)
    }

    /// Ends its sessions.
    pub(super) async fn leave(&mut self) {
        for (path, session) in std::mem::take(&mut self.sessions) {
            drop(self.send("DELETE", &path, &[("mcp-session-id", &session)], String::new()).await);
        }
    }

    async fn alone(&mut self, call: &Call) -> Result<Ended, Broken> {
        let mut more = json!({});
        for round in 0..=AGAIN {
            let answer = match self.post_alone(call, &more).await {
                // What carries the answers is said again: either it was heard, and that is said, or it is heard now.
                Err(Broken) if round != 0 => continue,
                other => other?,
            };
            let result = &answer["result"];
            if result["resultType"] != "input_required" {
                return Ok(call.ended(&answer));
            }
            let asked = result["inputRequests"].as_object().unwrap_or_else(|| panic!("{answer}"));
            let answers: serde_json::Map<_, _> =
                asked.iter().map(|(key, asked)| (key.clone(), call.given(&asked["params"]))).collect();
            more = json!({ "requestState": result["requestState"], "inputResponses": answers });
        }
        Err(Broken)
    }

    async fn post_alone(&mut self, call: &Call, more: &Value) -> Result<Value, Broken> {
        let mut params = json!({ "name": call.tool, "arguments": call.arguments });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask_alone(&call.path, "tools/call", &call.tool, params).await
    }

    /// A stateless request; its answer.
    pub(super) async fn ask_alone(
        &mut self,
        path: &str,
        method: &str,
        name: &str,
        mut params: Value,
    ) -> Result<Value, Broken> {
        params["_meta"] = json!({
            "progressToken": name,
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": { "name": "chaos", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": { "form": {} }, "extensions": { "io.modelcontextprotocol/tasks": {} },
            },
        });
        let id = self.next_id();
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method), ("mcp-name", name)];
        let mut heard = self.send("POST", path, &headers, message.to_string()).await?;
        let (status, mut answer) = (heard.status, None);
        while let Some(message) = heard.next().await? {
            if message["id"] == id {
                assert!(answer.replace(message).is_none(), "{} was answered twice", self.name);
            }
        }
        Ok(answer.unwrap_or_else(|| panic!("{}: {status} and no answer", self.name)))
    }

    async fn in_session(&mut self, call: &Call) -> Result<Ended, Broken> {
        // A session that is gone is begun anew, and the call made again: it was not begun.
        for _ in 0..AGAIN {
            let session = self.session(&call.path).await?;
            let params = json!({ "name": call.tool, "arguments": call.arguments,
                "_meta": { "progressToken": call.word } });
            let id = self.next_id();
            let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            let heard = self.post(&call.path, &session, &message).await?;
            if heard.status == 404 {
                self.sessions.remove(&call.path);
                continue;
            }
            return Ok(call.ended(&self.follow(call, &session, id, heard).await?));
        }
        panic!("{}: {} sessions were begun and lost in one call", self.name, self.begun)
    }

    /// A request in a session, which is begun again where it is gone; its answer.
    pub(super) async fn ask_in_session(&mut self, path: &str, method: &str, params: Value) -> Result<Value, Broken> {
        loop {
            let session = self.session(path).await?;
            let id = self.next_id();
            let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
            let mut heard = self.post(path, &session, &message).await?;
            if heard.status == 404 {
                self.sessions.remove(path);
                continue;
            }
            while let Some(message) = heard.next().await? {
                if message["id"] == id {
                    return Ok(message);
                }
            }
            panic!("{}: {method} ended with {} and no answer", self.name, heard.status)
        }
    }

    /// Reads until the answer; what is asked is answered, and a stream that breaks is taken up where it broke.
    async fn follow(&mut self, call: &Call, session: &str, id: u64, mut heard: Heard) -> Result<Value, Broken> {
        for _ in 0..AGAIN {
            loop {
                match heard.next().await {
                    Ok(Some(message)) if message["id"] == id && message.get("method").is_none() => return Ok(message),
                    Ok(Some(asked)) if asked["method"] == "elicitation/create" => {
                        self.answer(call, session, &asked).await?;
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("{}: {call:?} ended with {} and no answer", self.name, heard.status),
                    Err(Broken) => break,
                }
            }
            let Some(last) = heard.last_event.clone() else { return Err(Broken) };
            self.resumed += 1;
            heard = loop {
                let headers = [("mcp-session-id", session), ("last-event-id", &last), ("accept", "text/event-stream")];
                match self.send("GET", &call.path, &headers, String::new()).await {
                    Ok(heard) if heard.status == 200 => break heard,
                    // The session, or what followed the event, is gone.
                    Ok(_) => return Err(Broken),
                    Err(Broken) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            };
            heard.last_event = Some(last);
        }
        Err(Broken)
    }

    async fn answer(&mut self, call: &Call, session: &str, asked: &Value) -> Result<(), Broken> {
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": call.given(&asked["params"]) });
        for _ in 0..AGAIN {
            // What was heard twice counts once; a session that is gone takes the question along.
            if self.post(&call.path, session, &answer).await.is_ok_and(|heard| matches!(heard.status, 202 | 404)) {
                return Ok(());
            }
        }
        Err(Broken)
    }

    /// The session at this path; begun where there is none.
    async fn session(&mut self, path: &str) -> Result<String, Broken> {
        if let Some(session) = self.sessions.get(path) {
            return Ok(session.clone());
        }
        let begun = self.begin(path).await;
        match &begun {
            Ok(session) => drop(self.sessions.insert(path.to_owned(), session.clone())),
            Err(Broken) => self.half_begun += 1,
        }
        begun
    }

    async fn begin(&mut self, path: &str) -> Result<String, Broken> {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": { "form": {} } },
            "clientInfo": { "name": "chaos", "version": "1" } });
        let message = json!({ "jsonrpc": "2.0", "id": self.next_id(), "method": "initialize", "params": params });
        let mut heard = self.send("POST", path, &[], message.to_string()).await?;
        let answer = heard.next().await?;
        assert_eq!(heard.status, 200, "{}: {path}: {answer:?}", self.name);
        let session = heard.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let status = self.post(path, &session, &ready).await?.status;
        if status != 202 {
            return Err(Broken);
        }
        self.begun += 1;
        Ok(session)
    }

    async fn post(&self, path: &str, session: &str, message: &Value) -> Result<Heard, Broken> {
        self.send("POST", path, &[("mcp-session-id", session)], message.to_string()).await
    }

    async fn send(&self, method: &str, path: &str, more: &[(&str, &str)], body: String) -> Result<Heard, Broken> {
        let bearer = format!("Bearer {}", self.key);
        let mut headers = vec![("authorization", bearer.as_str()), ("content-type", "application/json")];
        if !more.iter().any(|(name, _)| *name == "accept") {
            headers.push(("accept", "application/json, text/event-stream"));
        }
        headers.extend_from_slice(more);
        speaking::send(self.door, method, path, &headers, body).await
    }

    fn next_id(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }
}
