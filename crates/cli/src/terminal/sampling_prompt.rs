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
    let mut texts = details.messages.iter().map(|message| &message.text).chain(&details.system);
    let has_hidden = texts.any(|text| visible::has_hidden(text));
    if has_hidden {
        session.say(Style::Warning, "! the text contains hidden characters")?;
    }
    let wish = details.temperature.as_ref().map(|wish| format!("; temperature {wish} is not passed on"));
    session.say(Style::Faint, &format!("{}{}", details.reason, wish.unwrap_or_default()))?;
    let mut answer = session.choose(&[('y', "let the model answer once"), ('n', "no")])?;
    // As for a call: hidden characters take two steps.
    if has_hidden && answer == 'y' {
        answer = session.choose(&[('y', "yes, also with hidden characters"), ('n', "no")])?;
    }
    Ok(if answer == 'y' { SamplingAnswer::Once } else { SamplingAnswer::No })
}

/// A text of the server, line by line, under its heading.
fn block(session: &PromptSession<'_>, heading: &str, sent: &str) -> Result<(), PromptEnd> {
    session.say(Style::Plain, &format!("{heading}:"))?;
    session.print(&text::marked(sent, session.width()))
}
