//! A call as a row, and with its arguments and result.

use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use toolway_host::{
    event::CallStage,
    record::{CallBody, CallRecord, CallRow, CallState, Delivery, SamplingRow, Settlement},
    task::TaskRow,
    time,
};
use toolway_wire::json::Raw;

use super::{image, moment, task, within};

/// Bytes of arguments or of a result that are shown.
const MAX_BODY: usize = 256 * 1024;
/// Blocks of a result in which images are looked for.
const MAX_BLOCKS: usize = 100;
/// Bytes of all images of a result.
const MAX_IMAGES: usize = 4 * 1024 * 1024;

/// One call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallView {
    id: String,
    caller: String,
    surface: String,
    server: Option<String>,
    tool: String,
    kind: String,
    state: &'static str,
    outcome: Option<&'static str>,
    started_at: String,
    duration_ms: Option<f64>,
    waited_ms: f64,
    rule: Option<String>,
    conversation: Option<String>,
}

/// One call with its bodies.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallDetails {
    #[serde(flatten)]
    call: CallView,
    arguments: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    images: Vec<String>,
    error: Option<String>,
    approved_by: Option<String>,
    server_requests: i64,
    settlement: Option<Value>,
    task: Option<Value>,
    sampling: Vec<Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    truncated: Map<String, Value>,
}

/// A call of the store.
pub(crate) fn of_row(row: CallRow) -> CallView {
    CallView {
        id: row.id.to_string(),
        caller: row.caller,
        surface: row.surface,
        server: row.server,
        tool: row.tool.unwrap_or(row.name),
        kind: row.kind,
        state: row.state.as_str(),
        outcome: row.outcome.map(Delivery::as_str),
        started_at: time::rfc3339(row.started_at),
        duration_ms: row.duration.map(milliseconds),
        waited_ms: milliseconds(row.waited),
        rule: row.rule,
        conversation: row.conversation,
    }
}

/// A call that reached a stage.
pub(crate) fn of_stage(record: &CallRecord, stage: &CallStage) -> CallView {
    let (state, duration) = match stage {
        CallStage::Started { .. } | CallStage::Approval => (CallState::Pending, None),
        CallStage::Sent { .. } | CallStage::Asked { .. } => (CallState::Running, None),
        CallStage::Ended => (record.state, Some(time::duration(record.duration()))),
    };
    CallView {
        id: record.id.to_string(),
        caller: record.caller.label(),
        surface: record.surface.as_str().to_owned(),
        server: record.server.as_ref().map(ToString::to_string),
        tool: record.tool.clone().unwrap_or_else(|| record.name.clone()),
        kind: record.kind.as_str().to_owned(),
        state: state.as_str(),
        outcome: record.outcome.map(Delivery::as_str),
        started_at: moment(record.started_at),
        duration_ms: duration.map(milliseconds),
        waited_ms: milliseconds(time::duration(record.waited)),
        rule: record.rule.as_ref().map(ToString::to_string),
        conversation: record.conversation.as_deref().map(str::to_owned),
    }
}

/// A call with its bodies, what a person found out about it, how its server continues it, and what models answered in it.
pub(crate) fn details(
    row: CallRow,
    body: CallBody,
    settlement: Option<Settlement>,
    task: Option<&TaskRow>,
    sampling: &[SamplingRow],
) -> CallDetails {
    let mut truncated = Map::new();
    let images = body.result.as_deref().map(images).unwrap_or_default();
    let arguments = body.arguments.and_then(|text| shown("arguments", text, &mut truncated));
    let result = body.result.and_then(|text| shown("result", text, &mut truncated));
    // The store keeps the beginning of a large result only.
    if let Some(size) = truncated.get_mut("result") {
        *size = row.result_bytes.into();
    }
    let (error, approved_by, server_requests) = (row.error.clone(), row.approved_by.clone(), row.server_requests);
    let settlement = settlement.map(|settlement| {
        let Settlement { at, finding, note, .. } = settlement;
        json!({ "at": time::rfc3339(at), "finding": finding.as_str(), "note": note })
    });
    CallDetails {
        call: of_row(row),
        arguments,
        result,
        images,
        error,
        approved_by,
        server_requests,
        settlement,
        task: task.map(task::view),
        sampling: sampling.iter().map(sampled).collect(),
        truncated,
    }
}

/// A request of the server that a model answered, or was to answer.
fn sampled(row: &SamplingRow) -> Value {
    let SamplingRow { model, reason, outcome, tokens, input_tokens, output_tokens, .. } = row;
    json!({
        "at": time::rfc3339(row.at),
        "model": model,
        "reason": reason,
        "outcome": outcome,
        "tokens": tokens,
        "inputTokens": input_tokens,
        "outputTokens": output_tokens,
    })
}

/// A body as JSON, or the beginning of its text as a string.
fn shown(field: &str, text: String, truncated: &mut Map<String, Value>) -> Option<Box<RawValue>> {
    if text.len() <= MAX_BODY {
        // Checked by the scanner, which bounds the depth as well.
        if Raw::parse(text.clone()).is_ok() {
            return RawValue::from_string(text).ok();
        }
        return serde_json::value::to_raw_value(&text).ok();
    }
    truncated.insert(field.to_owned(), text.len().into());
    let cut = text.floor_char_boundary(MAX_BODY);
    serde_json::value::to_raw_value(&text[..cut]).ok()
}

/// The images of a tool result, which may be larger than the text that is shown.
fn images(result: &str) -> Vec<String> {
    let Some(content) = Raw::parse(result.to_owned()).ok().and_then(|result| result.get("content")) else {
        return Vec::new();
    };
    let blocks = content.elements_within(MAX_BLOCKS).into_iter().filter_map(|block| {
        let text = |key: &str| block.get(key).as_ref().and_then(Raw::as_str).map(std::borrow::Cow::into_owned);
        text("type").filter(|kind| kind == "image")?;
        image(&text("mimeType")?, &text("data")?)
    });
    within(MAX_IMAGES, blocks)
}

pub(super) fn milliseconds(micros: i64) -> f64 {
    micros as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::{MAX_BODY, MAX_IMAGES, images, shown};

    #[test]
    fn long_body_is_cut_at_a_character() {
        let mut truncated = Map::new();
        let text = format!("\"{}\"", "ä".repeat(MAX_BODY));
        let cut = shown("result", text.clone(), &mut truncated).unwrap();
        assert_eq!(truncated["result"], text.len());
        assert!(serde_json::from_str::<String>(cut.get()).unwrap().len() <= MAX_BODY);
        assert_eq!(shown("x", "{\"a\":1}".to_owned(), &mut truncated).unwrap().get(), "{\"a\":1}");
        assert_eq!(shown("x", "not json".to_owned(), &mut truncated).unwrap().get(), "\"not json\"");
    }

    #[test]
    fn images_are_taken_within_a_bound() {
        let block = |data: &str| format!(r#"{{"type":"image","mimeType":"image/png","data":"{data}"}}"#);
        let result = format!(r#"{{"content":[{{"type":"text","text":"x"}},{}]}}"#, block("AA=="));
        assert_eq!(images(&result), ["data:image/png;base64,AA=="]);
        let large = format!(r#"{{"content":[{}]}}"#, block(&"A".repeat(MAX_IMAGES)));
        assert!(images(&large).is_empty() && images("nonsense").is_empty());
    }
}
