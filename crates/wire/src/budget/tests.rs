//! Tests of the byte budget.

use std::sync::Arc;

use bytes::Bytes;

use super::{Exhausted, Kept, MemoryBudget, OverBudget};

#[test]
fn one_principal_gets_a_share_and_leaves_the_rest_to_others() {
    let budget = MemoryBudget::new(100);
    let (ada, bob) = (budget.of_principal("ada"), budget.of_principal("bob"));
    let held = ada.charge(50).unwrap();
    assert_eq!(ada.charge(1).unwrap_err(), OverBudget(Exhausted::Principal));
    assert_eq!(budget.of_principal("ada").charge(1).unwrap_err(), OverBudget(Exhausted::Principal), "one share");
    let more = bob.charge(50).unwrap();
    assert_eq!(budget.charge(1).unwrap_err(), OverBudget(Exhausted::Total));
    drop(held);
    assert_eq!(budget.used(), 50);
    ada.charge(50).unwrap();
    drop(more);
    assert_eq!((budget.used(), budget.peak(), budget.refused()), (0, 100, 3));
}

#[test]
fn refused_charge_changes_nothing() {
    let budget = MemoryBudget::new(100);
    let both = budget.of_principal("ada").and(&budget.of_server("files"));
    let _files = budget.of_server("files").charge(40).unwrap();
    let mut charge = both.charge(10).unwrap();
    assert_eq!(charge.grow(1).unwrap_err(), OverBudget(Exhausted::Server));
    charge.shrink(10);
    budget.of_principal("ada").charge(50).unwrap();
    assert_eq!(budget.used(), 40);
}

#[test]
fn attached_charge_lives_as_long_as_a_slice() {
    let budget = MemoryBudget::new(100);
    let bytes = Arc::new(budget.charge(4).unwrap()).attach(Bytes::from_static(b"abcd"));
    let slice = bytes.slice(1..2);
    drop(bytes);
    assert_eq!(budget.used(), 4);
    drop(slice);
    assert_eq!(budget.used(), 0);
}

#[test]
fn default_budget_is_unlimited() {
    let charge = MemoryBudget::default().of_principal("ada").charge(usize::MAX).unwrap();
    assert_eq!(MemoryBudget::default().used(), 0);
    drop(charge);
}

#[test]
fn charges_are_counted_by_kind() {
    let budget = MemoryBudget::new(100);
    let of_server = budget.of_server("files");
    let listing = of_server.keeping(Kept::Listing).charge(30).unwrap();
    let mut page = of_server.keeping(Kept::Page).charge(10).unwrap();
    let call = of_server.charge(5).unwrap();
    page.set(4).unwrap();
    assert_eq!(page.grow(90).unwrap_err(), OverBudget(Exhausted::Server));
    let used = |budget: &MemoryBudget| [Kept::Listing, Kept::Page, Kept::Transit].map(|kept| budget.used_by(kept));
    assert_eq!((used(&budget), budget.used()), ([30, 4, 5], 39));
    drop((listing, page, call));
    assert!(Kept::ALL.into_iter().all(|kept| budget.used_by(kept) == 0));
}
