//! One call under faults. Each has a unique word, so that a mixed-up response or server request is detected.

use serde_json::{Value, json};

use super::{rng::SeededRng, setup::SERVERS};

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With its own response.
    Answered,
    /// With this error message.
    Refused(String),
    /// The connection broke and the response is lost.
    Lost,
}

/// One call and its expected result.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) path: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
    expected: Expected,
    pub(super) word: String,
}

/// Expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// A text with the word of this call.
    OwnToken,
    /// A fixed text.
    Text(&'static str),
    /// An error with this code.
    Code(i64),
}

const CODE: i64 = -31_999;

impl Call {
    /// A call of a random tool of a random server, at one of its two URLs.
    pub(super) fn any(word: String, rng: &mut SeededRng) -> Self {
        let server = *rng.one(&SERVERS);
        let (tool, arguments, expected) = match rng.below(9) {
            0 => ("test_error_handling", json!({}), Expected::Text("This tool intentionally returns an error")),
            1 => ("refuse", json!({ "code": CODE }), Expected::Code(CODE)),
            2 => ("test_tool_with_progress", json!({}), Expected::Text("It is done.")),
            3 => ("test_elicitation", json!({ "message": word }), Expected::OwnToken),
            _ => ("greet", json!({ "name": word }), Expected::OwnToken),
        };
        let (path, tool) = match rng.below(2) {
            0 => ("/mcp".to_owned(), format!("{server}__{tool}")),
            _ => (format!("/servers/{server}/mcp"), tool.to_owned()),
        };
        Self { path, tool, arguments, expected, word }
    }

    /// A call that this server answers immediately.
    pub(super) fn plain(word: String, server: &str) -> Self {
        let (tool, arguments) = (format!("{server}__greet"), json!({ "name": word }));
        Self { path: "/mcp".to_owned(), tool, arguments, expected: Expected::OwnToken, word }
    }

    /// Interprets a response; panics if it belongs to another call or has no content.
    pub(super) fn ended(&self, answer: &Value) -> Ended {
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        match (self.expected, text, answer["error"]["code"].as_i64()) {
            (Expected::OwnToken, Some(text), None) if result["isError"] != true => {
                assert!(
                    text.contains(&format!("{}!", self.word)) || text.contains(&format!("\"{}\"", self.word)),
                    "{self:?} got the response of another call: {answer}"
                );
                Ended::Answered
            }
            (Expected::Text(expected), Some(text), None) if text.contains(expected) => Ended::Answered,
            (Expected::Code(expected), None, Some(code)) if expected == code => Ended::Answered,
            (_, Some(text), None) if result["isError"] == true && !text.is_empty() => Ended::Refused(text.to_owned()),
            (_, None, Some(_)) => {
                let message = answer["error"]["message"].as_str().unwrap_or_default();
                assert!(!message.is_empty(), "{self:?} ended without a reason: {answer}");
                Ended::Refused(message.to_owned())
            }
            _ => panic!("{self:?} got an invalid response: {answer}"),
        }
    }

    /// The answer to a server request of this call; panics if it belongs to another call.
    pub(super) fn given(&self, params: &Value) -> Value {
        assert_eq!(params["message"], self.word.as_str(), "{self:?} got a server request of another call");
        json!({ "action": "accept", "content": { "username": self.word, "email": "ada@example.org" } })
    }
}
