//! A look at the wire: what `-v` shows, what a dry run keeps back, and whether a server asked something.

use std::io::Write;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use toolway_config::Secret;
use toolway_host::connection::tap::{Passage, Tap};
use toolway_wire::{json::Raw, up::transport::Outbound};

use crate::output::clean;

/// The tap of a command.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    shown: bool,
    secrets: Vec<Secret>,
    /// Whose messages they are, where there are several.
    label: String,
    // Nothing awaits under these locks.
    asked: Mutex<Option<String>>,
    hold: Mutex<Hold>,
}

/// What a dry run waits for.
#[derive(Debug, Default)]
enum Hold {
    /// Everything is sent.
    #[default]
    Nothing,
    /// The next request of this method is handed over instead of sent.
    Next { method: String, catch: oneshot::Sender<Bytes> },
    /// It was; nothing is sent any more.
    Everything,
}

/// Letters of one message that are shown.
const SHOWN: usize = 4_000;
/// Shown in the place of a secret.
const MASK: &str = "•••";
/// Shorter texts are not searched for: they are no secrets, and would mask half of every message.
const SHORTEST: usize = 4;
/// Questions a server can have.
const QUESTIONS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];
/// Members with one of these in their name hold something to hide.
const TELLING: [&str; 8] =
    ["authorization", "password", "passwd", "secret", "apikey", "api_key", "api-key", "access_token"];

impl Watch {
    pub(crate) fn new(shown: bool, secrets: Vec<Secret>) -> Self {
        Self { shown, secrets, ..Self::default() }
    }

    /// The same, where messages of several servers are shown.
    pub(crate) fn of(self, server: &str) -> Self {
        Self { label: format!("{server} "), ..self }
    }

    /// The last thing the server asked, if it asked anything.
    pub(crate) fn asked(&self) -> Option<String> {
        self.asked.lock().clone()
    }

    /// From now on the next request of this method is not sent but given to whoever waits, and nothing after it.
    pub(crate) fn catch(&self, method: &str) -> oneshot::Receiver<Bytes> {
        let (catch, caught) = oneshot::channel();
        *self.hold.lock() = Hold::Next { method: method.to_owned(), catch };
        caught
    }

    fn show(&self, sign: &str, text: &[u8]) {
        if self.shown {
            let text = masked(&String::from_utf8_lossy(text), &self.secrets);
            let mut talk = std::io::stderr();
            let _gone = writeln!(talk, "{}{sign} {}", self.label, clean::line(&text, SHOWN));
        }
    }
}

impl Tap for Watch {
    fn outgoing(&self, outbound: &Outbound) -> Passage {
        let mut hold = self.hold.lock();
        match std::mem::replace(&mut *hold, Hold::Everything) {
            Hold::Nothing => *hold = Hold::Nothing,
            Hold::Next { method, catch } if outbound.request.is_some() && is_call_of(&method, &outbound.message) => {
                // Whoever waits may have been interrupted.
                let _gone = catch.send(outbound.message.clone());
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
        if let Some(question) = question_in(text) {
            *self.asked.lock() = Some(question);
        }
    }
}

fn is_call_of(method: &str, message: &Bytes) -> bool {
    let message = Raw::parse(message.clone()).ok();
    message.and_then(|message| message.get("method")).as_ref().and_then(Raw::as_str).is_some_and(|said| said == method)
}

/// What a message asks of our side: a request of the server's, or an answer that is none yet.
fn question_in(text: &Bytes) -> Option<String> {
    let mentions = |question: &&str| text.windows(question.len()).any(|part| part == question.as_bytes());
    QUESTIONS.iter().find(|question| mentions(question))?;
    let message = Raw::parse(text.clone()).ok()?;
    let method = |raw: &Raw| raw.get("method").as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
    let known = |method: &String| QUESTIONS.contains(&method.as_str());
    if let Some(asked) = method(&message).filter(known) {
        return Some(asked);
    }
    let requests = message.get("result")?.get("inputRequests")?.members();
    requests.iter().find_map(|request| method(&request.value).filter(known))
}

/// The text without the secrets we know of, and without the values of members that have a telling name.
fn masked(text: &str, secrets: &[Secret]) -> String {
    let mut text = mask_members(text);
    for secret in secrets.iter().filter(|secret| SHORTEST <= secret.expose().len()) {
        text = text.replace(secret.expose(), MASK);
    }
    text
}

fn mask_members(text: &str) -> String {
    let (mut out, mut rest, mut telling) = (String::with_capacity(text.len()), text, false);
    while let Some(start) = rest.find('"') {
        let literal_length = literal_length(&rest[start..]);
        let literal = &rest[start..start + literal_length];
        let after = &rest[start + literal_length..];
        let is_key = after.trim_start().starts_with(':');
        out.push_str(&rest[..start]);
        out.push_str(if telling && !is_key { "\"•••\"" } else { literal });
        let name = literal.to_ascii_lowercase();
        telling = is_key && TELLING.iter().any(|word| name.contains(word)) && next_is_text(after);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The length of the string literal at the beginning of `text`, quotes included.
fn literal_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return index + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn next_is_text(after: &str) -> bool {
    after.trim_start().strip_prefix(':').is_some_and(|value| value.trim_start().starts_with('"'))
}

#[cfg(test)]
mod tests {
    use super::{Secret, masked, question_in};

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        let secrets = [Secret::new("t0k3n"), Secret::new("x")];
        for (text, shown) in [
            (r#"{"a":"Bearer t0k3n"}"#, r#"{"a":"Bearer •••"}"#),
            (r#"{"password" : "hunter2","x":"y"}"#, r#"{"password" : "•••","x":"y"}"#),
            (r#"{"apiKey":"a\"b","n":1}"#, r#"{"apiKey":"•••","n":1}"#),
            (r#"{"secret":{"inner":"plain"}}"#, r#"{"secret":{"inner":"plain"}}"#),
            (r#"{"progressToken":7,"cut":"of"#, r#"{"progressToken":7,"cut":"of"#),
        ] {
            assert_eq!(masked(text, &secrets), shown);
        }
    }

    #[test]
    fn a_question_is_seen_in_either_form() {
        let asked = |text: &'static str| question_in(&text.into());
        let request = r#"{"id":1,"method":"elicitation/create","params":{}}"#;
        assert_eq!(asked(request).as_deref(), Some("elicitation/create"));
        let round = r#"{"id":1,"result":{"inputRequests":{"a":{"method":"roots/list"}}}}"#;
        assert_eq!(asked(round).as_deref(), Some("roots/list"));
        assert_eq!(asked(r#"{"id":1,"result":{"content":[{"type":"text","text":"roots/list"}]}}"#), None);
    }
}
