//! The prompt for a sampling request: what the server wants to send to a model.

use toolway_config::{ServerName, visible};
use toolway_host::{inbox::SamplingAnswer, sampling::SamplingDetails};

use super::{
    prompt_session::{PromptEnd, PromptSession},
    text::{self, Style},
};

/// Shows the whole request and asks whether the model may answer it.
pub(super) fn ask(
    session: &PromptSession<'_>,
    server: &ServerName,
    details: &SamplingDetails,
) -> Result<SamplingAnswer, PromptEnd> {
    let SamplingDetails { model, max_tokens, .. } = details;
    session.say(Style::Strong, &format!("`{server}` asks the model `{model}`, for at most {max_tokens} tokens:"))?;
    if let Some(system) = &details.system {
        block(session, "system prompt", system)?;
    }
    for message in &details.messages {
        block(session, &message.role, &message.text)?;
    }
    let texts = details.messages.iter().map(|message| &message.text).chain(&details.system);
    if texts.into_iter().any(|text| visible::has_hidden(text)) {
        session.say(Style::Warning, "! the text contains hidden characters")?;
    }
    let wish = details.temperature.as_ref().map(|wish| format!("; temperature {wish} is not passed on"));
    session.say(Style::Faint, &format!("{}{}", details.reason, wish.unwrap_or_default()))?;
    Ok(match session.choose(&[('y', "let the model answer once"), ('n', "no")])? {
        'y' => SamplingAnswer::Once,
        _ => SamplingAnswer::No,
    })
}

/// A text of the server, line by line, under its heading.
fn block(session: &PromptSession<'_>, heading: &str, sent: &str) -> Result<(), PromptEnd> {
    session.say(Style::Plain, &format!("{heading}:"))?;
    session.print(&text::marked(sent, session.width()))
}
