//! The prompt for calls that require approval: one, or several at the same time.

use toolway_host::{
    call::Caller,
    inbox::{InboxAnswer, InboxContent, InboxItem},
    policy::{ApprovalAnswer, ApprovalScope},
};

use super::{
    approval_text::{self, Fold, Folded},
    line_editor::LineEditor,
    prompt_queue::Waiting,
    prompt_session::{self, KeyInput, PromptEnd, PromptSession, TypedLine},
    text::Style,
};

/// Surface in the record of an approval.
const SURFACE: &str = "terminal";

/// Asks about all open calls, and about those that come to wait meanwhile. Answered ones are removed from `open`.
pub(super) fn ask(session: &PromptSession<'_>, open: &mut Vec<Waiting>) -> Result<(), PromptEnd> {
    while let Some(first) = open.first() {
        if 1 < open.len() {
            ask_all(session, open)?;
            continue;
        }
        match ask_one(session, first, Others::Join)? {
            Some(answer) => answer_first(session, open, answer),
            None => join(session, open)?,
        }
    }
    Ok(())
}

/// Asks about several calls.
fn ask_all(session: &PromptSession<'_>, open: &mut Vec<Waiting>) -> Result<(), PromptEnd> {
    let mut fold = Fold::Short;
    loop {
        let shown = shown_calls(open, session.width(), fold);
        session.print(&shown.lines)?;
        let mut choices = vec![('y', "approve all"), ('n', "decline all"), ('o', "one by one")];
        choices.extend(shown.is_folded.then_some(('v', "show all")));
        let chosen = match wait_for_key(session, open, &choices)? {
            Some(key) => key,
            None if open.len() <= 1 => return Ok(()),
            None => continue,
        };
        match chosen {
            'y' => {
                session.say(Style::Plain, &format!("Approved {} calls once.", open.len()))?;
                open.drain(..).for_each(|waiting| session.queue.answer(waiting, approved(ApprovalScope::Once)));
                return Ok(());
            }
            'n' => {
                let Some(why) = ask_reason(session, &open.iter().map(|waiting| &waiting.item).collect::<Vec<_>>())?
                else {
                    continue;
                };
                session.say(Style::Plain, &format!("Declined {} calls.", open.len()))?;
                let answer = declined(why, ApprovalScope::Once);
                open.drain(..).for_each(|waiting| session.queue.answer(waiting, answer.clone()));
                return Ok(());
            }
            'o' => return ask_one_by_one(session, open),
            _ => fold = Fold::Nothing,
        }
    }
}

fn ask_one_by_one(session: &PromptSession<'_>, open: &mut Vec<Waiting>) -> Result<(), PromptEnd> {
    while let Some(first) = open.first() {
        let answer = ask_one(session, first, Others::Wait)?;
        answer_first(session, open, answer.unwrap_or(InboxAnswer::Unavailable));
    }
    Ok(())
}

/// What happens to calls that come to wait while one is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// They are asked about together with it.
    Join,
    /// They come after it.
    Wait,
}

/// Asks about one call. `None` if it no longer waits, or if others join it.
fn ask_one(session: &PromptSession<'_>, waiting: &Waiting, others: Others) -> Result<Option<InboxAnswer>, PromptEnd> {
    let item = &waiting.item;
    let InboxContent::Approval(details) = &item.content else { return Ok(Some(InboxAnswer::Unavailable)) };
    let mut fold = Fold::Long;
    loop {
        let shown = approval_text::call(item, details, session.width(), fold);
        session.print(&shown.lines)?;
        let choices = choices(item, shown.is_folded);
        session.show_choices(&choices)?;
        let chosen = loop {
            if !waiting.is_open() || (others == Others::Join && session.queue.approvals_wait()) {
                return Ok(None);
            }
            if let KeyInput::Key(key) = session.read()?
                && let Some(chosen) = prompt_session::choice(key, &choices)
            {
                break chosen;
            }
        };
        let answer = match chosen {
            'y' => Some(approved(ApprovalScope::Once)),
            'c' => Some(approved(ApprovalScope::Conversation)),
            'a' => confirm(session, &approval_text::allowed(item, details))?.then(|| approved(ApprovalScope::Always)),
            'x' => {
                confirm(session, &approval_text::refused(item, details))?.then(|| declined(None, ApprovalScope::Always))
            }
            'n' => ask_reason(session, &[item])?.map(|why| declined(why, ApprovalScope::Once)),
            _ => {
                fold = Fold::Nothing;
                None
            }
        };
        if let Some(answer) = answer {
            session.say(Style::Plain, said(&answer))?;
            return Ok(Some(answer));
        }
    }
}

