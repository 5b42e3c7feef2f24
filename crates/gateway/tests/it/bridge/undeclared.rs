//! What a caller did not declare is never asked of it, and the call ends with a sentence that says why.

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolway_wire::{exchange::Outcome, revision::Era};

use super::scene::{Column, Door, House, Scene};

/// A tool that asks, how it asks, and what its caller would have to declare.
const ASKING: [(&str, &str, &str); 5] = [
    ("test_elicitation", "elicitation/create", r#"{"elicitation":{"form":{}}}"#),
    ("ask_address", "elicitation/create", r#"{"elicitation":{"url":{}}}"#),
    ("test_sampling", "sampling/createMessage", r#"{"sampling":{}}"#),
    ("ask_model_with_tools", "sampling/createMessage", r#"{"sampling":{"tools":{}}}"#),
    ("test_input_required_result_list_roots", "roots/list", r#"{"roots":{}}"#),
];

/// What is said then.
pub(super) struct Said {
    pub(super) client: Era,
    pub(super) server: Era,
    pub(super) code: i64,
    /// With the method that was asked for `{}`.
    pub(super) sentence: &'static str,
    /// Whether it says, for programs, what would have to be declared.
    pub(super) names_it: bool,
}

const LACKS: &str = "the caller lacks a capability this needs";

/// Between two sessions the server hears the error and says it as it likes; this is what it hears.
pub(super) const SAID: [Said; 4] = [
    Said::new(Era::Legacy, Era::Legacy, -32601, "the caller cannot be asked `{}`", false),
    Said::new(Era::Legacy, Era::Modern, -32603, LACKS, true),
    Said::new(Era::Modern, Era::Legacy, -32021, LACKS, true),
    Said::new(Era::Modern, Era::Modern, -32021, LACKS, true),
];

impl Said {
    const fn new(client: Era, server: Era, code: i64, sentence: &'static str, names_it: bool) -> Self {
        Self { client, server, code, sentence, names_it }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_caller_cannot_be_asked_is_said_in_a_sentence() {
    join_all(Column::ALL.map(async |column| {
        let house = House::of(column).await;
        for door in Door::BOTH {
            let scene = house.scene_of_nobody(door).await;
            refused(&scene).await;
            scene.client.close().await;
        }
    }))
    .await;
}

async fn refused(scene: &Scene) {
    let column = scene.column;
    let said = SAID.iter().find(|said| (said.client, said.server) == (column.client, column.server)).unwrap();
    for (tool, method, needed) in ASKING {
        let outcome = scene.outcome(scene.call_of(tool, &json!({}))).await;
        let Outcome::Refused(error) = outcome else { panic!("{tool} · {column}: {outcome:?}") };
        let expected = (said.code, said.sentence.replace("{}", method));
        assert_eq!((error.code(), error.message()), expected, "{tool} · {column}");
        let named = error.data().and_then(|data| data.get("requiredCapabilities"));
        let needed: Option<Value> = said.names_it.then(|| serde_json::from_str(needed).unwrap());
        assert_eq!(named.map(|named| named.read().unwrap()), needed, "{tool} · {column}");
    }
}
