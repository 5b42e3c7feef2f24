//! A recorded request.

use serde_json::Value;

/// A request of our own client, parsed without validation.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// HTTP method: `POST`, `GET` …
    pub verb: String,
    /// Path and query.
    pub path: String,
    /// Headers as received, in order.
    pub headers: Vec<(String, String)>,
    /// Number of earlier requests with the same [`RecordedRequest::brief`].
    pub before: usize,
    body: Vec<u8>,
    message: Value,
}

impl RecordedRequest {
    /// Parses the first request in `bytes` and returns its length; `None` if it is incomplete.
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

    /// Body as JSON; null if it is not JSON.
    pub fn message(&self) -> &Value {
        &self.message
    }

    /// Body as bytes.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Method of the message; empty for answers and bodies without a message.
    pub fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    /// Id of the message; null if it has none.
    pub fn id(&self) -> &Value {
        &self.message["id"]
    }

    /// Name of the called tool; empty for other messages.
    pub fn tool(&self) -> &str {
        if self.method() == "tools/call" { self.message["params"]["name"].as_str().unwrap_or_default() } else { "" }
    }

    /// Value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Summary: HTTP method, path unless `/mcp`, and kind of message.
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