fn choices(item: &InboxItem, is_folded: bool) -> Vec<(char, &'static str)> {
    let mut choices = vec![('y', "once")];
    choices.extend(item.has_conversation().then_some(('c', "for this conversation")));
    choices.extend([('a', "always"), ('n', "no"), ('x', "never")]);
    choices.extend(is_folded.then_some(('v', "show all")));
    choices
}

/// Shows what an answer for later calls covers, and asks whether that is meant.
fn confirm(session: &PromptSession<'_>, text: &str) -> Result<bool, PromptEnd> {
    session.say(Style::Plain, text)?;
    Ok(session.choose(&[('y', "yes"), ('n', "back")])? == 'y')
}

/// Asks why calls are declined; `None` if the user goes back.
fn ask_reason(session: &PromptSession<'_>, items: &[&InboxItem]) -> Result<Option<Option<String>>, PromptEnd> {
    let is_agent = |item: &&InboxItem| matches!(item.caller, Some(Caller::Agent(_)));
    let reader = if items.iter().any(is_agent) { " for the model" } else { "" };
    session.say(Style::Faint, &format!("reason{reader}; Enter: none, Esc: back"))?;
    Ok(match session.read_line("> ", LineEditor::default())? {
        TypedLine::Text(text) => Some(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        TypedLine::Nothing => Some(None),
        TypedLine::Left => None,
    })
}

/// Waits for one of the keys. `None` if calls were withdrawn or more wait now; `open` is up to date then.
fn wait_for_key(
    session: &PromptSession<'_>,
    open: &mut Vec<Waiting>,
    choices: &[(char, &str)],
) -> Result<Option<char>, PromptEnd> {
    session.show_choices(choices)?;
    loop {
        // One may go while another comes: a key must not answer what was not shown.
        let shown: Vec<String> = open.iter().map(|waiting| waiting.item.id.clone()).collect();
        open.retain(Waiting::is_open);
        session.queue.add_approvals(open);
        if !open.iter().map(|waiting| &waiting.item.id).eq(&shown) {
            return Ok(None);
        }
        if let KeyInput::Key(key) = session.read()?
            && let Some(chosen) = prompt_session::choice(key, choices)
        {
            return Ok(Some(chosen));
        }
    }
}

fn join(session: &PromptSession<'_>, open: &mut Vec<Waiting>) -> Result<(), PromptEnd> {
    open.retain(Waiting::is_open);
    session.queue.add_approvals(open);
    session.say(Style::Faint, "Another call requires approval; all of them again:")
}

fn shown_calls(open: &[Waiting], width: usize, fold: Fold) -> Folded {
    let approvals = open.iter().filter_map(|waiting| match &waiting.item.content {
        InboxContent::Approval(details) => Some((&waiting.item, &**details)),
        InboxContent::Form { .. } | InboxContent::Url { .. } => None,
    });
    approval_text::calls(&approvals.collect::<Vec<_>>(), width, fold)
}

fn answer_first(session: &PromptSession<'_>, open: &mut Vec<Waiting>, answer: InboxAnswer) {
    if !open.is_empty() {
        session.queue.answer(open.remove(0), answer);
    }
}

fn approved(scope: ApprovalScope) -> InboxAnswer {
    InboxAnswer::Approval(ApprovalAnswer::Approved { scope, by: SURFACE.to_owned() })
}

fn declined(why: Option<String>, scope: ApprovalScope) -> InboxAnswer {
    InboxAnswer::Approval(ApprovalAnswer::Declined { why, scope })
}

fn said(answer: &InboxAnswer) -> &'static str {
    match answer {
        InboxAnswer::Approval(ApprovalAnswer::Approved { scope, .. }) => match scope {
            ApprovalScope::Once => "Approved once.",
            ApprovalScope::Conversation => "Approved for this conversation.",
            ApprovalScope::Always => "Approved and saved.",
        },
        InboxAnswer::Approval(ApprovalAnswer::Declined { scope: ApprovalScope::Always, .. }) => "Refused and saved.",
        _ => "Declined.",
    }
}
