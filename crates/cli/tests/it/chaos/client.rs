//! Clients of both eras that call under faults. Each call ends exactly once: with its own response, with an error that has
//! a message, or with a broken connection.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use super::{
    call::{Call, Ended},
    http::{self, Broken, HttpResponse},
    rng::SeededRng,
};

/// A client of the gateway.
pub(super) struct Client {
    era: Era,
    name: String,
    key: String,
    gateway: SocketAddr,
    rng: SeededRng,
    calls: u64,
    /// Session IDs by path; empty for the stateless era.
    sessions: HashMap<String, String>,
    /// Number of sessions started.
    pub(super) started: usize,
    /// Number of session starts without a response; the gateway may have created these sessions.
    pub(super) half_started: usize,
    /// Number of resumed streams.
    pub(super) resumed: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    Stateful,
    Stateless,
}

/// No call takes longer, whatever happens: a minute is what a call waits for its turn at a server that asks.
const BOUND: Duration = Duration::from_secs(75);
/// Number of attempts over broken connections.
const AGAIN: usize = 20;
const MODERN: &str = "2026-07-28";

impl Client {
    pub(super) fn new(era: Era, name: &str, key: &str, gateway: SocketAddr, rng: SeededRng) -> Self {
        let (name, key) = (format!("{name}-{era:?}"), key.to_owned());
        Self {
            era,
            name,
            key,
            gateway,
            rng,
            calls: 0,
            sessions: HashMap::new(),
            started: 0,
            half_started: 0,
            resumed: 0,
        }
    }

    /// A call of a random tool of a random server.
    pub(super) fn any(&mut self) -> Call {
        let word = self.word();
        Call::any(word, &mut self.rng)
    }

    /// A call that this server answers immediately.
    pub(super) fn plain(&mut self, server: &str) -> Call {
        Call::plain(self.word(), server)
    }

    fn word(&mut self) -> String {
        let number = self.next_id();
        format!("{}-{number}", self.name)
    }

    /// Makes a call; panics if it does not end in time.
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

    /// Closes its sessions.
    pub(super) async fn leave(&mut self) {
        for (path, session) in std::mem::take(&mut self.sessions) {
            drop(self.send("DELETE", &path, &[("mcp-session-id", &session)], String::new()).await);
        }
    }

    async fn alone(&mut self, call: &Call) -> Result<Ended, Broken> {
        let mut more = json!({});
        for round in 0..=AGAIN {
            let answer = match self.post_alone(call, &more).await {
                // The request with the answers is sent again: the gateway either has it already or gets it now.
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

    /// Sends a stateless request; returns its response.
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
        // A lost session is started again and the call repeated; it was not executed.
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
        panic!("{}: {} sessions were started and lost in one call", self.name, self.started)
    }

    /// Sends a request in a session, which is started again if it is lost; returns its response.
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

    /// Reads to the response, answers server requests, and resumes a broken stream.
    async fn follow(&mut self, call: &Call, session: &str, id: u64, mut heard: HttpResponse) -> Result<Value, Broken> {
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
                    // The session or the events after the last one are gone.
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
            // A repeated answer counts once; a lost session ends the server request.
            if self.post(&call.path, session, &answer).await.is_ok_and(|heard| matches!(heard.status, 202 | 404)) {
                return Ok(());
            }
        }
        Err(Broken)
    }

    /// The session at this path; started if necessary.
    async fn session(&mut self, path: &str) -> Result<String, Broken> {
        if let Some(session) = self.sessions.get(path) {
            return Ok(session.clone());
        }
        let started = self.begin(path).await;
        match &started {
            Ok(session) => drop(self.sessions.insert(path.to_owned(), session.clone())),
            Err(Broken) => self.half_started += 1,
        }
        started
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
        self.started += 1;
        Ok(session)
    }

    async fn post(&self, path: &str, session: &str, message: &Value) -> Result<HttpResponse, Broken> {
        self.send("POST", path, &[("mcp-session-id", session)], message.to_string()).await
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: String,
    ) -> Result<HttpResponse, Broken> {
        let bearer = format!("Bearer {}", self.key);
        let mut headers = vec![("authorization", bearer.as_str()), ("content-type", "application/json")];
        if !more.iter().any(|(name, _)| *name == "accept") {
            headers.push(("accept", "application/json, text/event-stream"));
        }
        headers.extend_from_slice(more);
        http::send(self.gateway, method, path, &headers, body).await
    }

    fn next_id(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }
}
