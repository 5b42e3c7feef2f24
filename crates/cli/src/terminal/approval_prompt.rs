//! The prompt for calls that require approval: one, or several at the same time.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use toolway_host::{
    call::Caller,
    inbox::{ApprovalDetails, InboxAnswer, InboxContent, InboxItem},
    policy::{ApprovalAnswer, ApprovalTerm, Scope},
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

/// Asks about all open calls, including those that arrive while the prompt is shown. Answered ones are removed from `open`.
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
        let mut choices = match shown.is_folded {
            true => vec![('v', "show all, then approve")],
            false => vec![('y', "approve all")],
        };
        choices.extend([('n', "decline all"), ('o', "one by one")]);
        let chosen = match wait_for_key(session, open, &choices)? {
            Some(key) => key,
            None if open.len() <= 1 => return Ok(()),
            None => continue,
        };
        match chosen {
            'y' if !is_meant(session, 'y', open.iter().map(|waiting| &waiting.item))? => {}
            'y' => {
                session.say(Style::Plain, &format!("Approved {} calls once.", open.len()))?;
                open.drain(..).for_each(|waiting| session.queue.answer(waiting, approved(ApprovalTerm::Once, None)));
                return Ok(());
            }
            'n' => {
                let Some(why) = ask_reason(session, &open.iter().map(|waiting| &waiting.item).collect::<Vec<_>>())?
                else {
                    continue;
                };
                session.say(Style::Plain, &format!("Declined {} calls.", open.len()))?;
                let answer = declined(why, ApprovalTerm::Once);
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

/// What happens to calls that arrive while the prompt shows another one.
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
    // What the user changed about the scope, for every answer that holds longer.
    let mut changed: Option<Scope> = None;
    let mut view = View::Whole;
    loop {
        let shown = approval_text::call(item, details, session.width(), fold);
        if view == View::Whole {
            session.print(&shown.lines)?;
        }
        view = View::Whole;
        let choices = choices(item, details, shown.is_folded);
        if !shown.is_folded && details.can_last() {
            session.print(&approval_text::covers(item, details, changed.as_ref(), session.width()))?;
        }
        session.show_choices(&choices)?;
        let chosen = loop {
            if !waiting.is_open() || (others == Others::Join && session.queue.approvals_wait()) {
                return Ok(None);
            }
            let KeyInput::Key(key) = session.read()? else { continue };
            if let Some(chosen) = prompt_session::choice(key, &choices) {
                break chosen;
            }
            if let Some(scope) =
                changed_by(key, details, changed.as_ref()).filter(|_| !shown.is_folded && details.can_last())
            {
                changed = Some(scope);
                break CHANGED;
            }
        };
        if matches!(chosen, 'y' | 'c' | 'h' | 'a') && !is_meant(session, chosen, [item])? {
            continue;
        }
        let always = changed.as_ref().unwrap_or(&details.proposal.always);
        let answer = match chosen {
            'y' => Some(approved(ApprovalTerm::Once, None)),
            'c' => Some(approved(ApprovalTerm::Conversation, changed.clone())),
            'h' => Some(approved(ApprovalTerm::Conversation, Some(Scope::AnyHost))),
            'a' => confirm(session, &approval_text::allowed(item, details, always))?
                .then(|| approved(ApprovalTerm::Always, changed.clone())),
            'x' => {
                confirm(session, &approval_text::refused(item, details))?.then(|| declined(None, ApprovalTerm::Always))
            }
            'n' => ask_reason(session, &[item])?.map(|why| declined(why, ApprovalTerm::Once)),
            CHANGED => {
                view = View::Scope;
                None
            }
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

/// What is printed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// The call and its answers.
    Whole,
    /// What answers cover.
    Scope,
}

/// Returned for a key that changed what an answer covers.
const CHANGED: char = '*';

/// The keys for one call. What was not shown cannot be approved.
fn choices(item: &InboxItem, details: &ApprovalDetails, is_folded: bool) -> Vec<(char, &'static str)> {
    if is_folded {
        return vec![('v', "show all, then approve"), ('n', "no"), ('x', "never this tool")];
    }
    let (conversation, always) = match details.asks_for_hosts() {
        true => ("this host, this conversation", "this host, always"),
        false => ("this conversation", "always"),
    };
    let mut choices = vec![('y', "once")];
    if item.has_conversation() && details.can_last() {
        choices.push(('c', conversation));
        choices.extend(details.asks_for_hosts().then_some(('h', "any host, this conversation")));
    }
    choices.extend(details.can_last().then_some(('a', always)));
    choices.extend([('n', "no"), ('x', "never this tool")]);
    choices
}

/// What is covered after a digit, which changes one argument, or `*`, which frees all; `None` for other keys.
fn changed_by(key: KeyEvent, details: &ApprovalDetails, changed: Option<&Scope>) -> Option<Scope> {
    let KeyCode::Char(letter) = key.code else { return None };
    let proposal = &details.proposal;
    if proposal.arguments.is_empty() || !key.modifiers.difference(KeyModifiers::SHIFT).is_empty() {
        return None;
    }
    if letter == '*' {
        return Some(Scope::Any).filter(|scope| scope.covers(details.asked_call()));
    }
    let position = usize::try_from(letter.to_digit(10)?).ok()?.checked_sub(1)?;
    let choice = proposal.arguments.get(position)?;
    let scope = proposal.changed(changed.unwrap_or(&proposal.always), &choice.name);
    Some(scope).filter(|scope| scope.covers(details.asked_call()))
}

/// Asks for the key a second time if calls contain hidden characters. Returns whether the user pressed it again.
fn is_meant<'a>(
    session: &PromptSession<'_>,
    key: char,
    items: impl IntoIterator<Item = &'a InboxItem>,
) -> Result<bool, PromptEnd> {
    let has_hidden = |item: &InboxItem| match &item.content {
        InboxContent::Approval(details) => details.has_hidden(),
        InboxContent::Form { .. } | InboxContent::Url { .. } | InboxContent::Sampling(_) => false,
    };
    if !items.into_iter().any(has_hidden) {
        return Ok(true);
    }
    session.say(Style::Warning, "! hidden characters would be sent; press the key again to approve them")?;
    Ok(session.choose(&[(key, "approve them"), ('n', "back")])? == key)
}

/// Shows what an answer for later calls covers, and asks the user to confirm it.
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
        // One call may be withdrawn while another arrives; a key must not answer a call that was not shown.
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
    session.say(Style::Faint, "Another call requires approval. All waiting calls:")
}

fn shown_calls(open: &[Waiting], width: usize, fold: Fold) -> Folded {
    let approvals = open.iter().filter_map(|waiting| match &waiting.item.content {
        InboxContent::Approval(details) => Some((&waiting.item, &**details)),
        InboxContent::Form { .. } | InboxContent::Url { .. } | InboxContent::Sampling(_) => None,
    });
    approval_text::calls(&approvals.collect::<Vec<_>>(), width, fold)
}

fn answer_first(session: &PromptSession<'_>, open: &mut Vec<Waiting>, answer: InboxAnswer) {
    if !open.is_empty() {
        session.queue.answer(open.remove(0), answer);
    }
}

fn approved(term: ApprovalTerm, scope: Option<Scope>) -> InboxAnswer {
    InboxAnswer::Approval(ApprovalAnswer::Approved { term, scope, by: SURFACE.to_owned() })
}

fn declined(why: Option<String>, term: ApprovalTerm) -> InboxAnswer {
    InboxAnswer::Approval(ApprovalAnswer::Declined { why, term, by: SURFACE.to_owned() })
}

fn said(answer: &InboxAnswer) -> &'static str {
    match answer {
        InboxAnswer::Approval(ApprovalAnswer::Approved { term, .. }) => match term {
            ApprovalTerm::Once => "Approved once.",
            ApprovalTerm::Conversation => "Approved for this conversation.",
            ApprovalTerm::Always => "Approved and saved.",
        },
        InboxAnswer::Approval(ApprovalAnswer::Declined { term: ApprovalTerm::Always, .. }) => "Refused and saved.",
        _ => "Declined.",
    }
}
