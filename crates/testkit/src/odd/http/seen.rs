//! One request as it came over the socket.

use serde_json::Value;

/// A request. What it holds was written by our own client, so it is read without care.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `POST`, `GET` …
    pub verb: String,
    /// Path and query.
    pub path: String,
    /// As they came, in order.
    pub headers: Vec<(String, String)>,
    /// How many like it came before; alike are those that [`Seen::brief`] says the same of.
    pub before: usize,
    body: Vec<u8>,
    message: Value,
}

impl Seen {
    /// The first request in `bytes` and its length; none while some of it is missing.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ').map(str::to_owned);
        let (verb, path) = (first.next()?, first.next()?);
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers
            .iter()
            .find(|(name, _)| name == "content-length")
            .map_or(Some(0), |(_, value)| value.parse().ok())?;
        let body = bytes.get(end..end + length)?.to_vec();
        let message = serde_json::from_slice(&body).unwrap_or_default();
        Some((Self { verb, path, headers, before: 0, body, message }, end + length))
    }

    /// The body as JSON; null where it is none.
    pub fn message(&self) -> &Value {
        &self.message
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The method of the message; empty for answers and where there is no message.
    pub fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    /// The id of the message; null where it has none.
    pub fn id(&self) -> &Value {
        &self.message["id"]
    }

    /// The tool that is called, if one is.
    pub fn tool(&self) -> &str {
        if self.method() == "tools/call" { self.message["params"]["name"].as_str().unwrap_or_default() } else { "" }
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Verb, path where it is not `/mcp`, and what the message is.
    pub fn brief(&self) -> String {
        let mut brief = self.verb.clone();
        if self.path != "/mcp" {
            brief = format!("{brief} {}", self.path);
        }
        match (self.method(), self.message.is_object()) {
            ("", true) => format!("{brief} answer"),
            ("", false) => brief,
            (method, _) => format!("{brief} {method}"),
        }
    }
}
