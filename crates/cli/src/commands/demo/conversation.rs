//! A conversation with a script instead of a model: reads, asks before it writes, fills in a form, waits for a task.

use std::{io::Write, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::Map;
use tokio_util::sync::CancellationToken;
use toolway_agent::{
    Agent, AgentEvent, AgentOptions, Budget, CallProgress, CallState, Conversation, EndedCall, MadeCall,
};
use toolway_host::{
    host::Host,
    inbox::{Answerer, ElicitationAnswer, ElicitationModes, InboxAnswer, InboxContent, InboxItem, SamplingAnswer},
    policy::{ApprovalAnswer, Surface},
};
use toolway_model::{Message, ModelEvent, ResultPart, scripted::ScriptedModel};

use crate::{output::Output, report::Report};

const PROMPT: &str = "Put milk on the shopping note, order lunch, and write the weekly report.";

/// The script, in the format of `scripted:FILE`.
const SCRIPT: &str = r#"{"turns": [
  {"text": "I look at the shopping note first.", "delayMs": 40,
   "calls": [{"tool": "notes__list_notes"}, {"tool": "notes__read_note", "arguments": {"name": "shopping"}}]},
  {"text": "Milk is missing. I write it down.", "delayMs": 40,
   "calls": [{"tool": "notes__write_note", "arguments": {"name": "shopping", "text": "bread, tea, milk"}}]},
  {"text": "Now lunch.", "delayMs": 40, "calls": [{"tool": "notes__order_lunch"}]},
  {"text": "And the report, which takes a moment.", "delayMs": 40, "calls": [{"tool": "notes__weekly_report"}]},
  {"text": "{{result}}", "delayMs": 40}
]}"#;

/// Columns of the progress bar.
const BAR: usize = 24;
/// Columns of the block in a bar without a total.
const BLOCK: usize = 4;

/// Shows the conversation as it happens.
pub(super) async fn hold(host: &Host, output: &mut Output) -> Result<(), Report> {
    let model = ScriptedModel::parse("scripted", SCRIPT).map_err(|error| super::failed(&error))?;
    let options = AgentOptions {
        surface: Surface::Chat,
        system: String::new(),
        servers: None,
        budget: Budget::default(),
        max_output: None,
        resources: false,
        prompts: false,
        answer_schema: None,
        mode: None,
        context: toolway_agent::ContextOptions::default(),
        reading: toolway_agent::ResourceOptions::default(),
        assistant: None,
    };
    let agent = Agent::new(host.clone(), Arc::new(model), options);
    output.entry("   you    ", PROMPT);
    let mut text = String::new();
    let mut observe = |event: AgentEvent| show(event, &mut text, output);
    let (mut conversation, messages) = (Conversation::new(None), vec![Message::user(PROMPT)]);
    let answer = agent.answer(&mut conversation, messages, &CancellationToken::new(), &mut observe).await;
    let answer = answer.map_err(|error| super::failed(&error))?;
    output.entry("   model  ", &closing(&answer.calls));
    Ok(())
}

fn show(event: AgentEvent, text: &mut String, output: &mut Output) {
    match event {
        AgentEvent::Model(ModelEvent::Text(piece)) => {
            text.push_str(&piece);
            output.progress(&format!("   model  {text}"));
        }
        AgentEvent::Usage(_) if !text.is_empty() => output.entry("   model  ", &std::mem::take(text)),
        AgentEvent::CallProgress(progress) => output.progress(&bar(&progress)),
        AgentEvent::CallEnded(call) => output.field(&ended(&call)),
        _ => {}
    }
}

/// What became of the three wishes, by how the calls ended.
fn closing(calls: &[MadeCall]) -> String {
    let succeeded =
        |tool: &str| calls.iter().any(|call| call.name.ends_with(tool) && call.state == CallState::Succeeded);
    let wishes = [
        ("write_note", "milk is on the note", "the note stays without milk"),
        ("order_lunch", "lunch is ordered", "lunch is not ordered"),
        ("weekly_report", "the report is written", "the report is not written"),
    ];
    let said: Vec<&str> =
        wishes.into_iter().map(|(tool, done, left)| if succeeded(tool) { done } else { left }).collect();
    format!("So {}, {} and {}.", said[0], said[1], said[2])
}

