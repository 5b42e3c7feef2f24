//! The prompt for a sampling request: what the server wants to send to a model, and what the model answered.

use toolway_config::{ServerName, visible};
use toolway_host::{inbox::SamplingAnswer, sampling::SamplingDetails};

use super::{
    prompt_session::{PromptEnd, PromptSession},
    text::{self, Style},
};

/// Shows the whole request and asks whether the model may answer it; or shows the answer and asks whether it may be sent.
pub(super) fn ask(
    session: &PromptSession<'_>,
    server: &ServerName,
    details: &SamplingDetails,
) -> Result<SamplingAnswer, PromptEnd> {
    let model = visible::one_line(&details.model);
    if let Some(answer) = &details.answer {
        session.say(Style::Strong, &format!("The model `{model}` answers `{server}`:"))?;
        block(session, "answer", answer)?;
        let choices = [('y', "send this answer to the server"), ('n', "no")];
        return choose(session, &choices, visible::has_hidden(answer));
    }
    let most = details.max_tokens;
    session.say(Style::Strong, &format!("`{server}` asks the model `{model}`, for at most {most} tokens:"))?;
    session.say(Style::Faint, &format!("in the call of `{}`", visible::one_line(&details.called)))?;
    if let Some(system) = &details.system {
        block(session, "system prompt", system)?;
    }
    for message in &details.messages {
        block(session, &message.role, &message.text)?;
    }
    for tool in &details.tools {
        let heading = format!("tool `{}`", visible::one_line(&tool.name));
        block(session, &heading, &format!("{}\n{}", tool.description, tool.schema))?;
    }
    if let Some(choice) = &details.tool_choice {
        session.say(Style::Plain, &format!("tool choice: {}", visible::one_line(choice)))?;
    }
    for stop in &details.stop_sequences {
        block(session, "stops at", stop)?;
    }
    if let Some(temperature) = &details.temperature {
        session.say(Style::Plain, &format!("temperature {}", visible::one_line(temperature)))?;
    }
    let has_hidden = details.has_hidden();
    if has_hidden {
        session.say(Style::Warning, "! the text contains hidden characters")?;
    }
    session.say(Style::Faint, &visible::one_line(&details.reason))?;
    for left in &details.quota {
        session.say(Style::Faint, &format!("left after this: {left}"))?;
    }
    let always = "always for this server";
    let choices = [('y', "let the model answer once"), ('a', always), ('n', "no")];
    choose(session, &choices, has_hidden)
}

/// As for a call: hidden characters take two steps.
fn choose(
    session: &PromptSession<'_>,
    choices: &[(char, &str)],
    has_hidden: bool,
) -> Result<SamplingAnswer, PromptEnd> {
    let answer = session.choose(choices)?;
    if has_hidden && answer != 'n' {
        let confirmed = session.choose(&[('y', "yes, also with hidden characters"), ('n', "no")])?;
        if confirmed != 'y' {
            return Ok(SamplingAnswer::No);
        }
    }
    Ok(match answer {
        'y' => SamplingAnswer::Once,
        'a' => SamplingAnswer::Always,
        _ => SamplingAnswer::No,
    })
}

/// A text of the server or the model, line by line, under its heading.
fn block(session: &PromptSession<'_>, heading: &str, sent: &str) -> Result<(), PromptEnd> {
    session.say(Style::Plain, &format!("{heading}:"))?;
    session.print(&text::marked(sent, session.width()))
}
