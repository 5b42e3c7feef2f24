//! Text that is not what it looks like: letters nobody sees, sequences that move a terminal's cursor, words that
//! are meant for the model and not for the person who agreed to the tool, and keys that stand twice.
//!
//! A finding is a reason to look, not a proof: a server that means ill can say so in plain words.

use std::collections::HashSet;

use toolway_config::ServerName;
use toolway_wire::json::{Kind, Raw};

use super::{About, Finding, Severity, shown};
use crate::catalog::Catalog;

/// A description longer than this is rarely read to its end by a person.
const LONG: usize = 4_000;
/// A word longer than this is no word: it may be data for the model to carry elsewhere.
const WORD: usize = 200;
/// Values of one definition that are looked at.
const LOOKED_AT: usize = 10_000;

/// Phrases that speak to the model about its user, its instructions or other tools; in lower case, and each with a
/// space or a bracket in it, so that a single word need not be looked at.
const TO_THE_MODEL: [&str; 14] = [
    "ignore previous instructions",
    "ignore all previous",
    "ignore the above",
    "disregard previous",
    "disregard all prior",
    "do not tell the user",
    "don't tell the user",
    "do not mention",
    "without telling the user",
    "never reveal",
    "system prompt",
    "<important>",
    "<system>",
    "[system]",
];

/// What is odd about the instructions of a server.
pub(super) fn of_instructions(server: &ServerName, text: &str) -> Vec<Finding> {
    let of = |(severity, rule, sentence): Said| Finding {
        severity,
        rule,
        server: Some(server.clone()),
        tool: None,
        sentence: format!("The instructions of the server: {sentence}"),
    };
    hidden(text).into_iter().chain(spoken(text)).chain(long(text)).map(of).collect()
}

/// What is odd about the text of a tool: every name and value of its definition.
pub(super) fn check(about: &mut About<'_>, catalog: &Catalog) {
    let mut said = HashSet::new();
    let raw = about.entry.item.raw.clone();
    each_text(&raw, &mut |text| {
        for (severity, rule, sentence) in hidden(text).into_iter().chain(spoken(text)) {
            if said.insert(sentence.clone()) {
                about.say(severity, rule, sentence);
            }
        }
    });
    let description = about.entry.item.description.clone().unwrap_or_default();
    long(&description).into_iter().for_each(|(severity, rule, sentence)| about.say(severity, rule, sentence));
    if let Some(key) = doubled(&raw) {
        let sentence = format!(
            "The key `{}` stands twice in its definition; readers disagree about which one counts.",
            shown(&key)
        );
        about.say(Severity::Error, "doubled-key", sentence);
    }
    if let Some(other) = speaks_of(about, &description, catalog) {
        let sentence = format!("Its description speaks of `{other}`, a tool of another server.");
        about.say(Severity::Warning, "speaks-of-others", sentence);
    }
}

type Said = (Severity, &'static str, String);

/// Letters that are not seen.
fn hidden(text: &str) -> Option<Said> {
    let letter = text.chars().find(|letter| unseen(*letter).is_some())?;
    let what = unseen(letter)?;
    let place = text.chars().position(|other| other == letter).unwrap_or_default();
    let sentence = format!(
        "There is {what} (U+{:04X}) at letter {place} of its text, which a person does not see.",
        u32::from(letter)
    );
    Some((Severity::Error, "hidden-text", sentence))
}

/// What kind of unseen letter this is. Joiners and selectors that real scripts and pictures need are let through.
fn unseen(letter: char) -> Option<&'static str> {
    match letter {
        '\n' | '\r' | '\t' => None,
        '\u{1b}' | '\u{9b}' => Some("a terminal control sequence"),
        letter if letter.is_control() => Some("a control character"),
        '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{180e}' | '\u{ad}' => Some("an invisible character"),
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some("a change of direction"),
        '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' => Some("a tag that only machines read"),
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10fffd}' => Some("a character of private meaning"),
        _ => None,
    }
}

/// Words meant for the model.
fn spoken(text: &str) -> Option<Said> {
    if !text.contains(|letter: char| letter.is_whitespace() || matches!(letter, '<' | '[')) {
        return None;
    }
    let plain = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let phrase = TO_THE_MODEL.iter().find(|phrase| plain.contains(**phrase))?;
    let sentence = format!("It says \"{phrase}\", which is meant for a model and not for a person.");
    Some((Severity::Warning, "speaks-to-the-model", sentence))
}

fn long(text: &str) -> Vec<Said> {
    let mut said = Vec::new();
    let letters = text.chars().count();
    if LONG < letters {
        let sentence = format!("It has {letters} letters of description; nobody reads that before agreeing to it.");
        said.push((Severity::Warning, "long-text", sentence));
    }
    if let Some(word) = text.split_whitespace().find(|word| WORD < word.chars().count()) {
        let sentence = format!("It holds a word of {} letters: `{}`.", word.chars().count(), shown(word));
        said.push((Severity::Warning, "long-word", sentence));
    }
    said
}

/// The public name of another server's tool that a description mentions.
fn speaks_of(about: &About<'_>, description: &str, catalog: &Catalog) -> Option<String> {
    let words = description.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-');
    let names = words.filter(|word| word.contains("__")).filter_map(|word| word.parse().ok());
    let others = names.filter_map(|name| catalog.find_tool(&name));
    let mut others = others.filter(|other| other.origin.server != about.entry.origin.server);
    others.next().map(|other| other.public.to_string())
}

/// Calls `visit` with every key and every string of a value.
fn each_text(value: &Raw, visit: &mut impl FnMut(&str)) {
    let mut waiting = vec![value.clone()];
    for _ in 0..LOOKED_AT {
        let Some(value) = waiting.pop() else { return };
        match value.kind() {
            Kind::String => value.as_str().into_iter().for_each(|text| visit(&text)),
            Kind::Array => waiting.extend(value.elements_within(LOOKED_AT)),
            Kind::Object => {
                for member in value.members() {
                    visit(&member.key);
                    waiting.push(member.value);
                }
            }
            Kind::Number | Kind::Boolean | Kind::Null => {}
        }
    }
}

/// A key that stands twice in one object.
fn doubled(value: &Raw) -> Option<String> {
    let mut waiting = vec![value.clone()];
    for _ in 0..LOOKED_AT {
        let value = waiting.pop()?;
        let (mut keys, values): (Vec<_>, Vec<_>) =
            value.members().into_iter().map(|member| (member.key, member.value)).unzip();
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(twice[0].clone());
        }
        waiting.extend(values.into_iter().filter(|value| matches!(value.kind(), Kind::Object | Kind::Array)));
        waiting.extend(value.elements_within(LOOKED_AT));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{TO_THE_MODEL, spoken};

    #[test]
    fn every_phrase_is_found_however_it_is_written() {
        for phrase in TO_THE_MODEL {
            let written = format!("x {} y", phrase.to_uppercase().replace(' ', " \n\t"));
            assert!(spoken(&written).is_some() && spoken(phrase).is_some(), "{phrase}");
        }
        assert!(spoken("ordinary words").is_none());
    }
}