fn bar(progress: &CallProgress) -> String {
    let message = progress.message.as_deref().unwrap_or_default();
    let cells: String = match progress.total {
        Some(total) if total > 0.0 => {
            let full = cell((progress.progress / total).clamp(0.0, 1.0) * BAR as f64);
            (0..BAR).map(|index| if index < full { '█' } else { '░' }).collect()
        }
        // Without a total a block moves with each report.
        _ => {
            let first = cell(progress.progress.abs() % BAR as f64);
            (0..BAR).map(|index| if (index + BAR - first) % BAR < BLOCK { '█' } else { '░' }).collect()
        }
    };
    format!("     [{cells}] {message}")
}

/// A number between 0 and `BAR` as a cell.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and `BAR`")]
fn cell(number: f64) -> usize {
    if number.is_finite() { (number.round() as usize).min(BAR) } else { 0 }
}

fn ended(call: &EndedCall) -> String {
    let name = call.made.name.replacen("__", ".", 1);
    let text = call.result.content.iter().find_map(|part| match part {
        ResultPart::Text { text } => text.lines().next(),
        ResultPart::Image(_) | ResultPart::Audio(_) => None,
    });
    let shown = match &call.problem {
        Some(problem) => problem.as_str(),
        None => text.unwrap_or_default(),
    };
    let mark = match call.made.state {
        CallState::Succeeded => "✓",
        CallState::Refused | CallState::ApproverUnavailable | CallState::RefusedForGood => "⊘",
        _ => "✗",
    };
    format!("   {mark} {name} → {shown} ({} ms)", call.duration.as_millis())
}

/// Answers without a terminal: says what would be asked, and what the default is.
pub(super) struct DefaultAnswerer;

impl Answerer for DefaultAnswerer {
    fn modes(&self) -> ElicitationModes {
        ElicitationModes::Forms
    }

    fn answer<'a>(&'a self, item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        let (default, answer) = match &item.content {
            InboxContent::Approval(_) => {
                let why = Some("no terminal to ask at".to_owned());
                ("no", InboxAnswer::Approval(ApprovalAnswer::declined(why, "demo")))
            }
            InboxContent::Form { form, .. } => {
                let values = form.fields.iter().filter_map(|field| Some((field.name.clone(), field.default.clone()?)));
                let content: Map<_, _> = values.collect();
                ("the defaults of the form", InboxAnswer::Elicitation(ElicitationAnswer::Accept(content)))
            }
            InboxContent::Sampling(_) => ("no", InboxAnswer::Sampling(SamplingAnswer::No)),
            InboxContent::Url { .. } => ("no", InboxAnswer::Elicitation(ElicitationAnswer::Decline)),
        };
        let text = format!("   ? {} (no terminal; the default is: {default})", item.summary());
        let text = crate::output::clean::flat(&text);
        // The reader of the output may be gone.
        let mut stdout = std::io::stdout();
        let _gone = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests {
    use toolway_agent::{CallProgress, CallState, MadeCall};

    use super::{bar, closing};

    #[test]
    fn a_bar_without_a_total_moves() {
        let shown = |progress: f64, total: Option<f64>| {
            bar(&CallProgress { id: String::new(), progress, total, message: None })
        };
        assert_ne!(shown(1.0, None), shown(2.0, None));
        assert_eq!(shown(f64::NAN, None), shown(0.0, None));
        assert!(shown(1.0, Some(2.0)).starts_with(&format!("     [{}░", "█".repeat(12))));
    }

    #[test]
    fn the_last_sentence_fits_what_was_answered() {
        let call = |name: &str, state| MadeCall { name: name.to_owned(), state, call_id: None, remedies: Vec::new() };
        let calls = [
            call("notes__write_note", CallState::Refused),
            call("notes__order_lunch", CallState::Succeeded),
            call("notes__weekly_report", CallState::Succeeded),
        ];
        assert_eq!(closing(&calls), "So the note stays without milk, lunch is ordered and the report is written.");
    }
}
