//! The wire tap of a command: prints messages with `-v`, writes them to an export, holds back the request of a dry run, and
//! records whether the server sent a request to its client.

mod masking;

use std::{io::Write, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use toolway_config::Secret;
use toolway_host::connection::tap::{Passage, Tap};
use toolway_wire::{json::Raw, up::transport::Outbound};

use self::masking::{MASK, mask_members};
use crate::{
    message_export::{Direction, ExportedConnection},
    output::clean,
};

/// Wire tap of one server.
#[derive(Debug, Default)]
pub(crate) struct WireTap {
    shown: bool,
    secrets: Vec<Secret>,
    /// Prefix of printed messages if there are several servers.
    label: String,
    /// Method of the last server request.
    server_request: Mutex<Option<String>>,
    hold: Mutex<Hold>,
}

/// Wire tap of one connection: that of its server, and the export.
#[derive(Debug)]
pub(crate) struct ConnectionTap {
    pub(crate) server: Arc<WireTap>,
    pub(crate) export: Option<ExportedConnection>,
}

/// What is held back.
#[derive(Debug, Default)]
enum Hold {
    /// All messages are sent.
    #[default]
    Nothing,
    /// The next request of this method is passed to `sender` instead of the server.
    Next { method: String, sender: oneshot::Sender<Bytes> },
    /// The request was held back; nothing else is sent.
    Everything,
}

/// Longest printed message in characters.
const MAX_SHOWN: usize = 4_000;
/// Shorter values are not masked: they are not secrets and would match everywhere.
const MIN_SECRET: usize = 4;
/// Methods of server requests.
const SERVER_REQUESTS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];
impl WireTap {
    pub(crate) fn new(shown: bool, secrets: Vec<Secret>) -> Self {
        Self { shown, secrets, ..Self::default() }
    }

    /// Prefixes printed messages with the server name.
    pub(crate) fn labelled(self, server: &str) -> Self {
        Self { label: format!("{server} "), ..self }
    }

    /// Method of the last server request; `None` if the server sent none.
    pub(crate) fn server_request(&self) -> Option<String> {
        self.server_request.lock().clone()
    }

    /// Holds back the next request of this method and everything after it. The receiver gets the request.
    pub(crate) fn intercept(&self, method: &str) -> oneshot::Receiver<Bytes> {
        let (sender, receiver) = oneshot::channel();
        *self.hold.lock() = Hold::Next { method: method.to_owned(), sender };
        receiver
    }

    fn show(&self, sign: &str, text: &[u8]) {
        if self.shown {
            let text = mask(&String::from_utf8_lossy(text), &self.secrets);
            let mut stderr = std::io::stderr();
            let _gone = writeln!(stderr, "{}{sign} {}", self.label, clean::line(&text, MAX_SHOWN));
        }
    }
}

impl Tap for WireTap {
    fn outgoing(&self, outbound: &Outbound) -> Passage {
        let mut hold = self.hold.lock();
        match std::mem::replace(&mut *hold, Hold::Everything) {
            Hold::Nothing => *hold = Hold::Nothing,
            Hold::Next { method, sender } if outbound.request.is_some() && is_call_of(&method, &outbound.message) => {
                // The receiver may have been dropped by an interruption.
                let _gone = sender.send(outbound.message.clone());
                return Passage::Hold;
            }
            next @ Hold::Next { .. } => *hold = next,
            Hold::Everything => return Passage::Hold,
        }
        drop(hold);
        self.show("→", &outbound.message);
        Passage::Pass
    }

    fn incoming(&self, text: &Bytes) {
        self.show("←", text);
        if let Some(request) = server_request_in(text) {
            *self.server_request.lock() = Some(request);
        }
    }
}

impl Tap for ConnectionTap {
    fn outgoing(&self, outbound: &Outbound) -> Passage {
        let passage = self.server.outgoing(outbound);
        if let (Passage::Pass, Some(export)) = (passage, &self.export) {
            export.record(Direction::Out, &outbound.message);
        }
        passage
    }

    fn incoming(&self, text: &Bytes) {
        if let Some(export) = &self.export {
            export.record(Direction::In, text);
        }
        self.server.incoming(text);
    }
}

fn is_call_of(method: &str, message: &Bytes) -> bool {
    let message = Raw::parse(message.clone()).ok();
    message.and_then(|message| message.get("method")).as_ref().and_then(Raw::as_str).is_some_and(|said| said == method)
}

/// Method of the server request in a message: a JSON-RPC request, or an `inputRequests` result.
fn server_request_in(text: &Bytes) -> Option<String> {
    let mentions = |request: &&str| text.windows(request.len()).any(|part| part == request.as_bytes());
    SERVER_REQUESTS.iter().find(|request| mentions(request))?;
    let message = Raw::parse(text.clone()).ok()?;
    let method = |raw: &Raw| raw.get("method").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
    let known = |method: &String| SERVER_REQUESTS.contains(&method.as_str());
    if let Some(asked) = method(&message).filter(known) {
        return Some(asked);
    }
    let requests = message.get("result")?.get("inputRequests")?.members();
    requests.iter().find_map(|request| method(&request.value).filter(known))
}

/// Masks known secrets, and the values of members whose names look like a secret, also in JSON within texts.
pub(crate) fn mask(text: &str, secrets: &[Secret]) -> String {
    let mut text = mask_members(text);
    for secret in secrets.iter().filter(|secret| MIN_SECRET <= secret.expose().len()) {
        text = text.replace(secret.expose(), MASK);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Secret, mask, server_request_in};

    #[test]
    fn secrets_and_sensitive_members_are_masked() {
        let secrets = [Secret::new("t0k3n"), Secret::new("x")];
        for (text, shown) in [
            (r#"{"a":"Bearer t0k3n"}"#, r#"{"a":"Bearer •••"}"#),
            (r#"{"password" : "hunter2","x":"y"}"#, r#"{"password" : "•••","x":"y"}"#),
            (r#"{"progressToken":7,"cut":"of"#, r#"{"progressToken":7,"cut":"of"#),
        ] {
            assert_eq!(mask(text, &secrets), shown);
        }
    }

    #[test]
    fn server_request_is_found_in_both_eras() {
        let asked = |text: &'static str| server_request_in(&text.into());
        let request = r#"{"id":1,"method":"elicitation/create","params":{}}"#;
        assert_eq!(asked(request).as_deref(), Some("elicitation/create"));
        let round = r#"{"id":1,"result":{"inputRequests":{"a":{"method":"roots/list"}}}}"#;
        assert_eq!(asked(round).as_deref(), Some("roots/list"));
        assert_eq!(asked(r#"{"id":1,"result":{"content":[{"type":"text","text":"roots/list"}]}}"#), None);
    }
}
