//! The end of a run: its result on standard output, and the report of what kept the model from being done.

use serde_json::{Value, json};
use toolway_agent::{Answer, AnswerSchema, Assistant, CallState, ContextMeter, Conversation, MadeCall, Stop};
use toolway_config::ServerName;
use toolway_wire::json::Raw;

use crate::{
    cost::Cost,
    exit_code::ExitCode,
    output::{Format, Output},
    report::Report,
};

/// A run that has an answer.
pub(super) struct EndedRun<'a> {
    pub(super) answer: &'a Answer,
    pub(super) conversation: &'a Conversation,
    pub(super) schema: Option<&'a AnswerSchema>,
    pub(super) context: ContextMeter,
    /// `None` if the price of the model is not configured.
    pub(super) cost: Option<Cost>,
    pub(super) assistant: Option<&'a Assistant>,
}

/// Prints the result, and reports what is missing in it.
pub(super) fn finish(ended: &EndedRun<'_>, output: &mut Output) -> Result<ExitCode, Report> {
    let EndedRun { answer, conversation, schema, context, cost, assistant } = ended;
    let structured = schema.map(|schema| schema.check(&answer.text));
    let valid = structured.as_ref().and_then(|structured| structured.as_ref().ok());
    match output.format {
        Format::Human | Format::Raw if answer.text.is_empty() => {}
        Format::Human | Format::Raw => output.line(&answer.text),
        Format::Json | Format::Ndjson => {
            let calls: Vec<Value> = answer
                .calls
                .iter()
                .map(|call| json!({ "name": call.name, "state": call.state.as_str(), "callId": call.call_id }))
                .collect();
            let mut view = json!({
                "result": answer.text,
                "structured": valid,
                "stopReason": answer.stop.as_str(),
                "turns": answer.turns,
                "toolCalls": calls,
                "usage": answer.usage,
                "context": context,
                "cost": cost.map(Cost::amount),
                "conversationId": &**conversation.id(),
            });
            if let Some(assistant) = assistant {
                view["assistant"] = json!(&**assistant.name());
            }
            if output.format == Format::Ndjson {
                view["type"] = json!("result");
            }
            output.json(&Raw::of(&view));
        }
    }
    let is_unapproved =
        |call: &&MadeCall| matches!(call.state, CallState::ApproverUnavailable | CallState::RefusedForGood);
    if let Some(call) = answer.calls.iter().find(is_unapproved) {
        return Err(refused(call));
    }
    if answer.stop.is_out_of_budget() {
        let message = format!("stopped before the model was done: {}", answer.stop.as_str());
        let report = Report::new(ExitCode::ToolError, "budget", message);
        let own = assistant.and_then(|assistant| Some((assistant.name(), budget_of(assistant, answer.stop)?)));
        return Err(match (own, option_of(answer.stop)) {
            (Some((name, key)), Some(option)) => {
                report.hint(format!("the stricter of `{option}` and `{key}` of assistant `{name}` counts"))
            }
            (None, Some(option)) => report.hint(format!("set a higher limit with `{option}`")),
            (_, None) => report,
        });
    }
    if answer.stop == Stop::MaxOutput {
        let message = "the answer is incomplete: the model reached its limit of output tokens";
        let hint = "raise `maxTokens` of the model in the configuration";
        return Err(Report::new(ExitCode::ToolError, "incomplete", message).hint(hint));
    }
    if answer.stop == Stop::Refused {
        return Err(Report::new(ExitCode::ToolError, "refused", "the model refused to answer"));
    }
    if let Some(Err(problem)) = structured {
        let message = format!("the answer does not match the schema: {problem}");
        return Err(Report::new(ExitCode::Protocol, "schema", message));
    }
    Ok(ExitCode::Ok)
}

/// The option that sets a limit.
fn option_of(stop: Stop) -> Option<&'static str> {
    match stop {
        Stop::MaxTurns => Some("--max-turns"),
        Stop::MaxTokens => Some("--max-tokens"),
        Stop::MaxToolCalls => Some("--max-tool-calls"),
        Stop::MaxTime => Some("--max-time"),
        Stop::Done | Stop::MaxOutput | Stop::Refused | Stop::Loop | Stop::Cancelled => None,
    }
}

/// The budget of an assistant that limits an answer.
fn budget_of(assistant: &Assistant, stop: Stop) -> Option<&'static str> {
    let budgets = assistant.values().budgets;
    match stop {
        Stop::MaxTurns => budgets.max_turns.map(|_| "budgets.maxTurns"),
        Stop::MaxTokens => budgets.max_tokens.map(|_| "budgets.maxTokens"),
        Stop::MaxToolCalls => budgets.max_tool_calls.map(|_| "budgets.maxToolCalls"),
        Stop::MaxTime => budgets.max_time.map(|_| "budgets.maxTime"),
        Stop::Done | Stop::MaxOutput | Stop::Refused | Stop::Loop | Stop::Cancelled => None,
    }
}

/// The report of a call that was not made because no user approved it.
fn refused(call: &MadeCall) -> Report {
    let (code, message) = match call.state {
        CallState::RefusedForGood => ("denied", format!("`{}` was refused by a saved answer", call.name)),
        _ => ("no_approver", format!("`{}` was refused because no user can approve it in `run`", call.name)),
    };
    let mut report = Report::new(ExitCode::Denied, code, message);
    for (number, remedy) in call.remedies.iter().enumerate() {
        report = report.hint(format!("{} with: {remedy}", if number == 0 { "allow it" } else { "or" }));
    }
    if call.remedies.is_empty() {
        report = report.hint("see `toolway policy explain` for what would allow it");
    }
    report
}

/// The report of a server whose request to a model no user could approve.
pub(super) fn unapproved_sampling(server: &ServerName) -> Report {
    let message = format!("`{server}` asked for the answer of a model, and no user can approve that in `run`");
    let report = Report::new(ExitCode::Denied, "no_approver", message);
    report.hint("allow it with `--mode allow`, or with `sampling.allow`: `always`")
}

/// The report of forms and URLs that were cancelled because nothing answered them; `None` if there were none.
pub(super) fn unanswered(cancelled: Vec<String>) -> Option<Report> {
    let message = "a tool needs user input (elicitation), which was cancelled because no user is asked in `run`";
    let report = Report::new(ExitCode::InputRequired, "input_required", message);
    let report =
        report.hint("answer with `--answer field=value` or `--decline`, or let it wait in the inbox with `--wait`");
    (!cancelled.is_empty()).then(|| cancelled.into_iter().fold(report, Report::detail))
}
