//! The prompts for forms and URLs of servers.

use serde_json::{Map, Value};
use toolway_config::ServerName;
use toolway_host::inbox::{ElicitationAnswer, Form, FormField};

use super::{
    form_text,
    line_editor::LineEditor,
    prompt_session::{PromptEnd, PromptSession, TypedLine},
    text::Style,
};

/// What the user does in the middle of a form.
enum Step {
    /// A value; `None` leaves an optional field out.
    Value(Option<Value>),
    /// The form ends without values.
    End(ElicitationAnswer),
}

/// Asks for each field, then for a review.
pub(super) fn fill(
    session: &PromptSession<'_>,
    server: &ServerName,
    message: &str,
    form: &Form,
) -> Result<ElicitationAnswer, PromptEnd> {
    session.print(&form_text::heading(server, message, form, session.width()))?;
    let defaults = form.fields.iter().filter_map(|field| Some((field.name.clone(), field.default.clone()?)));
    let mut content: Map<String, Value> = defaults.collect();
    loop {
        for (number, field) in (1..).zip(&form.fields) {
            let given = content.get(&field.name).cloned();
            match ask(session, field, (number, form.fields.len()), given.as_ref(), server)? {
                Step::Value(Some(value)) => drop(content.insert(field.name.clone(), value)),
                Step::Value(None) => drop(content.remove(&field.name)),
                Step::End(answer) => return Ok(answer),
            }
        }
        session.print(&form_text::review(server, form, &content, session.width()))?;
        match session.choose(&[('y', "send"), ('e', "change"), ('d', "decline"), ('c', "cancel")])? {
            'y' => match form.check(&content) {
                Ok(()) => return Ok(ElicitationAnswer::Accept(content)),
                Err(problems) => {
                    for problem in problems {
                        session.say(Style::Warning, &format!("! {problem}"))?;
                    }
                }
            },
            'd' => return Ok(ElicitationAnswer::Decline),
            'c' => return Ok(ElicitationAnswer::Cancel),
            _ => {}
        }
    }
}

/// Asks for one field until its value is valid.
fn ask(
    session: &PromptSession<'_>,
    field: &FormField,
    (number, of): (usize, usize),
    given: Option<&Value>,
    server: &ServerName,
) -> Result<Step, PromptEnd> {
    session.print(&form_text::field(field, number, of, given, server, session.width()))?;
    loop {
        let editor = if field.looks_secret { LineEditor::hidden() } else { LineEditor::default() };
        let parsed = match session.read_line("> ", editor)? {
            TypedLine::Left => {
                match session.choose(&[('d', "decline"), ('c', "cancel"), ('b', "back to the form")])? {
                    'd' => return Ok(Step::End(ElicitationAnswer::Decline)),
                    'c' => return Ok(Step::End(ElicitationAnswer::Cancel)),
                    _ => continue,
                }
            }
            TypedLine::Text(text) if !text.trim().is_empty() => field.parse(&text).map(Some),
            TypedLine::Text(_) if given.is_some() => Ok(given.cloned()),
            TypedLine::Text(_) | TypedLine::Nothing if field.required => Err("a value is required".to_owned()),
            TypedLine::Text(_) | TypedLine::Nothing => Ok(None),
        };
        match parsed {
            Ok(value) => return Ok(Step::Value(value)),
            Err(problem) => session.say(Style::Warning, &format!("! {problem}"))?,
        }
    }
}

/// Asks whether a URL may be opened. A URL that cannot be opened is declined.
pub(super) fn consent(
    session: &PromptSession<'_>,
    server: &ServerName,
    message: &str,
    url: &str,
) -> Result<ElicitationAnswer, PromptEnd> {
    let lines = match form_text::url(server, message, url, session.width()) {
        Ok(lines) => lines,
        Err(why) => {
            session.say(Style::Warning, &format!("! `{server}` asks to open a web page; declined: {why}"))?;
            return Ok(ElicitationAnswer::Decline);
        }
    };
    session.print(&lines)?;
    Ok(match session.choose(&[('y', "open in the browser"), ('n', "decline"), ('c', "cancel")])? {
        'y' => ElicitationAnswer::Accept(Map::new()),
        'n' => ElicitationAnswer::Decline,
        _ => ElicitationAnswer::Cancel,
    })
}
