//! Finds deceptive text: invisible characters, terminal control sequences, phrases that address the model instead of
//! the user, and duplicate keys.
//!
//! A finding is a reason for a review, not a proof. A malicious server can also use plain text.

use std::collections::{HashMap, HashSet};

use toolway_config::ServerName;
use toolway_wire::json::{JsonKind, Raw};

use super::{Finding, Severity, ToolReport, shown};

/// Length in characters above which users rarely read a description to its end.
const LONG: usize = 4_000;
/// Length in characters above which a word is probably encoded data.
const WORD: usize = 200;
/// Maximum number of values of one definition that are checked.
const LOOKED_AT: usize = 10_000;

/// Phrases that address the model about its user, its instructions or other tools. In lower case, and each with a space
/// or a bracket, so that single words need not be checked.
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

/// The servers of all tools, by public name.
pub(super) type Owners<'a> = HashMap<&'a str, &'a ServerName>;

/// Findings about the instructions of a server.
pub(super) fn of_instructions(server: &ServerName, text: &str) -> Vec<Finding> {
    let of = |(severity, rule, sentence): TextFinding| Finding {
        severity,
        rule,
        server: Some(server.clone()),
        tool: None,
        sentence: format!("In the instructions of the server: {sentence}"),
    };
    hidden(text).into_iter().chain(spoken(text)).chain(long(text)).map(of).collect()
}

/// Checks all keys and strings of a tool definition.
pub(super) fn check(report: &mut ToolReport<'_>, owners: &Owners<'_>) {
    let mut said = HashSet::new();
    let raw = report.tool.definition.raw.clone();
    each_text(&raw, &mut |text| {
        for (severity, rule, sentence) in hidden(text).into_iter().chain(spoken(text)) {
            if said.insert(sentence.clone()) {
                report.report(severity, rule, sentence);
            }
        }
    });
    let description = report.tool.definition.description.clone().unwrap_or_default();
    long(&description).into_iter().for_each(|(severity, rule, sentence)| report.report(severity, rule, sentence));
    if let Some(key) = doubled(&raw) {
        let sentence = format!(
            "Its definition has the duplicate key `{}`; parsers disagree about which value applies.",
            shown(&key)
        );
        report.report(Severity::Error, "doubled-key", sentence);
    }
    if let Some(other) = speaks_of(report, &description, owners) {
        let sentence = format!("Its description mentions `{other}`, a tool of another server.");
        report.report(Severity::Warning, "speaks-of-others", sentence);
    }
}

type TextFinding = (Severity, &'static str, String);

/// Finds invisible characters.
fn hidden(text: &str) -> Option<TextFinding> {
    let letter = text.chars().find(|letter| unseen(*letter).is_some())?;
    let what = unseen(letter)?;
    let place = text.chars().position(|other| other == letter).unwrap_or_default();
    let sentence = format!(
        "Its text contains {what} (U+{:04X}) at position {place}, which is invisible to users.",
        u32::from(letter)
    );
    Some((Severity::Error, "hidden-text", sentence))
}

/// Describes an invisible character. Joiners and selectors that scripts and emoji need are allowed.
fn unseen(letter: char) -> Option<&'static str> {
    match letter {
        '\n' | '\r' | '\t' => None,
        '\u{1b}' | '\u{9b}' => Some("a terminal control sequence"),
        letter if letter.is_control() => Some("a control character"),
        '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{180e}' | '\u{ad}' => Some("an invisible character"),
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some("a text direction control"),
        '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' => Some("a tag character"),
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10fffd}' => Some("a private-use character"),
        _ => None,
    }
}

/// Finds phrases that address the model.
fn spoken(text: &str) -> Option<TextFinding> {
    if !text.contains(|letter: char| letter.is_whitespace() || matches!(letter, '<' | '[')) {
        return None;
    }
    let plain = text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let phrase = TO_THE_MODEL.iter().find(|phrase| plain.contains(**phrase))?;
    let sentence = format!("It contains \"{phrase}\", which addresses the model instead of the user.");
    Some((Severity::Warning, "speaks-to-the-model", sentence))
}

fn long(text: &str) -> Vec<TextFinding> {
    let mut said = Vec::new();
    let letters = text.chars().count();
    if LONG < letters {
        let sentence =
            format!("Its description has {letters} characters; users rarely read that much before accepting it.");
        said.push((Severity::Warning, "long-text", sentence));
    }
    if let Some(word) = text.split_whitespace().find(|word| WORD < word.chars().count()) {
        let sentence = format!("It contains a word of {} characters: `{}`.", word.chars().count(), shown(word));
        said.push((Severity::Warning, "long-word", sentence));
    }
    said
}

/// Returns the public name of another server's tool that a description mentions.
fn speaks_of(report: &ToolReport<'_>, description: &str, owners: &Owners<'_>) -> Option<String> {
    let words = description.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != '-');
    let mut names = words.filter(|word| word.contains("__"));
    let name = names.find(|name| owners.get(name).is_some_and(|server| *server != report.tool.server))?;
    Some(name.to_owned())
}

/// Calls `visit` with every key and every string of a value.
fn each_text(value: &Raw, visit: &mut impl FnMut(&str)) {
    let mut waiting = vec![value.clone()];
    for _ in 0..LOOKED_AT {
        let Some(value) = waiting.pop() else { return };
        match value.kind() {
            JsonKind::String => value.as_str().into_iter().for_each(|text| visit(&text)),
            JsonKind::Array => waiting.extend(value.elements_within(LOOKED_AT)),
            JsonKind::Object => {
                for member in value.members() {
                    visit(&member.key);
                    waiting.push(member.value);
                }
            }
            JsonKind::Number | JsonKind::Boolean | JsonKind::Null => {}
        }
    }
}

/// Returns a duplicate key of an object.
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
        waiting.extend(values.into_iter().filter(|value| matches!(value.kind(), JsonKind::Object | JsonKind::Array)));
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
