//! What an approval request proposes to cover, and what the user can change about it.
//!
//! The first approval of a tool in a conversation proposes the same arguments; a later one the least general scope that
//! covers what was approved so far. What a tool is believed to do makes that wider: any arguments of one that only reads,
//! and for the conversation of one that neither destroys nor reaches other systems.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolway_config::visible;
use toolway_wire::json::{JsonKind, Raw};

use super::{Annotations, ApprovalTerm, ArgumentScope, PolicyInput, Reached, Scope, scope};

/// What the answers to one approval request cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Which approval of this tool in the conversation it is, counted from 1; 1 without a conversation.
    pub number: usize,
    /// The arguments that the user can change, in the order of the call. Empty if they cannot be told apart, and for hosts.
    pub arguments: Vec<ArgumentChoice>,
    /// What "for this conversation" covers, unless the user changes it.
    pub conversation: Scope,
    /// What "always" covers, unless the user changes it.
    pub always: Scope,
}

/// One argument of a call, and what an answer may cover of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentChoice {
    /// Name of the argument.
    pub name: String,
    /// Compared with earlier approvals of the conversation.
    pub before: Before,
    /// What can be chosen: the same value, a folder or host that it is in, what is proposed, any value.
    pub options: Vec<ArgumentScope>,
}

/// Why words do not say what an answer covers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoverError {
    /// The proposal is about hosts, or the arguments cannot be told apart.
    #[error("what this approval covers cannot be changed; approve it as it is proposed, or once")]
    Fixed,
    /// The call has no such argument.
    #[error("the call has no argument `{}`; its arguments are {}", visible::name(name), listed(names))]
    UnknownArgument {
        /// The name that was given.
        name: String,
        /// The arguments that can be changed.
        names: Vec<String>,
    },
    /// The argument has no such option.
    #[error(
        "`{}` cannot be covered by `{}`; choose one of {}",
        visible::name(name),
        visible::name(word),
        listed(words)
    )]
    NotOffered {
        /// Name of the argument.
        name: String,
        /// The word that was given.
        word: String,
        /// What can be chosen.
        words: Vec<&'static str>,
    },
}

/// Names and words in backticks.
fn listed(words: &[impl AsRef<str>]) -> String {
    words.iter().map(|word| format!("`{}`", visible::name(word.as_ref()))).collect::<Vec<_>>().join(", ")
}

/// How an argument compares with earlier approvals of the tool in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// There was no earlier approval.
    First,
    /// The value was the same each time.
    Same,
    /// It differs from an earlier value.
    Differs,
}

/// What earlier approvals of a tool in a conversation have in common.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    pub(crate) count: usize,
    pub(crate) common: Scope,
}

impl Proposal {
    /// The proposal for a call. `annotations` are those that are believed.
    pub(crate) fn new(
        arguments: Option<&Raw>,
        reached: &Reached,
        annotations: Annotations,
        earlier: Option<&Earlier>,
    ) -> Self {
        let number = earlier.map_or(1, |earlier| earlier.count + 1);
        if let Some(hosts) = Scope::hosts(reached) {
            return Self { number, arguments: Vec::new(), conversation: hosts.clone(), always: hosts };
        }
        let same = Scope::same(arguments);
        if scope::has_hidden(arguments) {
            // Another scope would cover no call with these characters.
            return Self { number, arguments: Vec::new(), conversation: same.clone(), always: same };
        }
        let common = earlier.map_or_else(|| same.clone(), |earlier| earlier.common.widened(arguments));
        let choices = choices(arguments, &same, &common, earlier);
        let is_harmless = !annotations.destructive && !annotations.open_world;
        let always = if annotations.read_only && !annotations.destructive { Scope::Any } else { common };
        let conversation = if is_harmless { Scope::Any } else { always.clone() };
        Self { number, arguments: choices, conversation, always }
    }

    /// The proposal for the first approval of a call.
    pub fn of_first(input: &PolicyInput<'_>, reached: &Reached) -> Self {
        Self::new(input.arguments, reached, input.believed_annotations(), None)
    }

    /// What an answer of this term covers, unless the user changed it.
    pub fn scope(&self, term: ApprovalTerm) -> &Scope {
        match term {
            ApprovalTerm::Conversation => &self.conversation,
            ApprovalTerm::Once | ApprovalTerm::Always => &self.always,
        }
    }

    /// `scope` with the next option for an argument: from the same value to a folder or host, to any value, and back.
    #[must_use]
    pub fn changed(&self, scope: &Scope, name: &str) -> Scope {
        let Some(choice) = self.arguments.iter().find(|choice| choice.name == name) else { return scope.clone() };
        let scopes = match scope {
            Scope::Arguments(scopes) => scopes.clone(),
            // From any arguments, one is fixed.
            _ => self.arguments.iter().map(|choice| (choice.name.clone(), ArgumentScope::Any)).collect(),
        };
        let now = scopes.get(name);
        let position = choice.options.iter().position(|option| Some(option) == now);
        let next = position.map_or(0, |position| (position + 1) % choice.options.len());
        let next = choice.options.get(next).cloned().unwrap_or(ArgumentScope::Any);
        Scope::Arguments(scopes).with(name, next)
    }

