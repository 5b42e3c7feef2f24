//! One call under faults: different from every other, so that an answer or a question that is another's is noticed.

use serde_json::{Value, json};

use super::{dice::Dice, house::SERVERS};

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With the answer that belongs to it.
    Answered,
    /// With an error that says this.
    Refused(String),
    /// The connection broke, and nothing of the call can be had any more.
    Lost,
}

/// One call: where, of what, and what is right to come of it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) path: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
    right: Right,
    pub(super) word: String,
}

/// What is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// This call's own word in a text.
    OwnWord,
    /// A text that is the same for all.
    Text(&'static str),
    /// An error of this code.
    Code(i64),
}

const CODE: i64 = -31_999;

impl Call {
    /// A call of a random tool of a random server, at one of its two addresses.
    pub(super) fn any(word: String, dice: &mut Dice) -> Self {
        let server = *dice.one(&SERVERS);
        let (tool, arguments, right) = match dice.below(9) {
            0 => ("test_error_handling", json!({}), Right::Text("This tool intentionally returns an error")),
            1 => ("refuse", json!({ "code": CODE }), Right::Code(CODE)),
            2 => ("test_tool_with_progress", json!({}), Right::Text("It is done.")),
            3 => ("test_elicitation", json!({ "message": word }), Right::OwnWord),
            _ => ("greet", json!({ "name": word }), Right::OwnWord),
        };
        let (path, tool) = match dice.below(2) {
            0 => ("/mcp".to_owned(), format!("{server}__{tool}")),
            _ => (format!("/servers/{server}/mcp"), tool.to_owned()),
        };
        Self { path, tool, arguments, right, word }
    }

    /// A call that this server answers at once.
    pub(super) fn plain(word: String, server: &str) -> Self {
        let (tool, arguments) = (format!("{server}__greet"), json!({ "name": word }));
        Self { path: "/mcp".to_owned(), tool, arguments, right: Right::OwnWord, word }
    }

    /// What an answer means; one that is another's, or says nothing, fails the story.
    pub(super) fn ended(&self, answer: &Value) -> Ended {
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        match (self.right, text, answer["error"]["code"].as_i64()) {
            (Right::OwnWord, Some(text), None) if result["isError"] != true => {
                assert!(
                    text.contains(&format!("{}!", self.word)) || text.contains(&format!("\"{}\"", self.word)),
                    "{self:?} was given another's answer: {answer}"
                );
                Ended::Answered
            }
            (Right::Text(right), Some(text), None) if text.contains(right) => Ended::Answered,
            (Right::Code(right), None, Some(code)) if right == code => Ended::Answered,
            (_, Some(text), None) if result["isError"] == true && !text.is_empty() => Ended::Refused(text.to_owned()),
            (_, None, Some(_)) => {
                let message = answer["error"]["message"].as_str().unwrap_or_default();
                assert!(!message.is_empty(), "{self:?} ended without a reason: {answer}");
                Ended::Refused(message.to_owned())
            }
            _ => panic!("{self:?} was given an answer that is none: {answer}"),
        }
    }

    /// What the caller says to a question of this call; a question of another's fails the story.
    pub(super) fn given(&self, params: &Value) -> Value {
        assert_eq!(params["message"], self.word.as_str(), "{self:?} was asked another's question");
        json!({ "action": "accept", "content": { "username": self.word, "email": "ada@example.org" } })
    }
}
