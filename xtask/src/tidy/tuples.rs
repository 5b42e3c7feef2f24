//! Names instead of tuples: parameters that are tuples, and `let (a, b) = (x, y)`. There are old ones, so each crate has
//! a number, which only falls. Tests and closures are not counted.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use super::{Finding, Tree, source};
use crate::messages::is_for_tests;

/// Places in each crate. A crate that is not listed has none.
const PLACES: &[(&str, usize)] = &[
    ("agent", 7),
    ("auth", 28),
    ("bench", 34),
    ("cli", 73),
    ("config", 26),
    ("console", 6),
    ("gateway", 20),
    ("host", 90),
    ("model", 15),
    ("sample", 3),
    ("store", 25),
    ("testkit", 26),
    ("vault", 3),
    ("wire", 71),
];

/// Where [`PLACES`] stands.
const HERE: &str = "xtask/src/tidy/tuples.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    compare(&places(tree), PLACES)
}

/// The places of each crate, as `file: what`.
fn places(tree: &Tree) -> BTreeMap<&str, Vec<String>> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (path, text) in tree {
        let Some((name, _)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else { continue };
        if !source::is_one(path) || source::is_test_file(path) {
            continue;
        }
        // A file that does not parse is reported by the compiler.
        let Ok(file) = syn::parse_file(text) else { continue };
        let mut counter = Counter::default();
        counter.visit_file(&file);
        places.entry(name).or_default().extend(counter.found.into_iter().map(|what| format!("{path}: {what}")));
    }
    places
}

fn compare(places: &BTreeMap<&str, Vec<String>>, known: &[(&str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, found) in places {
        let most = known.iter().find(|(known, _)| known == name).map_or(0, |(_, most)| *most);
        let count = found.len();
        if most < count {
            let list = found.join("\n  ");
            let message = format!("`{name}` has {count} tuples instead of names, at most {most} are left:\n  {list}");
            findings.push(Finding::broken(HERE, message));
        } else if count < most {
            let message = format!("`{name}` has only {count} tuples instead of names; lower its number to {count}");
            findings.push(Finding::broken(HERE, message));
        }
    }
    findings
}

/// Finds the places of one file.
#[derive(Default)]
struct Counter {
    found: Vec<String>,
}

impl<'ast> Visit<'ast> for Counter {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let typed = signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(parameter) => Some(&*parameter.ty),
            syn::FnArg::Receiver(_) => None,
        });
        let tuples = typed.filter(|kind| is_tuple(kind)).count();
        self.found.extend((0..tuples).map(|_| format!("parameter of `{}`", signature.ident)));
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let (syn::Pat::Tuple(pattern), Some(init)) = (&local.pat, &local.init)
            && let syn::Expr::Tuple(_) = &*init.expr
            // `let … else` compares values with patterns.
            && init.diverge.is_none()
        {
            let names: Vec<String> = pattern.elems.iter().filter_map(name_of).collect();
            self.found.push(format!("`let ({})`", names.join(", ")));
        }
        visit::visit_local(self, local);
    }
}

/// Whether a type is a tuple, also behind a reference.
fn is_tuple(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

fn name_of(pattern: &syn::Pat) -> Option<String> {
    match pattern {
        syn::Pat::Ident(name) => Some(name.ident.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(known: &[(&str, usize)], text: &str) -> Vec<String> {
        let path = "crates/wire/src/up.rs".to_owned();
        let tree = Tree::from_iter([(path, text.to_owned())]);
        compare(&places(&tree), known).iter().map(ToString::to_string).collect()
    }

    const TWO: &str = "fn act((name, at): (&str, usize)) { let (first, mut last) = (1, 2); }";

    #[test]
    fn parameters_and_unrelated_values_are_counted() {
        let said = found(&[("wire", 1)], TWO);
        let list = "\n  crates/wire/src/up.rs: parameter of `act`\n  crates/wire/src/up.rs: `let (first, last)`";
        let expected = format!("broken: {HERE}: `wire` has 2 tuples instead of names, at most 1 are left:{list}");
        assert_eq!(said, [expected]);
    }

    #[test]
    fn number_only_falls() {
        assert!(found(&[("wire", 2)], TWO).is_empty());
        let said = found(&[("wire", 3)], TWO);
        assert_eq!(said, [format!("broken: {HERE}: `wire` has only 2 tuples instead of names; lower its number to 2")]);
    }

    #[test]
    fn results_closures_and_tests_are_not_counted() {
        let text = "fn pair() -> (u8, u8) { let (a, b) = pair(); list.map(|(key, value)| key); (a, b) }
            fn both() { let (Some(a), None) = (x, y) else { return }; }
            #[cfg(test)] mod tests { fn act(pair: (u8, u8)) { let (a, b) = (1, 2); } }";
        assert!(found(&[], text).is_empty());
    }
}