    /// What an answer of this term covers, with words for single arguments. The values are those of the call: none goes
    /// through a program that may round its numbers.
    pub fn covering(&self, term: ApprovalTerm, words: &BTreeMap<String, String>) -> Result<Scope, CoverError> {
        let proposed = match self.scope(term) {
            Scope::Arguments(scopes) => scopes.clone(),
            Scope::Any => self.arguments.iter().map(|choice| (choice.name.clone(), ArgumentScope::Any)).collect(),
            Scope::Whole(_) | Scope::Hosts(_) | Scope::AnyHost => return Err(CoverError::Fixed),
        };
        let mut scope = Scope::Arguments(proposed);
        for (name, word) in words {
            let Some(choice) = self.arguments.iter().find(|choice| choice.name == *name) else {
                let names = self.arguments.iter().map(|choice| choice.name.clone()).collect();
                return Err(CoverError::UnknownArgument { name: name.clone(), names });
            };
            let Some(option) = choice.options.iter().find(|option| option.word() == word) else {
                let words = choice.options.iter().map(ArgumentScope::word).collect();
                return Err(CoverError::NotOffered { name: name.clone(), word: word.clone(), words });
            };
            scope = scope.with(name, option.clone());
        }
        Ok(scope)
    }

    /// The proposal for scripts and pages.
    pub fn to_json(&self) -> Value {
        let part = |covers: String, scope: String| json!({ "covers": covers, "scope": parsed(&scope) });
        let scope = |scope: &Scope| part(scope.to_string(), scope.to_json());
        let option = |option: &ArgumentScope| part(option.to_string(), option.to_json());
        let argument = |choice: &ArgumentChoice| {
            let options: Vec<Value> = choice.options.iter().map(option).collect();
            json!({ "name": choice.name, "before": choice.before.as_str(), "options": options })
        };
        json!({
            "number": self.number,
            "conversation": scope(&self.conversation),
            "always": scope(&self.always),
            "arguments": self.arguments.iter().map(argument).collect::<Vec<_>>(),
        })
    }

    /// About how many bytes it takes.
    pub(crate) fn kept_bytes(&self) -> usize {
        let choice = |choice: &ArgumentChoice| {
            choice.name.len() + choice.options.iter().map(ArgumentScope::kept_bytes).sum::<usize>()
        };
        let choices: usize = self.arguments.iter().map(choice).sum();
        choices + self.conversation.kept_bytes() + self.always.kept_bytes()
    }
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

impl Before {
    /// The word for scripts and pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Same => "same",
            Self::Differs => "differs",
        }
    }
}

fn choices(arguments: Option<&Raw>, same: &Scope, common: &Scope, earlier: Option<&Earlier>) -> Vec<ArgumentChoice> {
    let (Some(arguments), Scope::Arguments(scopes)) = (arguments, same) else { return Vec::new() };
    let members = if arguments.kind() == JsonKind::Object { arguments.members() } else { Vec::new() };
    let before = |name: &str| match earlier.map(|earlier| &earlier.common) {
        None => Before::First,
        Some(Scope::Arguments(common)) if common.get(name) == scopes.get(name) => Before::Same,
        Some(_) => Before::Differs,
    };
    let choice = |member: toolway_wire::json::Member| ArgumentChoice {
        before: before(&member.key),
        options: with_proposed(ArgumentScope::options(&member.value), common, &member.key),
        name: member.key,
    };
    members.into_iter().map(choice).collect()
}

