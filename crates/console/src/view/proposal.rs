//! What the answers to an approval request cover, and what the user can change about it.
//!
//! A page does not send scopes back: numbers of any size would not survive its JSON. It sends the positions of the options
//! that the user chose.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolway_host::{
    inbox::ApprovalDetails,
    policy::{ApprovalTerm, ArgumentChoice, ArgumentScope, Proposal, Scope},
};

/// The proposal. Options have the part of the sentence that they stand for, arguments the position that is proposed.
pub(super) fn view(details: &ApprovalDetails) -> Value {
    let ApprovalDetails { proposal, .. } = details;
    let mut view = proposal.to_json();
    for (index, choice) in proposal.arguments.iter().enumerate() {
        let argument = &mut view["arguments"][index];
        argument["proposed"] = json!(proposed(&proposal.always, choice));
        for (position, option) in choice.options.iter().enumerate() {
            argument["options"][position]["phrase"] = json!(phrase(&choice.name, option));
        }
    }
    let other = |name: &String| json!({ "name": name, "phrase": phrase(name, &ArgumentScope::Any) });
    view["others"] = others(proposal).map(other).collect();
    view["anyHost"] = json!(details.asks_for_hosts().then(|| Scope::AnyHost.to_string()));
    view
}

/// The scope of the options at these positions, one for each argument that can be changed; `None` if they do not fit.
pub(crate) fn chosen(proposal: &Proposal, positions: &[usize]) -> Option<Scope> {
    if proposal.arguments.is_empty() || positions.len() != proposal.arguments.len() {
        return None;
    }
    let mut scopes: BTreeMap<String, ArgumentScope> =
        others(proposal).map(|name| (name.clone(), ArgumentScope::Any)).collect();
    for (choice, position) in proposal.arguments.iter().zip(positions) {
        scopes.insert(choice.name.clone(), choice.options.get(*position)?.clone());
    }
    Some(Scope::Arguments(scopes))
}

/// Names of arguments that only earlier calls had. They may be any.
fn others(proposal: &Proposal) -> impl Iterator<Item = &String> {
    let is_given = |name: &&String| proposal.arguments.iter().any(|choice| choice.name == **name);
    let names = match proposal.scope(ApprovalTerm::Always) {
        Scope::Arguments(scopes) => Some(scopes.keys()),
        _ => None,
    };
    names.into_iter().flatten().filter(move |name| !is_given(name))
}

fn proposed(scope: &Scope, choice: &ArgumentChoice) -> usize {
    let last = choice.options.len().saturating_sub(1);
    match scope {
        Scope::Arguments(scopes) => {
            let proposed = scopes.get(&choice.name);
            choice.options.iter().position(|option| Some(option) == proposed).unwrap_or(last)
        }
        _ => last,
    }
}

/// `name = "shopping"`
fn phrase(name: &str, option: &ArgumentScope) -> String {
    Scope::Arguments(BTreeMap::from([(name.to_owned(), option.clone())])).to_string()
}
