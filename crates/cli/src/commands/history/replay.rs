//! `toolway history replay`: the requests of a stored conversation, rebuilt and compared with what was sent.

use serde_json::{Value, json};
use toolway_agent::{Replay, ReplayDifference, ReplayOutcome, ReplayedRequest, RequestPurpose};
use toolway_host::{conversation::StoredConversation, time};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    chat::stored::{self, Stored},
    clock::Clock,
    exit_code::ExitCode,
    output::{Format, Output, clean},
    report::Report,
};

pub(super) async fn run(app: &App, id: &str, output: &mut Output) -> Result<ExitCode, Report> {
    let Stored { head, messages, .. } = stored::load(app, id).await?;
    let notes = app.records()?.replay_notes(head.id).await?;
    let replay = Replay::of(&messages, &notes);
    let failure = failure(&head, &replay);
    match output.format {
        Format::Human => show(&replay, output),
        Format::Raw => output.content(if failure.is_none() { b"identical\n" } else { b"different\n" }),
        Format::Json | Format::Ndjson => output.json(&Raw::of(&view(&head, &replay))),
    }
    match failure {
        None => Ok(ExitCode::Ok),
        Some(report) => Err(report),
    }
}

/// Why the conversation is not known to be the same.
fn failure(head: &StoredConversation, replay: &Replay) -> Option<Report> {
    if replay.is_identical() && !replay.requests.is_empty() {
        return None;
    }
    let different = replay.requests.iter().find(|request| matches!(request.outcome, ReplayOutcome::Different(_)));
    let (kind, message) = match (different, &replay.not_kept) {
        (Some(request), _) => ("replay_different", format!("request {} is not the one that was sent", request.number)),
        (None, Some(reason)) => {
            ("replay_incomplete", format!("requests of conversation `{}` were not kept: {reason}", head.id))
        }
        (None, None) if replay.requests.is_empty() => {
            let why = "it was stored by an earlier version, or no request was answered";
            ("replay_incomplete", format!("no requests of conversation `{}` were kept: {why}", head.id))
        }
        (None, None) => ("replay_incomplete", "requests cannot be rebuilt from what is stored".to_owned()),
    };
    Some(Report::new(ExitCode::Internal, kind, message))
}

fn show(replay: &Replay, output: &mut Output) {
    for request in &replay.requests {
        output.line(&line(request, output.clock()));
    }
    let different = replay.requests.iter().find_map(|request| match &request.outcome {
        ReplayOutcome::Different(difference) => Some((request.number, difference)),
        _ => None,
    });
    if let Some((number, difference)) = different {
        show_difference(number, difference, output);
    }
    if replay.is_identical() && !replay.requests.is_empty() {
        let count = replay.requests.len();
        let requests = if count == 1 { "1 request is".to_owned() } else { format!("{count} requests are") };
        output.line(&format!("{requests} byte-identical to what was sent."));
    }
}

fn line(request: &ReplayedRequest, clock: Clock) -> String {
    let ReplayedRequest { number, at, encoding, bytes, .. } = request;
    let purpose = match request.purpose {
        RequestPurpose::Answer => "",
        RequestPurpose::Summary => ", a summary",
    };
    let hidden = if request.is_redacted { ", without its secrets" } else { "" };
    let outcome = match &request.outcome {
        ReplayOutcome::Identical => "identical".to_owned(),
        ReplayOutcome::Different(_) => "different".to_owned(),
        ReplayOutcome::Unusable(why) => format!("cannot be rebuilt: {why}"),
    };
    let vendor = encoding.vendor.as_str();
    let model = clean::flat(&encoding.model);
    let at = clock.brief(*at);
    format!("{number}  {at}  {vendor} {model}{purpose}, {bytes} bytes{hidden}: {outcome}")
}

fn show_difference(number: usize, difference: &ReplayDifference, output: &mut Output) {
    let ReplayDifference { path, offset, sent, rebuilt } = difference;
    output.line("");
    output.line(&format!("Request {number} differs at `{}`, byte {offset}:", clean::exact_flat(path)));
    output.print_wrapped("  ", &format!("sent:    {}", clean::exact_flat(sent)));
    output.print_wrapped("  ", &format!("rebuilt: {}", clean::exact_flat(rebuilt)));
}

fn view(head: &StoredConversation, replay: &Replay) -> Value {
    let requests: Vec<Value> = replay.requests.iter().map(request_view).collect();
    json!({
        "id": head.id.to_string(),
        "identical": replay.is_identical() && !replay.requests.is_empty(),
        "notKept": replay.not_kept,
        "requests": requests,
    })
}

fn request_view(request: &ReplayedRequest) -> Value {
    let (state, difference, reason) = match &request.outcome {
        ReplayOutcome::Identical => ("identical", None, None),
        ReplayOutcome::Different(difference) => ("different", Some(difference), None),
        ReplayOutcome::Unusable(why) => ("unusable", None, Some(why)),
    };
    json!({
        "number": request.number,
        "at": time::rfc3339(request.at),
        "vendor": request.encoding.vendor.as_str(),
        "model": request.encoding.model,
        "purpose": request.purpose,
        "bytes": request.bytes,
        "redacted": request.is_redacted,
        "state": state,
        "difference": difference,
        "reason": reason,
    })
}