/// Options with the one that is proposed, which can be a folder above that of the value. Any value stays the last.
fn with_proposed(mut options: Vec<ArgumentScope>, common: &Scope, name: &str) -> Vec<ArgumentScope> {
    let Scope::Arguments(scopes) = common else { return options };
    if let Some(proposed) = scopes.get(name).filter(|proposed| !options.contains(proposed)) {
        options.insert(options.len().saturating_sub(1), proposed.clone());
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &'static str) -> Raw {
        Raw::parse(text).unwrap()
    }

    fn annotations(text: &'static str) -> Annotations {
        Annotations::of_tool(Some(&raw(text)))
    }

    #[test]
    fn what_a_tool_is_believed_to_do_makes_the_proposal_wider() {
        let arguments = raw(r#"{"name":"a"}"#);
        for (hints, conversation, always) in [
            ("{}", r#"name = "a""#, r#"name = "a""#),
            (r#"{"readOnlyHint":true}"#, "any arguments", "any arguments"),
            (r#"{"readOnlyHint":true,"destructiveHint":true}"#, r#"name = "a""#, r#"name = "a""#),
            (r#"{"destructiveHint":false}"#, r#"name = "a""#, r#"name = "a""#),
            (r#"{"destructiveHint":false,"openWorldHint":false}"#, "any arguments", r#"name = "a""#),
            (r#"{"openWorldHint":false}"#, r#"name = "a""#, r#"name = "a""#),
        ] {
            let proposal = Proposal::new(Some(&arguments), &Reached::default(), annotations(hints), None);
            let shown = [proposal.conversation.to_string(), proposal.always.to_string()];
            assert_eq!(shown, [conversation, always], "{hints}");
        }
    }

    #[test]
    fn hidden_characters_are_proposed_as_they_are() {
        let arguments = raw("{\"text\":\"a\\u202eb\"}");
        let hints = annotations(r#"{"readOnlyHint":true}"#);
        let proposal = Proposal::new(Some(&arguments), &Reached::default(), hints, None);
        assert_eq!((&proposal.always, &proposal.conversation), (&Scope::same(Some(&arguments)), &proposal.always));
        assert!(proposal.arguments.is_empty());
    }

    #[test]
    fn a_user_changes_single_arguments_in_a_circle() {
        let arguments = raw(r#"{"path":"/home/ada/notes/a","n":1}"#);
        let proposal = Proposal::new(Some(&arguments), &Reached::default(), annotations("{}"), None);
        let mut scope = proposal.always.clone();
        for expected in
            [r#"n = 1, path in "/home/ada/notes/""#, "n = 1, any path", r#"n = 1, path = "/home/ada/notes/a""#]
        {
            scope = proposal.changed(&scope, "path");
            assert_eq!(scope.to_string(), expected);
        }
        assert_eq!(proposal.changed(&scope, "other"), scope);
        assert_eq!(proposal.changed(&Scope::Any, "n").to_string(), "n = 1, any path");
    }

    #[test]
    fn single_arguments_are_changed_by_words_and_numbers_keep_their_digits() {
        let arguments = raw(r#"{"path":"/home/ada/a","n":123456789012345678901234567890,"m":1e999}"#);
        let covers = |hints, term, words: &[(&str, &str)]| {
            let words = words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect();
            let proposal = Proposal::new(Some(&arguments), &Reached::default(), annotations(hints), None);
            proposal.covering(term, &words).map(|scope| scope.to_string()).map_err(|error| error.to_string())
        };
        let (always, conversation) = (ApprovalTerm::Always, ApprovalTerm::Conversation);
        let folder = r#"m = 1e999, n = 123456789012345678901234567890, path in "/home/ada/""#;
        assert_eq!(covers("{}", always, &[("path", "folder")]).as_deref(), Ok(folder));
        let read_only = r#"{"readOnlyHint":true}"#;
        let fixed = "n = 123456789012345678901234567890, any m, any path";
        assert_eq!(covers(read_only, conversation, &[("n", "same")]).as_deref(), Ok(fixed));
        for (name, word, problem) in [
            ("x", "any", "the call has no argument `x`; its arguments are `path`, `n`, `m`"),
            ("n", "folder", "`n` cannot be covered by `folder`; choose one of `same`, `any`"),
        ] {
            assert_eq!(covers("{}", always, &[(name, word)]), Err(problem.to_owned()));
        }
        let hidden = raw(r#"{"text":"a\u202eb","path":"/a/b/c"}"#);
        let proposal = Proposal::new(Some(&hidden), &Reached::default(), annotations("{}"), None);
        let words = BTreeMap::from([("path".to_owned(), "any".to_owned())]);
        assert!(proposal.covering(always, &words).is_err(), "only as it was seen");
    }

    #[test]
    fn later_approvals_say_what_is_as_before() {
        let first = Scope::same(Some(&raw(r#"{"name":"a","text":"x"}"#)));
        let earlier = Earlier { count: 1, common: first };
        let arguments = raw(r#"{"text":"y","name":"a"}"#);
        let proposal = Proposal::new(Some(&arguments), &Reached::default(), annotations("{}"), Some(&earlier));
        assert_eq!((proposal.number, proposal.always.to_string()), (2, r#"name = "a", any text"#.to_owned()));
        let before: Vec<_> = proposal.arguments.iter().map(|choice| (choice.name.as_str(), choice.before)).collect();
        assert_eq!(before, [("text", Before::Differs), ("name", Before::Same)]);
    }
    #[test]
    fn what_is_proposed_can_be_chosen_again_after_a_change() {
        let first = Scope::same(Some(&raw(r#"{"path":"/home/ada/notes/a"}"#)));
        let earlier = Earlier { count: 1, common: first };
        let arguments = raw(r#"{"path":"/home/ada/letters/b"}"#);
        let proposal = Proposal::new(Some(&arguments), &Reached::default(), annotations("{}"), Some(&earlier));
        let options: Vec<_> = proposal.arguments[0].options.iter().map(ToString::to_string).collect();
        assert_eq!(options, ["the same", r#"in "/home/ada/letters/""#, r#"in "/home/ada/""#, "any"]);
        assert_eq!(proposal.always.to_string(), r#"path in "/home/ada/""#);
    }
}
